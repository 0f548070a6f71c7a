"""A large site's rows cut into blocks, and the few inputs through which its own function f^s is learnt.

Rows are sorted by arm and cut into blocks of one arm each: every sum over people then is a sum over blocks, memory is
that of one block, and their number comes in classes, so that sites of like size share a compilation however their
people fall into the arms.

The inducing inputs are rows of the site and never leave it. They are chosen one after the other, each where the
function is least known given those before it (the pivots of a Cholesky factor of k): so 64 of them contain the first
32, and the bound can only rise with their number.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Array

from fedci.model import kernels
from fedci.model.parallel import on_processor
from fedci.model.programs import compiled
from fedci.model.rows import on_device
from fedci.model.shared.sparse import Blocks

BLOCK = {"cpu": (256, 256), "gpu": (256, 16384)}
"""Rows worked on at a time, least and most: on a processor they stay in its cache, a GPU wants more to do at once."""
CANDIDATES = 2000
"""Rows the inducing inputs are chosen from."""
PAIRS = 256
"""Rows of each arm on which the part of f^s that the inducing inputs miss is judged for sums over people."""


def cut(x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int, kernel: kernels.Kernel, count: int,
        block: int | None = None, inducing: np.ndarray | None = None, weight: np.ndarray | None = None,
        added: float = 0.0, arms: int = 2) -> Blocks:
    """The site's rows as blocks, with `count` inducing inputs (or as many as there are rows), or with those given.
    Without weights, all are 1 (`model.likelihood`)."""
    if x.dtype != np.float64 or y.dtype != np.float64:
        raise TypeError(f"rows must be float64, got {x.dtype} and {y.dtype}")
    block = block or _block_here(len(x))
    rows = [_in_blocks(np.flatnonzero(w == arm), block, len(x)) for arm in range(arms)]
    spare = class_of(sum(map(len, rows))) - sum(map(len, rows))
    rows[-1] = np.pad(rows[-1], ((0, spare), (0, 0)), constant_values=len(x))
    row = np.concatenate(rows)
    people = row < len(x)
    place = np.where(people, row, 0)
    pairs, paired = zip(*(_some(x[w == arm]) for arm in range(arms)), strict=True)
    arm = np.repeat(np.arange(arms), [len(blocks) for blocks in rows])
    weight = np.ones(len(x)) if weight is None else weight
    return Blocks(*map(on_device, (
        x[place] * people[..., None], y[place] * people, people.astype(float), arm, row,
        x[choose(kernel, x, count)] if inducing is None else inducing, np.stack(pairs), np.stack(paired), u, index,
        np.where(people, weight[place], 1.0), added)))


def bytes_needed(rows: int, d: int, width: int, block: int | None = None) -> int:
    """Peak of one evaluation at a site of so many rows: the rows three times (as read, in model units, in blocks) and a
    block's φ, of `width` columns, with what its gradient keeps; nothing grows with the square of the rows."""
    block = block or _block_here(rows)
    padded = class_of(-(-rows // block) + 1) * block
    return 8 * (3 * max(padded, rows) * (d + 4) + 12 * block * width + 60 * width**2)


def _block_here(rows: int) -> int:
    """An eighth of the rows, within the device's limits: so padding stays a small part."""
    least, most = BLOCK["cpu" if on_processor() else "gpu"]
    return int(np.clip(2 ** (max(rows // 8, 1).bit_length() - 1), least, most))


def _in_blocks(rows: np.ndarray, block: int, none: int) -> np.ndarray:
    """[k, block] of the row numbers, `none` where there is none; one block at least."""
    blocks = max(-(-len(rows) // block), 1)
    return np.pad(rows, (0, blocks * block - len(rows)), constant_values=none).reshape(blocks, block)


def blocks_of(rows: int, block: int) -> int:
    """How many hold so many rows, in classes."""
    return class_of(max(-(-rows // block), 1))


def class_of(blocks: int) -> int:
    """Four classes per octave, so at most a quarter more than needed."""
    step = max(2 ** ((blocks - 1).bit_length() - 3), 1)
    return -(-blocks // step) * step


def _some(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(PAIRS rows at random, fewer when there are fewer; which of them are people)."""
    picked = np.random.default_rng(0).permutation(len(x))[:PAIRS]
    more = PAIRS - len(picked)
    return np.pad(x[picked], ((0, more), (0, 0))), np.pad(np.ones(len(picked)), (0, more))


def choose(kernel: kernels.Kernel, x: np.ndarray, count: int) -> np.ndarray:
    """Row numbers of the inducing inputs: pivots of k at its starting scales, from CANDIDATES rows at most."""
    picked = np.sort(np.random.default_rng(1).permutation(len(x))[:max(CANDIDATES, count)])
    count = min(count, len(picked))
    if count == len(picked):
        return picked
    at, params = x[picked], kernel.init(x.shape[1])
    left = np.asarray(kernels.diagonal(kernel, params, on_device(at))).copy()
    columns, pivots = np.zeros((count, len(at))), []
    for i in range(count):
        pivot = int(np.argmax(left))
        pivots.append(pivot)
        column = np.asarray(_column(kernel, params, at, at[pivot]))
        columns[i] = (column - columns[:i, pivot] @ columns[:i]) / np.sqrt(max(left[pivot], 1e-12))
        left = np.maximum(left - columns[i] ** 2, 0.0)
        left[pivots] = -1.0
    return picked[pivots]


def _column(kernel: kernels.Kernel, params: kernels.Params, x: np.ndarray, pivot: np.ndarray) -> Array:
    return _columns(kernel, params, on_device(x), on_device(pivot[None]))[:, 0]


_columns = compiled(static="kernel")(kernels.cross)
