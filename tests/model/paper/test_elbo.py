"""The site's term: g integrated in closed form, (Φ, Σ) averaged over draws, and its hand-written derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedci.model import exact, kernels, padding
from fedci.model.paper import elbo, means, posterior
from fedci.model.paper.posterior import Roots

N, DRAWS, NO_JITTER = 7, 4, jnp.asarray(0.0)


@pytest.fixture(scope="module")
def model(make):
    return make.model()


@pytest.fixture(scope="module")
def theta(make, model):
    return model.unravel(make.theta(model))


@pytest.fixture(scope="module")
def rows(make):
    return make.rows(N)


@pytest.fixture(scope="module")
def u(model):
    return np.random.default_rng(1).standard_normal(model.u_dim)


@pytest.fixture(scope="module")
def site(make, rows, u):
    return make.unpadded(*rows, u)


@pytest.fixture(scope="module")
def roots(make):
    rng = np.random.default_rng(2)
    both = (np.linalg.cholesky([make.spd(rng) for _ in range(DRAWS)]) for _ in range(2))
    return Roots(*map(jnp.asarray, both))


@pytest.fixture(scope="module")
def residual(model, theta, site):
    h, variance = posterior.g_at_site(model, theta, site.u, site.index)
    return elbo.Residual(kernels.cross(model.kernel, theta["kernel"], site.x, site.x),
                         means.over_rows(model.mean, theta["mean"], site.x, site.index), h, variance)


draw_term = jax.jit(elbo.draw_term)


@pytest.fixture(scope="module")
def log_likelihood(dense, theta, rows, roots):
    """g [k, 2] → log p(y | g, Φ, Σ) [k] of the first draw, from Lemma 2's dense law."""
    x, w, y = rows
    root_phi, root_sigma = np.asarray(roots.phi[0]), np.asarray(roots.sigma[0])
    obs, _ = dense.observed_and_missing(w)
    mean, cov = dense.potential_outcomes(theta, x, np.zeros(2), root_phi @ root_phi.T, root_sigma @ root_sigma.T)
    law = multivariate_normal(np.zeros(N), cov[np.ix_(obs, obs)])
    return lambda g: law.logpdf(y - mean[obs] - g @ root_phi[w].T)


def test_g_integrates_like_gauss_hermite_quadrature(log_likelihood, residual, roots, site):
    """log p is quadratic in g: five nodes per arm integrate it exactly, up to rounding."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    weight = np.outer(weights, weights).ravel() / weights.sum() ** 2
    g = np.asarray(residual.h) + np.sqrt(residual.g_variance) * grid
    term = draw_term(residual, roots.phi[0], roots.sigma[0], site, NO_JITTER)
    np.testing.assert_allclose(term, weight @ log_likelihood(g), rtol=1e-12)


def test_g_integrates_like_monte_carlo(log_likelihood, residual, roots, site):
    """1e5 samples; within 4 standard errors, so a right formula fails in 6 of 1e5 seeds."""
    g = np.asarray(residual.h) + np.sqrt(residual.g_variance) * np.random.default_rng(3).standard_normal((10**5, 2))
    sample = log_likelihood(g)
    term = draw_term(residual, roots.phi[0], roots.sigma[0], site, NO_JITTER)
    assert abs(term - sample.mean()) < 4 * sample.std() / np.sqrt(len(sample))


def test_without_inter_dependency_g_is_zero(make, log_likelihood, rows, u, roots):
    alone = make.model(inter_dependency=False)
    with_g = make.model()
    theta = {key: value for key, value in with_g.unravel(make.theta(with_g)).items() if key in alone.initial(0)}
    first = jax.tree.map(lambda leaf: leaf[:1], roots)
    term = elbo.site_term(alone, theta, first, make.unpadded(*rows, u), NO_JITTER)
    np.testing.assert_allclose(term, log_likelihood(np.zeros((1, 2))), rtol=1e-12)


def test_a_site_term_is_the_mean_of_its_draw_terms(make, model, theta, residual, roots, site):
    each = [draw_term(residual, roots.phi[l], roots.sigma[l], site, NO_JITTER) for l in range(DRAWS)]
    np.testing.assert_allclose(elbo.site_term(model, theta, roots, site, NO_JITTER), np.mean(each), rtol=1e-14)
    value, _ = elbo.evaluate_site(model, make.theta(model), roots, site, 0.0)
    np.testing.assert_allclose(value, np.mean(each), rtol=1e-14)


def test_batching_the_draws_changes_nothing(monkeypatch, model, theta, roots, site):
    def evaluate(elements, batch):
        monkeypatch.setattr(exact, "BATCH_ELEMENTS", elements)
        monkeypatch.setattr(exact, "on_processor", lambda: False)
        assert exact.batch_size(DRAWS, N) == batch
        return jax.value_and_grad(elbo.site_term, argnums=(1, 2))(model, theta, roots, site, NO_JITTER)

    # The same terms in another order: rounding.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12),
                 evaluate(2 * N * N, 2), evaluate(DRAWS * N * N, DRAWS))


@pytest.mark.parametrize("jitter", [0.0, 1e-3])
def test_padding_adds_nothing_to_value_or_gradient(make, model, rows, u, roots, site, jitter):
    """Also not to the jitter, which is relative to the mean diagonal of the people alone."""
    vector = make.theta(model)
    padded = elbo.evaluate_site(model, vector, roots, padding.pad_site(*rows, u, 0), jitter)
    bare = elbo.evaluate_site(model, vector, roots, site, jitter)
    # Not bit for bit: BLAS sums 8 rows in another order than 7.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), padded, bare)


def test_a_site_without_rows_has_no_term(make, model, u, roots):
    value, gradients = elbo.evaluate_site(model, make.theta(model), roots, padding.no_rows(3, u), 0.0)
    assert value == 0.0
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(gradients))


def test_permuted_rows_keep_the_term(make, model, rows, u, roots, site):
    order = np.random.default_rng(4).permutation(N)
    vector = make.theta(model)
    one = elbo.evaluate_site(model, vector, roots, site, 0.0)
    two = elbo.evaluate_site(model, vector, roots, make.unpadded(*(part[order] for part in rows), u), 0.0)
    # Factorisations in another order: rounding.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), one, two)


def test_jitter_is_relative_to_the_mean_diagonal(dense, model, theta, rows, residual, roots, site):
    x, w, _ = rows
    root_phi, root_sigma = np.asarray(roots.phi[0]), np.asarray(roots.sigma[0])
    obs, _ = dense.observed_and_missing(w)
    _, cov = dense.potential_outcomes(theta, x, np.zeros(2), root_phi @ root_phi.T, root_sigma @ root_sigma.T)
    k_obs = cov[np.ix_(obs, obs)]
    lifted = elbo.observed_covariance(roots.phi[0], roots.sigma[0], residual.k, site, jnp.asarray(1e-3))
    np.testing.assert_allclose(lifted, k_obs + 1e-3 * np.diag(k_obs).mean() * np.eye(N), rtol=1e-13)


def test_weighted_quadratic_and_its_gradients(make):
    """Value by solve and slogdet; gradients against JAX's own through the same dense formula."""
    rng = np.random.default_rng(5)
    c, b, weight = (jnp.asarray(part) for part in (make.spd(rng, 5), rng.standard_normal((5, 3)), rng.random(3)))

    def plain(c, b, weight):
        return jnp.sum(weight * jnp.sum(b * jnp.linalg.solve(c, b), 0)) + 0.7 * jnp.linalg.slogdet(c)[1]

    def ours(c, b, weight):
        quadratic, log_det = elbo.weighted_quadratic(c, b, weight)
        return quadratic + 0.7 * log_det

    values = [jax.value_and_grad(function, argnums=(0, 1, 2))(c, b, weight) for function in (ours, plain)]
    # The condition number of c, about 1e2, times rounding.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), *values)


def test_priors_of_the_point_estimates(make):
    """Gaussian, up to a constant: μ's weights (not its biases) around 0; log-scales of k and γ, which belong to the
    model, around their start ½ log dim and 0; none of κ, which belongs to q."""
    model = make.model()
    assert (model.options.weight_sd, model.options.hyper_sd) == (0.7, 1.3)
    theta = model.unravel(make.theta(model))
    hyper = sum(np.sum((np.asarray(theta[name]["log_length"]) - 0.5 * np.log(dim)) ** 2)
                + float(theta[name]["log_scale"]) ** 2 for name, dim in (("kernel", 3), ("source_kernel", 12)))
    expected = -0.5 * np.sum(np.asarray(theta["mean"]["weight"]) ** 2) / 0.7**2 - 0.5 * hyper / 1.3**2
    np.testing.assert_allclose(elbo.log_prior(model, theta), expected, rtol=1e-14)
    assert elbo.log_prior(make.model(weight_sd=None, hyper_sd=None), theta) == 0.0
