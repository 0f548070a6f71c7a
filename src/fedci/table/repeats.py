"""Rows that repeat another in every column: people who may stand in a table more than once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

COPIES = 0.1
"""Share of rows that repeat another in every column, from which on people seem to stand there more than once."""
MANY_VALUES = 12
"""A column with more distinct values than this is a measurement: rows that agree in it too are no chance."""


def copies(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[n] rows that repeat an earlier one in every column; none where too few do, or no column is a measurement: then
    they agree by chance."""
    if len(y) == 0 or not any(len(np.unique(column)) > MANY_VALUES for column in (y, *x.T)):
        return np.zeros(len(y), bool)
    again = np.ones(len(y), bool)
    again[np.unique(_row_hash((*x.T, w, y)), return_index=True)[1]] = False
    return again if again.mean() >= COPIES else np.zeros(len(y), bool)


def _row_hash(columns: Sequence[np.ndarray]) -> np.ndarray:
    """[n] 64 bits of each row: equal rows have equal ones, and others, among a million, in one table of ten million."""
    weights = np.random.default_rng(0).integers(2**63, 2**64, len(columns), dtype=np.uint64) | np.uint64(1)
    total = np.zeros(len(columns[0]), np.uint64)
    for column, weight in zip(columns, weights, strict=True):
        bits = np.ascontiguousarray(np.nan_to_num(column, nan=-1e300) + 0.0).view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        total += (bits ^ (bits >> np.uint64(29))) * weight
    return total
