"""How many rounds a fit still takes, from what it gained so far: for a progress line, nothing is decided by it.

    by what fits usually take    max(USUAL − k, k/2, patience)       k rounds that looked at everybody
    by the gain g of the last `patience` rounds, which halves about every HALVING rounds    HALVING log₂(1 + g/target)

Their geometric mean; the first alone while the fit is young, or its objective is not seen. A fit that gains less than
its target and goes on searches along its line: g is the target at least. Fits that run all their rounds (tolerance 0,
or an optimiser that is no lbfgs) have as many left as they have. Of recorded fits, after their first third, four of
five forecasts are within a factor of two, all within eight (tests/protocol/test_forecast.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedci.study.options import OptimiserOptions

USUAL, AFTER_SOME = 55, 30
"""Rounds of a fit of the preset `default` that look at everybody; the same where some of the people came first."""
HALVING = 5.0


def rounds_left(optimiser: OptimiserOptions, sites: int, number: int, objectives: Sequence[float] = (),
                some: int = 0) -> float:
    """After round `number`, the first `some` of which looked at some of the people; with the objectives of the others,
    in their order."""
    most, patience, whole = optimiser.rounds - number, optimiser.patience, number - some
    if optimiser.tolerance == 0 or optimiser.name != "lbfgs":
        return float(most)
    usual = max((AFTER_SOME if some else USUAL) - whole, whole / 2, patience)
    if len(objectives) <= patience:
        return float(min(usual, most))
    target = optimiser.tolerance * sites
    gain = max(max(objectives) - max(objectives[:-patience]), target)
    return float(min(math.sqrt(usual * HALVING * math.log2(1.0 + gain / target)), most))


class Clock:
    """The time a fit still takes, told after each round that looks at everybody. The first of them compiles, and is no
    measure; nor are those before it that look at some of the people, which take a part of the time of the others."""

    def __init__(self, optimiser: OptimiserOptions, sites: int):
        self.optimiser, self.sites = optimiser, sites
        self.first: tuple[int, float] | None = None
        self.last = 0
        self.objectives: list[float] = []

    def left(self, number: int, seconds: float, objective: float, few: bool = False) -> str:
        """', about 12 s left'; '' while nothing is known. `seconds` since the fit began."""
        if few or self.first is None or number <= self.last:  # a fit of its own, such as a refuter's
            self.first, self.objectives = None if few else (number, seconds), []
        self.last = number
        if self.first is None:
            return ""
        if math.isfinite(objective):
            self.objectives.append(objective)
        begun, then = self.first
        if number == begun:
            return ""
        each, left = (seconds - then) / (number - begun), rounds_left(self.optimiser, self.sites, number,
                                                                      self.objectives, begun - 1)
        return f", about {each * left:.0f} s left"
