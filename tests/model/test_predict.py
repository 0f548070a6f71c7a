"""Effects given draws against dense conditioning of the joint Gaussian law of everything."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model import exact, padding, predict
from fedci.model.paper.paper_family import Draws
from fedci.model.paper.posterior import Roots
from fedci.model.rows import Moments

# Solves with covariances whose condition number is below 1e3: rounding times that.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}
N, DRAWS, NO_JITTER = 6, 3, 0.0
CORRELATIONS = np.array([np.nan, 0.0, 0.7, -0.4])
X_NEW = np.random.default_rng(4).standard_normal((5, 3))


class Own(NamedTuple):
    """All effects of a site's own people: the sums that leave, and each person's."""

    cate: Moments
    ite: Moments
    each: Moments


def own_effects(model, vector, site, draws, weights, correlations, jitter) -> Own:
    sums = exact.weighted_effects(model, vector, site, draws, weights, correlations, jitter)
    return Own(*sums, exact.realised_each(model, vector, site, draws, correlations, jitter))


@pytest.fixture(scope="module")
def model(make):
    return make.model()


@pytest.fixture(scope="module")
def vector(make, model):
    return make.theta(model)


@pytest.fixture(scope="module")
def rows(make):
    return make.rows(N)


@pytest.fixture(scope="module")
def u(model):
    return np.random.default_rng(1).standard_normal(model.u_dim)


@pytest.fixture(scope="module")
def draws(make):
    rng = np.random.default_rng(2)
    roots = (np.linalg.cholesky([make.spd(rng) for _ in range(DRAWS)]) for _ in range(2))
    return Draws(Roots(*map(jnp.asarray, roots)), jnp.asarray(rng.standard_normal((DRAWS, 2))))


@pytest.fixture(scope="module")
def weights():
    """All people, the first three, and a vector of any signs."""
    return np.stack([np.ones(N), np.arange(N) < 3, np.random.default_rng(3).standard_normal(N)])


def padded_weights(weights, site):
    return jnp.asarray(np.pad(weights, ((0, 0), (0, len(site.mask) - N))))


@pytest.fixture(scope="module")
def effects(model, vector, rows, u, draws, weights):
    """`site_effects` of the padded site: one compilation for all tests."""
    site = padding.pad_site(*rows, u, 0)
    return own_effects(model, vector, site, draws, padded_weights(weights, site), CORRELATIONS, NO_JITTER)


def draw(draws, l):
    root_phi, root_sigma, g = (np.asarray(leaf[l]) for leaf in jax.tree.leaves(draws))
    return root_phi @ root_phi.T, root_sigma @ root_sigma.T, g


def dense_missing(dense, theta, rows, phi, sigma, g):
    """m_mo and S_mo, from the 2n-vector of all potential outcomes with its observed half known."""
    x, w, y = rows
    obs, mis = dense.observed_and_missing(w)
    mean, cov = dense.condition(*dense.potential_outcomes(theta, x, g, phi, sigma), obs, y)
    return mean[mis], cov[np.ix_(mis, mis)]


def with_noise_correlation(sigma, correlation):
    if np.isnan(correlation):
        return sigma
    off = correlation * np.sqrt(sigma[0, 0] * sigma[1, 1])
    return np.array([[sigma[0, 0], off], [off, sigma[1, 1]]])


def every_missing(dense, model, vector, rows, draws):
    """(draw, correlation index, m_mo, S_mo) for all of them."""
    theta = model.unravel(vector)
    for l in range(DRAWS):
        phi, sigma, g = draw(draws, l)
        for c, correlation in enumerate(CORRELATIONS):
            yield l, c, *dense_missing(dense, theta, rows, phi, with_noise_correlation(sigma, correlation), g)


def test_realised_effects_are_the_dense_conditional_of_y_mis(dense, model, vector, rows, draws, effects):
    _, w, y = rows
    for l, c, mean, cov in every_missing(dense, model, vector, rows, draws):
        np.testing.assert_allclose(effects.each.mean[l, c, :N], (2 * w - 1) * (y - mean), **CLOSE)
        np.testing.assert_allclose(effects.each.var[l, c, :N], np.diag(cov), **CLOSE)


def test_realised_sums_have_mean_and_variance_of_the_papers_ate(dense, model, vector, rows, draws, weights, effects):
    """With weights 1: E = w̃ᵀ(y − m_mo), Var = w̃ᵀ S_mo w̃ (the paper's, times n and n²); then any weights."""
    _, w, y = rows
    for l, c, mean, cov in every_missing(dense, model, vector, rows, draws):
        for e, t in enumerate(weights):
            signed = t * (2 * w - 1)
            np.testing.assert_allclose(effects.ite.mean[l, c, e], signed @ (y - mean), **CLOSE)
            np.testing.assert_allclose(effects.ite.var[l, c, e], signed @ cov @ signed, **CLOSE)


def dense_cate(dense, theta, rows, x_new, phi, sigma, g):
    """Mean and covariance of f̃_1 − f̃_0 at x_new: F = [f̃_0; f̃_1] at all points, y_obs = picked F + noise."""
    x, w, y = rows
    points = np.vstack([x, x_new])
    mean_f, cov_f = dense.potential_outcomes(theta, points, g, phi, np.zeros((2, 2)))
    pick = np.eye(len(mean_f))[np.arange(len(x)) + len(points) * w]
    contrast = np.kron([-1.0, 1.0], np.eye(len(points)))[len(x):]
    both = np.vstack([pick, contrast])
    cov = both @ cov_f @ both.T
    cov[:len(x), :len(x)] += np.diag(sigma[w, w])
    mean, cov = dense.condition(both @ mean_f, cov, np.arange(len(x)), y)
    return mean[len(x):], cov[len(x):, len(x):]


def test_cate_at_new_people_is_dense_conditioning(dense, model, vector, rows, u, draws):
    site = padding.pad_site(*rows, u, 0)
    cate = predict.cate_at(model, vector, site, draws, jnp.asarray(X_NEW), NO_JITTER)
    for l in range(DRAWS):
        mean, cov = dense_cate(dense, model.unravel(vector), rows, X_NEW, *draw(draws, l))
        np.testing.assert_allclose(cate.mean[l], mean, **CLOSE)
        np.testing.assert_allclose(cate.var[l], np.diag(cov), **CLOSE)


def test_cate_sums_over_own_people_are_dense_conditioning(dense, model, vector, rows, draws, weights, effects):
    for l in range(DRAWS):
        mean, cov = dense_cate(dense, model.unravel(vector), rows, rows[0], *draw(draws, l))
        np.testing.assert_allclose(effects.cate.mean[l], weights @ mean, **CLOSE)
        np.testing.assert_allclose(effects.cate.var[l], np.diag(weights @ cov @ weights.T), **CLOSE)


def test_both_arms_at_new_people_are_dense_conditioning(dense, model, vector, rows, u, draws):
    """`outcomes_at`: E y(0) and E y(1) with their 2 × 2 covariance, from the same joint law."""
    x, w, y = rows
    mean, cov = predict.outcomes_at(model, vector, padding.pad_site(*rows, u, 0), draws, jnp.asarray(X_NEW), NO_JITTER)
    points = np.vstack([x, X_NEW])
    known = np.arange(N) + len(points) * w
    for l in range(DRAWS):
        phi, sigma, g = draw(draws, l)
        mean_f, cov_f = dense.potential_outcomes(model.unravel(vector), points, g, phi, np.zeros((2, 2)))
        noisy = cov_f.copy()
        noisy[known, known] += sigma[w, w]
        gain = np.linalg.solve(noisy[np.ix_(known, known)], cov_f[known]).T
        for p in range(len(X_NEW)):
            arms = [N + p, len(points) + N + p]
            np.testing.assert_allclose(mean[l, p], (mean_f + gain @ (y - mean_f[known]))[arms], **CLOSE)
            np.testing.assert_allclose(cov[l, p], (cov_f - gain @ cov_f[known])[np.ix_(arms, arms)], **CLOSE)


@pytest.mark.parametrize("jitter", [0.0, 1e-6])
def test_padding_changes_nothing(make, model, vector, rows, u, draws, weights, jitter):
    """Also not the jitter, which is relative to the mean diagonal of the people alone."""
    padded, bare = padding.pad_site(*rows, u, 0), make.unpadded(*rows, u)
    assert (len(padded.mask), len(bare.mask)) == (8, N)
    of = [own_effects(model, vector, site, draws, padded_weights(weights, site), CORRELATIONS, jitter)
          for site in (padded, bare)]
    np.testing.assert_array_equal(of[0].each.mean[..., N:], 0.0)
    np.testing.assert_array_equal(of[0].each.var[..., N:], 0.0)
    people = [one._replace(each=jax.tree.map(lambda leaf: leaf[..., :N], one.each)) for one in of]
    new = [predict.cate_at(model, vector, site, draws, jnp.asarray(X_NEW), jitter) for site in (padded, bare)]
    # Not bit for bit: BLAS sums 8 rows in another order than 6.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), (people[0], new[0]),
                 (people[1], new[1]))


def test_zero_rows_return_the_prior(dense, model, vector, u, draws):
    nobody = padding.no_rows(3, u)
    cate = predict.cate_at(model, vector, nobody, draws, jnp.asarray(X_NEW), NO_JITTER)
    for l in range(DRAWS):
        phi, _, g = draw(draws, l)
        mean, cov = dense.potential_outcomes(model.unravel(vector), X_NEW, g, phi, np.zeros((2, 2)))
        contrast = np.kron([-1.0, 1.0], np.eye(5))
        np.testing.assert_allclose(cate.mean[l], contrast @ mean, **CLOSE)
        np.testing.assert_allclose(cate.var[l], np.diag(contrast @ cov @ contrast.T), **CLOSE)


def test_zero_rows_have_zero_sums(model, vector, u, draws):
    nobody = padding.no_rows(3, u)
    own = own_effects(model, vector, nobody, draws, jnp.tile(nobody.mask, (3, 1)), CORRELATIONS, NO_JITTER)
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(own))


def test_permuted_rows_permute_each_and_keep_sums(model, vector, rows, u, draws, weights, effects):
    order = np.random.default_rng(5).permutation(N)
    site = padding.pad_site(*(part[order] for part in rows), u, 0)
    again = own_effects(model, vector, site, draws, padded_weights(weights[:, order], site), CORRELATIONS,
                                 NO_JITTER)
    expected = effects._replace(each=jax.tree.map(lambda leaf: leaf[..., :N][..., order], effects.each))
    again = again._replace(each=jax.tree.map(lambda leaf: leaf[..., :N], again.each))
    # Sums and factorisations in another order: rounding.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), again, expected)


def test_without_noise_the_observed_arm_is_interpolated(model, vector, rows, u, draws):
    x, w, y = (part[:5] for part in rows)
    quiet = draws._replace(roots=draws.roots._replace(sigma=1e-6 * draws.roots.sigma))
    mean, cov = predict.outcomes_at(model, vector, padding.pad_site(x, w, y, u, 0), quiet, jnp.asarray(x), NO_JITTER)
    own_mean, own_var = np.asarray(mean)[:, np.arange(5), w], np.asarray(cov)[:, np.arange(5), w, w]
    # The noise variance is of order 1e-12, and the condition number about 1e3.
    np.testing.assert_allclose(own_mean, np.tile(y, (DRAWS, 1)), atol=1e-8)
    np.testing.assert_allclose(own_var, 0.0, atol=1e-10)


def mirrored(roots) -> np.ndarray:
    """The Cholesky roots of P W P, P exchanging the arms."""
    w = np.asarray(roots) @ np.swapaxes(np.asarray(roots), 1, 2)
    return np.linalg.cholesky(w[:, ::-1, ::-1])


def test_exchanging_the_arms_flips_the_sign(make, rows, draws, weights):
    """Given (Φ, Σ) and the sites' levels in outcome units, Φ^{1/2}g: relabelled arms mirror every effect.

    With μ = 0; a fixed μ cannot be mirrored for several Φ at once, since Φ^{1/2} takes the arms in order.
    """
    model = make.model(mean={"kind": "zero"})
    vector, (x, w, y) = make.theta(model), rows
    u = np.random.default_rng(1).standard_normal(model.u_dim)
    phi = mirrored(draws.roots.phi)
    levels = np.einsum("lab,lb->la", np.asarray(draws.roots.phi), np.asarray(draws.g))
    g = np.linalg.solve(phi, levels[:, ::-1, None])[..., 0]
    swapped = Draws(Roots(jnp.asarray(phi), jnp.asarray(mirrored(draws.roots.sigma))), jnp.asarray(g))
    plain, other = (own_effects(model, vector, site, d, padded_weights(weights, site), CORRELATIONS, NO_JITTER)
                    for site, d in ((padding.pad_site(x, w, y, u, 0), draws),
                                    (padding.pad_site(x, 1 - w, y, u, 0), swapped)))
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_allclose(two.mean, -one.mean, rtol=1e-9, atol=1e-9)  # two factorisations of C
        np.testing.assert_allclose(two.var, one.var, rtol=1e-9, atol=1e-9)
