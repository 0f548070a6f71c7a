"""Lemmas 1-3: covariances of the potential, observed and missing outcomes.

    K_obs[i, j] = Φ[w_i, w_j] k(x_i, x_j)      + Σ[w_i, w_i] 1{i=j}
    K_mis[i, j] = Φ[w̄_i, w̄_j] k(x_i, x_j)      + Σ[w̄_i, w̄_i] 1{i=j}      w̄ = 1 − w
    K_om [i, j] = Φ[w_i, w̄_j] k(x_i, x_j)      + Σ[w_i, w̄_i] 1{i=j}

where Σ stands for Σ/weight_i, the noise of a person of that weight (`model.likelihood`; ones by default).
Of more than two arms there is K_obs alone, Φ and Σ being A × A: who is missing one outcome of many misses no one thing.
The paper prints K_om with φ₁₁ and φ₂₂ exchanged; this is the form that follows from its Lemma 2.
`w` is an integer array; indices pick rows and columns of Φ and Σ.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def between_sources(root_phi: Float[Array, "2 2"], gamma: Float[Array, ""]) -> Float[Array, "2 2"]:
    """Lemma 1: Cov(y_i^s, y_j^s' | Φ, Σ) = Φ^{1/2} (γ(x̃^s, x̃^s') I₂) Φ^{1/2}ᵀ for s ≠ s'."""
    return root_phi @ (gamma * jnp.eye(2)) @ root_phi.T


def outcomes(phi: Float[Array, "A A"], sigma: Float[Array, "A A"], k: Float[Array, "n n"],
             rows: Int[Array, "n"], columns: Int[Array, "n"], weight: Float[Array, "n"]) -> Float[Array, "n n"]:
    """Cov(y_i(rows_i), y_j(columns_j)): the one formula behind K_obs, K_mis and K_om (Lemma 3).

    Φ[w_i, w_j] is taken as E Φ Eᵀ with E = [1 − w, w]: a product, whose gradient is a product too, where picking
    entries would scatter n² cotangents one by one.
    """
    count = phi.shape[0]
    e, f = arms(rows, count), arms(columns, count)
    return (e @ phi @ f.T) * k + jnp.diag(jnp.sum((e @ sigma) * f, 1) / weight)


def arms(w: Int[Array, "n"], count: int = 2) -> Float[Array, "n A"]:
    """E, of two arms [1 − w, w]: row i picks the arm of person i."""
    if count == 2:
        return jnp.stack([1.0 - w, 1.0 * w], 1)
    return (w[:, None] == jnp.arange(count)[None]).astype(float)


def observed(phi: Float[Array, "A A"], sigma: Float[Array, "A A"], k: Float[Array, "n n"], w: Int[Array, "n"],
             weight: Float[Array, "n"]) -> Float[Array, "n n"]:
    return outcomes(phi, sigma, k, w, w, weight)


def missing(phi: Float[Array, "A A"], sigma: Float[Array, "A A"], k: Float[Array, "n n"], w: Int[Array, "n"],
            weight: Float[Array, "n"]) -> Float[Array, "n n"]:
    return outcomes(phi, sigma, k, 1 - w, 1 - w, weight)


def observed_missing(phi: Float[Array, "A A"], sigma: Float[Array, "A A"], k: Float[Array, "n n"], w: Int[Array, "n"],
                     weight: Float[Array, "n"]) -> Float[Array, "n n"]:
    return outcomes(phi, sigma, k, w, 1 - w, weight)
