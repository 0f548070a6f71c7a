"""Heterogeneity: do the sites' effects differ by more than chance, and does the answer hang on one site?

A site's own effect, hardly shrunk, by augmented inverse probability weighting (AIPW), from three sums:

    ψ_i = m₁ − m₀ + w_i (y_i − m₁)/e_i − (1 − w_i)(y_i − m₀)/(1 − e_i)        estimate Σψ/n, variance Σ(ψ − ψ̄)²/n²

m₀, m₁ are the model's expected outcomes of person i, computed without i (`fedci.model.leave_one_out`); e_i the
federated propensity, kept within 0.01 … 0.99. Over the sites, with v_s the variances:

    Q = Σ (θ_s − θ̄)²/v_s     I² = max(0, (Q − (m − 1))/Q)     τ² by DerSimonian–Laird and by REML

Leaving a site out takes its sums from the pooled AIPW estimate: the model itself is not fitted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, norm, t

from fedci.diagnostics.verdict import Plain, Verdict, graded

I2_THRESHOLD, I2_PROBLEM = 0.5, 0.75
SHIFT_THRESHOLD, SHIFT_PROBLEM = 1.0, 2.0
CLIP = 0.01
"""e(x) is kept within CLIP … 1 − CLIP in ψ: a person counts at most a hundredfold."""


class Interval(Plain):
    mean: float
    low: float
    high: float
    """95%."""


class SiteEffect(Plain):
    """A row of the forest plot."""

    site: str
    people: int
    own: Interval
    """AIPW over the site's own people."""
    se: float
    model: Interval
    """FedCI's average effect at the site, which borrows from the other sites."""
    weight: float
    """In the random-effects mean."""


class LeftOut(Plain):
    site: str
    estimate: Interval
    """AIPW over the people of all other sites."""


class Heterogeneity(Plain):
    sites: tuple[SiteEffect, ...]
    pooled: Interval
    """AIPW over all people."""
    random: Interval
    """Random-effects mean (τ² by REML, Hartung–Knapp–Sidik–Jonkman interval)."""
    prediction: tuple[float, float] | None
    """95% interval for the effect at a site like these; None with fewer than three."""
    q: float
    p: float
    """Of Q, were there no heterogeneity."""
    i2: float
    tau2: float
    """By DerSimonian and Laird."""
    tau2_reml: float
    shrinkage: float | None
    """1 − slope of the model's site effects on the sites' own: 0: as they are; 1: all alike."""
    left_out: tuple[LeftOut, ...]
    verdicts: tuple[Verdict, ...]


class Sums(NamedTuple):
    """n, Σψ, Σψ²."""

    people: float
    total: float
    square: float

    @property
    def mean(self) -> float:
        return self.total / self.people

    @property
    def se(self) -> float:
        return float(np.sqrt(max(self.square - self.people * self.mean**2, 0.0)) / self.people)


def weights(w: np.ndarray, e: np.ndarray) -> np.ndarray:
    """1/e of the treated, 1/(1 − e) of the untreated [n]."""
    e = np.clip(e, CLIP, 1.0 - CLIP)
    return np.where(w == 1, 1.0 / e, 1.0 / (1.0 - e))


def influence(w: np.ndarray, y: np.ndarray, m: np.ndarray, e: np.ndarray) -> np.ndarray:
    """ψ of each person; m [n, 2], e [n]."""
    away = np.where(w == 1, y - m[:, 1], m[:, 0] - y)
    return m[:, 1] - m[:, 0] + away * weights(w, e)


def interval(mean: float, se: float, factor: float = float(norm.ppf(0.975))) -> Interval:
    return Interval(mean=float(mean), low=float(mean - factor * se), high=float(mean + factor * se))


def cochran(effects: np.ndarray, variances: np.ndarray) -> tuple[float, float, float, float]:
    """(Q, its p-value, I², τ² by DerSimonian and Laird)."""
    weight, dof = 1.0 / variances, len(effects) - 1
    mean = weight @ effects / weight.sum()
    q = float(weight @ (effects - mean) ** 2)
    tau2 = max(0.0, (q - dof) / float(weight.sum() - (weight**2).sum() / weight.sum()))
    return q, float(chi2.sf(q, dof)), max(0.0, (q - dof) / q) if q > 0 else 0.0, tau2


def reml(effects: np.ndarray, variances: np.ndarray) -> float:
    """τ² that maximises the restricted likelihood; searched over τ, in which it is smooth and on the data's scale."""
    def minus(tau: float) -> float:
        weight = 1.0 / (variances + tau**2)
        mean = weight @ effects / weight.sum()
        return -0.5 * float(np.log(weight).sum() - np.log(weight.sum()) - weight @ (effects - mean) ** 2)

    top = max(float(np.ptp(effects)), 1e-12) * 3.0
    grid = np.linspace(0.0, top, 61)
    best = int(np.argmin([minus(tau) for tau in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, 60)]
    minimum = minimize_scalar(minus, bounds=around, method="bounded", options={"xatol": 1e-10 * top})
    return 0.0 if minus(0.0) <= minimum.fun + 1e-10 else float(minimum.x) ** 2


def random_effects(effects: np.ndarray, variances: np.ndarray, tau2: float) -> tuple[float, float, np.ndarray]:
    """(mean, se after Hartung–Knapp–Sidik–Jonkman (never below the plain one), relative weights)."""
    weight = 1.0 / (variances + tau2)
    mean = float(weight @ effects / weight.sum())
    scale = float(weight @ (effects - mean) ** 2) / (len(effects) - 1)
    return mean, float(np.sqrt(max(scale, 1.0) / weight.sum())), weight / weight.sum()


def summary(sums: Mapping[str, Sums], model: Mapping[str, Interval]) -> Heterogeneity | None:
    """From each site's sums and the model's own site effects; None with fewer than two sites that tell."""
    shown = {name: own for name, own in sums.items() if own.people > 1 and own.se > 0}
    if len(shown) < 2:
        return None
    effects, variances = (np.array([getattr(own, key) for own in shown.values()]) for key in ("mean", "se"))
    variances = variances**2
    q, p, i2, tau2 = cochran(effects, variances)
    tau2_reml = reml(effects, variances)
    mean, se, weight = random_effects(effects, variances, tau2_reml)
    factor = float(t.ppf(0.975, len(effects) - 1))
    prediction = None
    if len(effects) > 2:
        half = float(t.ppf(0.975, len(effects) - 2)) * np.sqrt(tau2_reml + se**2)
        prediction = (mean - half, mean + half)
    rows = tuple(SiteEffect(site=name, people=int(own.people), own=interval(own.mean, own.se), se=own.se,
                            model=model[name], weight=float(share))
                 for (name, own), share in zip(shown.items(), weight, strict=True))
    everyone = _without(shown, None)
    left = tuple(LeftOut(site=name, estimate=interval(rest.mean, rest.se))
                 for name in shown for rest in [_without(shown, name)])
    shrinkage = _shrinkage(rows)
    return Heterogeneity(
        sites=rows, pooled=interval(everyone.mean, everyone.se), random=interval(mean, se, factor),
        prediction=prediction, q=q, p=p, i2=i2, tau2=tau2, tau2_reml=tau2_reml, shrinkage=shrinkage, left_out=left,
        verdicts=(_spread_verdict(i2, p, tau2_reml, shrinkage), _influence_verdict(left, everyone)))


def _without(sums: Mapping[str, Sums], site: str | None) -> Sums:
    rest = [own for name, own in sums.items() if name != site]
    return Sums(*(sum(values) for values in zip(*rest, strict=True)))


def _shrinkage(rows: Sequence[SiteEffect]) -> float | None:
    """Weighted by precision, so that a site nobody knows much about does not decide."""
    own, model = (np.array([getattr(row, key).mean for row in rows]) for key in ("own", "model"))
    weight = np.array([1.0 / row.se**2 for row in rows])
    own, model = (v - weight @ v / weight.sum() for v in (own, model))
    spread = float(weight @ own**2)
    return None if spread <= 0 else 1.0 - float(weight @ (own * model)) / spread


def _spread_verdict(i2: float, p: float, tau2: float, shrinkage: float | None) -> Verdict:
    shrunk = "" if shrinkage is None else (
        f" The model takes {100 * min(max(shrinkage, 0.0), 1.0):.0f}% of the spread of the sites' own effects for "
        f"chance.")
    words = (f"{100 * i2:.0f}% of the spread of the sites' effects is more than chance (I²; τ = {np.sqrt(tau2):.2g}, "
             f"p = {p:.2g}).{shrunk}")
    if i2 > I2_THRESHOLD:
        words += " One average hides different effects: report the sites' own, and ask what differs between them."
    return Verdict(name="effects across sites", value=i2, threshold=I2_THRESHOLD,
                   verdict=graded(i2, I2_THRESHOLD, I2_PROBLEM), words=words)


def _influence_verdict(left: Sequence[LeftOut], everyone: Sums) -> Verdict:
    moved = {without.site: abs(without.estimate.mean - everyone.mean) / everyone.se for without in left}
    worst, value = max(moved.items(), key=lambda pair: pair[1])
    words = (f"Without site '{worst}', which moves it most, the pooled estimate changes by {value:.1f} of its standard "
             f"errors (the model is not fitted again)."
             + ("" if value <= SHIFT_THRESHOLD else " The answer hangs on this site: say so, and look at its data."))
    return Verdict(name="leave one site out", value=value, threshold=SHIFT_THRESHOLD,
                   verdict=graded(value, SHIFT_THRESHOLD, SHIFT_PROBLEM), words=words)
