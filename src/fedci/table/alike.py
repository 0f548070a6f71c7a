"""What columns of x [n, d] are to each other, a part of the rows at a time: no copy of a large table is made.

A table that is one part is computed on as a whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

PART = 2**18
"""Rows at a time."""


class Picked(NamedTuple):
    """Some columns of a table."""

    x: np.ndarray
    which: np.ndarray
    """[d] bool."""

    def parts(self) -> Iterator[np.ndarray]:
        for part in parts_of(self.x):
            yield part[:, self.which]

    def complete(self) -> Iterator[np.ndarray]:
        """Rows that lack nothing."""
        for part in self.parts():
            yield part[~np.isnan(part).any(axis=1)]


def parts_of(x: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, max(len(x), 1), PART):
        yield x[start:start + PART]


def ends(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[d] smallest and largest known value; NaN where all are missing."""
    with warnings.catch_warnings():  # of parts in which nothing is known
        warnings.simplefilter("ignore", RuntimeWarning)
        each = [(np.nanmin(part, axis=0), np.nanmax(part, axis=0)) for part in parts_of(x)]
        low, high = (np.stack(side) for side in zip(*each, strict=True))
        return np.nanmin(low, axis=0), np.nanmax(high, axis=0)


def holds_only(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """[d] whether every known value is one of the two."""
    return np.all([((part == low) | (part == high) | np.isnan(part)).all(axis=0) for part in parts_of(x)], axis=0)


def spreads(some: Picked) -> np.ndarray:
    """Sds of what is known of each column."""
    if len(some.x) <= PART:
        return np.asarray(np.nanstd(next(some.parts()), axis=0))
    known, total = (sum(found) for found in zip(*((np.sum(~np.isnan(part), 0), np.nansum(part, 0))
                                                   for part in some.parts()), strict=True))
    mean = total / known
    return np.asarray(np.sqrt(sum(np.nansum((part - mean) ** 2, 0) for part in some.parts()) / known))


def correlation(some: Picked, constant: float) -> np.ndarray | None:
    """[d, d] over the complete rows; none where they cannot tell: n ≤ d, or a column is constant in them (its spread
    below that share of its largest value)."""
    width, rows = int(some.which.sum()), sum(len(part) for part in some.complete())
    if width < 2 or rows <= width:
        return None
    mean = sum(part.sum(axis=0) for part in some.complete()) / rows
    spread = np.sqrt(sum(((part - mean) ** 2).sum(axis=0) for part in some.complete()))
    largest = np.max([np.abs(part).max(axis=0, initial=0.0) for part in some.complete()], axis=0)
    if (spread <= constant * largest).any():
        return None
    return np.asarray(sum(scaled.T @ scaled for scaled in ((part - mean) / spread for part in some.complete())))
