"""The federated propensity model: the pooled one, finite for separated arms."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fedci.diagnostics import balance, propensity
from support.diagnosed import fitted, rows


def test_the_federated_model_is_the_pooled_one():
    """Against a general optimiser over all rows with an indicator for each site."""
    x, w, _ = rows(240, seed=2)
    x, site = np.nan_to_num(x), np.repeat([0, 1, 2], 80)
    found, asked = fitted(x, w, site)
    design = np.hstack([x, np.eye(3)[site]])

    def minus(at):
        eta = design @ at
        return np.logaddexp(0, eta).sum() - w @ eta + 0.5 * propensity.RIDGE * at @ at

    pooled = minimize(minus, np.zeros(6), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found.coefficients, pooled.x, atol=1e-6)  # BFGS stops near 1e-8 of the gradient
    gradient = design.T @ (w - 1 / (1 + np.exp(-design @ found.coefficients))) - propensity.RIDGE * found.coefficients
    assert np.abs(gradient).max() < 1e-6
    assert found.converged
    assert len(asked) == found.steps <= 10


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_separated_arms_have_a_finite_model(scale):
    x = np.linspace(-1, 1, 60)[:, None] * scale
    w = (x[:, 0] > 0).astype(float)
    found, _ = fitted(x, w, np.repeat([0, 1], 30))
    assert found.converged
    assert np.isfinite(found.coefficients).all()
    e = propensity.scores(propensity.with_intercept(x, 0, 2), found.coefficients)
    assert e[0] < 0.02
    assert found.slopes[0] > 0


def test_a_site_with_one_arm_only_does_not_stop_the_model():
    x, w, _ = rows(90, seed=3)
    w[:30] = 1.0
    found, _ = fitted(np.nan_to_num(x), w, np.repeat([0, 1, 2], 30))
    assert found.converged
    assert found.intercepts[0] == found.intercepts.max()


def test_overlap_weights_of_a_model_without_ridge_balance_exactly():
    """A property of the logistic model's score equations; with the ridge it holds but for λ."""
    x, w, _ = rows(200, seed=4)
    x, site = np.nan_to_num(x), np.zeros(200, int)
    found, _ = fitted(x, w, site, ridge=1e-10)
    e = propensity.scores(propensity.with_intercept(x, 0, 1), found.coefficients)
    smd = balance.differences(balance.arm_moments(x, w, balance.weights(w, e, 0.5)))
    np.testing.assert_allclose(smd[2], 0.0, atol=1e-7)
    assert np.abs(smd[0]).max() > 0.3
