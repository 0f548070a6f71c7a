"""People whom a combination of columns tells apart: two columns that say the same of all but few, and levels that all
but few have one of.

    a, b of two values     a − b tells of those in whom they differ, a + b − 1 of those in whom they agree
    any two columns        b = s a + t for all but few: what is left of b is theirs
    levels                 columns of which nobody has two: 1 − Σ tells of those who have none (the reference); and
                           two divisions of one thing into levels differ by who is between their bounds

Sums of second moments hold every such combination: its row in them is the row of the only person it tells apart. Of
three columns and more only those of levels that follow one another are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

SAMPLE = 512
"""Rows by which most pairs are known to be of different things."""
EXACT = 1e-9
"""Of a column's spread: rounding, where one column is another in another unit."""


class Cell(NamedTuple):
    """People whom a combination of columns counts, in bits, arm by arm."""

    has: list[np.ndarray]
    known: list[np.ndarray]
    """Of whom the columns are known."""


def beside(x: np.ndarray, w: np.ndarray, least: int, away: np.ndarray) -> np.ndarray:
    """[d] columns that, together with those before them, tell of some people of an arm, but of fewer than `least`.
    Those that are `away` already tell of nobody."""
    found = np.zeros(x.shape[1], bool)
    if not least:
        return found
    arms = [w == arm for arm in np.unique(w)]
    known, two, some = _known(x), _two_valued(x, away), x[::max(len(x) // SAMPLE, 1)]
    kept: list[int] = []
    cells: list[Cell] = []
    for c in map(int, np.flatnonzero(~away)):
        new = [_cell(*sets, arms) for sets in _of_levels(known, c, kept, two)] if c in two else []
        lines = [(other, line) for other in kept if not (c in two and other in two)
                 if (line := _line(some[:, other], some[:, c])) is not None]
        found[c] = (any(_is_few(cell.known, cell.has, least) or _is_few(cell.has, None, least) for cell in new)
                    or any(_tell_apart(one, other, least) for one in new for other in cells)
                    or any(_are_few(_misses(x[:, other], x[:, c], *line), arms, least) for other, line in lines))
        if not found[c]:
            kept, cells = [*kept, c], [*cells, *new]
    return found


def cells(x: np.ndarray, w: np.ndarray, least: int, away: np.ndarray) -> list[np.ndarray]:
    """[n] bool of each set of people whom sums of the columns that stay count: those with the higher of two values,
    those without any of some levels, and those of whom a column is known, where it may be told how many lack it."""
    known, two = _known(x), _two_valued(x, away)
    found = [has for c in two for has, _ in _of_levels(known, c, [other for other in two if other < c], two)]
    arms = [w == arm for arm in np.unique(w)]
    return found + [known[:, c] for c in np.flatnonzero(~away)
                    if not known[:, c].all() and not _are_few(~known[:, c], arms, least)]


def _known(x: np.ndarray) -> np.ndarray:
    """[n, d] column by column in memory."""
    return np.asfortranarray(~np.isnan(x))


def _two_valued(x: np.ndarray, away: np.ndarray) -> dict[int, np.ndarray]:
    """Of the columns of two values that stay, [n] who has the higher one."""
    return {int(c): x[:, c] == np.nanmax(x[:, c]) for c in np.flatnonzero(~away) if _is_two_valued(x[:, c])}


def _of_levels(known: np.ndarray, c: int, kept: list[int],
               two: dict[int, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(who, of whom it is known) [n] bool: who has column c; and who has none of the columns from one before c on, as
    long as nobody has two of them."""
    any_of, all_known = two[c], known[:, c]
    yield any_of, all_known
    for other in reversed(kept):
        if other not in two or np.any(any_of & two[other]):
            return
        any_of, all_known = any_of | two[other], all_known & known[:, other]
        yield all_known & ~any_of, all_known


def _cell(has: np.ndarray, known: np.ndarray, arms: list[np.ndarray]) -> Cell:
    return Cell([np.packbits(has[arm]) for arm in arms], [np.packbits(known[arm]) for arm in arms])


def _tell_apart(one: Cell, other: Cell, least: int) -> bool:
    """Whether they differ, or agree, in few."""
    known = [a & b for a, b in zip(one.known, other.known, strict=True)]
    differ = [(a ^ b) & both for a, b, both in zip(one.has, other.has, known, strict=True)]
    return _is_few(differ, None, least) or _is_few(known, differ, least)


def _is_few(people: list[np.ndarray], but: list[np.ndarray] | None, least: int) -> bool:
    """Whether there is an arm with some, but few; `but`: without these, who are among them."""
    counts = [int(np.bitwise_count(part).sum()) for part in people]
    less = [0] * len(counts) if but is None else [int(np.bitwise_count(part).sum()) for part in but]
    return any(0 < count - gone < least for count, gone in zip(counts, less, strict=True))


def _misses(a: np.ndarray, b: np.ndarray, slope: float, start: float) -> np.ndarray:
    """[n] who is not on the line b = slope a + start; nobody whose values are missing."""
    scale = max(float(np.nanmax(np.abs(b), initial=0.0)), abs(start), 1e-300)
    return np.abs(b - slope * a - start) > EXACT * scale


def _line(a: np.ndarray, b: np.ndarray) -> tuple[float, float] | None:
    """(slope, start) of the line on which most of the points are: through two of their commonest values, or through
    the middle; None: there is none."""
    both = ~np.isnan(a) & ~np.isnan(b)
    a, b = a[both], b[both]
    if len(a) < 2:
        return None
    values, counts = np.unique(a, return_counts=True)
    low, high = np.sort(values[np.argsort(-counts)[:2]]) if len(values) > 1 else (values[0], values[0])
    for x0, x1 in ((low, high), (values[0], values[-1]), (values[len(values) // 4], values[-1 - len(values) // 4])):
        if x0 == x1:
            continue
        y0, y1 = _commonest(b[a == x0]), _commonest(b[a == x1])
        slope = (y1 - y0) / (x1 - x0)
        if slope and np.mean(_misses(a, b, slope, y0 - slope * x0)) < 0.5:
            return slope, y0 - slope * x0
    return None


def _commonest(values: np.ndarray) -> float:
    held, counts = np.unique(values, return_counts=True)
    return float(held[counts.argmax()])


def _are_few(who: np.ndarray, arms: list[np.ndarray], least: int) -> bool:
    return any(0 < np.sum(who & arm) < least for arm in arms)


def _is_two_valued(column: np.ndarray) -> bool:
    known = column[~np.isnan(column)]
    low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
    return low < high and bool(((known == low) | (known == high)).all())
