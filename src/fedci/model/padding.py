"""Sites of different size share one compilation: rows are padded up to a size class.

    classes  8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, …   (four per octave: a quarter more rows at most)
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from fedci.errors import SizeError
from fedci.model.exact import ExactRows, batch_size
from fedci.model.rows import on_device

LEAST = 8
LIMIT = "FEDCI_MEMORY_GIB"
"""Environment variable of a site's machine: the most memory a fit may plan with."""


def size_class(n: int) -> int:
    """The number of rows, padding included, of a site with n people."""
    if n <= 4 * LEAST:
        return max(LEAST, -(-n // LEAST) * LEAST)
    step = 2 ** ((n - 1).bit_length() - 3)
    return -(-n // step) * step


def pad_site(x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int,
             weight: np.ndarray | None = None, added: float = 0.0, cluster: np.ndarray | None = None) -> ExactRows:
    """The site's rows, then padding rows of zeros with mask 0. x must be complete and float64. Without weights, all
    are 1 (`model.likelihood`); without clusters, there are none."""
    if x.dtype != np.float64 or y.dtype != np.float64:
        raise TypeError(f"rows must be float64, got {x.dtype} and {y.dtype}: covariances break down in less")
    n = len(x)
    more = size_class(n) - n
    weight = np.ones(n) if weight is None else weight
    return ExactRows(x=on_device(np.pad(x, ((0, more), (0, 0)))),
                     w=on_device(np.pad(w.astype(np.int64), (0, more))),
                     y=on_device(np.pad(y, (0, more))),
                     mask=on_device(np.pad(np.ones(n), (0, more))),
                     u=on_device(u), index=on_device(index),
                     weight=on_device(np.pad(weight, (0, more), constant_values=1.0)), added=on_device(added),
                     cluster=None if cluster is None else on_device(np.pad(cluster.astype(np.int64), (0, more))))


def no_rows(d: int, u: np.ndarray) -> ExactRows:
    """A site without people: conditioning on it returns the prior."""
    return pad_site(np.zeros((0, d)), np.zeros(0), np.zeros(0), u, 0)


def bytes_needed(n: int, draws: int) -> int:
    """Peak of one evaluation: about ten n × n matrices for each draw evaluated side by side, and six shared ones."""
    rows = size_class(n)
    return 8 * rows * rows * (10 * batch_size(draws, rows) + 6)


def bytes_available() -> int:
    """Memory the machine can still give, from the kernel's own estimate; no more than FEDCI_MEMORY_GIB where that is
    set in the site's environment."""
    limit = os.environ.get(LIMIT)
    if not limit:
        return _bytes_free()
    try:
        return min(_bytes_free(), int(float(limit) * 2**30))
    except (ValueError, OverflowError):
        raise SizeError(f"{LIMIT} = '{limit}' is no number of GiB: set it to one such as 4, or unset it") from None


def _bytes_free() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(site: str, n: int, need: int, remedy: str) -> None:
    """Refuse before allocating: an out-of-memory kill would lose the whole run."""
    have = bytes_available()
    if need > 0.8 * have:
        raise SizeError(f"site '{site}': {n:,} rows need about {need / 2**30:,.1f} GiB and {have / 2**30:,.1f} GiB are "
                        f"free. {remedy}")
