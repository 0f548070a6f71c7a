"""The pooled covariance of the model `shared`: products and thresholds of covariates, learnt from all sites together.

    k(x, z) = s_p² (Σ_c r̄_c x_c z_c)²  +  s_t² Σ_c r̄_c (1 − |u_c − v_c|)  +  s_m² exp(−Σ_c λ_c |u_c − v_c|)
              products                    thresholds of one covariate         Mondrian: thresholds that interact

    u = Φ(x), v = Φ(z)  (the normal distribution function)      r̄_c = r_c²/Σ r²      λ_c = g r_c      relevances r

The Mondrian term is the covariance of infinitely many random partitions along the axes (a forest's prior), the second
that of one random threshold. A covariate without relevance drops out of all three.

It enters in weight space: k ≈ ψᵀψ, ψ(x) = K_UU^{−1/2} k(U, x), with M landmarks U that are drawn from no data: a Latin
hypercube in u, so that each covariate has M evenly spaced thresholds however few matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import ndtr
from jaxtyping import Array, Float
from scipy.special import ndtr as scipy_ndtr
from scipy.special import ndtri

from fedci.model.family import Theta

JITTER = 1e-6
"""Of K_UU, relative: landmarks that the relevances bring together would make it singular."""
STREAM = 7


class Placed(NamedTuple):
    """People, or landmarks, as the covariance sees them."""

    x: Float[Array | np.ndarray, "n d"]
    u: Float[Array | np.ndarray, "n d"]
    """Φ(x): two hundred steps of a program, so it is made once."""


def placed(x: Float[Array, "n d"]) -> Placed:
    return Placed(x, ndtr(x))


class Pooled(NamedTuple):
    """One covariance."""

    log_scale: Float[Array, "3"]
    """log s of products, thresholds, interacting thresholds."""
    log_relevance: Float[Array, "d"]
    """log r."""
    log_steepness: Float[Array, ""]
    """log g."""


def size(of: Pooled) -> Float[Array, ""]:
    """Of ψ."""
    return jnp.exp(jnp.max(of.log_scale))


def of_outcome(theta: Theta) -> Pooled:
    """Of b."""
    return Pooled(theta["pooled"], theta["relevance"], theta["steepness"])


def of_effect(theta: Theta) -> Pooled:
    """Of e: smaller, and along covariates of its own."""
    return Pooled(theta["pooled"] + theta["pooled_effect"] + theta["effect"],
                  theta["relevance"] + theta["relevance_effect"], theta["steepness"])


def relevances(theta: Theta) -> Float[Array, "d"]:
    """r of outcome and effect together."""
    return jnp.exp(of_outcome(theta).log_relevance) + jnp.exp(of_effect(theta).log_relevance)


@lru_cache(maxsize=64)
def landmarks(count: int, d: int) -> np.ndarray:
    """U [M, d]: every covariate takes the M quantiles (i − ½)/M of a standard normal, in an order of its own."""
    rng = np.random.default_rng(np.random.SeedSequence((STREAM, count, d)))
    at = ndtri((np.stack([rng.permutation(count) for _ in range(d)], 1) + 0.5) / count)
    at.setflags(write=False)
    return at


@lru_cache(maxsize=64)
def placed_landmarks(count: int, d: int) -> Placed:
    """Numbers, not a program's steps."""
    at = landmarks(count, d)
    return Placed(at, scipy_ndtr(at))


def covariance(of: Pooled, one: Placed, other: Placed) -> Float[Array, "n m"]:
    """k(x_i, z_j)."""
    return covariances((of,), one, other)[0]


def covariances(all_of: Sequence[Pooled], one: Placed, other: Placed) -> list[Float[Array, "n m"]]:
    """The same of several: |u_c − v_c| is made once, and one product with it gives all their sums over c."""
    relevances = [jnp.exp(2.0 * (of.log_relevance - jnp.max(of.log_relevance))) for of in all_of]
    shares = [relevance / jnp.sum(relevance) for relevance in relevances]
    steeps = [jnp.exp(of.log_relevance + of.log_steepness) for of in all_of]
    (n, d), m, k = one.x.shape, other.x.shape[0], len(shares)
    apart = jnp.abs(one.u[:, None] - other.u[None]).reshape(n * m, d)
    weighed = (apart @ jnp.stack([*shares, *steeps], 1)).reshape(n, m, 2 * k)

    def of_one(i: int) -> Float[Array, "n m"]:
        products, thresholds, mondrian = jnp.exp(2.0 * all_of[i].log_scale)
        return (products * ((one.x * shares[i][None]) @ other.x.T) ** 2 + thresholds * (1.0 - weighed[..., i])
                + mondrian * jnp.exp(-weighed[..., k + i]))

    return [of_one(i) for i in range(k)]


def features(of: Pooled, people: Placed, at: Placed) -> Float[Array, "n M"]:
    """ψ(x) of each person, through landmarks."""
    return features_of((of,), people, at)[0]


def features_of(all_of: Sequence[Pooled], people: Placed, at: Placed) -> list[Float[Array, "n M"]]:
    """The same of several."""
    both = zip(covariances(all_of, people, at), covariances(all_of, at, at), strict=True)
    return [across @ _inverse_root(among).T for across, among in both]


def _inverse_root(k: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """K_UU^{−1/2}."""
    count = k.shape[0]
    root = jnp.linalg.cholesky(k + JITTER * jnp.trace(k) / count * jnp.eye(count))
    return solve_triangular(root, jnp.eye(count), lower=True)


def features_along(of: Pooled, people: Float[Array, "n d"], grid: Float[Array, "G"],
                   at: Float[np.ndarray, "M d"]) -> Float[Array, "d G M"]:
    """mean_i ψ(x_i with x_ic = grid_g) for each covariate c."""
    marks = placed(jnp.asarray(at))
    return covariance_along(of, people, grid, jnp.asarray(at)) @ _inverse_root(covariance(of, marks, marks)).T


def covariance_along(of: Pooled, people: Float[Array, "n d"], grid: Float[Array, "G"],
                     z: Float[Array, "m d"]) -> Float[Array, "d G m"]:
    """mean_i k(x_i with x_ic = grid_g, z_j): d times less work than person by person, because c's own part stands apart
    in the sums and is a factor of the Mondrian term."""
    products, thresholds, mondrian = jnp.exp(2.0 * of.log_scale)
    relevance = jnp.exp(2.0 * (of.log_relevance - jnp.max(of.log_relevance)))
    share = (relevance / jnp.sum(relevance))[None, None]
    steep = jnp.exp(of.log_relevance + of.log_steepness)[None, None]
    own = jnp.broadcast_to(grid[:, None], (grid.shape[0], z.shape[1]))
    apart, own_apart = (jnp.abs(ndtr(x)[:, None] - ndtr(z)[None]) for x in (people, own))
    times, own_times = (share * x[:, None] * z[None] for x in (people, own))
    rest, far, level = (_others(part) for part in (times, apart * steep, apart * share))
    return jnp.moveaxis(
        products * (_mean(rest**2) + 2.0 * _mean(rest) * own_times + own_times**2)
        + thresholds * (1.0 - _mean(level) - own_apart * share)
        + mondrian * _mean(jnp.exp(-far)) * jnp.exp(-own_apart * steep), -1, 0)


def _mean(values: Float[Array, "n m d"]) -> Float[Array, "1 m d"]:
    """Over people."""
    return jnp.mean(values, 0, keepdims=True)


def _others(parts: Float[Array, "n m d"]) -> Float[Array, "n m d"]:
    """Their sum without c."""
    return jnp.sum(parts, -1, keepdims=True) - parts
