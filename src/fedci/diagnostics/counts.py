"""Counts that may leave a site: small ones are hidden, and so are those from which a small one could be computed.

A count c is small when 0 < c < `least` (the policy's `min_cell`); that nobody is in a cell may be told. The total is
known, so what is hidden must add up to `least` or more: else the smallest count that is shown is hidden as well.
"""

from __future__ import annotations

import numpy as np


def hide(counts: np.ndarray, least: int) -> np.ndarray:
    """[k] True where a count must not be told, given that the total is known."""
    hidden = (counts > 0) & (counts < least)
    while 0 < counts[hidden].sum() < least and ((counts > 0) & ~hidden).any():
        shown = np.flatnonzero((counts > 0) & ~hidden)
        hidden[shown[np.argmin(counts[shown])]] = True
    return hidden


def hide_nested(counts: np.ndarray, group: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(hidden [k], totals of the groups [g], hidden totals [g]); `group` [k] numbers each cell's group, from 0.

    Both levels leave together: a hidden group hides all its cells, and within a shown one `hide` holds again.
    """
    totals = np.bincount(group, counts).astype(np.int64)
    groups_hidden = hide(totals, least)
    hidden = groups_hidden[group]
    for number in np.flatnonzero(~groups_hidden):
        cells = group == number
        hidden[cells] = hide(counts[cells], least)
    return hidden, totals, groups_hidden


def shown(counts: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """The counts, 0 where they are hidden."""
    return np.where(hidden, 0, counts).astype(np.int64)
