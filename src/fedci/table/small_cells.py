"""Small cells, found by what a column holds and not by how it is declared.

    two values     people with the rarer one, in each arm                     → the column is withheld, everywhere
    one and more   people without the one value that all others hold          → the same: who has any is such a trait
    few values     those that fewer than `least` people of an arm hold        → counted with the nearest that more hold
    gaps           people whose value is missing, in each arm                 → no column of its own says who they are
    known          people whose value is known, where few of an arm's are     → the column is withheld
    combinations   people whom two columns, or levels, tell apart (`strays`)  → the later column is withheld

Arms are looked at one by one: the model's basis has every covariate in each arm, so a cell of an arm is told wherever
the column is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedci.table import strays
from fedci.table.table import Table

MERGED = "they are counted with the nearest value that more hold"
"""Said at the site alone: one person with a rare value makes the difference."""
FEW = 12
"""Distinct values up to which a column is a list of cells, such as a score or a count, and not a measurement."""


def withheld(x: np.ndarray, w: np.ndarray, least: int) -> np.ndarray:
    """[d] columns that tell of few people of an arm, by themselves or with one that stays. `w` [n]: the arm of each
    person."""
    away = alone(x, w, least)
    return away | strays.beside(x, w, least, away)


def alone(x: np.ndarray, w: np.ndarray, least: int) -> np.ndarray:
    """[d] columns of two values, one of them held by someone in an arm, but by fewer than `least` there; or of one
    value (a dose of 0, say) and many others, which someone of an arm has, but fewer than `least` there; or that are
    known of so few of an arm."""
    return np.array([_is_told_apart(column, w, least) or _is_hardly_known(column, w, least) for column in x.T], bool)


def varies(x: np.ndarray, least: int) -> np.ndarray:
    """[d] columns in which at least `least` people, and one, stand apart from the rest."""
    return np.array([_apart(column) >= max(least, 1) for column in x.T], bool)


def gaps(x: np.ndarray, w: np.ndarray, least: int) -> np.ndarray:
    """[d] columns that lack a value of someone in an arm, but of fewer than `least` there."""
    missing = np.isnan(x)
    counts = np.stack([missing[w == arm].sum(0) for arm in _arms(w)])
    return np.any((counts > 0) & (counts < least), axis=0)


def is_small_outcome(y: np.ndarray, w: np.ndarray, least: int) -> bool:
    """Whether an outcome of two values has a small cell in an arm, or few of an arm are without its commonest value."""
    return _is_told_apart(y, w, least)


def merged(table: Table, least: int) -> Table:
    """The table with rare values of few-valued columns moved to the nearest that enough people of each arm hold."""
    if not least:
        return table
    x = table.x.copy()
    names: list[str] = []
    for c, name in enumerate(table.columns):
        new = _merged(x[:, c], table.w, least)
        if not np.array_equal(new, x[:, c], equal_nan=True):
            x[:, c], names = new, [*names, name]
    words = tuple(f"site {table.site!r}: column '{name}' has values that fewer than {least} people of an arm hold: "
                  f"{MERGED}" for name in names)
    return replace(table, x=x, warnings=(*table.warnings, *words)) if names else table


def _merged(column: np.ndarray, w: np.ndarray, least: int) -> np.ndarray:
    """Again until it holds: a value that nobody of an arm held may get a few of them from a rare one."""
    values = np.unique(column[~np.isnan(column)])
    small = [_is_small(value, column, w, least, False) for value in values] if 3 <= len(values) <= FEW else []
    if not any(small):
        return column
    common = values[~np.array(small)]
    if not len(common):
        common = values[[np.argmax([(column == value).sum() for value in values])]]
    nearest = common[np.abs(common[None, :] - np.nan_to_num(column)[:, None]).argmin(1)]
    return _merged(np.where(np.isnan(column), np.nan, nearest), w, least)


class Held(NamedTuple):
    """What a column holds, but for gaps: sorted once, which of many people is most of what looking costs."""

    values: np.ndarray
    counts: np.ndarray

    @property
    def rarer(self) -> float | None:
        """The rarer of two values; None where there are fewer or more."""
        return float(self.values[self.counts.argmin()]) if len(self.values) == 2 else None

    @property
    def commonest(self) -> float:
        return float(self.values[self.counts.argmax()])


def _held(column: np.ndarray) -> Held:
    return Held(*np.unique(column[~np.isnan(column)], return_counts=True))


def _is_told_apart(column: np.ndarray, w: np.ndarray, least: int) -> bool:
    """Whether few of an arm hold one of two values, or are without the commonest."""
    held = _held(column)
    if held.rarer is not None and _is_small(held.rarer, column, w, least, True):
        return True
    if len(held.values) < 2:
        return False
    apart = ~np.isnan(column) & (column != held.commonest)
    return any(0 < np.sum(apart & (w == arm)) < least for arm in _arms(w))


def _is_hardly_known(column: np.ndarray, w: np.ndarray, least: int) -> bool:
    """Whether some people of an arm have a value, few of them, and others none: what is not missing is theirs."""
    known = ~np.isnan(column)
    return any(0 < np.sum(known & (w == arm)) < least and np.any(~known & (w == arm)) for arm in _arms(w))


def _is_small(value: float, column: np.ndarray, w: np.ndarray, least: int, two: bool) -> bool:
    """Whether `value`, or what is not it in a column of two, is held in an arm by some people, but by few."""
    holds, known = column == value, ~np.isnan(column)
    cells = [np.sum(side & (w == arm)) for arm in _arms(w) for side in ((holds, known & ~holds) if two else (holds,))]
    return any(0 < count < least for count in cells)


def _arms(w: np.ndarray) -> range:
    """Those that somebody here got, and two at least."""
    return range(max(int(np.max(w, initial=1)) + 1, 2))


def _apart(column: np.ndarray) -> int:
    """People without the commonest value."""
    counts = _held(column).counts
    return int(counts.sum() - counts.max(initial=0))
