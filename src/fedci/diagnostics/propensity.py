"""The federated propensity model: logistic regression from summed gradients and Hessians, by Newton's method.

    P(w = 1 | x, site s) = 1 / (1 + exp(−η)),      η = xᵀb + a_s          x in pooled standard deviations
    maximise  Σ_i [ w_i η_i − log(1 + e^η_i) ] − ½ λ (|b|² + |a|²)        λ = 0.01: a prior of sd 10

Slopes b are common, each site has an intercept a_s of its own: sites differ in how often they treat, and the model of
the outcome compares people within a site too. The ridge keeps (quasi-)separated data finite and is nothing beside the
information of a few people.

A site's intercept never leaves it: given b the site finds its own best a_s(b), and tells the profile

    ℓ_s(b) = max_a ℓ_s(b, a)      ∇ℓ_s = Xᵀ(w − p)      −∇²ℓ_s = XᵀDX − (XᵀD1)(1ᵀDX) / (1ᵀD1 + λ),    D = diag p(1 − p)

so what is summed over sites has no coordinate of any one of them; its maximum is that of the whole.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from fedci.errors import NumericalError

RIDGE = 0.01
STEPS = 60
"""Exchanges at most; 6 to 8 are usual, 15 to 20 where treatment is all but decided."""
INNER = 200
"""Steps to a site's own intercept at most; some 5 are usual."""
TOLERANCE = 1e-12
"""Converged when a step promises to gain less than this, relative to the objective."""


class Sums(NamedTuple):
    """Of one site, or of all."""

    log_likelihood: np.ndarray
    gradient: np.ndarray
    """[p]"""
    hessian: np.ndarray
    """[p, p] of the negative log-likelihood, the intercept profiled out."""
    carried: np.ndarray
    """[2] Σω, Σω² of the weights ω = p(1 − p): (Σω)²/Σω² people carry the Hessian."""


class Propensity(NamedTuple):
    """The fitted model."""

    slopes: np.ndarray
    steps: int
    converged: bool


def best_intercept(eta: np.ndarray, w: np.ndarray, ridge: float = RIDGE) -> float:
    """argmax_a Σ [w (η + a) − log(1 + e^{η + a})] − ½λa²: Newton kept between bounds, for the slope falls in a."""
    low, high, a = -1e3, 1e3, 0.0
    for _ in range(INNER):
        p = expit(eta + a)
        slope = float(np.sum(w - p)) - ridge * a
        low, high = (a, high) if slope > 0 else (low, a)
        step = a + slope / (float(np.sum(p * (1.0 - p))) + ridge)
        step = step if low < step < high else 0.5 * (low + high)
        if abs(step - a) <= 1e-14 * (1.0 + abs(a)):
            return step
        a = step
    return a


def scores(x: np.ndarray, w: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """[n] P(w = 1 | x) of a site's people, at its own best intercept."""
    eta = x @ slopes
    return expit(eta + best_intercept(eta, w))


def sums(x: np.ndarray, w: np.ndarray, slopes: np.ndarray, ridge: float = RIDGE) -> Sums:
    """What a site adds at these slopes."""
    eta = x @ slopes
    a = best_intercept(eta, w, ridge)
    eta = eta + a
    p = expit(eta)
    weight = p * (1.0 - p)
    across = x.T @ weight
    hessian = (x.T * weight) @ x - np.outer(across, across) / (weight.sum() + ridge)
    value = np.sum(w * eta - np.logaddexp(0.0, eta)) - 0.5 * ridge * a**2
    return Sums(np.asarray(value), x.T @ (w - p), hessian, np.array([weight.sum(), weight @ weight]))


def effective(weights: np.ndarray) -> float:
    """(Σω)² / Σω²: how many people of equal weight tell as much; 0 without any weight."""
    square = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / square if square > 0 else 0.0


def fit(columns: int, least: float = 0.0, ridge: float = RIDGE) -> Generator[np.ndarray, Sums, Propensity]:
    """Newton with halved steps: yields slopes [p], is sent the sums over all sites there. The objective is concave, so
    it ends at the one maximum; or where fewer than `least` people would carry the next step."""
    at = np.zeros(columns)
    here, steps = (yield at), 1
    value = _penalised(here, at, ridge)
    while steps < STEPS and _carrying(here) >= least:
        slope = here.gradient - ridge * at
        step = _newton_step(here.hessian + ridge * np.eye(len(at)), slope)
        if slope @ step <= TOLERANCE * (1.0 + abs(value)):
            return Propensity(at, steps, True)
        size = 1.0
        while steps < STEPS:
            trial = at + size * step
            new, steps = (yield trial), steps + 1
            new_value = _penalised(new, trial, ridge)
            if new_value >= value + 1e-4 * size * (slope @ step) or size < 1e-6:
                break
            size *= 0.5
        at, here, value = trial, new, new_value
    return Propensity(at, steps, False)


def _newton_step(hessian: np.ndarray, slope: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.solve(hessian, slope)
    except np.linalg.LinAlgError:
        raise NumericalError("the sites' sums of the propensity model have no curvature: a site sent nonsense, and "
                             "under masks which one cannot be told. Leave sites out one by one, or the diagnostics "
                             "([diagnostics] enabled = false)") from None


def _carrying(here: Sums) -> float:
    total, square = here.carried
    return float(total**2 / square) if square > 0 else 0.0


def _penalised(here: Sums, at: np.ndarray, ridge: float) -> float:
    return float(here.log_likelihood) - 0.5 * ridge * float(at @ at)
