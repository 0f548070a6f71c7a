"""The paper's Gaussian laws written densely in NumPy: Kronecker products over all rows, no line shared with fedci."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest


def rbf(params, x, z) -> np.ndarray:
    """s² exp(−½ Σ_c ((x_c − z_c)/ℓ_c)²) for all pairs."""
    length = np.exp(np.asarray(params["log_length"]))
    r2 = (((x[:, None] - z[None]) / length) ** 2).sum(-1)
    return np.exp(2 * np.asarray(params.get("log_scale", 0.0))) * np.exp(-r2 / 2)


def linear(params, x) -> np.ndarray:
    return np.asarray(params["bias"]) + x @ np.asarray(params["weight"])


def potential_outcomes(theta, x, g, phi, sigma) -> tuple[np.ndarray, np.ndarray]:
    """Lemma 2: mean [2n] and covariance [2n, 2n] of [y(0); y(1)] given g, Φ, Σ."""
    n = len(x)
    mean = np.kron(np.linalg.cholesky(phi), np.eye(n)) @ (linear(theta["mean"], x) + g).T.ravel()
    return mean, np.kron(phi, rbf(theta["kernel"], x, x)) + np.kron(sigma, np.eye(n))


def observed_and_missing(w) -> tuple[np.ndarray, np.ndarray]:
    """Where y_obs and y_mis stand in [y(0); y(1)]."""
    rows = np.arange(len(w))
    return rows + len(w) * w, rows + len(w) * (1 - w)


def condition(mean, cov, given, values) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a Gaussian vector whose entries `given` are known to be `values`."""
    gain = np.linalg.solve(cov[np.ix_(given, given)], cov[given]).T
    return mean + gain @ (values - mean[given]), cov - gain @ cov[given]


@pytest.fixture(scope="session")
def dense():
    return SimpleNamespace(rbf=rbf, linear=linear, potential_outcomes=potential_outcomes,
                           observed_and_missing=observed_and_missing, condition=condition)
