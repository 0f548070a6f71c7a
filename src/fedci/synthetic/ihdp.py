"""IHDP: a real trial's 747 children with simulated outcomes (NPCI, response surface B), ten replicates.

The files are public but not ours to ship: `ihdp_npci_1.csv` … `_10.csv`, no header, columns
treatment, y_factual, y_cfactual, mu0, mu1, x1 … x25 (x14 is coded 1, 2; x19-x25 are seven of the trial's eight sites).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from fedci.errors import SourceError
from fedci.synthetic.datasets import SEED, Records, Split

ROWS, THIRD, PART = 747, 249, 83
SITE_COLUMNS = slice(18, 25)
VARIABLE = "FEDCI_IHDP"
KEY = 3


def records(replication: int, folder: str | Path | None = None) -> Records:
    """Replicate `replication` (0 … 9) in file order."""
    path = _folder(folder) / f"ihdp_npci_{replication + 1}.csv"
    try:
        a = np.loadtxt(path, delimiter=",")
    except (OSError, ValueError):
        raise SourceError(f"'{path}' cannot be read as an IHDP replicate. {_where()}") from None
    if a.shape != (ROWS, 30):
        raise SourceError(f"'{path}' has shape {a.shape}, an IHDP replicate has {(ROWS, 30)}. {_where()}")
    w, y, other, mu0, mu1, x = a[:, 0].astype(int), a[:, 1], a[:, 2], a[:, 3], a[:, 4], a[:, 5:].copy()
    x[:, 13] -= 1
    return Records(x=x, w=w, y=y, y0=np.where(w == 1, other, y), y1=np.where(w == 1, y, other), mu0=mu0, mu1=mu1)


def _folder(folder: str | Path | None) -> Path:
    chosen = folder or os.environ.get(VARIABLE)
    if not chosen:
        raise SourceError(f"IHDP needs its files. {_where()}")
    return Path(chosen)


def _where() -> str:
    return (f"Put ihdp_npci_1.csv … ihdp_npci_10.csv (public: the datasets of the CEVAE repository) into a folder and "
            f"name it with --ihdp or in {VARIABLE}.")


def thirds(replication: int, folder: str | Path | None = None, shuffled: bool = False, seed: int = SEED) -> list[Split]:
    """Three sources of 249 children, 83 each to fit, test, validate on: contiguous as the authors did, or shuffled."""
    people = records(replication, folder)
    if shuffled:
        order = np.random.default_rng(np.random.SeedSequence((seed, KEY, 1, replication))).permutation(ROWS)
        people = people.take(order)
    parts = [[people.take(slice(s * THIRD + k * PART, s * THIRD + (k + 1) * PART)) for k in range(3)] for s in range(3)]
    return [Split(train, test, validation) for train, test, validation in parts]


def trial_sites(replication: int, folder: str | Path | None = None, seed: int = SEED) -> list[Split]:
    """The trial's eight real sites (55 to 118 children, 2 to 38 treated), two thirds of each arm to fit, one to test.

    The site columns are left out of x: they are constant within a site.
    """
    people = records(replication, folder)
    flags = people.x[:, SITE_COLUMNS]
    site = np.where(flags.any(1), flags.argmax(1) + 1, 0)
    x = np.delete(people.x, np.arange(25)[SITE_COLUMNS], axis=1)
    people = Records(x=x, w=people.w, y=people.y, y0=people.y0, y1=people.y1, mu0=people.mu0, mu1=people.mu1)
    rng = np.random.default_rng(np.random.SeedSequence((seed, KEY, 2, replication)))
    return [_two_thirds(people.take(np.flatnonzero(site == s)), rng) for s in range(8)]


def _two_thirds(people: Records, rng: np.random.Generator) -> Split:
    """Train and test rows, a third of each arm in test (none of an arm with fewer than three)."""
    test = np.zeros(len(people), bool)
    for arm in (0, 1):
        rows = rng.permutation(np.flatnonzero(people.w == arm))
        test[rows[:len(rows) // 3]] = True
    nobody = np.zeros(0, int)
    return Split(people.take(np.flatnonzero(~test)), people.take(np.flatnonzero(test)), people.take(nobody))
