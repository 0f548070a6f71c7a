"""What a baseline returns, and how posterior draws become it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LEVELS = (0.025, 0.975)
"""Ends of the 95% intervals."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Effects for p new people; None where the method has no such output."""

    cate: np.ndarray
    """[p] expected effect μ₁(x) − μ₀(x)."""
    low: np.ndarray | None = None
    """[p] ends of the 95% interval of the CATE, without outcome noise."""
    high: np.ndarray | None = None
    mu0: np.ndarray | None = None
    """[p] expected outcomes under control and treatment."""
    mu1: np.ndarray | None = None
    ate: tuple[float, float, float] | None = None
    """(mean, low, high) of the average effect over those p people."""


Predictor = Callable[[np.ndarray], Estimate]


def of_draws(mu0: np.ndarray, mu1: np.ndarray) -> Estimate:
    """From posterior draws [p, draws] of the two expected outcomes: means, and equal-tailed intervals."""
    effect = mu1 - mu0
    low, high = np.quantile(effect, LEVELS, axis=1)
    average = effect.mean(0)
    first, last = np.quantile(average, LEVELS)
    ate = (float(average.mean()), float(first), float(last))
    return Estimate(cate=effect.mean(1), low=low, high=high, mu0=mu0.mean(1), mu1=mu1.mean(1), ate=ate)
