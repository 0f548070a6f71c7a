"""The model `shared`: sums over sites = dense over all rows; the pulled-back gradient = the dense one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import multivariate_normal

from fedci.model import covariance, kernels, padding
from fedci.model.families import model_of
from fedci.model.shared import evidence
from fedci.model.shared.evidence import Statistics
from fedci.model.shared.shared import noise_sd, own_root
from fedci.study.options import SharedOptions

D, SITES = 3, 2
MODEL = model_of(SharedOptions(family="shared", directions=2, knots=4, landmarks=5), D, D, SITES)
JITTER = 1e-10


def rows(site: int, n: int = 11):
    rng = np.random.default_rng((site, 7))
    return rng.normal(size=(n, D)), rng.integers(0, 2, n), rng.normal(size=n)


def arrays(site: int):
    return padding.pad_site(*rows(site), np.zeros(4 * (D + 3)), site)


def draws(count: int = 3):
    mean, sd = MODEL.prior
    return jnp.asarray(mean + 0.7 * sd * np.random.default_rng(3).standard_normal((count, MODEL.size)))


@pytest.fixture(scope="module")
def total() -> Statistics:
    parts = [evidence.statistics(MODEL, draws(), arrays(s), JITTER) for s in range(SITES)]
    return jax.tree.map(lambda *leaves: sum(leaves), *parts)


def dense_covariance(theta, sites=range(SITES)):
    """Cov(y) of all rows: ZZᵀ + blocks of Φ[w, w']k + Σ."""
    x, w, _ = (jnp.concatenate(part) for part in zip(*map(rows, sites), strict=True))
    owner = np.repeat(list(sites), 11)
    z = MODEL.layout.rows(theta, x, covariance.arms(w))
    root = own_root(theta)
    k = kernels.cross(MODEL.kernel, theta["kernel"], x, x)
    local = (root @ root.T)[w][:, w] * k * (owner[:, None] == owner)
    noise = noise_sd(theta)[w] ** 2
    return z @ z.T + local + jnp.diag(noise)


@jax.jit
def dense_evidence(vector):
    y = np.concatenate([rows(s)[2] for s in range(SITES)])
    return multivariate_normal.logpdf(y, jnp.zeros(len(y)), dense_covariance(MODEL.unravel(vector)))


def test_evidence_of_the_sums_is_the_dense_one(total):
    """Relative 1e-8: jitter 1e-10 on covariances whose condition is below 1e3."""
    values, _ = evidence.log_evidence(total, 22.0)
    np.testing.assert_allclose(values, [dense_evidence(v) for v in draws()], rtol=1e-8)


def test_gradient_by_two_exchanges_is_the_dense_one(total):
    _, cotangents = evidence.log_evidence(total, 22.0)
    pulled = sum(evidence.pull_back(MODEL, draws(), arrays(s), JITTER, cotangents) for s in range(SITES))
    dense = jax.jit(jax.vmap(jax.grad(dense_evidence)))(draws())
    np.testing.assert_allclose(pulled, dense, rtol=1e-6, atol=1e-7)


def test_beta_given_the_sums_is_the_dense_posterior(total):
    """E[μ(x) | y] by β̃'s posterior = by conditioning the dense Gaussian."""
    found = evidence.collapse(total)
    x_new, effect = jnp.asarray(np.random.default_rng(1).normal(size=(5, D))), jnp.tile(jnp.array([-1.0, 1.0]), (5, 1))
    y = np.concatenate([rows(s)[2] for s in range(SITES)])
    x, w, _ = (jnp.concatenate(part) for part in zip(*map(rows, range(SITES)), strict=True))
    for one, vector in enumerate(draws()):
        theta = MODEL.unravel(vector)
        e = MODEL.layout.rows(theta, x_new, effect)
        z = MODEL.layout.rows(theta, x, covariance.arms(w))
        cov = dense_covariance(theta)
        np.testing.assert_allclose(e @ found.mean[one], e @ z.T @ np.linalg.solve(cov, y), rtol=1e-6, atol=1e-8)
        spread = jax.scipy.linalg.solve_triangular(found.root[one], e.T, lower=True)
        expected = jnp.diag(e @ e.T - e @ z.T @ np.linalg.solve(cov, z @ e.T))
        np.testing.assert_allclose(jnp.sum(spread**2, 0), expected, rtol=1e-6, atol=1e-8)


def test_the_objective_and_its_gradient():
    """Against plain autodiff of mean log p(y | θ_l) − KL."""
    normals = evidence.common_normals(0, 0, 4, MODEL.size)
    q = np.concatenate([draws(1)[0], np.full(MODEL.size, -1.5)])
    prior_mean, prior_sd = MODEL.prior

    def dense(q):
        mean, log_sd = jnp.split(q, 2)
        thetas = mean[None] + jnp.exp(log_sd)[None] * normals
        values = jax.vmap(dense_evidence)(thetas)
        kl = jnp.log(prior_sd) - log_sd + (jnp.exp(2 * log_sd) + (mean - prior_mean) ** 2) / (2 * prior_sd**2) - 0.5
        tails = jax.scipy.stats.t.logpdf(thetas, MODEL.options.tails, prior_mean[None], prior_sd[None])
        kl = jnp.where(heavy, -(log_sd + 0.5 * jnp.log(2 * jnp.pi * jnp.e)) - tails.mean(0), kl)
        return values.mean() - kl[learnt].sum()

    heavy, learnt = MODEL.heavy_tailed, ~MODEL.held
    assert 0 < heavy.sum() == D * MODEL.options.directions + 1  # and ρ₀
    vectors = jnp.asarray(evidence.draw(q, normals))
    values, by_theta = jax.jit(jax.vmap(jax.value_and_grad(dense_evidence)))(vectors)
    value, gradient = evidence.objective(MODEL, q, normals, np.asarray(values), np.asarray(by_theta))
    expected, slope = jax.value_and_grad(dense)(jnp.asarray(q))  # compiled whole without XLA's passes: not finite
    assert value == pytest.approx(float(expected), rel=1e-12)
    each = np.tile(learnt, 2)
    np.testing.assert_allclose(gradient[each], slope[each], rtol=1e-9, atol=1e-9)


def test_padding_changes_nothing():
    x, w, y = rows(0)
    wide = padding.pad_site(np.pad(x, ((0, 30), (0, 0))), np.pad(w, (0, 30)), np.pad(y, (0, 30)), np.zeros(24), 0)
    wide = wide._replace(mask=jnp.asarray(np.pad(np.ones(11), (0, len(wide.w) - 11))))
    for few, many in zip(evidence.statistics(MODEL, draws(), arrays(0), JITTER),
                         evidence.statistics(MODEL, draws(), wide, JITTER), strict=True):
        np.testing.assert_allclose(few, many, rtol=1e-9, atol=1e-12)


def test_draws_are_antithetic_and_of_unit_spread():
    normals = evidence.common_normals(3, 0, 16, 50)
    np.testing.assert_allclose(normals.mean(0), 0.0, atol=1e-15)
    np.testing.assert_allclose((normals**2).mean(0), 1.0)
    assert evidence.common_normals(3, 0, 16, 50) is normals
    assert not np.array_equal(evidence.common_normals(4, 0, 16, 50), normals)
