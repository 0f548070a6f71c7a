"""Differential privacy: the account against two others, the sensitivities by brute force, and a study that says it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chi2, norm

from fedci.errors import StudyError
from fedci.privacy import dp
from fedci.site.noising import bounds_of
from tests_support import study

BOUNDED = {"age": {"range": [20, 100]}, "bmi": {"range": [5, 60]}, "sex": {"type": "binary"}}
NOISY = {"name": "simulation", "epsilon": 2.0, "delta": 1e-5, "outcome_range": [-2.0, 12.0], "effect_bound": 5.0}


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_delta_is_the_hockey_stick_of_two_gaussians(mu, epsilon):
    """∫ max(0, p − e^ε q), p = N(μ, 1), q = N(0, 1), by quadrature."""
    def excess(t):
        return max(0.0, norm.pdf(t, mu) - math.exp(epsilon) * norm.pdf(t))

    start = epsilon / mu + mu / 2  # where p = e^ε q
    assert dp.delta(mu, epsilon) == pytest.approx(quad(excess, start, start + 40)[0], rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("rounds, z", [(1, 1.0), (200, 30.0), (1000, 100.0)])
def test_the_account_agrees_with_dp_accounting(rounds, z):
    """The library's Rényi and privacy-loss accountants bound ours from above; the latter to its own 1e-3."""
    import dp_accounting as library  # the Makefile installs it, without its pins
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(library.SelfComposedDpEvent(library.GaussianDpEvent(z), rounds))
    ours = dp.epsilon(math.sqrt(rounds) / z, 1e-5)
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


@given(st.floats(0.05, 20), st.floats(1e-10, 1e-2))
def test_budget_and_account_are_inverse(epsilon, delta):
    mu = dp.mu_of(epsilon, delta)
    assert dp.epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)
    assert dp.delta(1.001 * mu, epsilon) > delta


@given(st.lists(st.sampled_from(["moments", "effects", "gradients"]), min_size=1, unique=True), st.integers(1, 500))
def test_the_kinds_together_use_the_whole_budget(kinds, rounds):
    made = dp.multipliers(1.5, 1e-6, kinds, rounds)
    spent = [math.sqrt(rounds if kind == "gradients" else 1) / z for kind, z in made.items()]
    assert dp.epsilon(dp.composed(spent), 1e-6) == pytest.approx(1.5, rel=1e-6)


def sums_of(x, w, y, bounds):
    """The power sums that are noised, by way of a seed whose noise is taken off again."""
    scaled = np.column_stack([dp._unit(x[:, c], limits) for c, limits in enumerate(bounds.x)])
    outcome = dp._unit(y, bounds.y)
    return np.concatenate([dp._powers(scaled).ravel(), dp._powers(outcome[w == 0][:, None]).ravel(),
                           dp._powers(outcome[w == 1][:, None]).ravel(), [w.sum()]])


@given(st.integers(0, 10**6))
def test_no_record_moves_the_moments_by_more_than_their_sensitivity(seed):
    """Any record for any other, also far outside the bounds, also from one arm to the other."""
    rng = np.random.default_rng(seed)
    bounds = dp.Bounds([(0.0, 1.0), (-5.0, 9.0)], (-1.0, 4.0))
    extreme = rng.choice([-1e9, -1.0, 0.0, 0.5, 1.0, 4.0, 1e9], size=(2, 3))
    x, y, w = rng.normal(size=(20, 2)), rng.normal(size=20), np.arange(20) % 2
    both = []
    for row in extreme:
        other = x.copy(), y.copy(), w.copy()
        other[0][3], other[1][3], other[2][3] = row[:2], row[2], rng.integers(0, 2)
        both.append(sums_of(other[0], other[2], other[1], bounds))
    assert np.linalg.norm(both[0] - both[1]) <= dp.moments_sensitivity(2) + 1e-9


def test_without_noise_the_moments_are_those_of_the_rows():
    """z → 0: mean and variance to rounding, as `describe` has them."""
    from fedci.table.moments import describe

    rng = np.random.default_rng(0)
    x, w, y = rng.uniform(-1, 1, (400, 2)), np.arange(400) % 2, rng.uniform(0, 3, 400)
    told = dp.moments(x, w.astype(float), y, dp.Bounds([(-1, 1), (-2, 2)], (0, 4)), 1e-12, bytes(32))
    np.testing.assert_allclose(told.x.values, describe(x).values, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(told.y[1].values, describe(y[w == 1][:, None]).values, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(told.w.values, describe(w[:, None].astype(float)).values, rtol=1e-9, atol=1e-12)
    assert (told.rows, told.treated) == (400, 200)


def test_the_noise_is_normal_and_the_same_for_the_same_seed():
    """20 000 draws: mean and variance within 4 standard errors (a right formula fails in 1 of 1e4 seeds)."""
    drawn = dp.gaussian(bytes(range(32)), 20_000)
    assert abs(drawn.mean()) < 4 / math.sqrt(20_000)
    assert abs(drawn.var() - 1) < 4 * math.sqrt(2 / 20_000)
    assert (dp.gaussian(bytes(range(32)), 20_000) == drawn).all()
    assert not (dp.gaussian(bytes(32), 20_000) == drawn).any()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.floats(0.1, 10))
def test_a_clipped_gradient_is_no_longer_than_its_norm(vector, norm_bound):
    vector = np.array(vector)
    short = dp.clipped(vector, norm_bound)
    assert np.linalg.norm(short) <= norm_bound * (1 + 1e-12)
    if np.linalg.norm(vector) <= norm_bound:
        assert (short == vector).all()


def are_normal(z):
    """Whether Σz² is where it is for all but one in a million of standard normals."""
    low, high = chi2.interval(1 - 1e-6, z.size)
    return low < np.sum(z**2) < high


SEEDS = [bytes([k]) * 32 for k in range(64)]


def test_a_gradient_leaves_clipped_and_with_noise():
    """Of twice the norm, which is how far a site's answer moves at most."""
    long = np.random.default_rng(0).normal(0, 100, 40)
    told = np.array([dp.gradient(long, 2.0, 0.5, seed) for seed in SEEDS])
    assert are_normal((told - 2.0 * long / np.linalg.norm(long)) / (2.0 * 2.0 * 0.5))


def test_moments_leave_with_noise():
    """Of means: that of the first power sum, over the people, in half the declared range."""
    x, w, y = np.random.default_rng(0).uniform(-1, 1, (400, 3)), np.arange(400) % 2, np.zeros(400)
    bounds = dp.Bounds([(-1, 1), (-2, 2), (-3, 3)], (-1, 1))
    told = np.array([dp.moments(x, w, y, bounds, 1.0, seed).x.values[0] for seed in SEEDS])
    assert are_normal((told - x.mean(0)) * 400 / (np.array([1.0, 2.0, 3.0]) * dp.moments_sensitivity(3)))


def test_effects_leave_within_their_bound_and_with_noise():
    """An average beyond the bound counts as one at it; the noise is measured by three averages and their sds."""
    means, sds = np.array([9.0, -9.0, 0.5]), np.array([0.1, 7.0, 0.2])
    told = np.array([dp.effects(means, sds, 2.0, 0.3, seed)[0] for seed in SEEDS])
    assert are_normal((told - [2.0, -2.0, 0.5]) / (math.sqrt(15) * 2.0 * 0.3))
    assert dp.effects(means, sds, 2.0, 1e-12, SEEDS[0])[1] == pytest.approx([0.01, 4.0, 0.04])


@pytest.mark.parametrize("changes, words", [
    ({"policy": {"epsilon": 1.0}}, "go together"),
    ({"policy": NOISY | {"outcome_range": None}}, "outcome_range is missing"),
    ({"policy": NOISY | {"effect_bound": None}}, "effect_bound is missing"),
    ({"policy": NOISY | {"noised": ["gradients"]}}, "gradient_clip is missing"),
    ({"policy": NOISY | {"noised": []}}, "name what is noised"),
    ({"policy": NOISY | {"noised": ["gradients"], "gradient_clip": 1.0}}, "other than lbfgs"),
    ({"policy": NOISY, "covariates": ["age"]}, "covariates.age.range is missing"),
    ({"policy": NOISY, "missing": "impute"}, "missing")])
def test_noise_without_its_bounds_is_no_study(changes, words):
    with pytest.raises(StudyError, match=words):
        study(**{"covariates": BOUNDED} | changes)


def test_bounds_come_from_the_study():
    assert bounds_of(study(covariates=BOUNDED, policy=NOISY)) == [(20, 100), (5, 60), (0.0, 1.0)]
