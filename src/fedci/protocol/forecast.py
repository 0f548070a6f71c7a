"""How many rounds a fit still takes, from what it gained so far: for a progress line, nothing is decided by it.

    by what fits usually take    max(USUAL − k, k/4, patience)
    by the gain g of the last `patience` rounds, which halves about every HALVING rounds    HALVING log₂(g/target)

Their geometric mean; the first alone while the fit is young, or its objective is not seen. Fits that run all their
rounds (tolerance 0, or an optimiser that is no lbfgs) have as many left as they have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedci.study.options import OptimiserOptions

USUAL = 45
"""Rounds of a fit of the preset `default` (tests/protocol/test_forecast.py has recorded ones)."""
HALVING = 3.0


def rounds_left(optimiser: OptimiserOptions, sites: int, number: int, objectives: Sequence[float] = ()) -> float:
    """After round `number`, with the objectives of the rounds that looked at everybody, in their order."""
    most, patience = optimiser.rounds - number, optimiser.patience
    if optimiser.tolerance == 0 or optimiser.name != "lbfgs":
        return float(most)
    usual = max(USUAL - number, number / 4, patience)
    if len(objectives) <= 2 * patience:
        return float(min(usual, most))
    gain, target = max(objectives) - max(objectives[:-patience]), optimiser.tolerance * sites
    if gain <= target:
        return float(min(1, most))
    return float(min(math.sqrt(usual * HALVING * math.log2(1.0 + gain / target)), most))


class Clock:
    """The time a fit still takes, told after each round: the first one compiles, and is no measure."""

    def __init__(self, optimiser: OptimiserOptions, sites: int):
        self.optimiser, self.sites = optimiser, sites
        self.first: tuple[int, float] | None = None
        self.last = 0
        self.objectives: list[float] = []

    def left(self, number: int, seconds: float, objective: float, few: bool = False) -> str:
        """', about 12 s left'; '' while nothing is known. `seconds` since the fit began."""
        if self.first is None or number <= self.last:  # a fit of its own, such as a refuter's
            self.first, self.objectives = (number, seconds), []
        self.last = number
        if not few and math.isfinite(objective):
            self.objectives.append(objective)
        begun, then = self.first
        if number == begun:
            return ""
        each = (seconds - then) / (number - begun)
        return f", about {each * rounds_left(self.optimiser, self.sites, number, self.objectives):.0f} s left"
