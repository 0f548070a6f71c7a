"""The stages of a large fit: its first rounds look at few people of each large site, the next at more, the last at all.

A stage takes at most R people of a site, half from each arm: R = `optimiser.first_rows`, then ten times as many, …
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedci.model.law import AnyModel
from fedci.model.shared import SharedModel
from fedci.moments import SiteMoments
from fedci.options import FitOptions

GROWTH = 10
"""Times as many people in the next stage: q's sds shrink by √10, so its means move by some three of them."""
MOST = 6


def rows_of(first: int, count: int) -> list[int]:
    """R of each of `count` stages before the last."""
    return [first * GROWTH**stage for stage in range(min(count, MOST))]


def some_of(people: int, rows: int) -> int:
    """How many of an arm's people a stage looks at: half of `rows`, or all where there are fewer than `rows`. So those
    left out are never few, and no difference of two sums is about few people."""
    return rows // 2 if people >= rows else people


def chosen(w: np.ndarray, rows: int) -> np.ndarray:
    """Which rows of a site those are, at random."""
    rng = np.random.default_rng(2)
    arms = [rng.permutation(np.flatnonzero(w == arm)) for arm in (0, 1)]
    return np.sort(np.concatenate([arm[:some_of(len(arm), rows)] for arm in arms]))


def people(model: AnyModel, options: FitOptions, sites: Sequence[SiteMoments]) -> tuple[int, ...]:
    """How many people each stage before the last looks at, all sites together; a stage that would not spare half the
    work is none."""
    first, everyone = options.optimiser.first_rows, sum(site.rows for site in sites)
    if not (isinstance(model, SharedModel) and model.options.posterior == "gaussian" and first):
        return ()
    arms = [n for site in sites for n in (site.treated, site.rows - site.treated)]
    found = (sum(some_of(n, rows) for n in arms) for rows in rows_of(first, MOST))
    return tuple(some for some in found if 2 * some <= everyone)
