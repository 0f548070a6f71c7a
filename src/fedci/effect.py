"""From draws to effects: mean, standard deviation and interval.

Each draw l of (Φ, Σ, g) gives a Gaussian N(m_l, v_l) for an effect; the posterior is their equal mixture.

    E τ = mean_l m_l          Var τ = mean_l v_l + var_l m_l          (law of total variance)

Sums over sites: within a draw the sites' effects are independent, so means and variances add.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from fedci.errors import UsageError

ROOT_2PI = np.sqrt(2 * np.pi)
ZERO = np.zeros(())
Value = Any
"""A float, or an array with one number per person: as the effect's own means are."""


@dataclass(frozen=True)
class Effect:
    """A posterior: one number (mean, sd floats) or one per person (arrays)."""

    means: np.ndarray
    """[L, …] conditional mean per draw, outcome units."""
    variances: np.ndarray
    """[L, …] conditional variance per draw."""

    @property
    def mean(self) -> Value:
        return _plain(self.means.mean(0))

    @property
    def sd(self) -> Value:
        return _plain(np.sqrt(self.variances.mean(0) + self.means.var(0)))

    def interval(self, alpha: float = 0.05) -> tuple[Value, Value]:
        """(lower, upper): the central 1 − alpha of the mixture."""
        return self.quantile(check_alpha(alpha) / 2), self.quantile(1 - alpha / 2)

    def quantile(self, level: float) -> Value:
        """q with mean_l Φ((q − m_l)/√v_l) = level, to 1e-10 of the spread: Newton's steps, and where one would leave
        the bracket, its middle. From the Gaussian's quantile on that takes five or six."""
        sd = np.sqrt(np.maximum(self.variances, 1e-300))
        ends = self.means + sd * ndtri(level)
        low, high = ends.min(0), ends.max(0)
        enough = 1e-10 * (high - low)
        q = np.clip(self.means.mean(0) + np.sqrt((sd**2).mean(0) + self.means.var(0)) * ndtri(level), low, high)
        for _ in range(60):
            z = (q - self.means) / sd
            over = ndtr(z).mean(0) - level
            low, high = np.where(over < 0, q, low), np.where(over < 0, high, q)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
                step = q - over * ROOT_2PI / (np.exp(-0.5 * z * z) / sd).mean(0)
            new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
            moved, q = np.abs(new - q), new
            if (moved <= enough).all():
                break
        return _plain(q)

    def scaled(self, factor: float) -> Effect:
        return Effect(self.means * factor, self.variances * factor**2)

    def sample(self, count: int, seed: int) -> np.ndarray:
        """[count, …] draws from the mixture."""
        rng = np.random.default_rng(np.random.SeedSequence((seed, 3)))
        pick = rng.integers(0, len(self.means), count)
        return self.means[pick] + np.sqrt(self.variances[pick]) * rng.standard_normal((count, *self.means.shape[1:]))


def average(sums: Iterable[Effect], people: int, dependent: bool = False) -> Effect:
    """(Σ_s sum_s) / people, of sums that are independent within a draw. `dependent`: of sums that are not (each over
    all draws, which the sites share); their sds add, the most that the variance can be."""
    sums = list(sums)
    means, variances = sum((s.means for s in sums), ZERO), sum((s.variances for s in sums), ZERO)
    most = sum((np.sqrt(s.variances) for s in sums), ZERO) ** 2
    return Effect(means, most if dependent else variances).scaled(1.0 / people)


def check_alpha(alpha: float) -> float:
    if not 0.0 < alpha < 1.0:
        raise UsageError(f"alpha = {alpha} is no error rate: give a number between 0 and 1, such as 0.05")
    return alpha


def _plain(value: np.ndarray) -> Value:
    return float(value) if np.ndim(value) == 0 else value
