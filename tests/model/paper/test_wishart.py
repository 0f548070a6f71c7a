"""q(Φ), q(Σ): the paper's form, the divergence, and draws that are smooth in the degrees of freedom."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fedci.model.paper import posterior, wishart
from fedci.study.options import WishartOptions

PRIOR = WishartOptions(scale=((0.5, 0.2), (0.2, 0.4)), dof=4.0)


def law(scale, dof) -> wishart.Wishart:
    return wishart.Wishart(jnp.asarray(scale), jnp.asarray(dof, float))


def posterior_of(options=PRIOR, **params) -> wishart.Wishart:
    return wishart.posterior(options, {key: jnp.asarray(value) for key, value in params.items()})


# ── the paper's form ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("kind", "rho"), [("signed", np.tanh(-0.7)), ("positive", 1 / (1 + np.exp(0.7)))])
def test_the_scale_is_what_the_paper_prints(kind, rho):
    """V_q = [[ν₁², ρν₁ν₂], [ρν₁ν₂, ν₂²]], ρ in (−1, 1) or, as printed, in [0, 1]; d_q ≥ 2."""
    options = WishartOptions(scale=PRIOR.scale, dof=4.0, correlation=kind)
    q = posterior_of(options, log_sd=[0.3, -0.2], raw_correlation=-0.7, log_dof=1.1)
    nu1, nu2 = np.exp([0.3, -0.2])
    expected = [[nu1**2, rho * nu1 * nu2], [rho * nu1 * nu2, nu2**2]]
    np.testing.assert_allclose(q.scale, expected, rtol=1e-15)
    np.testing.assert_allclose(q.dof, 2 + np.exp(1.1), rtol=1e-15)
    # log|V| = 2 log ν₁ν₂ + log(1 − ρ²)
    np.testing.assert_allclose(np.linalg.slogdet(q.scale)[1], 2 * 0.1 + np.log(1 - rho**2), rtol=1e-14)


def test_what_is_not_learnt_stays_at_the_prior():
    options = WishartOptions(scale=PRIOR.scale, dof=4.0, start_dof=9.0, learn_dof=False, learn_correlation=False)
    params = wishart.init(options)
    assert params.keys() == {"log_sd"}
    q = posterior_of(options, log_sd=[0.3, -0.2])
    assert q.dof == 9.0
    correlation = q.scale[0, 1] / jnp.sqrt(q.scale[0, 0] * q.scale[1, 1])
    np.testing.assert_allclose(correlation, 0.2 / np.sqrt(0.5 * 0.4), rtol=1e-15)


@pytest.mark.parametrize("start_dof", [None, 2.0, 30.0])
def test_q_starts_at_the_priors_mean(start_dof):
    options = WishartOptions(scale=PRIOR.scale, dof=4.0, start_dof=start_dof)
    q = wishart.posterior(options, wishart.init(options))
    # d starts 1e-3 above start_dof, so that start_dof = 2 has a finite logarithm: that much more mean.
    np.testing.assert_allclose(q.dof * q.scale, 4.0 * np.array(PRIOR.scale), rtol=1e-3)
    np.testing.assert_allclose(q.dof, start_dof or 4.0, atol=1.1e-3)


def test_a_correlation_at_the_end_of_its_range_can_still_move():
    """Prior correlation 0 and ρ in [0, 1]: a start at ρ = 0 would be at minus infinity."""
    options = WishartOptions(scale=((1.0, 0.0), (0.0, 1.0)), dof=4.0, correlation="positive")
    start = wishart.init(options)["raw_correlation"]
    rho, slope = jax.value_and_grad(jax.nn.sigmoid)(start)
    assert 0 < rho < 0.05
    assert slope > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_cholesky2(make, seed):
    v = make.spd(np.random.default_rng(seed))
    np.testing.assert_allclose(wishart.cholesky2(jnp.asarray(v)), np.linalg.cholesky(v), rtol=1e-13)


# ── divergence ──────────────────────────────────────────────────────────────────────────────────────────────

LAWS = [(((0.5, 0.2), (0.2, 0.4)), 4.0), (((0.1, -0.05), (-0.05, 0.3)), 12.5), (((2.0, 0.3), (0.3, 1.0)), 2.2)]


@pytest.mark.parametrize("q", LAWS)
def test_divergence_from_itself_is_zero(q):
    # A difference of log Γ's of order 10.
    np.testing.assert_allclose(wishart.divergence(law(*q), law(*q)), 0.0, atol=1e-13)


@pytest.mark.parametrize(("q", "p"), [(LAWS[0], LAWS[1]), (LAWS[2], LAWS[0])])
def test_divergence_is_the_mean_log_ratio_of_densities(q, p):
    """20 000 draws from q; within 4 standard errors, so a right formula fails in 6 of 1e5 seeds."""
    scipy_q, scipy_p = (stats.wishart(dof, scale) for scale, dof in (q, p))
    draws = np.moveaxis(scipy_q.rvs(20_000, random_state=0), 0, -1)
    ratio = scipy_q.logpdf(draws) - scipy_p.logpdf(draws)
    assert abs(wishart.divergence(law(*q), law(*p)) - ratio.mean()) < 4 * ratio.std() / np.sqrt(ratio.size)


@pytest.mark.parametrize(("q", "p"), [(LAWS[0], LAWS[1]), (LAWS[1], LAWS[0]), (LAWS[1], LAWS[2]), (LAWS[2], LAWS[0])])
def test_divergence_by_scipys_entropy(q, p):
    """−H(q) − E_q log p, with E_q W = dV and E_q log|W| = ψ₂(d/2) + 2 log 2 + log|V|: exact."""
    (v, d), (v0, d0) = ((np.array(scale), dof) for scale, dof in (q, p))
    mean_log_det = special.digamma(d / 2) + special.digamma((d - 1) / 2) + 2 * np.log(2) + np.linalg.slogdet(v)[1]
    normaliser = d0 * np.log(2) + d0 / 2 * np.linalg.slogdet(v0)[1] + special.multigammaln(d0 / 2, 2)
    expected_log_p = (d0 - 3) / 2 * mean_log_det - d / 2 * np.trace(np.linalg.solve(v0, v)) - normaliser
    expected = -stats.wishart.entropy(d, v) - expected_log_p
    # A difference of terms ten times as large.
    np.testing.assert_allclose(wishart.divergence(law(*q), law(*p)), expected, rtol=1e-12)


# ── draws ───────────────────────────────────────────────────────────────────────────────────────────────────


UNIFORMS = np.random.default_rng(7).random((20_000, 6))


@pytest.fixture(scope="module")
def many_draws(make):
    """The draws of (Φ, Σ) that independent uniforms give, and the two laws they come from."""
    model = make.model()
    theta = model.unravel(make.theta(model))
    roots = jax.jit(lambda t, u: posterior.roots(model, t, u))(theta, UNIFORMS)
    options = model.options
    laws = wishart.posterior(options.phi, theta["phi"]), wishart.posterior(options.sigma, theta["sigma"])
    return [(np.asarray(root), law) for root, law in zip(roots, laws, strict=True)]


@pytest.mark.parametrize("which", [0, 1], ids=["phi", "sigma"])
def test_draws_have_the_wisharts_mean_and_covariance(many_draws, which):
    """E W = dV, Cov(W_ij, W_kl) = d(V_ik V_jl + V_il V_jk), each within 4 standard errors.

    Nine such checks: right draws fail in 6 of 1e4 seeds.
    """
    roots, (v, d) = many_draws[which]
    v, d = np.asarray(v), float(d)
    w = (roots @ np.swapaxes(roots, 1, 2))[:, [0, 0, 1], [0, 1, 1]]  # W₁₁, W₁₂, W₂₂
    pairs = [(0, 0), (0, 1), (1, 1)]
    error = 4 / np.sqrt(len(w))
    away = w - d * np.array([v[p] for p in pairs])
    assert (abs(away.mean(0)) < error * away.std(0)).all()
    for a, (i, j) in enumerate(pairs):
        for b, (k, l) in enumerate(pairs[a:], a):
            product = away[:, a] * away[:, b]
            assert abs(product.mean() - d * (v[i, k] * v[j, l] + v[i, l] * v[j, k])) < error * product.std()


def test_the_draws_of_phi_and_sigma_are_independent(many_draws):
    """Correlations of all pairs of entries within 4 / √N of 0 (9 pairs: 6 in 1e4 seeds)."""
    phi, sigma = ((root @ np.swapaxes(root, 1, 2))[:, [0, 0, 1], [0, 1, 1]] for root, _ in many_draws)
    correlation = np.corrcoef(phi.T, sigma.T)[:3, 3:]
    assert (abs(correlation) < 4 / np.sqrt(len(phi))).all()


@pytest.mark.parametrize("which", [0, 1], ids=["phi", "sigma"])
def test_draws_follow_the_whole_law_of_the_determinant(many_draws, which):
    """|W|/|V| = χ²_d χ²_{d−1}: Kolmogorov-Smirnov at level 1e-4 against as many draws by SciPy."""
    roots, (v, d) = many_draws[which]
    ratio = (roots[:, 0, 0] * roots[:, 1, 1]) ** 2 / np.linalg.det(v)
    rng = np.random.default_rng(8)
    reference = rng.chisquare(d, len(ratio)) * rng.chisquare(d - 1, len(ratio))
    assert stats.ks_2samp(ratio, reference).pvalue > 1e-4


def test_roots_are_lower_cholesky_factors(many_draws):
    for roots, _ in many_draws:
        assert (roots[:, 0, 1] == 0).all()
        assert (np.diagonal(roots, axis1=1, axis2=2) > 0).all()


@pytest.mark.parametrize(("which", "chi2", "normal"), [(0, [0, 1], 4), (1, [2, 3], 5)], ids=["phi", "sigma"])
def test_a_draw_is_bartletts(many_draws, which, chi2, normal):
    """W^{1/2} = V^{1/2} T, T = [[√χ²_d, 0], [z, √χ²_{d−1}]], by SciPy's quantiles of the draw's own uniforms."""
    roots, (v, d) = many_draws[which]
    for root, row in zip(roots[:20], UNIFORMS, strict=False):
        c = np.sqrt(stats.chi2.ppf(row[chi2], [float(d), float(d) - 1]))
        t = np.array([[c[0], 0], [stats.norm.ppf(row[normal]), c[1]]])
        np.testing.assert_allclose(root, np.linalg.cholesky(v) @ t, rtol=1e-12, atol=1e-14)


# ── the gamma quantile ──────────────────────────────────────────────────────────────────────────────────────

SHAPES = np.array([0.5, 0.5005, 0.75, 1.0, 1.5, 2.0, 5.0, 20.0, 50.0, 500.0])
LEVELS = np.array([1e-12, 1e-8, 1e-4, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-4, 1 - 1e-8, 1 - 1e-12])
GRID = tuple(part.ravel() for part in np.meshgrid(SHAPES, LEVELS))
quantile = jax.jit(wishart.gamma_quantile)


def test_gamma_quantile_is_scipys():
    a, u = GRID
    x, expected = np.asarray(quantile(a, u)), special.gammaincinv(a, u)
    # u itself is only known to 1e-16, and P to about 1e-14 (JAX's series for a = 500): the quantile moves by that over
    # its density.
    density = stats.gamma.pdf(expected, a)
    np.testing.assert_array_less(abs(x - expected), 1e-12 * expected + 2e-14 / density)


def test_derivative_of_the_gamma_quantile_in_its_shape():
    a, u = GRID
    inside = (u > 1e-5) & (u < 1 - 1e-5)  # beyond, SciPy's quantile is too rough to difference
    a, u = a[inside], u[inside]
    slope = jax.jit(jax.vmap(jax.grad(wishart.gamma_quantile)))(a, u)
    step = 1e-3 * a
    x = [special.gammaincinv(a + k * step, u) for k in (-2, -1, 1, 2)]
    expected = (x[0] - 8 * x[1] + 8 * x[2] - x[3]) / (12 * step)
    # Differences of quantiles known to 1e-13 over steps of 1e-3, and JAX's ∂P/∂a, good to about 1e-9.
    np.testing.assert_allclose(slope, expected, rtol=1e-7)


def test_draws_move_smoothly_with_the_degrees_of_freedom():
    """Common uniforms, d on a grid of step 1e-3: a rejection sampler would jump where its acceptance flips; here each
    step is like the one before it, up to curvature."""
    rng = np.random.default_rng(9)
    uniforms, dof = rng.random((1, 16)), np.arange(2.0, 6.0, 1e-3)[:, None]
    chi2 = np.asarray(jax.jit(wishart.chi_square)(*np.broadcast_arrays(dof, uniforms)))
    first, second = np.diff(chi2, axis=0), np.diff(chi2, n=2, axis=0)
    assert (first > 0).all()
    assert (abs(second) < 5e-3 * first[1:] + 1e-12).all()
