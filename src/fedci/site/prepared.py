"""A site's rows in the study's common units, arranged as the model computes on them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedci.model.family import Family, FirstStage
from fedci.model.rows import Rows
from fedci.protocol.timing import in_intervals


@dataclass(frozen=True, kw_only=True)
class Units:
    """How this study's rows become the model's: pooled centre and spread, and indicators of missing values."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float
    indicators: np.ndarray
    timing: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Of a time to an event where its intervals end, of a count the rate of all people (`course.Opening`)."""

    def covariates(self, x: np.ndarray) -> np.ndarray:
        """[n, d] raw, NaN where missing → [n, d + indicators]: centred, missing set to the pooled mean, flags added."""
        missing = np.isnan(x)
        scaled = np.where(missing, 0.0, (x - self.x_mean) / self.x_sd)
        return np.hstack([scaled, missing[:, self.indicators].astype(float)])

    def outcome(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_mean) / self.y_sd

    def time(self, time: np.ndarray | None, kind: str, rows: int) -> np.ndarray | None:
        """[n] for how many intervals people were followed; of counts, log(exposure · rate); none of other types."""
        if kind == "survival" and time is not None:
            return in_intervals(time, self.timing)
        return np.log((np.ones(rows) if time is None else time) * self.timing[0]) if kind == "count" else None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The site once it knows the common units."""

    model: Family
    units: Units
    rows: Rows
    stage: FirstStage = FirstStage()
    """The first stage of the fit, if it has one."""
    first: Rows | None = None
    """The rows that it looks at."""
    people: int = 0
    """Of all sites."""

    @property
    def rate(self) -> float:
        """What the model's rates are counted in: that of all people, of a count; else 1."""
        return float(self.units.timing[0]) if self.model.outcome == "count" else 1.0
