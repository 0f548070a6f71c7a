"""Heterogeneity: estimates against a regression and against the rows; intervals that hold the truth."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

from fedci.diagnostics import heterogeneity
from support.diagnosed import fitted, model_effects, propensities, site_sums

EFFECTS, ERRORS = np.array([0.1, 0.9, 0.35, 0.6, 1.4]), np.array([0.2, 0.25, 0.1, 0.3, 0.2])


def test_cochran_and_dersimonian_laird():
    """Against the definitions, written with loops."""
    q, p, i2, tau2 = heterogeneity.cochran(EFFECTS, ERRORS**2)
    weights = [1 / s**2 for s in ERRORS]
    mean = sum(w * y for w, y in zip(weights, EFFECTS, strict=True)) / sum(weights)
    other = sum(w * (y - mean) ** 2 for w, y in zip(weights, EFFECTS, strict=True))
    assert q == pytest.approx(other)
    assert i2 == pytest.approx(1 - 4 / other)
    assert tau2 == pytest.approx((other - 4) / (sum(weights) - sum(w * w for w in weights) / sum(weights)))
    tail = quad(lambda v: v * np.exp(-v / 2) / 4, q, np.inf)[0]  # the density of χ² with 4 degrees of freedom
    assert p == pytest.approx(tail, rel=1e-6)


def test_reml_is_where_the_restricted_likelihood_of_a_regression_on_a_constant_is_largest():
    def minus(log_tau2):
        v = np.diag(ERRORS**2 + np.exp(log_tau2[0]))
        inverse, one = np.linalg.inv(v), np.ones((5, 1))
        middle = one.T @ inverse @ one
        project = inverse - inverse @ one @ np.linalg.inv(middle) @ one.T @ inverse
        return 0.5 * (np.linalg.slogdet(v)[1] + np.linalg.slogdet(middle)[1] + EFFECTS @ project @ EFFECTS)

    other = minimize(minus, [-2.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    assert heterogeneity.reml(EFFECTS, ERRORS**2) == pytest.approx(np.exp(other.x[0]), rel=1e-5)
    assert heterogeneity.reml(np.full(4, 0.3), np.ones(4)) == 0.0


def test_site_effects_and_leaving_one_out_are_those_of_the_rows():
    psi, sums = site_sums()
    found = heterogeneity.summary(sums, model_effects(sums, 0.4))
    for row in found.sites:
        assert row.own.mean == pytest.approx(psi[row.site].mean())
        assert row.se == pytest.approx(psi[row.site].std() / np.sqrt(len(psi[row.site])))
    for row in found.left_out:
        rest = np.concatenate([v for name, v in psi.items() if name != row.site])
        assert row.estimate.mean == pytest.approx(rest.mean())
        assert row.estimate.high - row.estimate.mean == pytest.approx(1.96 * rest.std() / np.sqrt(len(rest)), rel=1e-3)
    assert found.shrinkage == pytest.approx(0.4)
    assert sum(row.weight for row in found.sites) == pytest.approx(1.0)


def test_sites_that_differ_are_a_problem_and_one_site_has_none():
    _, sums = site_sums(effects=(0.0, 3.0, 6.0))
    found = heterogeneity.summary(sums, model_effects(sums, 0.0))
    assert found.i2 > 0.9
    assert {one.verdict for one in found.verdicts} == {"problem"}
    assert heterogeneity.summary({"a": sums["s0"]}, model_effects(sums, 0.0)) is None


def test_influence_values_average_to_the_effect_when_either_model_is_right():
    """Double robustness: a wrong outcome model with the true propensity, and the other way round (4 se)."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=40_000)
    e = 1 / (1 + np.exp(-x))
    w = (rng.uniform(size=len(x)) < e).astype(float)
    y = x + 1.5 * w + rng.normal(size=len(x))
    right, wrong = np.column_stack([x, x + 1.5]), np.zeros((len(x), 2))
    for m, p in ((wrong, e), (right, np.full(len(x), 0.4))):
        psi = heterogeneity.influence(w, y, m, p)
        assert abs(psi.mean() - 1.5) < 4 * psi.std() / np.sqrt(len(psi))
    naive = y[w == 1].mean() - y[w == 0].mean()
    assert abs(naive - 1.5) > 0.5


def test_intervals_of_the_pooled_estimate_hold_the_truth():
    """300 studies of 200 people at two sites, both models fitted: 95% less 4 binomial sds (1 in 30,000) is 90%."""
    rng, held = np.random.default_rng(11), 0
    for _ in range(300):
        x, site = rng.normal(size=(200, 2)), np.repeat([0, 1], 100)
        w = (rng.uniform(size=200) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
        y = x[:, 0] + w * (1.0 + x[:, 1]) + rng.normal(size=200)
        model, _ = fitted(x, w, site)
        e = propensities(x, w, site, model.slopes)
        design = np.column_stack([np.ones(200), x])
        m = np.column_stack([design @ np.linalg.lstsq(design[w == a], y[w == a], rcond=None)[0] for a in (0, 1)])
        psi = heterogeneity.influence(w, y, m, e)
        parts = {f"s{s}": heterogeneity.Sums(100, psi[site == s].sum(), (psi[site == s] ** 2).sum()) for s in (0, 1)}
        pooled = heterogeneity.summary(parts, model_effects(parts, 0.0)).pooled
        held += pooled.low <= 1.0 <= pooled.high
    assert held / 300 > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 300)
