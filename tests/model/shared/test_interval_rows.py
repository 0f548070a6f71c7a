"""Rows of intervals: who has which, curves from hazards, and sums over sites that are what one place computes."""

import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from fedci.effect import person_weights
from fedci.model.families import model_of
from fedci.model.rows import Rows
from fedci.model.shared import evidence
from fedci.model.shared import interval_rows as survival
from fedci.model.shared.arranged import arranged
from fedci.model.shared.evidence import SharedDraws
from fedci.study.options import SharedOptions

D, N, J, JITTER = 2, 12, 3, 1e-10
NO_U = np.zeros(4 * (D + 3))
OPTIONS = SharedOptions(family="shared", directions=1, knots=3, landmarks=4, inducing=64)
MODEL = model_of(OPTIONS, D, D, 2, "survival", J)


def people():
    rng = np.random.default_rng(6)
    return rng.normal(size=(N, D)), np.arange(N) % 2, rng.integers(0, 2, N).astype(float), rng.uniform(0.2, J, N)


def rows():
    x, w, event, followed = people()
    return MODEL.rows(x, w, event, NO_U, 0, 0.0, time=followed)


def thetas():
    mean, sd = MODEL.prior
    return jnp.asarray(mean + 0.3 * sd * np.random.default_rng(3).standard_normal((2, mean.size)))


def test_a_person_has_a_row_in_each_interval_of_follow_up():
    found = survival.expanded(np.array([1.0, 0.0, 0.0, 1.0]), np.array([1.4, 2.25, 3.0, 1.0]), 3)
    np.testing.assert_array_equal(found.person, [0, 0, 1, 1, 1, 2, 2, 2, 3])
    np.testing.assert_array_equal(found.interval, [0, 1, 0, 1, 2, 0, 1, 2, 0])
    np.testing.assert_array_equal(found.y, [0, 1, 0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_allclose(found.share, [1, 1, 1, 1, 0.25, 1, 1, 1, 1])


def test_who_was_followed_for_next_to_nothing_of_an_interval_has_no_row_there():
    assert len(survival.expanded(np.zeros(1), np.array([2.001]), 3).y) == 2


def test_curves_are_products_of_what_hazards_leave():
    eta = np.random.default_rng(0).normal(size=(2, 3, J, 2))
    np.testing.assert_allclose(survival.curves(jnp.asarray(eta)), np.cumprod(1.0 - expit(eta), 2), rtol=1e-12)


def test_statistics_are_those_of_rows_of_0_and_1_at_once():
    """Blocks with all rows inducing against exact rows; 1e-6 for jitters that stand in different places. The evidence
    norms by people, so rows beyond them stand in log|C|."""
    x, w, event, followed = people()
    each = survival.expanded(event, followed, J)
    at = survival.at_intervals(x, J)[each.person, each.interval]
    exact = arranged(MODEL, at, w[each.person], each.y, NO_U, 0, 0.0, each.share)
    both = [evidence.statistics(MODEL, thetas(), form, JITTER, form.local(MODEL, None, 2, False))
            for form in (rows(), exact)]
    more = np.log(2.0 * np.pi) * (len(each.y) - N)
    np.testing.assert_allclose(both[0].log_det, both[1].log_det + more, rtol=1e-6)
    for one, other in zip(both[0][:3], both[1][:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(other).max())


def test_sums_of_curves_are_sums_over_people_and_fall():
    draws = SharedDraws(thetas(), 0.1 * jnp.asarray(np.random.default_rng(1).standard_normal((2, 4, MODEL.columns))))
    sums = np.asarray(rows().effects(MODEL, np.zeros(0), draws, np.zeros(0), JITTER).survival)
    assert sums.shape == (8, 2, J, 3)
    np.testing.assert_allclose(sums[..., 0], sums[..., 1] + sums[..., 2])
    assert (np.diff(sums, axis=2) <= 1e-12).all()
    assert ((sums >= 0) & (sums <= [N, N // 2, N // 2])).all()


def test_weighed_sums_are_of_risks_by_the_last_horizon():
    draws = SharedDraws(thetas(), 0.1 * jnp.asarray(np.random.default_rng(1).standard_normal((2, 4, MODEL.columns))))
    weights = person_weights(people()[1], np.ones(N))
    curves = np.asarray(rows().effects(MODEL, np.zeros(0), draws, np.zeros(0), JITTER).survival)
    found = rows().weighed(MODEL, np.zeros(0), draws, weights, JITTER)
    np.testing.assert_allclose(found.sums, weights.sum(1) - curves[:, :, -1], rtol=1e-12)


def test_they_are_rows_as_the_protocol_has_them():
    assert isinstance(rows(), Rows)
    assert rows().people() == N
    assert survival.nobody(MODEL, NO_U).people() == 0
