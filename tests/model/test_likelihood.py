"""A precision per row, and noise that a site added: the exact form, the one of large sites whose rows all induce, and
the dense law agree.

Tolerances: as in shared/test_sparse.py, a jitter of 1e-12 through a condition number of 1e5, on one side only.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedci.model import covariance, kernels, leave_one_out, padding, predict
from fedci.model.families import model_of
from fedci.model.likelihood import GAUSSIAN
from fedci.model.rows import BetaLaw
from fedci.model.shared import evidence, inducing
from fedci.model.shared.evidence import SharedDraws
from fedci.study.options import SharedOptions

ROWS, D = 31, 3
JITTER, CLOSE = 1e-12, {"rtol": 1e-6, "atol": 1e-7}
CORRELATIONS = jnp.array([np.nan, 0.0, 0.6])
NOTHING = np.zeros(0)
MODEL = model_of(SharedOptions(family="shared", knots=3), D, D, 2)


@pytest.fixture(scope="module")
def people():
    """(x, w, y, weight): precisions that differ by a factor of up to 50."""
    rng = np.random.default_rng(5)
    x, w, y = rng.normal(size=(ROWS, D)), (rng.uniform(size=ROWS) < 0.4).astype(int), rng.normal(size=ROWS)
    return x, w, y, np.exp(rng.uniform(-2.0, 2.0, ROWS))


@pytest.fixture(scope="module")
def thetas():
    return jnp.asarray(MODEL.prior[0] + 0.3 * np.random.default_rng(1).standard_normal((2, MODEL.size)))


@pytest.fixture(scope="module", params=[0.0, 0.4], ids=["", "noise added"])
def added(request):
    return request.param


@pytest.fixture(scope="module")
def forms(people, added):
    x, w, y, weight = people
    return (padding.pad_site(x, w, y, np.zeros(4), 0, weight, added),
            inducing.cut(x, w, y, np.zeros(4), 0, MODEL.kernel, ROWS, 8, weight=weight, added=added))


@pytest.fixture(scope="module")
def draws(thetas):
    return SharedDraws(thetas, jnp.asarray(np.random.default_rng(2).standard_normal((2, 2, MODEL.columns))))


def dense(theta, people, added):
    """(Z, C) by plain linear algebra: C = Φ[w, w'] k + diag((σ²_w + added) / weight)."""
    x, w, _, weight = people
    root, noise = (np.asarray(part) for part in MODEL.roots(theta))
    k = np.asarray(kernels.cross(MODEL.kernel, theta["kernel"], jnp.asarray(x), jnp.asarray(x)))
    z = np.asarray(MODEL.design(theta, jnp.asarray(x), covariance.arms(jnp.asarray(w))))
    return z, (root @ root.T)[w][:, w] * k + np.diag((np.diag(noise)[w] ** 2 + added) / weight)


def near(a, b):
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, **CLOSE), a, b)


def test_the_evidence_of_rows_of_unequal_precision_is_the_dense_one(forms, people, thetas, added):
    expected = []
    for vector in thetas:
        z, c = dense(MODEL.unravel(vector), people, added)
        expected.append(multivariate_normal(np.zeros(ROWS), z @ z.T + c).logpdf(people[2]))
    for rows in forms:
        total = evidence.statistics(MODEL, thetas, rows, JITTER)
        np.testing.assert_allclose(evidence.log_evidence(total, float(ROWS))[0], expected, **CLOSE)


def test_statistics_and_gradient_agree(forms, thetas):
    exact, large = (evidence.statistics(MODEL, thetas, rows, JITTER) for rows in forms)
    near(exact, large)
    cotangents = evidence.log_evidence(exact, float(ROWS))[1]
    near(*(evidence.pull_back(MODEL, thetas, rows, JITTER, cotangents) for rows in forms))


def test_the_bound_is_below_the_evidence(people, thetas, forms, added):
    x, w, y, weight = people
    few = inducing.cut(x, w, y, np.zeros(4), 0, MODEL.kernel, 6, 8, weight=weight, added=added)
    values = [np.asarray(evidence.log_evidence(evidence.statistics(MODEL, thetas, rows, JITTER), float(ROWS))[0])
              for rows in (few, forms[0])]
    assert (values[0] < values[1]).all()


def test_predictions_sums_and_realised_effects_agree(forms, draws):
    new = np.random.default_rng(3).standard_normal((4, D))
    near(*(predict.outcomes_at(MODEL, NOTHING, rows.known(MODEL, draws, JITTER), draws, new, JITTER)
           for rows in forms))
    near(*(rows.effects(MODEL, NOTHING, draws, CORRELATIONS, JITTER) for rows in forms))
    each = []
    for rows in forms:
        parts = list(rows.realised(MODEL, NOTHING, draws, CORRELATIONS, JITTER))
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        each.append([np.concatenate([getattr(part, name) for _, part in parts], -1)[..., order]
                     for name in ("mean", "var")])
    near(*each)


def test_predictions_are_the_dense_conditionals(forms, people, draws, added):
    """E y(1) − E y(0) at new x, for one (θ, β̃)."""
    x, w, y, _ = people
    new, theta = np.random.default_rng(3).standard_normal((4, D)), MODEL.unravel(draws.theta[0])
    z, c = dense(theta, people, added)
    phi = np.asarray(MODEL.roots(theta)[0])
    phi = phi @ phi.T
    across = (phi[1] - phi[0])[w] * np.asarray(kernels.cross(MODEL.kernel, theta["kernel"], jnp.asarray(new),
                                                             jnp.asarray(x)))
    contrast = np.asarray(MODEL.design(theta, jnp.asarray(new), jnp.tile(jnp.array([-1.0, 1.0]), (4, 1))))
    beta = np.asarray(draws.beta[0, 0])
    expected = contrast @ beta + across @ np.linalg.solve(c, y - z @ beta)
    found = predict.cate_at(MODEL, NOTHING, forms[0], draws, new, JITTER)
    np.testing.assert_allclose(found.mean[0], expected, **CLOSE)


def test_a_realised_effect_is_free_of_the_noise_that_was_added(forms, people, draws, added):
    """τ_i = w̃_i(y_i − y_mis,i) of true outcomes, given outcomes with noise: by the joint law of all three, for one
    (θ, β̃), at noise correlation 0.6."""
    x, w, y, weight = people
    theta, beta = MODEL.unravel(draws.theta[0]), np.asarray(draws.beta[0, 0])
    root, noise = (np.asarray(part) for part in MODEL.roots(theta))
    k = np.asarray(kernels.cross(MODEL.kernel, theta["kernel"], jnp.asarray(x), jnp.asarray(x)))
    phi, sd = root @ root.T, np.diag(noise)
    sigma = np.array([[sd[0] ** 2, 0.6 * sd[0] * sd[1]], [0.6 * sd[0] * sd[1], sd[1] ** 2]])

    def cov(a, b):
        """Of y_a of everybody and y_b of everybody, true ones."""
        return phi[np.ix_(a, b)] * k + np.diag(sigma[a, b] / weight)

    means = [np.asarray(MODEL.design(theta, jnp.asarray(x), covariance.arms(jnp.asarray(a)))) @ beta
             for a in (w, 1 - w)]
    across = cov(w, w) - cov(1 - w, w)
    between = cov(w, w) + cov(1 - w, 1 - w) - cov(w, 1 - w) - cov(1 - w, w)
    c = cov(w, w) + np.diag(added / weight)
    mean = means[0] - means[1] + across @ np.linalg.solve(c, y - means[0])
    var = np.diag(between - across @ np.linalg.solve(c, across.T))
    for rows in forms:
        parts = list(rows.realised(MODEL, NOTHING, draws, CORRELATIONS[2:], JITTER))
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        found = [np.concatenate([getattr(part, name) for _, part in parts], -1)[0, 0, order]
                 for name in ("mean", "var")]
        near(found, [(2 * w - 1) * mean, var])


def test_leaving_a_person_out_is_deleting_their_row(forms, people, draws, added):
    y = people[2]
    law = BetaLaw(*evidence.collapse(evidence.statistics(MODEL, draws.theta, forms[0], JITTER)))
    exact, large = (leave_one_out.left_out(MODEL, NOTHING, rows, draws, law, JITTER) for rows in forms)
    near(*(jax.tree.map(lambda leaf: leaf[:, :ROWS], form) for form in (exact, large)))
    z, c = dense(MODEL.unravel(draws.theta[0]), people, added)
    k = z @ z.T + c
    for i in range(0, ROWS, 7):
        rest = np.delete(np.arange(ROWS), i)
        gain = np.linalg.solve(k[np.ix_(rest, rest)], k[rest, i])
        np.testing.assert_allclose(exact.mean[0, i], gain @ y[rest], **CLOSE)
        np.testing.assert_allclose(exact.var[0, i], k[i, i] - gain @ k[rest, i], **CLOSE)


def test_a_row_of_twice_the_precision_is_two_rows_of_one(thetas):
    """Two measurements y ± δ of a person's outcome are one of twice the precision: T and v are the same."""
    rng = np.random.default_rng(0)
    x, w, y = rng.normal(size=(9, D)), np.arange(9) % 2, rng.normal(size=9)
    twice = padding.pad_site(np.repeat(x, 2, 0), np.repeat(w, 2), np.repeat(y, 2) + np.tile([-0.1, 0.1], 9),
                             np.zeros(4), 0)
    once = padding.pad_site(x, w, y, np.zeros(4), 0, np.full(9, 2.0))
    found = [evidence.statistics(MODEL, thetas, rows, JITTER) for rows in (twice, once)]
    near(found[0][:2], found[1][:2])


def test_places_are_uniform_where_the_model_is_right():
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(size=2000), np.exp(rng.normal(size=2000))
    places = GAUSSIAN.place(mean + sd * rng.normal(size=2000), mean, sd**2)
    assert np.abs(np.sort(places) - (np.arange(2000) + 0.5) / 2000).max() < 1.95 / np.sqrt(2000)  # KS, 0.1 %
