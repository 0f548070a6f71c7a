"""T-learners by scikit-learn: a Gaussian process or a ridge regression in each arm.

Gaussian process: constant × RBF + white noise, hyper-parameters by marginal likelihood (best of four starts), inputs
standardised over both arms and the outcome within its arm. Its intervals take the arms as independent and leave the
hyper-parameters' uncertainty out. Ridge: penalty by leave-one-out; no intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedci.benchmark.learners.common import standardiser
from fedci.benchmark.learners.estimate import Estimate, Predictor

RESTARTS = 3
Z95 = 1.959963984540054


def gp(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """One length-scale for all covariates."""
    return _gp_arms(x, w, y, seed, np.sqrt(x.shape[1]))


def gp_ard(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """A length-scale for each covariate."""
    return _gp_arms(x, w, y, seed, np.full(x.shape[1], np.sqrt(x.shape[1])))


def ridge(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """Two ridge regressions; no randomness, so no use of the seed."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    arms = [make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 25))).fit(x[w == j], y[w == j]) for j in (0, 1)]

    def predict(new: np.ndarray) -> Estimate:
        mu0, mu1 = (arm.predict(new) for arm in arms)
        return Estimate(cate=mu1 - mu0, mu0=mu0, mu1=mu1)

    return predict


def _gp_arms(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int, length: Any) -> Predictor:
    units = standardiser(x)
    arms = [_gp_arm(units(x[w == j]), y[w == j], seed, length) for j in (0, 1)]

    def predict(new: np.ndarray) -> Estimate:
        (mu0, cov0), (mu1, cov1) = (arm(units(new)) for arm in arms)
        effect, cov = mu1 - mu0, cov0 + cov1
        half, mean, half_mean = Z95 * _root(np.diag(cov)), float(effect.mean()), float(Z95 * _root(cov.mean()))
        return Estimate(cate=effect, low=effect - half, high=effect + half, mu0=mu0, mu1=mu1,
                        ate=(mean, mean - half_mean, mean + half_mean))

    return predict


def _gp_arm(x: np.ndarray, y: np.ndarray, seed: int,
            length: Any) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Mean [p] and covariance [p, p] of the arm's expected outcome: scikit-learn's, less the outcome noise in it."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(length, (1e-1, 1e3)) + WhiteKernel(0.3, (1e-4, 1e1))
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=RESTARTS, random_state=seed)
    centre, scale = y.mean(), y.std() or 1.0
    model.fit(x, (y - centre) / scale)

    def predict(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, cov = model.predict(new, return_cov=True)
        return centre + scale * mean, scale**2 * (cov - model.kernel_.k2.noise_level * np.eye(len(new)))

    return predict


def _root(variance: np.ndarray) -> np.ndarray:
    """Standard deviation; rounding may leave a variance a hair below 0."""
    return np.sqrt(np.maximum(variance, 0.0))
