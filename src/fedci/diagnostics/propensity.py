"""The federated propensity model: logistic regression from summed gradients and Hessians, by Newton's method.

    P(w = 1 | x, site s) = 1 / (1 + exp(−η)),      η = xᵀb + a_s          x in pooled standard deviations
    maximise  Σ_i [ w_i η_i − log(1 + e^η_i) ] − ½ λ (|b|² + |a|²)        λ = 0.01: a prior of sd 10

Slopes b are common, each site has an intercept a_s of its own: sites differ in how often they treat, and the model of
the outcome compares people within a site too. The ridge keeps (quasi-)separated data finite and is nothing beside the
information of a few people. Each site fills its own intercept's place, so all that is needed are sums over sites.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit

RIDGE = 0.01
STEPS = 60
"""Exchanges at most; 6 to 8 are usual, 15 to 20 where treatment is all but decided."""
STARTS = 3
"""Times it begins anew when a site leaves."""
TOLERANCE = 1e-12
"""Converged when a step promises to gain less than this, relative to the objective."""


class Sums(NamedTuple):
    """Of one site, or of all; p slopes, then one intercept per site."""

    log_likelihood: np.ndarray
    gradient: np.ndarray
    """[p + m]"""
    hessian: np.ndarray
    """[p + m, p + m] of the negative log-likelihood."""


class Propensity(NamedTuple):
    """The fitted model."""

    slopes: np.ndarray
    intercepts: np.ndarray
    steps: int
    converged: bool

    @property
    def coefficients(self) -> np.ndarray:
        return np.concatenate([self.slopes, self.intercepts])


def with_intercept(x: np.ndarray, site: int, sites: int) -> np.ndarray:
    """[n, p + m]: the covariates, and a one in the place of the site."""
    ones = np.zeros((len(x), sites))
    ones[:, site] = 1.0
    return np.hstack([x, ones])


def scores(design: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """[n] P(w = 1 | x)."""
    return expit(design @ coefficients)


def sums(design: np.ndarray, w: np.ndarray, coefficients: np.ndarray) -> Sums:
    """What a site adds at these coefficients."""
    eta = design @ coefficients
    p = expit(eta)
    return Sums(np.sum(w * eta - np.logaddexp(0.0, eta)), design.T @ (w - p), (design.T * (p * (1.0 - p))) @ design)


def effective(weights: np.ndarray) -> float:
    """(Σω)² / Σω²: how many people of equal weight tell as much; 0 without any weight."""
    square = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / square if square > 0 else 0.0


def fit(ask: Callable[[np.ndarray], Sums], slopes: int, sites: int, ridge: float = RIDGE,
        start: np.ndarray | None = None) -> Propensity:
    """Newton with halved steps; `ask` is one exchange. The objective is concave, so it ends at the one maximum."""
    at = np.zeros(slopes + sites) if start is None else start
    found, steps = ask(at), 1
    value = _penalised(found, at, ridge)
    while steps < STEPS:
        slope = found.gradient - ridge * at
        step = np.linalg.solve(found.hessian + ridge * np.eye(len(at)), slope)
        if slope @ step <= TOLERANCE * (1.0 + abs(value)):
            return Propensity(at[:slopes], at[slopes:], steps, True)
        size = 1.0
        while steps < STEPS:
            trial = at + size * step
            new, steps = ask(trial), steps + 1
            new_value = _penalised(new, trial, ridge)
            if new_value >= value + 1e-4 * size * (slope @ step) or size < 1e-6:
                break
            size *= 0.5
        at, found, value = trial, new, new_value
    return Propensity(at[:slopes], at[slopes:], steps, False)


def _penalised(found: Sums, at: np.ndarray, ridge: float) -> float:
    return float(found.log_likelihood) - 0.5 * ridge * float(at @ at)
