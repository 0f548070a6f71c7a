"""A site's rows in the study's common units, arranged as the model computes on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedci.model.family import Family, FirstStage
from fedci.model.rows import Rows


@dataclass(frozen=True)
class Units:
    """How this study's rows become the model's: pooled centre and spread, and indicators of missing values."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float
    indicators: np.ndarray

    def covariates(self, x: np.ndarray) -> np.ndarray:
        """[n, d] raw, NaN where missing → [n, d + indicators]: centred, missing set to the pooled mean, flags added."""
        missing = np.isnan(x)
        scaled = np.where(missing, 0.0, (x - self.x_mean) / self.x_sd)
        return np.hstack([scaled, missing[:, self.indicators].astype(float)])

    def outcome(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_mean) / self.y_sd


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
