"""Of a time to an event: how many people of each arm are still followed at each horizon, all sites together.

    at risk(t) = people − events until t − ends of follow-up until t
    share(t) = at risk(t) / (people − events until t)

A curve goes on where nobody is followed any more: there it is the model's, of the hazard that was seen last. Counts
that a site may not tell are told as 0 (`protocol.timing`): with `min_cell` at risk(t) is at most so many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedci.diagnostics.verdict import FINE, LOOK, PROBLEM, Plain, Verdict, Word

FEW, SHARE = 10, 0.1
"""People still followed at the last horizon, and their share of those without the event, below which to look."""


class AtRisk(Plain):
    """Of one horizon."""

    time: float
    people: tuple[int, ...]
    """Of each arm, still followed and without the event."""


class FollowUp(Plain):
    horizons: tuple[AtRisk, ...]
    verdicts: tuple[Verdict, ...]


def summary(horizons: Sequence[float], ends: np.ndarray, events: np.ndarray, censored: np.ndarray,
            people: np.ndarray, arms: Sequence[str]) -> FollowUp:
    """From counts [A, parts] of parts of time that end at `ends`; `people` [A]; `arms`: what each is called."""
    size = len(ends)
    happened = np.cumsum(events[:, :size], 1)
    left = np.maximum(people[:, None] - happened - np.cumsum(censored[:, :size], 1), 0.0)
    at = [int(np.argmin(np.abs(ends - horizon))) for horizon in horizons]
    rows = tuple(AtRisk(time=float(ends[k]), people=tuple(int(round(n)) for n in left[:, k])) for k in at)
    free = np.maximum(people - happened[:, at[-1]], 0.0)
    return FollowUp(horizons=rows, verdicts=(_verdict(float(ends[at[-1]]), left[:, at[-1]], free, arms,
                                                      _last(ends, left, happened, people)),))


def _last(ends: np.ndarray, left: np.ndarray, happened: np.ndarray, people: np.ndarray) -> np.ndarray:
    """[A] until when FEW people at least are followed; 0: not to the end of the first part."""
    enough = left >= np.minimum(FEW, np.maximum(people[:, None] - happened, 1.0))
    return np.array([ends[np.flatnonzero(arm)[-1]] if arm.any() else 0.0 for arm in enough])


def _verdict(until: float, left: np.ndarray, free: np.ndarray, arms: Sequence[str], last: np.ndarray) -> Verdict:
    """Of the arm with the least; who had the event by then need not be followed."""
    share = np.where(free > 0, left / np.maximum(free, 1.0), 1.0)
    worst = int(np.argmin(share))
    few = (left < np.minimum(FEW, free)) | (share < SHARE)
    word: Word = PROBLEM if ((left < 1) & (free >= 1)).any() else LOOK if few.any() else FINE
    said = (f"Of the {arms[worst]} without the event by {until:g}, {left[worst]:,.0f} of {free[worst]:,.0f} people "
            f"({share[worst]:.0%}) were followed until then")
    more = {FINE: ".",
            LOOK: ": what is said of that time rests on few. Look at an earlier horizon too.",
            PROBLEM: f": what is said of that time is what the model expects, no data. Few or none are followed beyond "
                     f"{last[worst]:.3g}: choose a horizon before that."}[word]
    return Verdict(name="people followed to the last horizon", value=float(share[worst]), threshold=SHARE, verdict=word,
                   words=said + more)
