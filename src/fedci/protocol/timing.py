"""Intervals of a time to an event: where they end, from counts of events that all sites together have.

    grid(study)  ─►  each site's events and censored people by arm and part of the grid, small counts hidden  ─►  cuts

Intervals are (from, to]: who has the event at a cut has it in the interval that ends there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedci.diagnostics import counts
from fedci.study.outcomes import INTERVALS
from fedci.study.study import Study

PARTS = 32
"""Of the grid on which sites count: it depends on the study alone."""


def grid(study: Study) -> np.ndarray:
    """[≤ PARTS] where parts of time end: the study's cuts, or even parts of the time between horizons."""
    if study.cuts:
        return np.array(study.cuts)
    ends = np.array(study.horizons)
    widths = np.diff(ends, prepend=0.0)
    each = np.maximum(np.floor(PARTS * widths / ends[-1]), 1).astype(int)
    each[np.argmax(widths)] += PARTS - each.sum()
    return np.concatenate([end - width * np.arange(n - 1, -1, -1) / n
                           for end, width, n in zip(ends, widths, each, strict=True)])


def counted(study: Study, w: np.ndarray, y: np.ndarray, time: np.ndarray, least: int) -> dict[str, np.ndarray]:
    """People with an event, and people who were followed no longer without one, by arm and part of the grid [A, PARTS];
    small counts are told as 0."""
    ends = grid(study)
    part = np.searchsorted(ends, time, side="left")
    parts = {"events": y == 1, "censored": (y == 0) & (time < ends[-1])}
    found = {name: np.stack([np.bincount(np.minimum(part, len(ends) - 1)[here & (w == arm)], minlength=PARTS)
                             for arm in range(study.arm_count)]) for name, here in parts.items()}
    return {name: np.asarray(counts.shown(one, np.stack([counts.hide(arm, least) for arm in one])), float)
            for name, one in found.items()}


def cuts(study: Study, events: np.ndarray, censored: np.ndarray, people: np.ndarray, least: int) -> np.ndarray:
    """[J] where intervals end, from the counts of all sites: about equally many events in each and an end at every
    horizon, or the study's own; then neighbours are merged until each has `least` events, and in every arm so many
    people who are still followed. Where counts are exact (`least` 0) no event at all from one horizon to the next
    is known to be none, and that interval stays."""
    ends, enough = grid(study), max(least, 1)
    size = len(ends)
    happened, gone = events.sum(0)[:size], (events + censored)[:, :size]
    followed = np.asarray(people, float)[:, None] - np.cumsum(gone, 1) + gone
    target = happened.sum() / INTERVALS
    kept: list[int] = []
    since = 0.0
    for k, end in enumerate(ends):
        since += happened[k]
        if study.cuts or end in study.horizons or (since >= target and happened.sum()):
            kept, since = [*kept, k], 0.0
    at_horizons = [k for k, end in enumerate(ends) if end in study.horizons]
    return ends[_merged(kept, happened, followed.min(0), enough, INTERVALS if not study.cuts else size, at_horizons,
                        exact=not least)]


def _merged(kept: list[int], happened: np.ndarray, followed: np.ndarray, enough: int, most: int,
            at_horizons: Sequence[int], exact: bool) -> list[int]:
    """Last parts of the intervals that stay: the poorest goes into the neighbour before it, or after it, that has no
    horizon between them; else into the one before, and the horizon is no end any more."""
    while len(kept) > 1:
        firsts = [0, *(k + 1 for k in kept[:-1])]
        events = np.array([happened[a:b + 1].sum() for a, b in zip(firsts, kept, strict=True)])
        whole = np.array([(not a or a - 1 in at_horizons) and b in at_horizons
                          for a, b in zip(firsts, kept, strict=True)])
        few = ((events < enough) & ~(whole & exact)) | (followed[firsts] < enough)
        if not few.any() and len(kept) <= most:
            break
        poorest = int(np.argmin(np.where(few, events, np.inf) if few.any() else events))
        removed = next((k for k in (poorest - 1, poorest) if k >= 0 and kept[k] not in at_horizons),
                       max(poorest - 1, 0))
        kept = kept[:removed] + kept[removed + 1:]
    return kept


def lost(study: Study, ends: np.ndarray) -> list[tuple[float, float, float]]:
    """(horizon, where its interval begins, where it ends) of the horizons that are no end of an interval."""
    starts = np.append(0.0, ends[:-1])
    return [(horizon, float(starts[k]), float(ends[k])) for horizon in study.horizons if horizon not in ends
            for k in [int(np.searchsorted(ends, horizon))]]


def in_intervals(time: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """[n] how many intervals a person was followed for, the last one in part."""
    return np.interp(time, [0.0, *ends], np.arange(len(ends) + 1.0))
