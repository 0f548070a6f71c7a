"""Effects given Θ and draws of (Φ, Σ, g): the conditional mean and variance per draw. All of it stays at the site
but the sums.

For a draw, with means m(x) (`law`), C = K_obs, e = y − m_w(x), and any set of people with weights t:

    CATE   τ(x)  = m₁(x) − m₀(x) + Q(x) C⁻¹e                            Q_i(x) = (Φ[1, w_i] − Φ[0, w_i]) k(x, x_i)
           Cov(τ(x), τ(x')) = (Φ₁₁ + Φ₂₂ − 2Φ₁₂) k(x, x') − Q(x) C⁻¹Q(x')ᵀ
    ITE    τ_i   = w̃_i (y_i − y_mis,i),   y_mis ~ N(m_mo, S_mo)         the paper's Eqs. for E and Var
    sums   Σ t_i τ_i  has mean tᵀE[τ] and variance tᵀCov[τ]t             one number each: this leaves the site

The variance over draws is added by the law of total variance (`estimands`).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from fedci.model import covariance
from fedci.model import law as laws
from fedci.model.law import AnyModel, Draws, Law, SharedDraws
from fedci.model.paper.elbo import SiteArrays, steady
from fedci.model.parallel import over_draws
from fedci.model.shared import sparse
from fedci.model.shared.inducing import Blocks

__all__ = ["Draws", "Moments", "SharedDraws", "SiteEffects", "block_effects", "cate_at", "ite_each", "ite_of_block",
           "known", "noise_variance", "outcomes_at", "site_effects"]

Known = SiteArrays | sparse.Learnt
"""What predictions for new people need of a site: its rows, or what was learnt from them where they are many."""


class Moments(NamedTuple):
    """Conditional mean and variance of some effects for each draw."""

    mean: Float[Array, "L *k"]
    var: Float[Array, "L *k"]


class Conditioned(NamedTuple):
    """One draw conditioned on the site's rows; B values of β̃ share everything but the means."""

    phi: Float[Array, "2 2"]
    sigma: Float[Array, "2 2"]
    k: Float[Array, "n n"]
    means: Float[Array, "B n 2"]
    """E[y(0), y(1)] at the site's rows, before they are seen."""
    chol: Float[Array, "n n"]
    alpha: Float[Array, "B n"]
    """C⁻¹e."""


def condition(law: Law, site: SiteArrays, jitter) -> Conditioned:
    k, means = law.k(site.x, site.x), law.means(site.x)
    people = jnp.outer(site.mask, site.mask)
    chol = jnp.linalg.cholesky(steady(people * covariance.observed(law.phi, law.sigma, k, site.w), site, jitter))
    e = site.mask[None] * (site.y[None] - jnp.sum(covariance.arms(site.w)[None] * means, -1))
    return Conditioned(law.phi, law.sigma, k, means, chol, cho_solve((chol, True), e.T).T)


def arms_at(law: Law, site: SiteArrays, given: Conditioned, x: Float[Array, "p d"]):
    """Means [B, p, 2] and covariances [p, 2, 2] of (E y(0), E y(1)) at new x: no outcome noise."""
    across = law.k(x, site.x) * site.mask[None]
    q = jnp.stack([given.phi[j, site.w][None] * across for j in (0, 1)])
    white = jax.vmap(lambda qj: solve_triangular(given.chol, qj.T, lower=True))(q)
    explained = jnp.einsum("anp,bnp->pab", white, white)
    means = law.means(x) + jnp.einsum("apn,Bn->Bpa", q, given.alpha)
    return means, law.own(x)[:, None, None] * given.phi[None] - explained


def known(model: AnyModel, site: SiteArrays | Blocks, draws: Draws | SharedDraws, jitter) -> Known:
    """A large site's rows are passed over once, for all people to come; a small one's are conditioned on anew."""
    if not isinstance(site, Blocks):
        return site
    return over_draws(lambda part: _learnt(model, site, part, jitter), draws)


@partial(jax.jit, static_argnames="model")
def _learnt(model, site: Blocks, draws: SharedDraws, jitter) -> sparse.Learnt:
    """For each draw of θ."""
    return jax.lax.map(lambda draw: sparse.learn(model, draw.theta, draw.beta, site, jitter)[0], draws)


@partial(jax.jit, static_argnames="model")
def cate_at(model: AnyModel, vector, site: Known, draws: Draws | SharedDraws, x: Float[Array, "p d"],
            jitter) -> Moments:
    """τ(x) for each draw and new person; also used without rows (padding only): then it is the prior's."""
    if isinstance(site, sparse.Learnt):
        return _merged(jax.lax.map(lambda draw: _same_shape(*sparse.effect_at(model, draw, x)), site))

    def one(draw):
        law = laws.of_draw(model, vector, draw, site.index)
        mean, cov = arms_at(law, site, condition(law, site, jitter), x)
        var = cov[:, 0, 0] + cov[:, 1, 1] - 2.0 * cov[:, 0, 1]
        return _same_shape(mean[..., 1] - mean[..., 0], jnp.maximum(var, 0.0))

    return _merged(jax.lax.map(one, draws))


@partial(jax.jit, static_argnames="model")
def outcomes_at(model: AnyModel, vector, site: Known, draws: Draws | SharedDraws, x: Float[Array, "p d"], jitter):
    """(E y(0), E y(1)) for each draw: means [L, p, 2], covariances [L, p, 2, 2]."""
    def one(draw):
        if isinstance(site, sparse.Learnt):
            mean, cov = sparse.arms_at(model, draw, x)
        else:
            law = laws.of_draw(model, vector, draw, site.index)
            mean, cov = arms_at(law, site, condition(law, site, jitter), x)
        return mean, jnp.broadcast_to(cov, (mean.shape[0], *cov.shape))

    return _merged(jax.lax.map(one, site if isinstance(site, sparse.Learnt) else draws))


@partial(jax.jit, static_argnames="model")
def noise_variance(model: AnyModel, vector, draws: Draws | SharedDraws) -> Float[Array, "L"]:
    """Var(ε(1) − ε(0)) for each draw."""
    def one(draw):
        law = laws.of_draw(model, vector, draw, jnp.asarray(0))
        var = law.sigma[0, 0] + law.sigma[1, 1] - 2.0 * law.sigma[0, 1]
        return jnp.broadcast_to(var, law.means(jnp.zeros((1, model.covariates))).shape[:1])

    return _merged(jax.lax.map(one, draws))


def _same_shape(mean, var) -> Moments:
    """The variance repeated for each β̃."""
    return Moments(mean, jnp.broadcast_to(var, mean.shape))


def _merged(tree):
    """[L, B, …] → [L·B, …]: each β̃ is a draw of its own."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


class Missing(NamedTuple):
    """y_mis | y_obs for one draw: m_mo, and what S_mo is made of (all [n, n], padding left out by weights)."""

    mean: Float[Array, "B n"]
    prior_cov: Float[Array, "n n"]
    k_om: Float[Array, "n n"]
    chol: Float[Array, "n n"]


def missing_given_observed(site: SiteArrays, given: Conditioned, noise_correlation) -> Missing:
    """The paper's m_mo and S_mo."""
    shared = shared_noise(given, noise_correlation)
    sigma = given.sigma.at[0, 1].set(shared).at[1, 0].set(shared)
    people = jnp.outer(site.mask, site.mask)
    k_om = people * covariance.observed_missing(given.phi, sigma, given.k, site.w)
    k_mis = people * covariance.missing(given.phi, sigma, given.k, site.w)
    prior_mean = jnp.sum(covariance.arms(1 - site.w)[None] * given.means, -1)
    return Missing(prior_mean + given.alpha @ k_om, k_mis, k_om, given.chol)


def shared_noise(given: Conditioned, noise_correlation):
    """Cov(ε(0), ε(1)), which no data inform: the draw's own σ₁₂, or `noise_correlation` times its standard deviations
    where that is not NaN (the sensitivity analysis)."""
    noise = jnp.sqrt(given.sigma[0, 0] * given.sigma[1, 1])
    return jnp.where(jnp.isnan(noise_correlation), given.sigma[0, 1], noise_correlation * noise)


class SiteEffects(NamedTuple):
    """Sums of the site's own people's effects for each draw and weight vector (e): what leaves the site."""

    cate: Moments
    """Σ_i t_i τ(x_i) [L, e]."""
    ite: Moments
    """Σ_i t_i τ_i [L, C, e], one per noise correlation: the paper's E[τ] and Var[τ] times n and n²."""


@partial(jax.jit, static_argnames="model")
def site_effects(model: AnyModel, vector, site: SiteArrays, draws: Draws | SharedDraws, weights: Float[Array, "e n"],
                 correlations: Float[Array, "C"], jitter) -> SiteEffects:
    """All sums of a site in one pass over the draws: one Cholesky factor each, then only vectors."""
    def one(draw):
        given = condition(laws.of_draw(model, vector, draw, site.index), site, jitter)
        realised = jax.vmap(lambda c: _realised_sums(site, missing_given_observed(site, given, c), weights), out_axes=1)
        return SiteEffects(_expected_sums(site, given, weights), realised(correlations))

    return _merged(jax.lax.map(one, draws))


def block_effects(model: AnyModel, site: Blocks, draws: SharedDraws, correlations, jitter) -> SiteEffects:
    """`site_effects` of a large site, over (everyone, the treated, the controls): one pass over its rows for each θ."""
    return over_draws(lambda part: _block_effects(model, site, part, correlations, jitter), draws)


@partial(jax.jit, static_argnames="model")
def _block_effects(model, site: Blocks, draws: SharedDraws, correlations: Float[Array, "C"], jitter) -> SiteEffects:
    def one(draw):
        cate, ite = sparse.sums(model, *sparse.learn(model, draw.theta, draw.beta, site, jitter), site, correlations)
        return SiteEffects(_same_shape(*cate), _same_shape(*ite))

    return _merged(jax.lax.map(one, draws))


def _expected_sums(site: SiteArrays, given: Conditioned, weights) -> Moments:
    contrast = given.phi[1] - given.phi[0]
    q = contrast[site.w][None] * (weights @ given.k) * site.mask[None]
    prior_mean = given.means[..., 1] - given.means[..., 0]
    scale = contrast[1] - contrast[0]
    return _same_shape(prior_mean @ weights.T + given.alpha @ q.T,
                       jnp.maximum(scale * _quadratic(weights, given.k) - _explained(given.chol, q), 0.0))


def _realised_sums(site: SiteArrays, mis: Missing, weights) -> Moments:
    """Σ_i t_i w̃_i (y_i − y_mis,i)."""
    sign = (2 * site.w - 1) * site.mask
    t = weights * sign[None]
    return _same_shape((site.y[None] - mis.mean) @ t.T,
                       jnp.maximum(_quadratic(t, mis.prior_cov) - _explained(mis.chol, t @ mis.k_om.T), 0.0))


def ite_of_block(model: AnyModel, site: sparse.Learnt, x, y, arm, correlations) -> Moments:
    """τ_i [L, C, b] of the people of one block of a large site. Stays there."""
    return over_draws(lambda part: _ite_of_block(model, part, x, y, arm, correlations), site)


@partial(jax.jit, static_argnames="model")
def _ite_of_block(model: AnyModel, site: sparse.Learnt, x, y, arm, correlations: Float[Array, "C"]) -> Moments:
    return _merged(jax.lax.map(
        lambda draw: _same_shape(*sparse.realised_each(model, draw, x, y, arm, correlations)), site))


@partial(jax.jit, static_argnames="model")
def ite_each(model: AnyModel, vector, site: SiteArrays, draws: Draws | SharedDraws, correlations: Float[Array, "C"],
             jitter) -> Moments:
    """τ_i [L, C, n] of each person: w̃_i(y_i − m_mo,i) and S_mo,ii. Stays at the site.

    The correlations differ only in the diagonal s_c of K_om = B + s_c I, so with R = chol(C)⁻¹ one product serves all:
    diag(K_omᵀC⁻¹K_om) = Σ(RB)² + 2 s_c Σ R∘(RB) + s_c² ΣR², sums over rows.
    """
    def one(draw):
        given = condition(laws.of_draw(model, vector, draw, site.index), site, jitter)
        bare = missing_given_observed(site, given, jnp.zeros(()))
        r = solve_triangular(given.chol, jnp.eye(site.y.shape[0]), lower=True)
        rb, sign = r @ bare.k_om, (2 * site.w - 1) * site.mask
        squares, crossed, own = (jnp.sum(m, 0) for m in (rb * rb, r * rb, r * r))

        def at(correlation):
            s = site.mask * shared_noise(given, correlation)
            mean = bare.mean + s[None] * given.alpha
            var = jnp.diag(bare.prior_cov) - squares - 2.0 * s * crossed - s * s * own
            return _same_shape(sign[None] * (site.y[None] - mean), site.mask * jnp.maximum(var, 0.0))

        return jax.vmap(at, out_axes=1)(correlations)

    return _merged(jax.lax.map(one, draws))


def _quadratic(t, cov):
    """t_eᵀ Cov t_e for each row of t."""
    return jnp.sum((t @ cov) * t, 1)


def _explained(chol, q):
    """q_eᵀ C⁻¹ q_e for each row of q."""
    white = solve_triangular(chol, q.T, lower=True)
    return jnp.sum(white * white, 0)
