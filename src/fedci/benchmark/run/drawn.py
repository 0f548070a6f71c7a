"""People with an outcome that is no number, and their true effects, as the measurements of outcomes take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd


class Drawn(NamedTuple):
    """People of all sites, one row each."""

    x: np.ndarray
    w: np.ndarray
    y: np.ndarray
    """0 and 1, whether an event ended the time, or a count."""
    time: np.ndarray
    """How long a person was followed, or a count's exposure; 1 where there is neither."""
    site: np.ndarray
    effect: np.ndarray
    """The true difference of risks, restricted mean times or rates."""

    def take(self, rows: np.ndarray) -> Drawn:
        return Drawn(*(part[rows] for part in self))

    @property
    def names(self) -> list[str]:
        return [f"x{c}" for c in range(self.x.shape[1])]

    def frame(self) -> pd.DataFrame:
        """Columns x0 …, w, y, time."""
        return pd.DataFrame(self.x, columns=self.names).assign(w=self.w, y=self.y, time=self.time)


class Found(NamedTuple):
    """What a method says of new people, and of the average over those it was fitted to; NaN where it says nothing."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    average: tuple[float, float, float]
    """(mean, low, high)."""


Method = Callable[[Drawn, Drawn, int], Found]
"""(people of the study, new ones, seed) → what is found."""


def without_intervals(mean: np.ndarray, average: float) -> Found:
    gone = np.full(len(mean), np.nan)
    return Found(mean, gone, gone, (average, np.nan, np.nan))


def split(every: Drawn, each: int, new: int) -> tuple[Drawn, Drawn]:
    """(those of the study, new ones of the same sites): of each site's people the first `each`, and the others."""
    sites = len(np.unique(every.site))
    within = np.tile(np.arange(each + new) < each, sites)
    return every.take(within), every.take(~within)
