"""The federated propensity model: the pooled one with an intercept for each site, none of which is told."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from fedci.diagnostics import balance, propensity
from support.diagnosed import arm_sums, fitted, propensities, rows


def test_the_federated_model_is_the_joint_one_with_an_intercept_for_each_site():
    """Against a general optimiser over all rows with an indicator for each site."""
    x, w, _ = rows(240, seed=2)
    x, site = np.nan_to_num(x), np.repeat([0, 1, 2], 80)
    w[:70] = 1.0  # a site that treats nearly everybody
    found, asked = fitted(x, w, site)
    design = np.hstack([x, np.eye(3)[site]])

    def minus(at):
        eta = design @ at
        return np.logaddexp(0, eta).sum() - w @ eta + 0.5 * propensity.RIDGE * at @ at

    def slope(at):
        return design.T @ (expit(design @ at) - w) + propensity.RIDGE * at

    joint = minimize(minus, np.zeros(6), jac=slope, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found.slopes, joint.x[:3], atol=1e-6)  # BFGS stops near 1e-8 of the gradient
    own = [propensity.best_intercept(x[site == s] @ found.slopes, w[site == s]) for s in range(3)]
    np.testing.assert_allclose(own, joint.x[3:], atol=1e-6)
    # a Newton step from there gains less than 1e-10, and the curvature is below 100: |gradient| < √(100 · 1e-10)
    assert np.abs(slope(np.append(found.slopes, own))).max() < 1e-4
    assert found.converged
    assert len(asked) == found.steps <= 10


def test_what_a_site_tells_is_the_derivative_of_its_best_value_over_all_intercepts():
    """Gradient and Hessian by central differences of max_a ℓ(b, a); and ℓ itself is the largest over a grid of a."""
    x, w, _ = rows(60, seed=5)
    x, at, step = np.nan_to_num(x), np.array([0.4, -0.2, 0.1]), 1e-5
    told = propensity.sums(x, w, at)
    eye = step * np.eye(3)
    ends = [(propensity.sums(x, w, at + one), propensity.sums(x, w, at - one)) for one in eye]
    by_value = [(up.log_likelihood - down.log_likelihood) / (2 * step) for up, down in ends]
    by_slope = [(down.gradient - up.gradient) / (2 * step) for up, down in ends]
    np.testing.assert_allclose(told.gradient, by_value, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(told.hessian, by_slope, rtol=1e-6, atol=1e-6)
    for a in np.linspace(-3, 3, 61):
        eta = x @ at + a
        assert told.log_likelihood >= w @ eta - np.logaddexp(0, eta).sum() - 0.5 * propensity.RIDGE * a**2 - 1e-12


@pytest.mark.parametrize("sites", [1, 2, 7])
def test_a_sum_has_no_coordinate_of_any_site(sites):
    """As many numbers whatever the number of sites, and the slopes are all that is asked about."""
    x, w, _ = rows(140, seed=6)
    _, asked = fitted(np.nan_to_num(x), w, np.arange(140) % sites)
    assert {at.shape for at in asked} == {(3,)}
    assert [part.shape for part in propensity.sums(np.nan_to_num(x), w, asked[-1])] == [(), (3,), (3, 3), (2,)]


def test_the_first_hessian_does_not_tell_a_sites_second_moments():
    """Without the intercept profiled out it would be ¼ Σ zzᵀ with one column for each site; now the mean is gone from
    it, so it is the same when all people of a site are moved."""
    x, w, _ = rows(80, seed=8)
    x = np.nan_to_num(x)
    one, two = (propensity.sums(x + shift, w, np.zeros(3), ridge=0.0).hessian for shift in (0.0, 5.0))
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_separated_arms_have_a_finite_model(scale):
    x = np.linspace(-1, 1, 60)[:, None] * scale
    w = (x[:, 0] > 0).astype(float)
    site = np.arange(60) % 2
    found, _ = fitted(x, w, site)
    assert found.converged
    assert np.isfinite(found.slopes).all()
    assert propensities(x, w, site, found.slopes)[0] < 0.02
    assert found.slopes[0] > 0


def test_a_site_with_one_arm_only_does_not_stop_the_model():
    x, w, _ = rows(90, seed=3)
    x, site = np.nan_to_num(x), np.repeat([0, 1, 2], 30)
    w[:30] = 1.0
    found, _ = fitted(x, w, site)
    assert found.converged
    own = [propensity.best_intercept(x[site == s] @ found.slopes, w[site == s]) for s in range(3)]
    assert np.isfinite(own).all()
    assert own[0] == max(own)


def test_a_step_that_few_people_would_carry_is_not_taken():
    """Where treatment is all but decided, few people's weights p(1 − p) make the Hessian."""
    x = np.linspace(-1, 1, 60)[:, None] * 30
    w = (x[:, 0] > 0).astype(float)
    free, _ = fitted(x, w, np.zeros(60))
    kept, asked = fitted(x, w, np.zeros(60), least=10.0)
    assert not kept.converged
    assert kept.steps < free.steps
    weights = [expit(v := x[:, 0] * at[0] + propensity.best_intercept(x[:, 0] * at[0], w)) * expit(-v) for at in asked]
    assert all(propensity.effective(one) >= 10.0 for one in weights[:-1])


def test_overlap_weights_of_a_model_without_ridge_balance_exactly():
    """A property of the logistic model's score equations; with the ridge it holds but for λ."""
    x, w, _ = rows(200, seed=4)
    x = np.nan_to_num(x)
    found, _ = fitted(x, w, np.zeros(200), ridge=1e-10)
    e = expit(x @ found.slopes + propensity.best_intercept(x @ found.slopes, w, 1e-10))
    smd = balance.differences(balance.arm_moments(arm_sums(x, w, balance.weights(w, e, 0.5))))
    np.testing.assert_allclose(smd[2], 0.0, atol=1e-7)
    assert np.abs(smd[0]).max() > 0.3
