"""q(g) and p(g): divergence, draws, sites outside the study; and the uniforms all sites share."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedci.model.paper import posterior
from fedci.model.paper.posterior import SourceLevel

SOURCE_JITTER = 1e-8
M = 4


def random_level(make, seed: int) -> SourceLevel:
    rng = np.random.default_rng(seed)
    return SourceLevel(jnp.asarray(rng.standard_normal((M, 2))), jnp.asarray(make.spd(rng, M)))


@pytest.fixture(scope="module")
def laws(make):
    return random_level(make, 0), random_level(make, 1)


def stacked(level: SourceLevel):
    """[g_0; g_1] ~ N(mean [2m], I₂ ⊗ cov)."""
    return np.asarray(level.mean).T.ravel(), np.kron(np.eye(2), level.cov)


# ── divergence and draws ────────────────────────────────────────────────────────────────────────────────────


def test_divergence_is_the_textbook_one_of_the_stacked_vectors(laws):
    (mean_q, cov_q), (mean_p, cov_p) = map(stacked, laws)
    gap, inverse = mean_p - mean_q, np.linalg.inv(cov_p)
    textbook = 0.5 * (np.trace(inverse @ cov_q) - 2 * M + gap @ inverse @ gap
                      + np.log(np.linalg.det(cov_p) / np.linalg.det(cov_q)))
    # Condition numbers of about 1e2.
    np.testing.assert_allclose(posterior.divergence_g(*laws), textbook, rtol=1e-12)


def test_divergence_is_the_mean_log_ratio_of_densities(laws):
    """1e5 draws from q; within 4 standard errors, so a right formula fails in 6 of 1e5 seeds."""
    q, p = (stats.multivariate_normal(*stacked(level)) for level in laws)
    draws = q.rvs(10**5, random_state=0)
    ratio = q.logpdf(draws) - p.logpdf(draws)
    assert abs(posterior.divergence_g(*laws) - ratio.mean()) < 4 * ratio.std() / np.sqrt(len(ratio))


def test_divergence_from_itself_is_zero(laws):
    np.testing.assert_allclose(posterior.divergence_g(laws[0], laws[0]), 0.0, atol=1e-13)


def test_draws_of_g_are_the_papers_reparameterisation(laws):
    """g_j = h_j + U^{1/2} ξ_j, each arm with its own ξ_j."""
    xi = np.random.default_rng(2).standard_normal((3, M, 2))
    g, root = posterior.draw_g(laws[0], jnp.asarray(xi)), np.linalg.cholesky(laws[0].cov)
    for l in range(3):
        for j in (0, 1):
            np.testing.assert_allclose(g[l, :, j], laws[0].mean[:, j] + root @ xi[l, :, j], rtol=1e-13)


# ── q and p of a model ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def model(make):
    return make.model()


@pytest.fixture(scope="module")
def theta(make, model):
    return model.unravel(make.theta(model))


@pytest.fixture(scope="module")
def u(model):
    return np.random.default_rng(3).standard_normal((model.sites, model.u_dim))


def steadied(cov):
    return cov + SOURCE_JITTER * np.diag(cov).mean() * np.eye(len(cov))


def test_the_prior_of_g_sees_the_covariates_moments_only(dense, model, theta, u):
    """M = γ(x̃, x̃'), r(x̃); u = [ỹ(0), ỹ(1), x̃, w̃] in fours, so x̃ is entries 8 to 19 of 24."""
    p = posterior.g_prior(model, theta, jnp.asarray(u))
    x = u[:, 8:20]
    np.testing.assert_allclose(p.mean, dense.linear(theta["source_mean"], x), rtol=1e-13)
    np.testing.assert_allclose(p.cov, steadied(dense.rbf(theta["source_kernel"], x, x)), rtol=1e-13)


def test_the_posterior_of_g_sees_all_moments(dense, model, theta, u):
    q = posterior.g_posterior(model, theta, jnp.asarray(u))
    np.testing.assert_array_equal(q.mean, theta["posterior_mean"]["value"])
    np.testing.assert_allclose(q.cov, steadied(dense.rbf(theta["posterior_kernel"], u, u)), rtol=1e-13)


def test_a_site_knows_its_own_margin_of_q(model, theta, u):
    q = posterior.g_posterior(model, theta, jnp.asarray(u))
    for s in range(model.sites):
        h, variance = posterior.g_at_site(model, theta, jnp.asarray(u[s]), jnp.asarray(s))
        np.testing.assert_array_equal(h, q.mean[s])
        # The site's variance goes without the source level's jitter.
        np.testing.assert_allclose(variance, q.cov[s, s], rtol=2 * SOURCE_JITTER)


def test_equal_sites_still_have_a_proper_law(make, model, theta, u):
    """Two sites with the same moments: M and U are singular, and the divergence stays finite."""
    twins = jnp.asarray(u).at[1].set(u[0])
    q, p = posterior.g_posterior(model, theta, twins), posterior.g_prior(model, theta, twins)
    assert np.isfinite(posterior.divergence_g(q, p))


@pytest.mark.parametrize("kind", ["linear", "zero", "table"])
def test_g_elsewhere_is_the_dense_conditional(make, dense, u, kind):
    """One Gaussian law over the m sites and the new one, conditioned on the m; r* of a table is the sites' average."""
    model = make.model(source_mean={"kind": kind})
    theta = model.unravel(make.theta(model))
    rng = np.random.default_rng(4)
    x_new, g, normals = rng.standard_normal(12), rng.standard_normal((5, 3, 2)), rng.standard_normal((5, 2))
    ours = posterior.g_elsewhere(model, theta, *map(jnp.asarray, (u, x_new, g, normals)))
    points = np.vstack([u[:, 8:20], x_new])
    cov = dense.rbf(theta["source_kernel"], points, points)
    cov[:3, :3] = steadied(cov[:3, :3])
    if kind == "linear":
        r = dense.linear(theta["source_mean"], points)
    else:
        table = np.asarray(theta["source_mean"]["value"]) if kind == "table" else np.zeros((3, 2))
        r = np.vstack([table, table.mean(0)])
    for l in range(5):
        for j in (0, 1):
            mean, spread = dense.condition(r[:, j], cov, np.arange(3), g[l, :, j])
            np.testing.assert_allclose(ours[l, j], mean[3] + np.sqrt(spread[3, 3]) * normals[l, j], rtol=1e-10)


def test_g_elsewhere_with_a_sites_own_moments_is_that_sites_g(make, model, theta, u):
    g = np.random.default_rng(5).standard_normal((4, 3, 2))
    ours = posterior.g_elsewhere(model, theta, *map(jnp.asarray, (u, u[1, 8:20], g, np.zeros((4, 2)))))
    # Up to the jitter of 1e-8 on M, times its condition number.
    np.testing.assert_allclose(ours, g[:, 1], rtol=1e-6, atol=1e-6)


# ── common random numbers ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("draws", [1, 2, 3, 8, 100])
def test_common_uniforms_are_the_same_for_the_same_seed_and_stream(draws):
    one = posterior.common_uniforms(3, 1, draws)
    assert one.shape == (draws, 6)
    assert ((one > 0) & (one < 1)).all()
    np.testing.assert_array_equal(one, posterior.common_uniforms(3, 1, draws))
    assert (one != posterior.common_uniforms(4, 1, draws)).all()
    assert (one != posterior.common_uniforms(3, 2, draws)).all()


def test_common_uniforms_fill_every_interval():
    """Scrambled Sobol points: of 2^k points each interval of length 2^-k holds exactly one, in every coordinate."""
    points = posterior.common_uniforms(0, 0, 64)
    for column in np.floor(64 * points).T:
        assert sorted(column) == list(range(64))


def test_each_uniform_is_uniform():
    """The first point over 2000 seeds, each coordinate: Kolmogorov-Smirnov at level 1e-4 (six: 6 in 1e4 seeds)."""
    first = np.stack([posterior.common_uniforms(seed, 0, 1)[0] for seed in range(2000)])
    for column in first.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
