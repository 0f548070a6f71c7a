"""The two stages of a large fit: its first rounds look at some people of each large site, the last at all.

The first takes at most R people of a site, half from each arm (of A arms R/A): `optimiser.first_rows`, or ten, a
hundred, … times as many, the most that spares half the work. One stage with a tenth of the people does
with fewer rounds than several that grow: each has to find its own top.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedci.model.family import Family, FirstStage
from fedci.study.options import FitOptions

GROWTH = 10
"""So the last stage has less than twenty times as many people: q's sds shrink by √20 at most."""
MOST = 6


def choices(first: int) -> list[int]:
    """The R that a study may have."""
    return [first * GROWTH**k for k in range(MOST)] if first else []


def some_of(people: int, rows: int, arms: int = 2) -> int:
    """How many of an arm's people a stage looks at: half of `rows` (of A arms, an A-th), or all where there are fewer
    than `rows`. So those left out are never few, and no difference of two sums is about few people."""
    return rows // arms if people >= rows else people


def chosen(w: np.ndarray, rows: int, count: int = 2) -> np.ndarray:
    """Which rows of a site those are, at random; `count`: of so many arms."""
    rng = np.random.default_rng(2)
    arms = [rng.permutation(np.flatnonzero(w == arm)) for arm in range(count)]
    return np.sort(np.concatenate([arm[:some_of(len(arm), rows, count)] for arm in arms]))


def people_of(by_arm: Sequence[int], least: int) -> np.ndarray:
    """[MOST] how many of a site's people each of the choices would look at; zeros where there are no choices."""
    counts = [sum(some_of(people, rows, len(by_arm)) for people in by_arm) for rows in choices(least)]
    return np.array(counts + [0] * (MOST - len(counts)), float)


def first(model: Family, options: FitOptions, people: int, looked_at: np.ndarray) -> FirstStage:
    """The largest first stage that spares half the work of a round; `looked_at` [MOST]: `people_of` over all sites."""
    if not model.has_stages:
        return FirstStage()
    stages = [FirstStage(rows, round(float(count)))
              for rows, count in zip(choices(options.optimiser.first_rows), looked_at, strict=False)]
    return max((stage for stage in stages if 2 * stage.people <= people), default=FirstStage())
