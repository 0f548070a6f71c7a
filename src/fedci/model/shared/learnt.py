"""A large site's functions once its rows are known: φ(x)ᵀ times Gaussian coefficients, at any x, without the rows.

    φ(x) = [ω(x), ψ(x)]      k̇(x, x) − ‖ψ(x)‖²: what the inducing inputs leave open (`sparse`)
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from fedci.model import kernels
from fedci.model.family import Theta
from fedci.model.rows import (
    Arms,
    Moments,
    Scalar,
    Vector,
    same_shape,
)
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared import SharedModel, noise_root, own_root


class Block(NamedTuple):
    """b people of one arm, as predictions see them."""

    x: Float[Array, "*k b d"]
    y: Float[Array, "*k b"]
    weight: Float[Array, "*k b"]
    arm: Int[Array, "*k"]


MeanAndVariance = tuple[Array, Array]
"""Of some effects, for each β̃; the variance is the same for all."""


def features(model: SharedModel, theta: Theta, x: Float[Array, "b d"], root: Float[Array, "M M"],
             inducing: Float[Array, "M d"]) -> Float[Array, "b f"]:
    """φ(x) = [ω(x), ψ(x)]; `root` is K̇_UU^{−1/2}, lower."""
    rest = kernels.split(model.kernel, theta["kernel"]).rest
    return jnp.concatenate([*model.layout.omega(theta, x), rest(x, inducing) @ root.T], 1)


def inducing_root(model: SharedModel, theta: Theta, inducing: Float[Array, "M d"],
                  jitter: Scalar) -> Float[Array, "M M"]:
    """K̇_UU^{−1/2}: a product with it costs less than a triangular solve for each block."""
    k = kernels.split(model.kernel, theta["kernel"]).rest(inducing, inducing)
    m = k.shape[0]
    lift = jnp.maximum(jitter * jnp.trace(k) / max(m, 1), 1e-300)
    return solve_triangular(jnp.linalg.cholesky(k + lift * jnp.eye(m)), jnp.eye(m), lower=True)


def own_columns(model: SharedModel) -> slice:
    """Where ψ stands in φ = [ω, ψ]."""
    return slice(model.layout.width, None)


class Learnt(NamedTuple):
    """One draw of (θ, β̃) given a large site's rows: f of both arms is φ(x)ᵀ times Gaussian coefficients."""

    theta: Float[Array, "p"]
    mean: Float[Array, "B A f"]
    """E[y(j) | x] = φ(x)ᵀ mean_j: the shared function and the site's own."""
    spread: Float[Array, "A h f"]
    """Cov(f_j(x), f_k(x')) = (spread_j φ(x))ᵀ(spread_k φ(x')) + Φ[j, k] (k̇ − ψᵀψ)(x, x')."""
    root: Float[Array, "M M"]
    inducing: Float[Array, "M d"]

    def effects_at(self, model: SharedModel, vector: Vector, draws: SharedDraws, x: Float[Array, "p d"],
                   jitter: Scalar) -> Moments:
        return jax.lax.map(lambda known: same_shape(*effect_at(model, known, x)), self)

    def outcomes_at(self, model: SharedModel, vector: Vector, draws: SharedDraws, x: Float[Array, "p d"],
                    jitter: Scalar) -> Arms:
        def of_draw(known: Learnt) -> Arms:
            mean, cov = arms_at(model, known, x)
            return mean, jnp.broadcast_to(cov, (mean.shape[0], *cov.shape))

        return jax.lax.map(of_draw, self)


def arms_at(model: SharedModel, known: Learnt, x: Float[Array, "p d"]) -> Arms:
    """Means [B, p, A] and covariances [p, A, A] of E y of each arm at any x: no outcome noise."""
    theta = model.unravel(known.theta)
    phi, own = features(model, theta, x, known.root, known.inducing), own_root(theta, model.arms)
    away = jnp.einsum("jhf,pf->jph", known.spread, phi)
    cov = jnp.einsum("jph,kph->pjk", away, away) + left(model, theta, x, phi)[:, None, None] * (own @ own.T)[None]
    return jnp.einsum("Bjf,pf->Bpj", known.mean, phi), cov


def left(model: SharedModel, theta: Theta, x: Float[Array, "p d"], phi: Float[Array, "p f"]) -> Float[Array, "p"]:
    """k̇(x, x) − ‖ψ(x)‖²: what the inducing inputs leave open at x."""
    own = kernels.split(model.kernel, theta["kernel"]).own(x)
    return jnp.maximum(own - jnp.sum(phi[:, own_columns(model)] ** 2, 1), 0.0)


def effect_at(model: SharedModel, known: Learnt, x: Float[Array, "p d"]) -> MeanAndVariance:
    """(mean [B, p], variance [p]) of τ(x): half the work of `arms_at`."""
    theta = model.unravel(known.theta)
    phi, own = features(model, theta, x, known.root, known.inducing), own_root(theta)
    away = phi @ (known.spread[1] - known.spread[0]).T
    return ((known.mean[:, 1] - known.mean[:, 0]) @ phi.T,
            jnp.sum(away**2, 1) + left(model, theta, x, phi) * jnp.sum((own[1] - own[0]) ** 2))


def noise_moments(root: Float[Array, "2 2"], correlation: Scalar,
                  added: Scalar) -> tuple[Float[Array, "2"], Float[Array, ""]]:
    """(σ_a², σ₀₁) with the noise that was added to the person's outcome: it is the same in both arms."""
    sd = jnp.diag(root)
    return sd**2 + added, jnp.where(jnp.isnan(correlation), 0.0, correlation) * sd[0] * sd[1] + added


def realised_each(model: SharedModel, known: Learnt, block: Block, correlations: Float[Array, "C"],
                  added: Scalar) -> MeanAndVariance:
    """(means [B, C, b], variances [C, b]) of τ_i for the people of one block."""
    x, y, weight, arm = block
    theta = model.unravel(known.theta)
    mean, cov = arms_at(model, known, x)
    sign = 2.0 * arm - 1.0

    def at(correlation: Scalar) -> MeanAndVariance:
        noise, shared = noise_moments(noise_root(theta), correlation, added)
        ratio = shared / noise[arm]
        contrast = sign * (ratio * jnp.eye(2)[arm] - jnp.eye(2)[1 - arm])
        var = jnp.einsum("j,pjk,k->p", contrast, cov, contrast) + (noise[1 - arm] - shared * ratio) / weight
        return mean @ contrast + (sign * (1.0 - ratio) * y)[None], jnp.maximum(var, 0.0)

    return jax.vmap(at, out_axes=(1, 0))(correlations)
