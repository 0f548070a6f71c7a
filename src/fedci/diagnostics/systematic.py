"""Systematic error: what effects on many negative controls, which treatment cannot change, tell of a study's errors.

    b_k ~ N(μ, σ² + s_k²)      b_k, s_k: effect and sd of control k; μ, σ: mean and spread of errors beside chance
    τ̂ − τ ~ N(μ, σ² + s²)      of the study's own effect τ̂ with sd s: its error is drawn as the controls' are

μ has a flat prior, σ a flat one on σ ≥ 0: with few controls the posterior is wide, and so are calibrated intervals. σ
is taken over a grid, μ given σ is Gaussian; the calibrated law is their mixture, so what is not known of both is in it.
That the study's outcome errs as the controls do is an assumption: controls must share its sources of bias.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from fedci.diagnostics.heterogeneity import Interval
from fedci.diagnostics.verdict import Plain, Verdict, graded

FEWEST = 5
GRID = 400
REACH = 12.0
"""The grid of σ ends at so many times the spread of the estimates."""
SMALL, LARGE = 0.5, 1.5
"""Of systematic error over the study's own sd: from where on it widens intervals much, and is most of them."""


class Control(Plain):
    """One negative control: the average effect on it, over all people and, where they are told, at each site."""

    name: str
    """Of its run: control-1, …"""
    column: str
    mean: float
    sd: float
    ended: str
    sites: dict[str, tuple[float, float]]
    """Site → mean and sd."""


class Systematic(Plain):
    """The error model of one average: over everybody, or of one site."""

    over: str
    """'all', or the site."""
    controls: int
    mean: float
    """μ, its posterior mean, with its interval."""
    mean_low: float
    mean_high: float
    sd: float
    """σ, its posterior median, with its interval."""
    sd_low: float
    sd_high: float
    mle: tuple[float, float]
    """(μ, σ) of greatest likelihood."""
    plain: Interval
    """The study's own effect."""
    calibrated: Interval
    """The same with what the controls tell: moved by μ, widened by σ."""


class Calibration(Plain):
    """All controls, and what follows."""

    controls: tuple[Control, ...]
    systematic: tuple[Systematic, ...]
    """Over everybody first; of sites whose averages are told."""
    verdicts: tuple[Verdict, ...]


class Law:
    """The posterior of (μ, σ) given estimates [K] and their sds [K]."""

    def __init__(self, estimates: Sequence[float] | np.ndarray, sds: Sequence[float] | np.ndarray):
        b, s = np.asarray(estimates, float), np.asarray(sds, float)
        if len(b) < FEWEST:
            raise ValueError(f"{len(b)} negative controls are too few: give {FEWEST} or more")
        scale = float(max(b.std(), np.sqrt(np.mean(s**2)) / len(b), 1e-300))
        self.sigma = REACH * scale * (np.arange(GRID) / (GRID - 1)) ** 2  # finer towards 0
        precision = 1.0 / (self.sigma[:, None] ** 2 + s**2)  # [G, K]
        total = precision.sum(1)
        self.centre, self.spread = (precision * b).sum(1) / total, 1.0 / np.sqrt(total)
        inner = 0.5 * np.log(precision).sum(1) - 0.5 * (precision * (b - self.centre[:, None]) ** 2).sum(1)
        best = int(np.argmax(inner))
        self.mle = float(self.centre[best]), float(self.sigma[best])
        log = inner - 0.5 * np.log(total) + np.log(np.maximum(np.gradient(self.sigma), 1e-300))
        weight = np.exp(log - log.max())
        self.weight = weight / weight.sum()

    def sigma_quantile(self, q: float) -> float:
        return float(np.interp(q, np.cumsum(self.weight) - 0.5 * self.weight, self.sigma))

    def mean_quantile(self, q: float) -> float:
        return _quantile(q, self.weight, self.centre, self.spread)

    def calibrated(self, mean: float, sd: float, alpha: float = 0.05) -> Interval:
        """Of an effect with mean and sd of its own posterior."""
        centre = mean - self.centre
        spread = np.sqrt(self.spread**2 + self.sigma**2 + sd**2)
        low, high = (_quantile(q, self.weight, centre, spread) for q in (alpha / 2, 1 - alpha / 2))
        return Interval(mean=float(self.weight @ centre), low=low, high=high)


def _quantile(q: float, weight: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> float:
    """Of a mixture of Gaussians."""
    reach = 12.0 * sd + 1e-12 * np.abs(mean)
    low, high = float((mean - reach).min()), float((mean + reach).max())
    return float(brentq(lambda value: float(weight @ ndtr((value - mean) / sd)) - q, low, high,
                        xtol=1e-12 * (high - low)))


def systematic(over: str, estimates: np.ndarray, sds: np.ndarray, mean: float, sd: float,
               plain: Interval, alpha: float = 0.05) -> Systematic:
    law = Law(estimates, sds)
    ends = alpha / 2, 1 - alpha / 2
    return Systematic(over=over, controls=len(estimates), mean=float(law.weight @ law.centre),
                      mean_low=law.mean_quantile(ends[0]), mean_high=law.mean_quantile(ends[1]),
                      sd=law.sigma_quantile(0.5), sd_low=law.sigma_quantile(ends[0]),
                      sd_high=law.sigma_quantile(ends[1]), mle=law.mle, plain=plain,
                      calibrated=law.calibrated(mean, sd, alpha))


def summary(controls: Sequence[Control], own: dict[str, tuple[float, float, Interval]]) -> Calibration:
    """`own`: 'all' and sites → mean, sd and interval of the study's own effect. Controls whose fit diverged are left
    out; so is an average of which too few are told."""
    good = [control for control in controls if control.ended != "diverged"]
    rows = []
    for over, (mean, sd, plain) in own.items():
        told = [(one.mean, one.sd) if over == "all" else one.sites[over] for one in good
                if over == "all" or over in one.sites]
        if len(told) >= FEWEST:
            estimates, sds = np.array(told).T
            rows.append(systematic(over, estimates, sds, mean, sd, plain))
    return Calibration(controls=tuple(controls), systematic=tuple(rows),
                       verdicts=tuple(_verdict(row, own[row.over][1]) for row in rows[:1] if row.over == "all"))


def _verdict(row: Systematic, sd: float) -> Verdict:
    size = float(np.hypot(row.mean, row.sd) / sd)
    change = (f"the plain interval {row.plain.low:.3g} to {row.plain.high:.3g} becomes {row.calibrated.low:.3g} to "
              f"{row.calibrated.high:.3g}")
    crossed = (row.plain.low > 0 or row.plain.high < 0) and row.calibrated.low <= 0 <= row.calibrated.high
    return Verdict(
        name="systematic error", value=size, threshold=SMALL, verdict=graded(size, SMALL, LARGE),
        words=f"Effects on {row.controls} negative controls, which should be zero, are wrong by {row.mean:.3g} on "
              "average and "
              f"differ by {row.sd:.3g} beyond chance (sd, 95% {row.sd_low:.3g} to {row.sd_high:.3g}). With that, "
              f"{change}"
              f"{': the direction is not settled any more' if crossed else ''}. It holds if the outcome errs as they "
              "do.")
