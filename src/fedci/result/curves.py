"""Survival without and with treatment, draw by draw: curves, differences at any time, and restricted means.

Curves are known at the ends of intervals. Within one the hazard is taken to be constant, S(t) = S_{j−1}^{1−f} S_j^f, so

    RMST(t) = ∫₀ᵗ S = Σ_j width_j (S_{j−1} − S_j)/log(S_{j−1}/S_j)          the mean time without the event, up to t
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedci.effect import Effect, Rates, Risks
from fedci.errors import UsageError
from fedci.plain import Shown


@dataclass(frozen=True, repr=False)
class MeanTimes(Rates):
    """Mean times without the event, up to some time, in the form of rates."""

    called: ClassVar[str] = "Mean times"


@dataclass(frozen=True, repr=False)
class Survival(Shown):
    """Averages over people (curves [L, J]), or of each person ([L, n, J])."""

    times: np.ndarray
    """[J], where intervals end; the last is the last horizon."""
    untreated: np.ndarray
    treated: np.ndarray

    def shown(self) -> str:
        """By the last horizon; of many people that there are."""
        last = f"Survival at {len(self.times)} times up to {self.times[-1]:g}"
        if self.untreated.ndim > 2:
            return f"{last}, of {self.untreated.shape[1]} people: .of_untreated, .of_treated and .rmst() have each"
        return (f"{last}: at the last untreated {self.untreated[:, -1].mean():.4g}, treated "
                f"{self.treated[:, -1].mean():.4g}; difference {self.difference().shown().removeprefix('Effect ')}")

    @property
    def of_untreated(self) -> Effect:
        """At each of `times`."""
        return Effect(self.untreated, np.zeros_like(self.untreated))

    @property
    def of_treated(self) -> Effect:
        return Effect(self.treated, np.zeros_like(self.treated))

    def risks(self, time: float | None = None) -> Risks:
        """Of the event by this time; none: by the last horizon."""
        until = self._checked(time)
        return Risks(*(1.0 - _at(self.times, curve, until) for curve in (self.untreated, self.treated)))

    def difference(self, time: float | None = None) -> Effect:
        """S₁(t) − S₀(t)."""
        risks = self.risks(time)
        return Risks(risks.treated, risks.untreated).difference

    def rmst(self, time: float | None = None) -> MeanTimes:
        """Restricted mean survival times: `.of_untreated`, `.of_treated`, `.difference`, `.ratio`."""
        until = self._checked(time)
        return MeanTimes(*(_mean_time(self.times, curve, until) for curve in (self.untreated, self.treated)))

    def _checked(self, time: float | None) -> float:
        last = float(self.times[-1])
        if time is None:
            return last
        if not 0.0 < time <= last:
            raise UsageError(f"time = {time:g}: survival is known from 0 to the last horizon, {last:g}")
        return float(time)


def _pieces(times: np.ndarray, curve: np.ndarray, until: float) -> tuple[np.ndarray, np.ndarray]:
    """(widths [J], log S at 0 and after each interval [*k, J + 1]) of the time up to `until`."""
    ends = np.minimum(times, until)
    starts = np.minimum(np.concatenate([[0.0], times[:-1]]), until)
    logs = np.log(np.maximum(curve, 1e-12))
    logs = np.concatenate([np.zeros((*logs.shape[:-1], 1)), logs], -1)
    share = (ends - starts) / np.diff(times, prepend=0.0)
    steps = np.diff(logs, axis=-1) * share
    return ends - starts, np.concatenate([np.zeros((*logs.shape[:-1], 1)), np.cumsum(steps, -1)], -1)


def _at(times: np.ndarray, curve: np.ndarray, until: float) -> np.ndarray:
    return np.exp(_pieces(times, curve, until)[1][..., -1])


def _mean_time(times: np.ndarray, curve: np.ndarray, until: float) -> np.ndarray:
    widths, logs = _pieces(times, curve, until)
    fall = logs[..., :-1] - logs[..., 1:]
    small = fall < 1e-6
    mean = np.where(small, 1.0 - 0.5 * fall, -np.expm1(-fall) / np.where(small, 1.0, fall))
    return np.asarray(np.sum(widths * np.exp(logs[..., :-1]) * mean, -1))
