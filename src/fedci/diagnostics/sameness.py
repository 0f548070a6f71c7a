"""Sameness: how probable is it that the treatment does the same for everybody?

ψ_i is a person's doubly robust effect (`heterogeneity`), d_i what the model expects of them *without their outcome*
(`fedci.model.leave_one_out`). Over people, ψ = α + γ(d − d̄) + noise: γ = 0 where effects are the same, γ = 1 where they
differ as the model says. From the sums M_ab = Σ ψ^a d^b, a, b ≤ 2:

    γ̂ = Σ(ψ − ψ̄)(d − d̄)/S      S = Σ(d − d̄)²      se² = Σ(ψ − ψ̄)²(d − d̄)²/S²
    P(same) = 1/(1 + B),          B = N(γ̂; 1, se²)/N(γ̂; 0, se²) = exp((2γ̂ − 1)/2se²),      even odds beforehand

False alarms are bounded whatever se: P(same) < 5 % needs γ̂ > ½ + 2.94 se², which γ̂ ~ N(0, se²) exceeds in fewer than
1 % of studies. Where the model expects nearly the same of everybody, se is large and P(same) stays near ½: nothing is
told.

The same line tells of other people, whose expected effects have the average d*: ψ̄ + γ̂(d* − d̄) is the average of ψ with
weights 1/n + (d* − d̄)(d_i − d̄)/S, which give the study's people that average; right where the model is, or the weights.
"""

from __future__ import annotations

import math

import numpy as np

from fedci.diagnostics.verdict import FINE, LOOK, Plain, Verdict

ALARM = 0.05
"""Below it effects are said to differ."""
POWERS = 3
"""a, b = 0, 1, 2."""


class Line(Plain):
    """ψ along d, in the outcome's units."""

    people: int
    robust: float
    """ψ̄."""
    robust_se: float
    expected: float
    """d̄."""
    spread: float
    """√(S/n)."""
    together: float
    """Covariance of ψ̄ and γ̂."""


class Sameness(Plain):
    probability: float
    """P(same)."""
    slope: float
    """γ̂: 0 same, 1 as the model says."""
    se: float
    verdicts: tuple[Verdict, ...]
    line: Line | None = None
    """None in results that were made before it was kept."""

    def elsewhere(self, expected: float) -> tuple[float, float, float] | None:
        """(average effect of people of whom `expected` is expected on average, its standard error, how many of the
        study's people it rests on: 1/Σ of squared weights)."""
        if self.line is None:
            return None
        line, away = self.line, expected - self.line.expected
        variance = line.robust_se**2 + 2.0 * away * line.together + away**2 * self.se**2
        return (line.robust + self.slope * away, math.sqrt(max(variance, 0.0)),
                line.people / (1.0 + (away / line.spread) ** 2))


def person_sums(psi: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """M [3, 3] over a site's people; of both in units of the outcome's sd."""
    powers = np.arange(POWERS)[:, None]
    return np.asarray((psi[None] ** powers) @ (expected[None] ** powers).T)


def summary(sums: np.ndarray, unit: float = 1.0) -> Sameness | None:
    """None where nobody tells, or all are expected to have the same effect to the last digit; `unit`: of ψ and d in the
    outcome's."""
    n = float(sums[0, 0])
    if n < 2:
        return None
    psi, d = float(sums[1, 0]) / n, float(sums[0, 1]) / n
    spread = float(sums[0, 2]) - n * d**2
    if not spread > 1e-12 * n:
        return None
    off = np.array([[psi**2, -2.0 * psi, 1.0]])
    square, once, twice = (float(np.sum(off.T @ np.array([powers]) * sums)) for powers in (
        [1.0, 0.0, 0.0], [-d, 1.0, 0.0], [d**2, -2.0 * d, 1.0]))  # Σ(ψ − ψ̄)² (d − d̄)^0, 1, 2
    slope = (float(sums[1, 1]) - n * psi * d) / spread
    se = math.sqrt(max(twice, 0.0)) / spread
    line = Line(people=round(n), robust=unit * psi, robust_se=unit * math.sqrt(max(square, 0.0)) / n, expected=unit * d,
                spread=unit * math.sqrt(spread / n), together=unit * once / (n * spread))
    log_odds = (2.0 * slope - 1.0) / (2.0 * max(se, 1e-6) ** 2)
    probability = 1.0 / (1.0 + math.exp(min(max(log_odds, -700.0), 700.0)))
    return Sameness(probability=probability, slope=slope, se=se, verdicts=(_verdict(probability),), line=line)


def _verdict(probability: float) -> Verdict:
    said = f"the probability that treatment does the same for everybody is {_percent(probability)}"
    differ = probability < ALARM
    words = (f"Effects differ between people: {said}. One average hides this: read effects along the covariates, and "
             f"those of people." if differ else
             f"Whether effects differ between people cannot be told: {said}." if probability < 0.5 else
             f"No sign that effects differ between people: {said}.")
    return Verdict(name="same effect for all", value=probability, threshold=ALARM, verdict=LOOK if differ else FINE,
                   words=words)


def _percent(probability: float) -> str:
    return "below 1%" if probability < 0.01 else "above 99%" if probability > 0.99 else f"{100.0 * probability:.0f}%"
