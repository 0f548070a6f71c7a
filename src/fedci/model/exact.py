"""A site's rows with their whole covariance: what small sites compute on, in every family.

For a draw, with means m(x) (`model.law`), C = K_obs, e = y − m_w(x), and any set of people with weights t:

    CATE   τ(x)  = m₁(x) − m₀(x) + Q(x) C⁻¹e                            Q_i(x) = (Φ[1, w_i] − Φ[0, w_i]) k(x, x_i)
           Cov(τ(x), τ(x')) = (Φ₁₁ + Φ₂₂ − 2Φ₁₂) k(x, x') − Q(x) C⁻¹Q(x')ᵀ
    ITE    τ_i   = w̃_i (y_i − y_mis,i),   y_mis ~ N(m_mo, S_mo)         the paper's Eqs. for E and Var
    sums   Σ t_i τ_i  has mean tᵀE[τ] and variance tᵀCov[τ]t             one number each: this leaves the site
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, Int

from fedci.effect import person_weights
from fedci.model import covariance
from fedci.model.law import Law
from fedci.model.parallel import on_processor
from fedci.model.programs import compiled
from fedci.model.rows import (
    Anchor,
    Arms,
    ArmSums,
    BetaLaw,
    Draws,
    LeftOut,
    Moments,
    Scalar,
    SiteEffects,
    SufficientSums,
    Vector,
    Weighed,
    merged,
    on_device,
    same_shape,
)

BATCH_ELEMENTS = 2**21
"""A GPU evaluates draws side by side while their covariances hold at most this many numbers (16 MiB)."""
SMALL = 100
"""A site with fewer rows computes all draws in one thread."""


SITE_PART = 0.5
"""ρ: of a site's own function, what its clusters share."""


class ExactRows(NamedTuple):
    """A site's rows in model units, padded so that sites of different size share one compilation."""

    x: Float[Array, "n d"]
    w: Int[Array, "n"]
    y: Float[Array, "n"]
    mask: Float[Array, "n"]
    """1 for a person, 0 for padding; padding has no influence on any result."""
    u: Float[Array, "q"]
    index: Int[Array, ""]  # type: ignore[assignment]  # hides tuple.index, which nobody asks of rows
    weight: Float[Array, "n"]
    """Of each row's precision (`model.likelihood`); 1 for padding."""
    added: Float[Array, ""] = np.zeros(())  # type: ignore[assignment]  # traced as an array
    """Variance of the noise that the site added to its outcomes (`model.likelihood`)."""
    cluster: Int[Array, "n"] | None = None
    """The number of each person's cluster within the site (a hospital, a school); None: there are none."""

    def alike(self, k: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """k of the site's own people where they come in clusters: a part of the own function is the site's, the rest
        each cluster's own, k_ij (ρ + (1 − ρ) 1[same cluster]), the two of one size."""
        if self.cluster is None:
            return k
        return k * (SITE_PART + (1.0 - SITE_PART) * (self.cluster[:, None] == self.cluster[None]))

    def among(self, across: Float[Array, "p n"]) -> Float[Array, "p n"]:
        """k between new people, of no known cluster, and the site's own."""
        return across if self.cluster is None else SITE_PART * across

    def people(self) -> int:
        return int(np.asarray(self.mask).sum())

    def is_small(self) -> bool:
        return self.x.shape[0] < SMALL

    def at_once(self, draws: int) -> int:
        return int(min(draws, max(1, BATCH_ELEMENTS // self.x.shape[0] ** 2)))

    def local(self, model: Any, anchor: Anchor | None, draws: int, matched: bool) -> tuple[()]:
        return ()

    def seen(self, local: tuple[()]) -> ExactRows:
        return self

    def price(self, model: Any, vector: Vector, local: Any) -> Any:
        raise AssertionError("the likelihood is Gaussian itself")

    def sums_over_rows(self, model: Any, vector: Vector, jitter: Scalar) -> tuple[()]:
        return ()

    def statistics(self, model: Any, vector: Float[Array, "p"], jitter: Scalar, sums: tuple[()] = ()) -> SufficientSums:
        theta = model.unravel(vector)
        z = self.mask[:, None] * model.design(theta, self.x, covariance.arms(self.w, model.arms))
        root_phi, root_sigma = model.roots(theta)
        chol = jnp.linalg.cholesky(observed_covariance(root_phi, root_sigma, self.alike(model.k(theta, self.x)), self,
                                                       jitter))
        white = solve_triangular(chol, jnp.column_stack([z, self.mask * self.y]), lower=True)
        gram, q = white.T @ white, z.shape[1]
        return gram[:q, :q], gram[:q, q], gram[q, q], 2.0 * jnp.sum(jnp.log(jnp.diag(chol)))

    def known(self, model: Any, draws: Draws, jitter: Scalar) -> ExactRows:
        """They are conditioned on anew for new people: few rows cost little."""
        return self

    def effects_at(self, model: Any, vector: Vector, draws: Draws, x: Float[Array, "p d"], jitter: Scalar) -> Moments:
        def of_draw(draw: Draws) -> Moments:
            law = model.law(vector, draw, self.index)
            mean, cov = arms_at(law, self, condition(law, self, jitter), x)
            var = cov[:, 0, 0] + cov[:, 1, 1] - 2.0 * cov[:, 0, 1]
            return same_shape(mean[..., 1] - mean[..., 0], jnp.maximum(var, 0.0))

        return jax.lax.map(of_draw, draws)

    def outcomes_at(self, model: Any, vector: Vector, draws: Draws, x: Float[Array, "p d"], jitter: Scalar) -> Arms:
        def of_draw(draw: Draws) -> Arms:
            law = model.law(vector, draw, self.index)
            mean, cov = arms_at(law, self, condition(law, self, jitter), x)
            return mean, jnp.broadcast_to(cov, (mean.shape[0], *cov.shape))

        return jax.lax.map(of_draw, draws)

    def effects(self, model: Any, vector: Vector, draws: Draws, correlations: Vector, jitter: Scalar,
                known: Any = None) -> SiteEffects | ArmSums:
        weights = person_weights(np.asarray(self.w), np.asarray(self.mask), model.arms)
        if model.arms > 2:
            return arm_sums(model, vector, self, draws, weights, jitter)
        return weighted_effects(model, vector, self, draws, weights, correlations, jitter)

    def weighed(self, model: Any, vector: Vector, draws: Draws, weights: Vector, jitter: Scalar,
                known: Any = None) -> Weighed:
        return Weighed(*weighed_effects(model, vector, self, draws, self.placed(weights), jitter))

    def placed(self, weights: Vector) -> Float[Array, "e n"]:
        """Weights of people as weights of rows: padding has none."""
        given = np.asarray(weights)
        return on_device(np.pad(given, ((0, 0), (0, self.mask.shape[0] - given.shape[1]))))

    def realised(self, model: Any, vector: Vector, draws: Draws, correlations: Vector, jitter: Scalar,
                 known: Any = None) -> Iterator[tuple[np.ndarray, Moments]]:
        each = jax.device_get(realised_each(model, vector, self, draws, correlations, jitter))
        places = np.arange(self.people())
        yield places, Moments(each.mean[..., places], each.var[..., places])

    def left_out(self, model: Any, vector: Vector, draws: Draws, beta: BetaLaw, jitter: Scalar) -> LeftOut:
        return jax.lax.map(lambda both: left_out(model.law(vector, both[0], self.index), self, BetaLaw(*both[1]),
                                                 jitter), (draws, beta))


def observed_covariance(root_phi: Float[Array, "A A"], root_sigma: Float[Array, "A A"], k: Float[Array, "n n"],
                        site: ExactRows, jitter: Scalar) -> Float[Array, "n n"]:
    """K_obs of the site's people, and a unit diagonal for its padding (which then adds 0 to every term)."""
    return _observed(root_phi @ root_phi.T, root_sigma @ root_sigma.T, k, site, jitter)


def _observed(phi: Float[Array, "A A"], sigma: Float[Array, "A A"], k: Float[Array, "n n"], site: ExactRows,
              jitter: Scalar) -> Float[Array, "n n"]:
    people = jnp.outer(site.mask, site.mask)
    return steady(people * covariance.observed(phi, sigma + site.added, k, site.w, site.weight), site, jitter)


def steady(c: Float[Array, "n n"], site: ExactRows, jitter: Scalar) -> Float[Array, "n n"]:
    """Jitter for people, relative to their mean variance; a unit diagonal for padding."""
    rows = jnp.sum(site.mask)
    lift = jitter * jnp.trace(c) / jnp.maximum(rows, 1.0)
    return c + jnp.diag(jnp.where(site.mask > 0, lift, 1.0))


def batch_size(draws: int, n: int) -> int:
    """How many draws are side by side: one on a processor (`model.parallel`), on a GPU the largest divisor of `draws`
    whose covariances stay within BATCH_ELEMENTS."""
    if on_processor():
        return 1
    fitting = [b for b in range(1, draws + 1) if draws % b == 0 and b * n * n <= BATCH_ELEMENTS]
    return max(fitting, default=1)


# --- one draw, conditioned on the rows

class Conditioned(NamedTuple):
    """One draw conditioned on the site's rows; B values of β̃ share everything but the means."""

    phi: Float[Array, "A A"]
    sigma: Float[Array, "A A"]
    k: Float[Array, "n n"]
    means: Float[Array, "B n A"]
    """E[y(0), y(1), …] at the site's rows, before they are seen."""
    chol: Float[Array, "n n"]
    alpha: Float[Array, "B n"]
    """C⁻¹e."""


def condition(law: Law, site: ExactRows, jitter: Scalar) -> Conditioned:
    k, means = site.alike(law.k(site.x, site.x)), law.means(site.x)
    chol = jnp.linalg.cholesky(_observed(law.phi, law.sigma, k, site, jitter))
    e = site.mask[None] * (site.y[None] - jnp.sum(covariance.arms(site.w, means.shape[-1])[None] * means, -1))
    return Conditioned(law.phi, law.sigma, k, means, chol, cho_solve((chol, True), e.T).T)


def arms_at(law: Law, site: ExactRows, given: Conditioned, x: Float[Array, "p d"]) -> Arms:
    """Means [B, p, A] and covariances [p, A, A] of E y of each arm at new x: no outcome noise."""
    across = site.among(law.k(x, site.x)) * site.mask[None]
    q = jnp.stack([given.phi[j, site.w][None] * across for j in range(given.phi.shape[0])])
    white = jax.vmap(lambda qj: solve_triangular(given.chol, qj.T, lower=True))(q)
    explained = jnp.einsum("anp,bnp->pab", white, white)
    means = law.means(x) + jnp.einsum("apn,Bn->Bpa", q, given.alpha)
    return means, law.own(x)[:, None, None] * given.phi[None] - explained


class Missing(NamedTuple):
    """y_mis | y_obs for one draw: m_mo, and what S_mo is made of (all [n, n], padding left out by weights)."""

    mean: Float[Array, "B n"]
    prior_cov: Float[Array, "n n"]
    k_om: Float[Array, "n n"]
    chol: Float[Array, "n n"]


def missing_given_observed(site: ExactRows, given: Conditioned, noise_correlation: Scalar) -> Missing:
    """The paper's m_mo and S_mo, of y_mis with the noise that was added to the person's outcome: in y_i − y_mis,i it
    cancels."""
    shared = shared_noise(given, noise_correlation)
    sigma = given.sigma.at[0, 1].set(shared).at[1, 0].set(shared) + site.added
    people = jnp.outer(site.mask, site.mask)
    k_om = people * covariance.observed_missing(given.phi, sigma, given.k, site.w, site.weight)
    k_mis = people * covariance.missing(given.phi, sigma, given.k, site.w, site.weight)
    prior_mean = jnp.sum(covariance.arms(1 - site.w)[None] * given.means, -1)
    return Missing(prior_mean + given.alpha @ k_om, k_mis, k_om, given.chol)


def shared_noise(given: Conditioned, noise_correlation: Scalar) -> Float[Array, ""]:
    """Cov(ε(0), ε(1)), which no data inform: the draw's own σ₁₂, or `noise_correlation` times its standard deviations
    where that is not NaN (the sensitivity analysis)."""
    noise = jnp.sqrt(given.sigma[0, 0] * given.sigma[1, 1])
    return jnp.where(jnp.isnan(noise_correlation), given.sigma[0, 1], noise_correlation * noise)


# --- effects of the site's own people

@compiled(static="model")
def weighted_effects(model: Any, vector: Vector, site: ExactRows, draws: Draws, weights: Float[Array, "e n"],
                     correlations: Float[Array, "C"], jitter: Scalar) -> SiteEffects:
    """All sums of a site in one pass over the draws: one Cholesky factor each, then only vectors."""
    def of_draw(draw: Draws) -> SiteEffects:
        given = condition(model.law(vector, draw, site.index), site, jitter)

        def realised(correlation: Scalar) -> Moments:
            return _realised_sums(site, missing_given_observed(site, given, correlation), weights)

        return SiteEffects(_expected_sums(site, given, weights), jax.vmap(realised, out_axes=1)(correlations))

    return merged(jax.lax.map(of_draw, draws))


@compiled(static="model")
def arm_sums(model: Any, vector: Vector, site: ExactRows, draws: Draws, weights: Float[Array, "e n"],
             jitter: Scalar) -> ArmSums:
    """What is expected in each arm, summed over the people of each population."""
    def of_draw(draw: Draws) -> ArmSums:
        given = condition(model.law(vector, draw, site.index), site, jitter)
        across = (weights @ given.k) * site.mask[None]
        q = given.phi[:, site.w][:, None] * across[None]
        white = jax.vmap(lambda qa: solve_triangular(given.chol, qa.T, lower=True))(q)
        mean = jnp.einsum("Bna,en->Bae", given.means, weights) + jnp.einsum("aen,Bn->Bae", q, given.alpha)
        cov = given.phi[..., None] * _quadratic(weights, given.k)[None, None] - jnp.einsum("ane,bne->abe", white, white)
        return ArmSums(mean, jnp.broadcast_to(cov, (mean.shape[0], *cov.shape)))

    return merged(jax.lax.map(of_draw, draws))


def _expected_sums(site: ExactRows, given: Conditioned, weights: Float[Array, "e n"]) -> Moments:
    contrast = given.phi[1] - given.phi[0]
    q = contrast[site.w][None] * (weights @ given.k) * site.mask[None]
    prior_mean = given.means[..., 1] - given.means[..., 0]
    scale = contrast[1] - contrast[0]
    return same_shape(prior_mean @ weights.T + given.alpha @ q.T,
                      jnp.maximum(scale * _quadratic(weights, given.k) - _explained(given.chol, q), 0.0))


@compiled(static="model")
def weighed_effects(model: Any, vector: Vector, site: ExactRows, draws: Draws, weights: Float[Array, "e n"],
                    jitter: Scalar) -> tuple[Float[Array, "L 1 e"], Float[Array, "l e e"]]:
    """(Σ t τ(x) of each draw, their covariances within a draw)."""
    def of_draw(draw: Draws) -> tuple[Array, Array]:
        given = condition(model.law(vector, draw, site.index), site, jitter)
        contrast = given.phi[1] - given.phi[0]
        q = contrast[site.w][None] * (weights @ given.k) * site.mask[None]
        white = solve_triangular(given.chol, q.T, lower=True)
        means = (given.means[..., 1] - given.means[..., 0]) @ weights.T + given.alpha @ q.T
        return means[:, None], (contrast[1] - contrast[0]) * (weights @ given.k @ weights.T) - white.T @ white

    means, cov = jax.lax.map(of_draw, draws)
    return merged(means), cov


def _realised_sums(site: ExactRows, mis: Missing, weights: Float[Array, "e n"]) -> Moments:
    """Σ_i t_i w̃_i (y_i − y_mis,i)."""
    sign = (2 * site.w - 1) * site.mask
    t = weights * sign[None]
    return same_shape((site.y[None] - mis.mean) @ t.T,
                      jnp.maximum(_quadratic(t, mis.prior_cov) - _explained(mis.chol, t @ mis.k_om.T), 0.0))


@compiled(static="model")
def realised_each(model: Any, vector: Vector, site: ExactRows, draws: Draws, correlations: Float[Array, "C"],
                  jitter: Scalar) -> Moments:
    """τ_i [L, C, n] of each person: w̃_i(y_i − m_mo,i) and S_mo,ii. Stays at the site.

    The correlations differ only in the diagonal s_c of K_om = B + s_c I, so with R = chol(C)⁻¹ one product serves all:
    diag(K_omᵀC⁻¹K_om) = Σ(RB)² + 2 s_c Σ R∘(RB) + s_c² ΣR², sums over rows.
    """
    def of_draw(draw: Draws) -> Moments:
        given = condition(model.law(vector, draw, site.index), site, jitter)
        bare = missing_given_observed(site, given, jnp.zeros(()))
        r = solve_triangular(given.chol, jnp.eye(site.y.shape[0]), lower=True)
        rb, sign = r @ bare.k_om, (2 * site.w - 1) * site.mask
        squares, crossed, own = (jnp.sum(m, 0) for m in (rb * rb, r * rb, r * r))

        def at(correlation: Scalar) -> Moments:
            s = site.mask * shared_noise(given, correlation) / site.weight
            mean = bare.mean + s[None] * given.alpha
            var = jnp.diag(bare.prior_cov) - squares - 2.0 * s * crossed - s * s * own
            return same_shape(sign[None] * (site.y[None] - mean), site.mask * jnp.maximum(var, 0.0))

        return jax.vmap(at, out_axes=1)(correlations)

    return merged(jax.lax.map(of_draw, draws))


def _quadratic(t: Float[Array, "e n"], cov: Float[Array, "n n"]) -> Float[Array, "e"]:
    """t_eᵀ Cov t_e for each row of t."""
    return jnp.sum((t @ cov) * t, 1)


def _explained(chol: Float[Array, "n n"], q: Float[Array, "e n"]) -> Float[Array, "e"]:
    """q_eᵀ C⁻¹ q_e for each row of q."""
    white = solve_triangular(chol, q.T, lower=True)
    return jnp.sum(white * white, 0)


# --- leaving one person out

def left_out(law: Law, site: ExactRows, beta: BetaLaw, jitter: Scalar) -> LeftOut:
    """Of one draw (`model.leave_one_out` has the formulas)."""
    m, z = law.fixed(site.x), site.mask[:, None, None] * law.design(site.x)
    own_arm = covariance.arms(site.w, m.shape[1])
    k = site.alike(law.k(site.x, site.x))
    chol = jnp.linalg.cholesky(_observed(law.phi, law.sigma, k, site, jitter))
    a = cho_solve((chol, True), jnp.eye(site.y.shape[0]))
    observed = jnp.einsum("na,naq->nq", own_arm, z)
    b = observed.T @ a
    white = solve_triangular(beta.root, b, lower=True)
    s = a - white.T @ white
    r = a @ (site.mask * (site.y - jnp.sum(own_arm * m, 1))) - b.T @ beta.mean
    s_ii = jnp.diag(s)
    arms = [_arm(law, site, k, m[:, j], z[:, j], j, beta, white, s, r) for j in range(m.shape[1])]
    return LeftOut(jnp.stack(arms, -1), site.y - r / s_ii, 1.0 / s_ii)


def _arm(law: Law, site: ExactRows, k: Array, m: Array, z: Array, j: int, beta: BetaLaw, white: Array, s: Array,
         r: Array) -> Float[Array, "n"]:
    """E[y_j(x_i) | y_{−i}] of every row."""
    q = law.phi[j, site.w][None] * k * site.mask[None]
    together = jnp.sum(solve_triangular(beta.root, z.T, lower=True) * white, 0) + jnp.sum(q * s, 1)
    return m + z @ beta.mean + q @ r - together * r / jnp.diag(s)
