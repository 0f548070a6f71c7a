"""A site's rows in the study's common units, arranged as the model computes on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedci.model.completion import Completion, keys_of
from fedci.model.family import Family, FirstStage
from fedci.model.rows import Rows
from fedci.protocol.completing import completion_of
from fedci.protocol.timing import in_intervals
from fedci.study.study import Study
from fedci.table.moments import Scales


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
    marked: bool = True
    """Whether the indicators enter the model; False: what is missing is drawn."""
    completion: Completion | None = None
    """From which laws, once they are known."""

    def scaled(self, x: np.ndarray) -> np.ndarray:
        """[n, d] in the model's units, NaN where missing; 0 in columns that stay at the sites."""
        return np.where(np.isfinite(self.x_sd), (x - self.x_mean) / self.x_sd, 0.0)

    def filled(self, x: np.ndarray) -> np.ndarray:
        """[n, d] raw, NaN where missing → [n, d + indicators]: centred, missing set to the pooled mean, flags added."""
        missing = np.isnan(x)
        scaled = np.where(missing, 0.0, (x - self.x_mean) / self.x_sd)
        return np.hstack([scaled, missing[:, self.indicators].astype(float)]) if self.marked else scaled

    def covariates(self, x: np.ndarray, levels: np.ndarray | None = None) -> np.ndarray:
        """The same of new people, or where what is missing is drawn [K, n, d]: of people of whom nothing else is known.
        `levels`: of their site; none: they are of no site of the study."""
        if self.completion is None or not np.isnan(x).any():
            return self.filled(x)
        levels = self.completion.levels_elsewhere() if levels is None else levels
        return self.completion.others(self.scaled(x), keys_of(x), levels)

    def known(self, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """([n, D] what is known of people, [n] their keys)."""
        return np.column_stack([self.scaled(x), self.outcome(y)]), keys_of(np.column_stack([x, w, y]))

    def outcome(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_mean) / self.y_sd

    def of_effects(self, kind: str) -> float:
        """In which what is told of effects and of outcomes is counted: of numbers their sd, of counts the rate of all
        people, so that sums of their powers keep within the range of masked ones; else 1."""
        return float(self.timing[0]) if kind == "count" else self.y_sd

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
    levels: np.ndarray | None = None
    """[K, D] of the site, where what is missing is drawn."""
    own: np.ndarray | None = None
    """[K, n, d] the site's own people, completed."""

    @property
    def rate(self) -> float:
        """What the model's rates are counted in: that of all people, of a count; else 1."""
        return float(self.units.timing[0]) if self.model.outcome == "count" else 1.0


class Agreed(Protocol):
    """What all parties know of the units: `course.Opening`, or `coordinator.Layout`."""

    @property
    def scales(self) -> Scales: ...
    @property
    def indicators(self) -> np.ndarray: ...
    @property
    def lacking(self) -> np.ndarray: ...
    @property
    def laws(self) -> np.ndarray: ...
    @property
    def share(self) -> float: ...
    @property
    def timing(self) -> np.ndarray: ...


def common_units(study: Study, agreed: Agreed, sites: int, seed: int) -> Units:
    return Units(**agreed.scales._asdict(), indicators=agreed.indicators, timing=agreed.timing,
                 marked=not study.completes, completion=completion_of(study, agreed, sites, seed))
