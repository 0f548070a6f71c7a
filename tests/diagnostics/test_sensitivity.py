"""The formulas of the diagnostics, each against another way to compute it; nothing here fits a model."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linprog, minimize
from scipy.stats import norm

from fedci.coordinator.diagnoses import tried
from fedci.diagnostics import balance, counts, fit, heterogeneity, overlap, propensity, refuters, sensitivity
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.verdict import Verdict, graded
from fedci.errors import OutputError


def rows(n: int, seed: int = 0, p: int = 3):
    """(x with missing values, w, propensity) of n people."""
    rng = np.random.default_rng((seed, 1))
    x = rng.normal(size=(n, p))
    e = 1 / (1 + np.exp(-(0.7 * x[:, 0] - 0.3)))
    w = (rng.uniform(size=n) < e).astype(float)
    x[rng.uniform(size=x.shape) < 0.05] = np.nan
    return x, w, e


# --- verdicts


def test_limits_say_which_way_is_worse():
    assert [graded(v, 0.1, 0.25) for v in (0.1, 0.2, 0.3, None)] == ["fine", "look", "problem", "unknown"]
    assert [graded(v, 0.2, 0.1) for v in (0.2, 0.15, 0.05)] == ["fine", "look", "problem"]


# --- balance


def test_pooled_differences_are_those_of_all_rows_together():
    x, w, e = rows(300)
    omega = balance.weights(w, e, w.mean())
    parts = [balance.arm_moments(x[s], w[s], omega[:, s]) for s in (slice(0, 50), slice(50, 180), slice(180, 300))]
    found = balance.differences(balance.pooled(parts))
    for c in range(3):
        known = ~np.isnan(x[:, c])
        v, arm = x[known, c], w[known]
        spread = np.sqrt((v[arm == 1].var() + v[arm == 0].var()) / 2)
        for s, weight in enumerate(omega[:, known]):
            means = [np.average(v[arm == a], weights=weight[arm == a]) for a in (0, 1)]
            np.testing.assert_allclose(found[s, c], (means[1] - means[0]) / spread, rtol=1e-10)


def test_what_a_site_withholds_is_left_out_and_an_arm_without_people_is_unknown():
    x, w, e = rows(80)
    omega = balance.weights(w, e, 0.5)
    one, two = (balance.arm_moments(x[s], w[s], omega[:, s]) for s in (slice(0, 40), slice(40, 80)))
    silent = two._replace(told=np.zeros_like(two.told))
    np.testing.assert_array_equal(balance.differences(balance.pooled([one, silent])), balance.differences(one))
    alone = balance.arm_moments(x, np.ones(80), omega)
    assert np.isnan(balance.differences(alone)).all()
    text = balance.summary({"a": alone}, ("x", "y", "z")).verdicts[1]
    assert text.verdict == "unknown"


def test_the_balance_verdict_names_the_covariates_that_differ():
    x, w, e = rows(4000)
    found = balance.summary({"a": balance.arm_moments(x, w, balance.weights(w, e, w.mean()))}, ("age", "bmi", "sex"))
    before, after = found.verdicts[:2]
    assert before.verdict == "look"
    assert "age (+0." in before.words
    assert "bmi" not in before.words
    assert after.verdict == "fine"


# --- counts


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(0, 12))
def test_no_small_count_is_shown_nor_left_over(values, least):
    values = np.array(values)
    hidden = counts.hide(values, least)
    assert not ((values[~hidden] > 0) & (values[~hidden] < least)).any()
    left = values[hidden].sum()
    assert left == 0 or left >= least or not (values[~hidden] > 0).any()


@given(st.lists(st.integers(0, 30), min_size=20, max_size=20), st.integers(0, 12))
def test_groups_and_their_cells_tell_no_small_count_together(values, least):
    values = np.array(values)
    hidden, totals, away = counts.hide_nested(values, overlap.GROUP, least)
    assert hidden[away[overlap.GROUP]].all()
    shown = ~away
    assert not ((totals[shown] > 0) & (totals[shown] < least)).any()
    for group in np.flatnonzero(shown):
        cells = group == overlap.GROUP
        left = totals[group] - values[cells & ~hidden].sum()  # what a reader can compute
        assert left == 0 or left >= least
    left = values.sum() - totals[shown].sum()
    assert left == 0 or left >= least or not totals[shown].any()


def test_nothing_is_hidden_from_nobody():
    assert not counts.hide(np.array([1, 0, 3]), 0).any()


# --- propensity


def fitted(x, w, site, ridge=propensity.RIDGE):
    """From each site's own sums."""
    sites = int(site.max()) + 1
    asked = []

    def ask(at):
        asked.append(at)
        parts = [propensity.sums(propensity.with_intercept(x[site == s], s, sites), w[site == s], at)
                 for s in range(sites)]
        return propensity.Sums(*(sum(part) for part in zip(*parts, strict=True)))

    return propensity.fit(ask, x.shape[1], sites, ridge), asked


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


# --- overlap


def test_preference_is_the_propensity_where_half_are_treated_and_half_at_the_prevalence():
    e = np.array([0.01, 0.2, 0.5, 0.97])
    np.testing.assert_allclose(overlap.preference(e, 0.5), e, rtol=1e-12)
    odds = e / (1 - e) / (0.2 / 0.8)
    np.testing.assert_allclose(overlap.preference(e, 0.2), odds / (1 + odds), rtol=1e-12)


def test_every_score_has_one_bin_and_limits_are_edges():
    f = np.array([0.0, 0.05, 0.0999, 0.1, 0.3, 0.69, 0.7, 0.9, 1.0])
    assert list(overlap.GROUP[overlap.bin_of(f)]) == [0, 0, 0, 1, 2, 2, 3, 4, 4]


def test_a_sites_shift_is_against_all_the_others():
    rng = np.random.default_rng(5)
    parts = [rng.normal([0, 0], 1, (50, 2)), rng.normal([0, 3], 2, (70, 2)), rng.normal([1, 0], 1, (40, 2))]
    told = [np.array([part.mean(0) for part in parts]), np.array([part.var(0) for part in parts]),
            np.array([[len(part)] * 2 for part in parts])]
    found = {one.site: one for one in overlap.shift_of_sites(*told, ("age", "bmi"), "abc")}
    rest = np.vstack([parts[0], parts[2]])
    assert found["b"].column == "bmi"
    np.testing.assert_allclose(found["b"].value, (parts[1][:, 1].mean() - rest[:, 1].mean()) / rest[:, 1].std())


# --- heterogeneity

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


def site_sums(seed=6, effects=(1.0, 1.1, 0.9)):
    rng = np.random.default_rng(seed)
    psi = {f"s{k}": rng.normal(effect, 2.0, 80 + 20 * k) for k, effect in enumerate(effects)}
    return psi, {name: heterogeneity.Sums(len(v), v.sum(), v @ v) for name, v in psi.items()}


def model_effects(sums, shrink):
    middle = np.mean([one.mean for one in sums.values()])
    return {name: heterogeneity.interval(middle + (1 - shrink) * (one.mean - middle), 0.1)
            for name, one in sums.items()}


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
        e = 1 / (1 + np.exp(-(x @ model.slopes + model.intercepts[site])))
        design = np.column_stack([np.ones(200), x])
        m = np.column_stack([design @ np.linalg.lstsq(design[w == a], y[w == a], rcond=None)[0] for a in (0, 1)])
        psi = heterogeneity.influence(w, y, m, e)
        parts = {f"s{s}": heterogeneity.Sums(100, psi[site == s].sum(), (psi[site == s] ** 2).sum()) for s in (0, 1)}
        pooled = heterogeneity.summary(parts, model_effects(parts, 0.0)).pooled
        held += pooled.low <= 1.0 <= pooled.high
    assert held / 300 > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 300)


# --- sensitivity


def test_e_values():
    """The published example of the method: a risk ratio of 3.9 has E-value 7.26; its limit 1.8 has 3.0."""
    assert sensitivity.e_value(3.9) == pytest.approx(7.26, abs=0.005)
    assert sensitivity.e_value(1.8) == pytest.approx(3.0, abs=0.005)
    assert sensitivity.e_value(1 / 3.9) == pytest.approx(sensitivity.e_value(3.9))
    assert sensitivity.e_values(0.0, 0.1, 1.0) == (1.0, 1.0)
    assert sensitivity.e_values(0.1, 0.2, 1.0)[1] == 1.0
    up, down = sensitivity.e_values(0.5, 0.1, 2.0), sensitivity.e_values(-0.5, 0.1, 2.0)
    assert up == pytest.approx(down)
    assert up[0] > up[1] > 1.0


def test_robustness_values():
    """The published example of the method: t = 4.184 with 783 degrees of freedom has 13.9%, and 7.6% at α = 5%."""
    assert sensitivity.robustness_value(4.184, 783) == pytest.approx(0.139, abs=5e-4)
    assert sensitivity.robustness_value(4.184, 783, 0.05) == pytest.approx(0.076, abs=5e-4)
    assert sensitivity.robustness_value(0.0, 50) == 0.0
    assert sensitivity.robustness_value(1.0, 50, 0.05) == 0.0
    at = sensitivity.robustness_value(7.0, 40)
    bias = at / np.sqrt(1 - at)  # |bias|/se = √(dof · R²_y R²_w/(1 − R²_w)), both shares equal
    assert bias * np.sqrt(40) == pytest.approx(7.0)


@pytest.mark.parametrize("strength", [1.0, 1.5, 4.0])
def test_the_tilt_is_the_worst_density_a_linear_programme_finds(strength):
    """Maximise E[r Z], E[r] = 1, 1/Λ ≤ r ≤ Λ over a grid of a standard normal."""
    z = np.linspace(-6, 6, 2001)
    p = norm.pdf(z)
    p /= p.sum()
    found = linprog(-p * z, A_eq=[p], b_eq=[1.0], bounds=(1 / strength, strength))
    assert sensitivity.tilt(strength) == pytest.approx(-found.fun, abs=2e-3)  # the grid's step, at the quantile


def test_bounds_grow_with_the_strength_and_meet_zero_where_they_say():
    found = sensitivity.summary(1.0, 0.2, 0.6, 1.4, 2.0, 100, 0.3, (1.0, 0.5), ())
    widths = [one.high - one.low for one in found.bounds]
    assert widths[0] == 0.0
    assert widths == sorted(widths)
    assert sensitivity.half_width(0.3, (1.0, 0.5), found.explained_away) == pytest.approx(0.6)
    e = np.array([0.1, 0.7])
    each = sensitivity.half_width(e, (1.0, 0.5), 2.0)
    assert each.mean() == pytest.approx(sensitivity.half_width(e.mean(), (1.0, 0.5), 2.0))  # ATE: the mean of CATE's
    nothing = sensitivity.summary(0.1, 0.2, -0.3, 0.5, 2.0, 100, 0.5, (1.0, 0.5), ())
    assert nothing.explained_away == 1.0
    assert nothing.e_value_interval == 1.0
    assert {one.verdict for one in nothing.verdicts} == {"look"}


def test_the_bounds_hold_a_truth_that_confounding_of_that_strength_made():
    """x absent; y(1) of the untreated drawn from the worst tilt of Λ = 2: the naive mean is off by (1 − e) k σ."""
    rng = np.random.default_rng(8)
    seen = rng.normal(size=400_000)
    cut = norm.ppf(2 / 3)
    accept = rng.uniform(size=len(seen)) < np.where(seen > cut, 1.0, 0.25)  # densities Λ and 1/Λ, up to a constant
    shift = seen[accept].mean() - seen.mean()
    assert shift == pytest.approx(sensitivity.tilt(2.0), abs=5 / np.sqrt(accept.sum()))


# --- fit


def predictions(n=500, seed=9, slope=1.0, noise=1.0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=n)
    w = (rng.uniform(size=n) < 0.5).astype(float)
    return slope * mean + rng.normal(0, noise, n), w, mean, np.ones(n)


def site_fit(y, w, mean, sd):
    residuals, bins, line = fit.site_fit_sums(y, w, mean, sd, fit.calibration_edges(0.0, 1.0))
    places = fit.place_counts(norm.cdf((y - mean) / sd))
    return fit.SiteFit(residuals, places, np.zeros(20, bool), bins, np.zeros(10, bool), line)


def summed_up(ended, people):
    """The section of these sites' people."""
    found = {name: site_fit(*one) for name, one in people.items()}
    return fit.summary(STEPS, 50, ended, {name: one.residuals for name, one in found.items()},
                       fit.pooled(list(found.values())))


STEPS = (fit.Step(round=1, objective=-2.0, gradient_norm=1.0, seconds=0.1),)


def test_sums_in_other_units_are_those_of_the_values_in_them():
    y, w, mean, sd = predictions(seed=4)
    here = site_fit(y, w, mean, sd)
    _, bins, line = fit.site_fit_sums(7 + 3 * y, w, 7 + 3 * mean, 3 * sd, 7 + 3 * fit.calibration_edges(0.0, 1.0))
    found = fit.in_units(fit.pooled([here]), 7.0, 3.0)
    np.testing.assert_allclose(found.line, line, rtol=1e-10)
    np.testing.assert_allclose(found.bins, bins, rtol=1e-10, atol=1e-9)


def test_residuals_places_and_calibration_are_those_of_the_rows():
    people = [predictions(seed=9), predictions(300, seed=10)]
    found = summed_up("converged", {f"s{k}": one for k, one in enumerate(people)})
    y, w, mean, _ = (np.concatenate(part) for part in zip(*people, strict=True))
    slope, intercept = np.polyfit(mean, y, 1)
    assert found.slope == pytest.approx(slope)
    assert found.intercept == pytest.approx(intercept)
    assert found.explained == pytest.approx(1 - np.mean((y - mean) ** 2) / y.var())
    z = (y - mean)[:500][w[:500] == 1]
    row = next(one for one in found.residuals if (one.site, one.arm) == ("s0", "treated"))
    assert (row.people, row.mean, row.sd) == (len(z), pytest.approx(z.mean()), pytest.approx(z.std()))
    inside = np.abs(norm.cdf(y - mean) - 0.5) < 0.4
    assert next(one.share for one in found.coverage if one.level == 0.8) == pytest.approx(inside.mean(), abs=2e-3)
    lowest = mean < fit.calibration_edges(0.0, 1.0)[0]
    assert found.calibration[0].people == lowest.sum()
    assert found.calibration[0].observed == pytest.approx(y[lowest].mean())
    assert {one.name: one.verdict for one in found.verdicts} == dict.fromkeys(
        ("convergence", "residuals", "posterior predictive", "calibration"), "fine")


def test_wrong_noise_slopes_and_endings_are_seen():
    wide = summed_up("stopped at the cap", {"a": predictions(noise=2.0)})
    words = {one.name: one for one in wide.verdicts}
    assert words["convergence"].verdict == "look"
    assert "too narrow" in words["posterior predictive"].words
    steep = summed_up("diverged", {"a": predictions(slope=0.4)})
    words = {one.name: one for one in steep.verdicts}
    assert words["convergence"].verdict == words["calibration"].verdict == "problem"
    assert "too extreme" in words["calibration"].words


# --- refuters


def test_refuters_are_judged_by_what_should_happen():
    def judged(name, mean):
        return refuters.refuter(name, mean, 0.1, mean - 0.2, mean + 0.2, "converged", 1.0, 0.1, "'falls'")

    assert judged("placebo", 0.15).verdict.verdict == "fine"
    assert judged("placebo", 0.9).verdict.verdict == "problem"
    assert judged("random-cause", 1.03).z == pytest.approx(0.3)
    assert judged("random-cause", 1.3).verdict.verdict == "problem"
    assert judged("subset", 1.08).z == pytest.approx(0.8 / 0.5)  # sd of the difference: 0.1 √(1/0.8 − 1) = 0.05
    control = judged("negative-control", 0.4)
    assert control.verdict.verdict == "problem"
    assert "'falls'" in control.verdict.words


# --- the record


def record() -> Diagnostics:
    _, sums = site_sums()
    x, w, e = rows(200)
    return Diagnostics(
        balance=balance.summary({"a": balance.arm_moments(x, w, balance.weights(w, e, 0.5))}, ("u", "v", "x")),
        fit=summed_up("converged", {"a": predictions()}),
        heterogeneity=heterogeneity.summary(sums, model_effects(sums, 0.3)),
        sensitivity=sensitivity.summary(1.0, 0.2, 0.6, 1.4, 2.0, 100, 0.3, (1.0, 0.5), ()),
        refuters=(refuters.refuter("placebo", 0.1, 0.1, -0.1, 0.3, "converged", 1.0, 0.1),), notes=("so it is",))


def test_a_record_comes_back_from_its_file_without_jax(tmp_path):
    one = record()
    one.write(tmp_path / "d.json")
    assert Diagnostics.read(tmp_path / "d.json") == one
    code = (f"from fedci.diagnostics.findings import Diagnostics; import sys; "
            f"print(Diagnostics.read({str(tmp_path / 'd.json')!r})); sys.exit('jax' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, str(one).strip())


def test_a_damaged_record_is_said_to_be_one(tmp_path):
    (tmp_path / "d.json").write_text(record().to_json()[:-9])
    with pytest.raises(OutputError, match="damaged"):
        Diagnostics.read(tmp_path / "d.json")
    (tmp_path / "d.json").write_text(record().model_copy(update={"format": 99}).to_json())
    with pytest.raises(OutputError, match="format 99"):
        Diagnostics.read(tmp_path / "d.json")
    with pytest.raises(OutputError, match="without diagnostics"):
        Diagnostics.read(tmp_path / "none.json")


def test_a_sealed_record_does_not_tell_the_effect():
    one = record().sealed()
    assert one.heterogeneity is one.sensitivity is None
    assert one.refuters[0].estimate is None
    assert one.refuters[0].z == record().refuters[0].z
    text = one.to_json() + str(one)
    assert "Blinded" in text
    assert "E-value" not in text
    assert '"0.6' not in text


def test_a_section_without_a_finite_answer_is_a_note_and_the_others_stand():
    made, failed = tried({"fit": lambda: 1.0, "sensitivity": lambda: sensitivity.summary(
        np.inf, 0.2, 0.6, 1.4, 2.0, 100, 0.3, (1.0, 0.5), ()), "heterogeneity": lambda: 1.0 / 0})
    assert made == {"fit": 1.0}
    assert [text.split("'")[1] for text in failed] == ["sensitivity", "heterogeneity"]


def test_words_and_numbers_stand_in_the_sentences():
    text = str(record())
    for title in ("Balance", "Fit", "Heterogeneity", "Sensitivity", "Refuters", "note: so it is"):
        assert title in text
    for verdict in record().verdicts:
        assert f"{verdict.verdict:<8} {verdict.name}: {verdict.words}" in text
    assert Verdict(name="a", value=None, threshold=1, verdict="unknown", words="b").value is None
