"""Rows with their whole covariance: what they count, how many draws go side by side, whose effects they give.

Effects, predictions and what leaves one person out are compared with dense laws in test_predict.py,
test_likelihood.py and test_leave_one_out.py.
"""

import numpy as np
import pytest

from fedci.model import exact, padding
from fedci.model.paper.paper_family import Draws
from fedci.model.paper.posterior import Roots
from fedci.model.rows import on_device
from fedci.model.shared.shared_family import SharedFamily
from fedci.study.options import preset


@pytest.fixture(scope="module")
def model(make):
    return make.model()


@pytest.fixture(scope="module")
def site(make, model):
    return padding.pad_site(*make.rows(6), np.zeros(model.u_dim), 0)


@pytest.fixture(scope="module")
def draws():
    rng = np.random.default_rng(0)
    roots = np.tile(np.eye(2), (2, 1, 1))
    return Draws(Roots(roots, roots), rng.standard_normal((2, 2)))


def test_padding_is_nobody(site):
    assert (site.people(), len(site.y) > 6) == (6, True)
    assert site.is_small()
    many = site._replace(x=np.zeros((exact.SMALL, 3)))
    assert not many.is_small()


@pytest.mark.parametrize(("draws", "n", "batch"),
                         [(8, 2**9, 8), (8, 2**10, 2), (8, 2**11, 1), (7, 2**10, 1), (1, 9, 1)])
def test_a_batch_divides_the_draws_and_fits(monkeypatch, draws, n, batch):
    """2^21 numbers: at n = 2^10 two matrices fit; seven draws then go one by one; at least one always goes. On a
    processor they always do."""
    assert exact.batch_size(draws, n) == 1
    monkeypatch.setattr(exact, "on_processor", lambda: False)
    assert exact.batch_size(draws, n) == batch


def test_sums_are_over_everyone_the_treated_and_the_controls(make, model, site, draws):
    """The three weights of `weighted_effects` by hand; the populations partition: everyone is treated or not."""
    vector, correlations = make.theta(model), np.array([0.0])
    people, treated = np.asarray(site.mask), np.asarray(site.w * site.mask)
    found = site.effects(model, vector, draws, correlations, 0.0)
    byhand = exact.weighted_effects(model, vector, site, draws, np.stack([people, treated, people - treated]),
                                    correlations, 0.0)
    for one, other in ((found.cate, byhand.cate), (found.ite, byhand.ite)):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.var, other.var)
    np.testing.assert_allclose(found.ite.mean[..., 0], found.ite.mean[..., 1:].sum(-1), rtol=1e-12)  # another order


def test_realised_effects_come_person_by_person_and_padding_has_none(make, model, site, draws):
    vector, correlations = make.theta(model), np.array([0.0, 0.5])
    ((places, effects),) = site.realised(model, vector, draws, correlations, 0.0)
    np.testing.assert_array_equal(places, np.arange(6))
    assert effects.mean.shape == effects.var.shape == (2, 2, 6)
    each = exact.realised_each(model, vector, site, draws, correlations, 0.0)
    np.testing.assert_array_equal(effects.mean, each.mean[..., :6])
    assert not np.asarray(each.mean[..., 6:]).any()


# --- clusters


def clustered(cluster):
    """(model, rows, θ, K_obs by hand) of 24 people in these clusters."""
    rng = np.random.default_rng(3)
    model = SharedFamily(options=preset("default").model, covariates=2, described=2, sites=1)
    x, w, y = rng.normal(size=(24, 2)), np.arange(24) % 2, rng.normal(size=24)
    rows = model.rows(x, w, y, np.zeros(20), 0, cluster=cluster)
    theta = model.unravel(model.prior[0])
    root, noise = (np.asarray(part) for part in model.roots(theta))
    k = np.asarray(model.k(theta, on_device(x)))
    same = np.ones((24, 24), bool) if cluster is None else cluster[:, None] == cluster[None]
    phi = (root @ root.T)[w[:, None], w[None]]
    c = phi * k * np.where(same, 1.0, exact.SITE_PART) + np.diag(np.diag(noise @ noise.T)[w])
    return model, rows, c, y


@pytest.mark.parametrize("cluster", [None, np.zeros(24, int), np.arange(24) // 4, np.arange(24)])
def test_statistics_are_those_of_the_covariance_by_hand(cluster):
    model, rows, c, y = clustered(cluster)
    _, _, square, log_det = rows.statistics(model, on_device(model.prior[0]), 0.0)
    assert float(square) == pytest.approx(y @ np.linalg.solve(c, y), rel=1e-8)
    assert float(log_det) == pytest.approx(np.linalg.slogdet(c)[1], rel=1e-8)


def test_one_cluster_is_none():
    model, none, *_ = clustered(None)
    _, one, *_ = clustered(np.zeros(24, int))
    for a, b in zip(*(rows.statistics(model, on_device(model.prior[0]), 0.0) for rows in (none, one)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_weighed_sums_are_those_of_the_populations_for_their_weights(make, model, site, draws):
    """And covariances: of a sum with itself its variance, of everybody with the arms what adds up."""
    vector = make.theta(model)
    people, treated = np.ones(6), np.asarray(site.w)[:6].astype(float)
    found = site.weighed(model, vector, draws, np.stack([people, treated, people - treated]), 0.0)
    cate = site.effects(model, vector, draws, np.array([0.0]), 0.0).cate
    np.testing.assert_allclose(found.sums[:, 0], cate.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(found.cov, axis1=1, axis2=2), cate.var, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.cov[:, 0, 0], found.cov[:, 1:, 1:].sum((1, 2)), rtol=1e-8)
