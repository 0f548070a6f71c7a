"""Federated = computed in one place: the sum of site terms and data-free terms equals the objective written densely
over all rows of all sites at once.

    q(g):  the 2m-vector [g_0; g_1] ~ N([h_0; h_1], I₂ ⊗ U)          p(g): N([r_0; r_1], I₂ ⊗ M)
    y | g: N(a + B g, C),  B [N, 2m] the loading of each person's own site,  C [N, N] zero between sites
    E_q(g) log p(y | g) = log N(y; a + B h, C) − ½ tr C⁻¹ B (I₂ ⊗ U) Bᵀ
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fedci.model.paper import elbo

SIZES, DRAWS, NO_JITTER = (3, 6, 8), 4, 0.0
SOURCE_JITTER = 1e-8
"""Added to U and M, relative to their mean diagonal."""


@pytest.fixture(scope="module")
def model(make):
    return make.model()


@pytest.fixture(scope="module")
def vector(make, model):
    return make.theta(model)


@pytest.fixture(scope="module")
def study(make, model):
    return make.study(model, SIZES)


@pytest.fixture(scope="module")
def uniforms():
    return np.random.default_rng(5).random((DRAWS, 6))


@pytest.fixture(scope="module")
def federated(model, vector, study, uniforms):
    """(objective, gradient) as a coordinator adds them up."""
    _, u, sites = study
    roots = elbo.draw(model, vector, uniforms).roots
    replies = [elbo.evaluate_site(model, vector, roots, site, NO_JITTER) for site in sites]
    by_roots = jax.tree.map(lambda *leaves: sum(leaves), *(reply[1][1] for reply in replies))
    value, gradient = elbo.evaluate_global(model, vector, jnp.asarray(u))
    total = sum(reply[0] for reply in replies) + value
    pulled = elbo.pull_back(model, elbo.draw(model, vector, uniforms).jacobian, by_roots)
    return total, sum(r[1][0] for r in replies) + gradient + pulled


def stacked(rows):
    """x, w, y of all sites, and each row's site."""
    return *(np.concatenate(part) for part in zip(*rows, strict=True)), np.repeat(np.arange(len(rows)), SIZES)


def wishart_law(params):
    """V in the ρ/ν form, and d = 2 + e^(log_dof)."""
    nu, rho = np.exp(np.asarray(params["log_sd"])), np.tanh(float(params["raw_correlation"]))
    off = rho * nu[0] * nu[1]
    return np.array([[nu[0] ** 2, off], [off, nu[1] ** 2]]), 2.0 + np.exp(float(params["log_dof"]))


def bartlett_root(law, u1, u2, u3):
    """W^{1/2} = V^{1/2} T from three uniforms, by SciPy's quantiles."""
    scale, dof = law
    t = [[np.sqrt(stats.chi2.ppf(u1, dof)), 0.0], [stats.norm.ppf(u3), np.sqrt(stats.chi2.ppf(u2, dof - 1))]]
    return np.linalg.cholesky(scale) @ t


def wishart_divergence(q, options):
    """−H(q) − E_q log p: SciPy's entropy, and the prior's log density with E_q W = dV and E_q log|W| put in."""
    (v, d), v0, d0 = q, np.array(options.scale), options.dof
    mean_log_det = special.digamma(d / 2) + special.digamma((d - 1) / 2) + 2 * np.log(2) + np.linalg.slogdet(v)[1]
    log_normaliser = d0 * np.log(2) + d0 / 2 * np.linalg.slogdet(v0)[1] + special.multigammaln(d0 / 2, 2)
    expected_log_p = (d0 - 3) / 2 * mean_log_det - d * np.trace(np.linalg.solve(v0, v)) / 2 - log_normaliser
    return -stats.wishart.entropy(d, v) - expected_log_p


def normal_divergence(mean_q, cov_q, mean_p, cov_p):
    gap = mean_p - mean_q
    return 0.5 * (np.trace(np.linalg.solve(cov_p, cov_q)) - len(gap) + gap @ np.linalg.solve(cov_p, gap)
                  + np.linalg.slogdet(cov_p)[1] - np.linalg.slogdet(cov_q)[1])


def steadied(cov):
    return cov + SOURCE_JITTER * np.diag(cov).mean() * np.eye(len(cov))


def loading(xp, root_phi, w, s, m):
    """B [N, 2m]: row i holds A(w_i) in the columns of g_0 and g_1 of its own site."""
    own_site = xp.eye(m)[s]
    return xp.hstack([root_phi[w, 0][:, None] * own_site, root_phi[w, 1][:, None] * own_site])


def dense_value(dense, model, theta, rows, u, uniforms) -> float:
    x, w, y, s = stacked(rows)
    m = len(u)
    k = dense.rbf(theta["kernel"], x, x) * (s[:, None] == s[None, :])
    mu = dense.linear(theta["mean"], x)
    h = np.asarray(theta["posterior_mean"]["value"])
    cov_q, moments_x = steadied(dense.rbf(theta["posterior_kernel"], u, u)), u[:, 8:20]
    q_phi, q_sigma = wishart_law(theta["phi"]), wishart_law(theta["sigma"])
    terms = []
    for row in uniforms:
        root_phi = bartlett_root(q_phi, *row[[0, 1, 4]])
        root_sigma = bartlett_root(q_sigma, *row[[2, 3, 5]])
        phi, sigma = root_phi @ root_phi.T, root_sigma @ root_sigma.T
        c = phi[np.ix_(w, w)] * k + np.diag(sigma[w, w])
        b = loading(np, root_phi, w, s, m)
        mean = (root_phi[w] * mu).sum(1) + b @ h.T.ravel()
        spread = np.trace(np.linalg.solve(c, b @ np.kron(np.eye(2), cov_q) @ b.T))
        terms.append(stats.multivariate_normal.logpdf(y, mean, c) - spread / 2)
    r = dense.linear(theta["source_mean"], moments_x)
    kl_g = normal_divergence(h.T.ravel(), np.kron(np.eye(2), cov_q), r.T.ravel(),
                             np.kron(np.eye(2), steadied(dense.rbf(theta["source_kernel"], moments_x, moments_x))))
    kl = kl_g + wishart_divergence(q_phi, model.options.phi) + wishart_divergence(q_sigma, model.options.sigma)
    return np.mean(terms) - kl + log_priors(np, model, theta)


def log_priors(xp, model, theta):
    starts = {"kernel": 3, "source_kernel": 12}
    hyper = sum(xp.sum((theta[name]["log_length"] - 0.5 * np.log(dim)) ** 2) + theta[name]["log_scale"] ** 2
                for name, dim in starts.items())
    weights = xp.sum(theta["mean"]["weight"] ** 2)
    return -0.5 * (weights / model.options.weight_sd**2 + hyper / model.options.hyper_sd**2)


def test_the_summed_objective_is_the_dense_one(dense, model, vector, study, uniforms, federated):
    rows, u, _ = study
    expected = dense_value(dense, model, model.unravel(vector), rows, u, uniforms)
    np.testing.assert_allclose(federated[0], expected, rtol=1e-13)


def differentiable(model, u, rows):
    """The same dense objective in jax.numpy, for its gradient in Θ and in the draws."""
    x, w, y, s = (jnp.asarray(part) for part in stacked(rows))
    m, u = len(u), jnp.asarray(u)
    moments_x = u[:, 8:20]

    def rbf(params, x, z):
        length = jnp.broadcast_to(jnp.exp(params["log_length"]), x.shape[1:])
        r2 = (((x[:, None] - z[None]) / length[None, None]) ** 2).sum(-1)
        return jnp.exp(2 * params["log_scale"] - r2 / 2)

    def log_normal(residual, cov):
        return -0.5 * (residual @ jnp.linalg.solve(cov, residual) + jnp.linalg.slogdet(2 * jnp.pi * cov)[1])

    def steady(cov):
        """U or M for both arms, diagonal lifted."""
        return jnp.kron(jnp.eye(2), cov + SOURCE_JITTER * jnp.diag(cov).mean() * jnp.eye(m))

    def divergence_g(mean_q, cov_q, mean_p, cov_p):
        gap = mean_p - mean_q
        return 0.5 * (jnp.trace(jnp.linalg.solve(cov_p, cov_q)) - 2 * m + gap @ jnp.linalg.solve(cov_p, gap)
                      + jnp.linalg.slogdet(cov_p)[1] - jnp.linalg.slogdet(cov_q)[1])

    def divergence_wishart(params, options):
        nu, rho = jnp.exp(params["log_sd"]), jnp.tanh(params["raw_correlation"])
        v = jnp.outer(nu, nu) * (rho + (1 - rho) * jnp.eye(2))
        d, v0, d0 = 2 + jnp.exp(params["log_dof"]), jnp.asarray(options.scale), options.dof
        lg, psi = jax.scipy.special.multigammaln, jax.scipy.special.digamma
        return (d0 / 2 * (jnp.linalg.slogdet(v0)[1] - jnp.linalg.slogdet(v)[1])
                + d / 2 * (jnp.trace(jnp.linalg.solve(v0, v)) - 2) + lg(d0 / 2, 2) - lg(d / 2, 2)
                + (d - d0) / 2 * (psi(d / 2) + psi((d - 1) / 2)))

    def objective(vector, roots):
        theta = model.unravel(vector)
        k = rbf(theta["kernel"], x, x) * (s[:, None] == s[None, :])
        mu = theta["mean"]["bias"][None] + x @ theta["mean"]["weight"]
        h, cov_q = theta["posterior_mean"]["value"], steady(rbf(theta["posterior_kernel"], u, u))

        def term(root_phi, root_sigma):
            phi, sigma = root_phi @ root_phi.T, root_sigma @ root_sigma.T
            c = phi[w[:, None], w[None, :]] * k + jnp.diag(sigma[w, w])
            b = loading(jnp, root_phi, w, s, m)
            residual = y - (root_phi[w] * mu).sum(1) - b @ h.T.ravel()
            return log_normal(residual, c) - jnp.trace(jnp.linalg.solve(c, b @ cov_q @ b.T)) / 2

        r = theta["source_mean"]["bias"][None] + moments_x @ theta["source_mean"]["weight"]
        cov_p = rbf(theta["source_kernel"], moments_x, moments_x)
        return (jax.vmap(term)(*roots).mean() - divergence_g(h.T.ravel(), cov_q, r.T.ravel(), steady(cov_p))
                - divergence_wishart(theta["phi"], model.options.phi)
                - divergence_wishart(theta["sigma"], model.options.sigma) + log_priors(jnp, model, theta))

    return objective


def test_the_summed_gradient_is_the_dense_one(model, vector, study, uniforms, federated):
    """Only the draws' own gradient is shared, `pull_back`: finite differences check it in test_gradients."""
    rows, u, _ = study
    objective = jax.jit(jax.value_and_grad(differentiable(model, u, rows), argnums=(0, 1)))
    value, (gradient, by_roots) = objective(vector, elbo.draw(model, vector, uniforms).roots)
    gradient += elbo.pull_back(model, elbo.draw(model, vector, uniforms).jacobian, by_roots)
    np.testing.assert_allclose(federated[0], value, rtol=1e-13)
    # Relative to the whole gradient: an entry near zero is a difference of large terms.
    np.testing.assert_allclose(federated[1], gradient, rtol=1e-12, atol=1e-13 * np.abs(gradient).max())
