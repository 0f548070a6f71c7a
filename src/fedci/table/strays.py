"""People whom a combination of columns tells apart: two columns that say the same of all but few, and levels that all
but few have one of.

    a, b of two values     a − b tells of those in whom they differ, a + b − 1 of those in whom they agree
    any two columns        b = s a + t for all but few: what is left of b is theirs
    levels                 columns of which nobody has two: 1 − Σ tells of those who have none (the reference)

Sums of second moments hold every such combination: its row in them is the row of the only person it tells apart. Of
three columns and more only levels are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SAMPLE = 512
"""Rows by which most pairs are known to be of different things."""
EXACT = 1e-9
"""Of a column's spread: rounding, where one column is another in another unit."""


def beside(x: np.ndarray, w: np.ndarray, least: int, away: np.ndarray) -> np.ndarray:
    """[d] columns that, together with one before them (of levels: with those before them), tell of some people of an
    arm, but of fewer than `least`. Those that are `away` already tell of nobody."""
    found = np.zeros(x.shape[1], bool)
    if not least:
        return found
    arms = [w == arm for arm in np.unique(w)]
    two = {int(c): x[:, c] == np.nanmax(x[:, c]) for c in np.flatnonzero(~away) if _is_two_valued(x[:, c])}
    kept: list[int] = []
    for c in np.flatnonzero(~away):
        if any(_are_few(who, arms, least) for who in _told_apart(x, int(c), kept, two)):
            found[c] = True
        else:
            kept.append(int(c))
    return found


def cells(x: np.ndarray, w: np.ndarray, least: int, away: np.ndarray) -> list[np.ndarray]:
    """[n] bool of each set of people whom sums of the columns that stay count: those with the higher of two values,
    those without any of some levels, and those of whom a column is known, where it may be told how many lack it."""
    known, found = ~np.isnan(x), []
    kept: list[int] = []
    two = {int(c): x[:, c] == np.nanmax(x[:, c]) for c in np.flatnonzero(~away) if _is_two_valued(x[:, c])}
    for c, has in two.items():
        found += [has & known[:, c], *_without_a_level(known, c, kept, two)]
        kept.append(c)
    arms = [w == arm for arm in np.unique(w)]
    return found + [known[:, c] for c in np.flatnonzero(~away)
                    if not known[:, c].all() and not _are_few(~known[:, c], arms, least)]


def _told_apart(x: np.ndarray, c: int, kept: list[int], two: dict[int, np.ndarray]) -> Iterator[np.ndarray]:
    """[n] bool of each combination of column c with those that are kept."""
    known = ~np.isnan(x)
    for other in kept:
        both = known[:, c] & known[:, other]
        if c in two and other in two:
            differ = two[c] != two[other]
            yield both & differ
            yield both & ~differ
        else:
            yield _off_the_line(x[:, other], x[:, c], both)
    if c in two:
        yield from _without_a_level(known, c, kept, two)


def _without_a_level(known: np.ndarray, c: int, kept: list[int], two: dict[int, np.ndarray]) -> Iterator[np.ndarray]:
    """Those without any of the columns from one before c on, as long as nobody has two of them."""
    any_of, all_known = two[c] & known[:, c], known[:, c]
    for other in reversed(kept):
        if other not in two or np.any(any_of & two[other]):
            return
        any_of, all_known = any_of | two[other], all_known & known[:, other]
        yield all_known & ~any_of


def _off_the_line(a: np.ndarray, b: np.ndarray, both: np.ndarray) -> np.ndarray:
    """[n] who is not on the line b = s a + t on which most are; nobody where most are on none."""
    some = np.flatnonzero(both)
    some = some[::max(len(some) // SAMPLE, 1)]
    line = _line(a[some], b[some])
    if line is None:
        return np.zeros(len(a), bool)
    return both & _misses(a, b, *line)


def _misses(a: np.ndarray, b: np.ndarray, slope: float, start: float) -> np.ndarray:
    scale = max(float(np.nanmax(np.abs(b), initial=0.0)), abs(start), 1e-300)
    return np.abs(b - slope * a - start) > EXACT * scale


def _line(a: np.ndarray, b: np.ndarray) -> tuple[float, float] | None:
    """(slope, start) of the line on which most of the points are: through two of their commonest values, or through
    the middle."""
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
