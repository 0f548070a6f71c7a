"""The limit: its derivatives, its truth on plenty of data, the reference figures, and what its intervals are worth."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import least_squares

from fedci.benchmark.run import oracle
from fedci.errors import UsageError
from fedci.synthetic import datasets
from fedci.synthetic.datasets import Records, Sizes, Split, combined

NAMES = list(oracle.FORMULAS)
ALPHA = 1e-3
"""Chance that intervals that cover 95% fail one of the coverage tests."""


def surface_b(replication: int, sizes: Sizes):
    """Outcomes drawn as IHDP's are, of covariates of our own: its files are not in the repository."""
    rng = np.random.default_rng((7, replication))
    beta = rng.choice([0.0, 0.1, 0.2, 0.3, 0.4], 12, p=[0.6, 0.1, 0.1, 0.1, 0.1])

    def records(n: int) -> Records:
        x, w = rng.normal(size=(n, 12)), (rng.random(n) < 0.3).astype(int)
        mu0, mu1 = np.exp((x + 0.5) @ beta), x @ beta + 6.0
        y0, y1 = mu0 + rng.normal(size=n), mu1 + rng.normal(size=n)
        return Records(x=x, w=w, y=np.where(w == 1, y1, y0), y0=y0, y1=y1, mu0=mu0, mu1=mu1)

    parts = sizes.train, sizes.test, sizes.validation
    return [Split(*map(records, parts)) for _ in range(sizes.sources)]


def splits_of(name: str, replication: int, sizes: Sizes = datasets.PAPER_SIZES):
    if name == "IHDP":
        return surface_b(replication, sizes)
    if name in datasets.SURFACES:
        return datasets.synthetic(name, replication, parameters="per-replication", sizes=sizes)
    return getattr(datasets, name)(replication, sizes=sizes)


def pehe(predict, splits) -> float:
    errors = [predict(split.test.x, s).cate - split.test.cate for s, split in enumerate(splits)]
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def best_ridge(splits) -> float:
    """√PEHE of a ridge regression in each arm, with the penalty that the truth shows to be best."""
    rows, test = combined([split.train for split in splits]), combined([split.test for split in splits])

    def arm(j: int, penalty: float) -> np.ndarray:
        x, y = rows.x[rows.w == j], rows.y[rows.w == j]
        centred = x - x.mean(0)
        beta = np.linalg.solve(centred.T @ centred + penalty * np.eye(x.shape[1]), centred.T @ (y - y.mean()))
        return y.mean() + (test.x - x.mean(0)) @ beta

    effects = [arm(1, penalty) - arm(0, penalty) for penalty in np.logspace(-2, 3, 21)]
    return min(float(np.sqrt(np.mean((effect - test.cate) ** 2))) for effect in effects)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_finite_differences(name):
    """Central differences with step 1e-6: rounding and curvature both leave about 1e-9 of values of order 10."""
    parts = [split.train for split in splits_of(name, 0)[:2]]
    rows, place = combined(parts), np.repeat([0, 1], 50)
    form = oracle.form_of(name, rows.x.shape[1], 2)
    theta = form.mean + np.minimum(form.sd, 1.0) * np.random.default_rng(0).normal(size=len(form.mean))
    residuals, jacobian = oracle.stacked(form, rows, place)
    for value, slope in ((residuals, jacobian(theta)), (lambda t: form.arms(t, rows.x, place)[0],
                                                        form.arms(theta, rows.x, place)[1])):
        steps = 1e-6 * np.eye(len(theta))
        differences = np.stack([(value(theta + h) - value(theta - h)) / 2e-6 for h in steps], axis=-1)
        np.testing.assert_allclose(slope, differences, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_plenty_of_data_without_noise_give_the_truth(name):
    """The prior still pulls by a share of about k/n: 42 parameters, 3000 rows."""
    splits = splits_of(name, 0, Sizes(2, 1500, 100, 0))
    clean = [replace(s.train, y=np.where(s.train.w == 1, s.train.mu1, s.train.mu0)) for s in splits]
    predict = oracle.fit(name, clean)
    for s, split in enumerate(splits):
        estimate = predict(split.test.x, s)
        np.testing.assert_allclose(estimate.mu0, split.test.mu0, atol=0.05)
        np.testing.assert_allclose(estimate.mu1, split.test.mu1, atol=0.05)
        assert np.all((estimate.low < split.test.cate) & (split.test.cate < estimate.high))


@pytest.mark.parametrize("replication, reference", [(0, 0.7008), (1, 0.5794), (2, 0.6794)])
def test_the_reference_figures_of_data1(replication, reference):
    """Another implementation of the limit gave these to four digits. Its ten replications at five sources lie between
    0.57 and 0.76, and the best general method's mean is 1.4: 0.9 parts the two."""
    splits = datasets.synthetic("DATA-1", replication)
    reached = pehe(oracle.fit("DATA-1", [split.train for split in splits]), splits)
    assert reached == pytest.approx(reference, abs=1e-3)
    assert reached < 0.9
    assert reached < best_ridge(splits)


def test_the_reading_sets_the_prior():
    """With the wrong standard deviation on the few rows of one source the fit is another."""
    splits = datasets.synthetic("DATA-1", 0, reading="std")[:1]
    fits = [oracle.fit("DATA-1", [splits[0].train], reading)(splits[0].test.x, 0) for reading in ("variance", "std")]
    assert np.abs(fits[0].cate - fits[1].cate).max() > 0.5
    assert np.mean(fits[1].high - fits[1].low) > np.mean(fits[0].high - fits[0].low)


def test_a_linear_form_has_its_exact_posterior():
    """The same law by the other route: condition the joint normal law of outcomes and effects on the outcomes."""
    rows, new = (getattr(splits_of("linear", 0)[0], part) for part in ("train", "test"))
    form = oracle.form_of("linear", 10, 1)
    z, at = (np.column_stack([np.ones(len(x)), x]) for x in (rows.x, new.x))
    z, at = np.hstack([z, rows.w[:, None] * z]) * form.sd, np.hstack([0.0 * at, at]) * form.sd
    gain = np.linalg.solve(z @ z.T + np.eye(len(z)), z @ at.T)
    mean, covariance = rows.y @ gain, at @ at.T - at @ z.T @ gain
    estimate = oracle.fit("linear", [rows])(new.x, 0)
    np.testing.assert_allclose(estimate.cate, mean, atol=1e-6)
    half = stats.norm.ppf(0.975) * np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(estimate.high - estimate.low, 2 * half, rtol=1e-6)
    half = stats.norm.ppf(0.975) * np.sqrt(covariance.mean())
    np.testing.assert_allclose(estimate.ate, mean.mean() + half * np.array([0, -1, 1]), atol=1e-6)


@pytest.mark.parametrize("name", ["DATA-1", "DATA-2", "heterogeneous", "linear", "IHDP"])
def test_intervals_cover(name):
    """100 draws of parameters and data, three sources: the average effect of the test people and the effect of one of
    them are each covered binomially."""
    runs, sizes = 100, Sizes(3, 50, 100, 0)
    seen = []
    for replication in range(runs):
        splits = splits_of(name, replication, sizes)
        test, place = combined([split.test for split in splits]), np.repeat(np.arange(3), 100)
        estimate = oracle.fit(name, [split.train for split in splits])(test.x, place)
        truth, ends = test.cate, estimate.ate[1:]
        seen.append([ends[0] <= truth.mean() <= ends[1], estimate.low[0] <= truth[0] <= estimate.high[0]])
    assert np.all(np.sum(seen, 0) >= stats.binom.ppf(ALPHA, runs, 0.95))


def test_overlap_finds_a_mode_as_good_as_the_one_at_the_truth():
    for replication in range(3):
        rows = combined([split.train for split in splits_of("overlap", replication)])
        form, place = oracle.form_of("overlap", 10, 1), np.zeros(len(rows), int)
        residuals, jacobian = oracle.stacked(form, rows, place)
        drawn = datasets._stream("overlap", replication, datasets.SEED).normal(size=(2, 10))
        a, b = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        near = least_squares(residuals, np.concatenate([[0.0, 1.0], 2 * a, b]), jacobian)
        found = oracle._posterior(form, rows, place)[0]
        assert np.sum(residuals(found) ** 2) <= 2 * near.cost + 1e-6


def test_each_site_has_its_own_effect_where_sites_differ():
    splits = splits_of("heterogeneous", 0)[:2]
    predict = oracle.fit("heterogeneous", [split.train for split in splits])
    x = splits[0].test.x
    apart = predict(x, 1).cate - predict(x, 0).cate
    np.testing.assert_allclose(apart, apart[0])
    assert abs(apart[0]) > 0.1
    both = predict(np.vstack([x, x]), np.repeat([0, 1], len(x)))
    np.testing.assert_allclose(both.cate, np.concatenate([predict(x, 0).cate, predict(x, 1).cate]))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_give_the_same_numbers(name):
    parts = [split.train for split in splits_of(name, 0)[:2]]
    first, second = (oracle.fit(name, parts)(parts[0].x, 0) for _ in range(2))
    for field in ("cate", "low", "high", "mu0", "mu1", "ate"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    np.testing.assert_allclose(first.cate, first.mu1 - first.mu0)
    assert np.all((first.low < first.cate) & (first.cate < first.high))


def test_what_is_unknown_is_named():
    parts = [split.train for split in splits_of("linear", 0)[:2]]
    with pytest.raises(UsageError, match="'steps'.*DATA-1, DATA-2, heterogeneous, overlap, linear, null, IHDP"):
        oracle.fit("steps", parts)
    with pytest.raises(UsageError, match="'sd'.*variance, std"):
        oracle.fit("DATA-1", parts, "sd")
    with pytest.raises(UsageError, match="0 … 1"):
        oracle.fit("linear", parts)(parts[0].x, 2)
