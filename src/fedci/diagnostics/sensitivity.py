"""Sensitivity: how strong must an unmeasured confounder be to explain the effect away?

E-value (VanderWeele and Ding), for a mean difference d in standard deviations of the outcome with standard error s:

    RR ≈ e^{0.91 d},  limits e^{0.91 d ± 1.78 s}          E = RR + √(RR(RR − 1)),  RR ≥ 1 (else 1/RR);  1: no effect

Robustness value (Cinelli and Hazlett), from t and the degrees of freedom, f = |t|/√dof:

    RV = ½ (√(f⁴ + 4f²) − f²)          RV_α: f − f_crit in place of f, f_crit = t_{1−α/2, dof−1}/√(dof − 1)

Marginal sensitivity (Tan): given x, odds of treatment shift by at most Λ with the potential outcomes. Then the outcomes
that nobody saw have a density within 1/Λ … Λ of those seen, and for normal noise the sharp bounds have a closed form:

    E[y(1) | x, w = 0] = m₁(x) ± σ₁ k,    E[y(0) | x, w = 1] = m₀(x) ± σ₀ k,    k = (Λ − 1/Λ) φ(Φ⁻¹(Λ/(1 + Λ)))
    CATE(x) ± h(x),   h(x) = k [ (1 − e(x)) σ₁ + e(x) σ₀ ]          ATE ± mean of h: only the mean of e leaves a site

(the worst density is Λ above the Λ/(1 + Λ) quantile and 1/Λ below it). m, σ are the model's, e the propensity's.

Of an outcome of 0 and 1 the risk ratio is the model's own, and a risk p that nobody saw lies within

    max(p/Λ, 1 − Λ(1 − p))  …  min(Λp, 1 − (1 − p)/Λ)

which is concave (below: convex) in p, so at the average risks it bounds the average over people. There is no robustness
value: it is of linear models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import norm
from scipy.stats import t as student

from fedci.diagnostics.verdict import Plain, Verdict, graded
from fedci.effect import Rates, Risks

Number = TypeVar("Number", float, np.ndarray)
LAMBDAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
E_THRESHOLD, E_PROBLEM = 1.5, 1.2
RV_THRESHOLD, RV_PROBLEM = 0.1, 0.03
LAMBDA_THRESHOLD, LAMBDA_PROBLEM = 1.5, 1.1
LARGEST = 100.0
"""Λ beyond which is not searched."""
PROPENSITIES = (0.1, 0.5, 0.9)
SPREAD_THRESHOLD, SPREAD_PROBLEM = 0.5, 0.9


class Bound(Plain):
    """The average effect if confounding is at most Λ."""

    strength: float
    """Λ."""
    low: float
    high: float
    """Bounds of the estimate itself."""
    interval_low: float
    interval_high: float
    """With the 95% interval around it."""
    cate_half: tuple[float, ...]
    """Half-width of the bounds of one CATE(x), at the propensities of `propensities`."""


class NoiseCorrelation(Plain):
    """Realised effects at one correlation of the two outcomes' noise, which no data inform."""

    correlation: float | None
    """None: Σ's prior."""
    mean: float
    low: float
    high: float
    person_sd: float
    """Mean standard deviation of one person's realised effect."""


class Sensitivity(Plain):
    effect: float
    low: float
    high: float
    """The average effect and its 95% interval."""
    outcome_sd: float
    e_value: float
    e_value_interval: float
    """For the end of the interval that is nearer to no effect; 1 if the interval has none of it."""
    t: float | None
    dof: float | None
    partial_r2: float | None
    """t²/(t² + dof)."""
    robustness: float | None
    robustness_interval: float | None
    """At α = 0.05. These five are None of an outcome of 0 and 1."""
    noise_sd: tuple[float, float] | None
    """σ₀, σ₁; None of 0 and 1."""
    propensities: tuple[float, ...]
    bounds: tuple[Bound, ...]
    explained_away: float | None
    """The Λ at which the interval reaches no effect; 1: it does already; None: beyond 100."""
    correlations: tuple[NoiseCorrelation, ...]
    verdicts: tuple[Verdict, ...]


def e_value(risk_ratio: float) -> float:
    ratio = risk_ratio if risk_ratio >= 1.0 else 1.0 / risk_ratio
    return float(ratio + np.sqrt(ratio * (ratio - 1.0)))


def e_values(effect: float, se: float, sd: float) -> tuple[float, float]:
    """(of the estimate, of the end of its interval) of a mean difference."""
    d, s = effect / sd, se / sd
    low, high = np.exp(0.91 * d - 1.78 * s), np.exp(0.91 * d + 1.78 * s)
    limit = 1.0 if low <= 1.0 <= high else low if low > 1.0 else high
    return e_value(float(np.exp(0.91 * d))), e_value(float(limit))


def robustness_value(t: float, dof: float, alpha: float | None = None) -> float:
    """Share of the residual variance of treatment and of outcome that a confounder must explain to bring the estimate
    (with `alpha`: the end of its interval) to zero."""
    f = abs(t) / np.sqrt(dof)
    critical = 0.0 if alpha is None else float(student.ppf(1.0 - alpha / 2, dof - 1.0)) / np.sqrt(dof - 1.0)
    left = f - critical
    if left <= 0:
        return 0.0
    if critical > 0 and f > 1.0 / critical:
        return float((f**2 - critical**2) / (1.0 + f**2))
    return float(0.5 * (np.sqrt(left**4 + 4.0 * left**2) - left**2))


def tilt(strength: float) -> float:
    """k of Λ: how far the mean of a standard normal moves when its density may change by 1/Λ … Λ."""
    return float((strength - 1.0 / strength) * norm.pdf(ndtri(strength / (1.0 + strength))))


def half_width(e: Number, noise_sd: Sequence[float], strength: float) -> Number:
    """h of CATE(x) at propensity e, or of the ATE at the mean propensity."""
    return tilt(strength) * ((1.0 - e) * noise_sd[1] + e * noise_sd[0])


def explained_away(low: float, high: float, e: float, noise_sd: Sequence[float]) -> float | None:
    """The smallest Λ at which the interval, widened by the bounds, holds 0."""
    distance = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))
    if distance == 0.0:
        return 1.0
    if half_width(e, noise_sd, LARGEST) < distance:
        return None
    return float(brentq(lambda strength: half_width(e, noise_sd, strength) - distance, 1.0, LARGEST, xtol=1e-10))


def summary(effect: float, se: float, low: float, high: float, outcome_sd: float, dof: float, mean_e: float,
            noise_sd: tuple[float, float], correlations: tuple[NoiseCorrelation, ...]) -> Sensitivity:
    """`mean_e`: the mean propensity, or the share of the treated."""
    of_mean, of_limit = e_values(effect, se, outcome_sd)
    t = effect / se
    dof = max(dof, 2.0)
    bounds = tuple(Bound(strength=strength, low=effect - h, high=effect + h, interval_low=low - h,
                         interval_high=high + h,
                         cate_half=tuple(float(half_width(at, noise_sd, strength)) for at in PROPENSITIES))
                   for strength in LAMBDAS for h in [float(half_width(mean_e, noise_sd, strength))])
    away = explained_away(low, high, mean_e, noise_sd)
    robust = robustness_value(t, dof), robustness_value(t, dof, 0.05)
    return Sensitivity(
        effect=effect, low=low, high=high, outcome_sd=outcome_sd, e_value=of_mean, e_value_interval=of_limit, t=t,
        dof=dof, partial_r2=t**2 / (t**2 + dof), robustness=robust[0], robustness_interval=robust[1],
        noise_sd=noise_sd, propensities=PROPENSITIES, bounds=bounds, explained_away=away, correlations=correlations,
        verdicts=_verdicts(low <= 0.0 <= high, (of_mean, of_limit), robust, away, correlations))


def risk_shifts(untreated: float, treated: float, e: float, strength: float) -> tuple[float, float]:
    """(by how much the average difference of risks may be lower, higher) at most, if confounding is at most Λ."""
    def up(p: float) -> float:
        return min((strength - 1.0) * p, (1.0 - p) * (1.0 - 1.0 / strength))

    def down(p: float) -> float:
        return up(1.0 - p)

    return (1.0 - e) * down(treated) + e * up(untreated), (1.0 - e) * up(treated) + e * down(untreated)


def of_risks(risks: Risks, outcome_sd: float, mean_e: float) -> Sensitivity:
    """`mean_e`: the mean propensity, or the share of the treated."""
    difference, ratio = risks.difference, risks.ratio
    (low, high), (least, most) = difference.interval(), ratio.interval()
    r0, r1 = float(risks.untreated.mean()), float(risks.treated.mean())
    nearest = 1.0 if least <= 1.0 <= most else least if least > 1.0 else most
    values = e_value(max(r1, 1e-9) / max(r0, 1e-9)), e_value(max(nearest, 1e-9))
    bounds = []
    for strength in LAMBDAS:
        lower, higher = risk_shifts(r0, r1, mean_e, strength)
        bounds.append(Bound(strength=strength, low=max(difference.mean - lower, -1.0),
                            high=min(difference.mean + higher, 1.0), interval_low=max(low - lower, -1.0),
                            interval_high=min(high + higher, 1.0), cate_half=()))
    away = _risks_explained_away(low, high, r0, r1, mean_e)
    return Sensitivity(
        effect=difference.mean, low=low, high=high, outcome_sd=outcome_sd, e_value=values[0],
        e_value_interval=values[1], t=None, dof=None, partial_r2=None, robustness=None, robustness_interval=None,
        noise_sd=None, propensities=(), bounds=tuple(bounds), explained_away=away, correlations=(),
        verdicts=_verdicts(low <= 0.0 <= high, values, None, away, ()))


def of_rates(rates: Rates, outcome_sd: float) -> Sensitivity:
    """E-values of the rate ratio; counts have no bounds of two values."""
    difference, ratio = rates.difference, rates.ratio
    (low, high), (least, most) = difference.interval(), ratio.interval()
    nearest = 1.0 if least <= 1.0 <= most else least if least > 1.0 else most
    values = e_value(max(float(ratio.quantile(0.5)), 1e-9)), e_value(max(nearest, 1e-9))
    return Sensitivity(
        effect=difference.mean, low=low, high=high, outcome_sd=outcome_sd, e_value=values[0],
        e_value_interval=values[1], t=None, dof=None, partial_r2=None, robustness=None, robustness_interval=None,
        noise_sd=None, propensities=(), bounds=(), explained_away=None, correlations=(),
        verdicts=_verdicts(low <= 0.0 <= high, values, None, None, ())[:1])


def _risks_explained_away(low: float, high: float, untreated: float, treated: float, e: float) -> float | None:
    if low <= 0.0 <= high:
        return 1.0
    side, distance = (0, low) if low > 0 else (1, -high)

    def over(strength: float) -> float:
        return risk_shifts(untreated, treated, e, strength)[side] - distance

    return None if over(LARGEST) < 0 else float(brentq(over, 1.0, LARGEST, xtol=1e-10))


NOTHING = "The interval holds no effect already: there is nothing to explain away."


def _verdicts(null: bool, e: tuple[float, float], robust: tuple[float, float] | None, away: float | None,
              correlations: Sequence[NoiseCorrelation]) -> tuple[Verdict, ...]:
    strength = LARGEST if away is None else away
    rows = [
        ("E-value", e[1], E_THRESHOLD, E_PROBLEM,
         f"To explain the effect away, an unmeasured confounder would have to be tied to treatment and to outcome by "
         f"risk ratios of {e[0]:.2f} each beyond the covariates; to bring the interval to no effect, {e[1]:.2f}."),
        *([("robustness value", robust[1], RV_THRESHOLD, RV_PROBLEM,
            f"A confounder that explains {100 * robust[0]:.1f}% of the rest of both treatment and outcome would "
            f"explain the effect away; {100 * robust[1]:.1f}% would bring the interval to no effect.")]
          if robust else []),
        ("marginal sensitivity", strength, LAMBDA_THRESHOLD, LAMBDA_PROBLEM,
         f"The interval reaches no effect when people alike in all covariates differ in their odds of treatment by a "
         f"factor of {strength:.2f} because of what nobody measured." if away is not None else
         f"No confounding up to a factor of {LARGEST:g} in the odds of treatment brings the interval to no effect."),
    ]
    verdicts = [Verdict(name=name, value=float(value), threshold=fine,
                        verdict="look" if null else graded(value, fine, problem), words=NOTHING if null else words)
                for name, value, fine, problem, words in rows]
    return (*verdicts, *_correlation_verdict(correlations))


def _correlation_verdict(correlations: Sequence[NoiseCorrelation]) -> tuple[Verdict, ...]:
    """How far one person's sd moves between the smallest and the largest correlation."""
    given = [row for row in correlations if row.correlation is not None]
    if len(given) < 2:
        return ()
    widest, narrowest = max(row.person_sd for row in given), min(row.person_sd for row in given)
    value = 1.0 - narrowest / widest if widest > 0 else 0.0
    first, last = given[0], given[-1]
    return (Verdict(
        name="noise correlation", value=value, threshold=SPREAD_THRESHOLD,
        verdict=graded(value, SPREAD_THRESHOLD, SPREAD_PROBLEM),
        words=f"A person's realised effect has sd {first.person_sd:.3g} if the noise of the two outcomes has "
              f"correlation {first.correlation:g} and {last.person_sd:.3g} if it is {last.correlation:g}; no data can "
              f"tell which. Average and expected effects (CATE) do not depend on it."),)
