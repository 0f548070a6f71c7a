"""What a fit of the model `shared` tells, as a smooth function of everybody's rows, and its derivative.

A row is r = (x [d], w, y) in model units; with Z̃ = [Z, y] and C block diagonal by site, a draw θ tells of all together

    T̃ = Z̃ᵀC⁻¹Z̃  (T, v and yᵀC⁻¹y in one)          l = log|C|

An arm w between 0 and 1 is read as E = [1 − w, w] in C = EΦEᵀ∘k + diag(EΣEᵀ), so that it has a derivative too. Entry c
of person k changes row k of Z̃ by ż and row and column k of C by g, so with W = C⁻¹Z̃

    ∂T̃ = a bᵀ + b aᵀ,    a = ż − Wᵀg,    b = W_k          ∂l = 2 (C⁻¹g)_k

of rank two: over a symmetric matrix whose entries are weighed by a root M (E = M(T̃ − T̃°)M, diagonal counted half)

    ½⟨∂T̃, ∂'T̃⟩ = (a·a')(b·b') + (a·b')(b·a')          ½⟨∂T̃, E⟩ = aᵀEb          a, b in units of M

and Gauss-Newton, or the Fisher information of *all* people's entries, takes two products of tall matrices a draw. (The
jitter's own derivative, 1e-10 of the rest, is left out.)
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from fedci.model.shared.shared import SharedModel

Sizes = tuple[int, ...]
"""People of each site; rows stand site after site."""
Added = tuple[float, ...]
"""Variance of the noise on each site's outcomes (`site.outcome_noise`), in model units; empty: none."""


class Told(NamedTuple):
    """Of one draw, or with a leading axis of each."""

    gram: Float[Array, "*L q q"]
    """T̃."""
    log_det: Float[Array, "*L"]


class Slopes(NamedTuple):
    """∂ of one draw in every entry of every row, entry by entry within a row: N = n(d + 2)."""

    a: Float[Array, "N q"]
    b: Float[Array, "n q"]
    log_det: Float[Array, "N"]


class Normal(NamedTuple):
    """Half the squared misfit, its gradient and Gauss-Newton's matrix, summed over draws."""

    misfit: Float[Array, ""]
    gradient: Float[Array, "N"]
    matrix: Float[Array, "N N"]


def arm(w: Array) -> Array:
    """E."""
    return jnp.stack([1.0 - w, w], -1)


def design(model: SharedModel, theta: Any, rows: Float[Array, "n c"]) -> Float[Array, "n q"]:
    """Z̃."""
    d = model.covariates
    return jnp.concatenate([model.design(theta, rows[:, :d], arm(rows[:, d])), rows[:, d + 1:]], 1)


def covariance(model: SharedModel, theta: Any, rows: Float[Array, "n c"], added: float = 0.0) -> Float[Array, "n n"]:
    """C of one site; `added`: variance of the noise on its outcomes, in model units."""
    d = model.covariates
    e, (phi, sigma) = arm(rows[:, d]), squares(model, theta)
    c = (e @ phi @ e.T) * model.k(theta, rows[:, :d]) + jnp.diag(jnp.sum((e @ sigma) * e, 1) + added)
    return c + model.options.jitter * jnp.trace(c) / len(c) * jnp.eye(len(c))


def squares(model: SharedModel, theta: Any) -> tuple[Array, Array]:
    """(Φ, Σ)."""
    return tuple(root @ root.T for root in model.roots(theta))


def of_site(model: SharedModel, theta: Any, rows: Float[Array, "n c"],
            added: float = 0.0) -> tuple[Array, Array, Array]:
    """(Z̃, W, lower root of C)."""
    z, chol = design(model, theta, rows), jnp.linalg.cholesky(covariance(model, theta, rows, added))
    return z, cho_solve((chol, True), z), chol


def split(rows: Array, sizes: Sizes) -> list[Array]:
    return jnp.split(rows, np.cumsum(sizes)[:-1].tolist())


def of_draw(model: SharedModel, sizes: Sizes, vector: Array, rows: Float[Array, "n c"], added: Added = ()) -> Told:
    """The totals of one draw."""
    theta = model.unravel(vector)
    parts = [of_site(model, theta, own, noise) for own, noise in each_site(rows, sizes, added)]
    return Told(sum(z.T @ w for z, w, _ in parts), sum(2.0 * jnp.sum(jnp.log(jnp.diag(chol))) for *_, chol in parts))


def each_site(rows: Array, sizes: Sizes, added: Added) -> list[tuple[Array, float]]:
    return list(zip(split(rows, sizes), added or (0.0,) * len(sizes), strict=True))


@partial(jax.jit, static_argnames=("model", "sizes"))
def told(model: SharedModel, sizes: Sizes, vectors: Float[Array, "L p"], rows: Float[Array, "n c"]) -> Told:
    """The totals of every draw."""
    return jax.lax.map(lambda vector: of_draw(model, sizes, vector, rows), vectors)


# --- derivatives

def slopes(model: SharedModel, sizes: Sizes, vector: Array, rows: Float[Array, "n c"], added: Added = ()) -> Slopes:
    theta = model.unravel(vector)
    parts = [_slopes_of_site(model, theta, own, noise) for own, noise in each_site(rows, sizes, added)]
    return Slopes(*(jnp.concatenate(leaves) for leaves in zip(*parts, strict=True)))


def _slopes_of_site(model: SharedModel, theta: Any, rows: Float[Array, "n c"], added: float) -> Slopes:
    n, entries = rows.shape
    _, w, chol = of_site(model, theta, rows, added)
    moved = jax.vmap(jax.jacfwd(lambda row: design(model, theta, row[None])[0]))(rows)
    g = _covariance_slopes(model, theta, rows)
    a = jnp.swapaxes(moved, 1, 2) - jnp.einsum("kjc,jq->kcq", g, w)
    inverse = cho_solve((chol, True), jnp.eye(n))
    return Slopes(a.reshape(n * entries, -1), w, 2.0 * jnp.einsum("kjc,kj->kc", g, inverse).ravel())


def _covariance_slopes(model: SharedModel, theta: Any, rows: Float[Array, "n c"]) -> Float[Array, "n n c"]:
    """g_kc [n]: ∂C is g in row k and in column k; so of C_kk, half the derivative."""
    d, (phi, sigma) = model.covariates, squares(model, theta)

    def pair(one: Array, other: Array) -> Array:
        return (arm(one[d]) @ phi @ arm(other[d])) * model.kernel.evaluate(theta["kernel"], one[:d], other[:d])

    def noise(row: Array) -> Array:
        return 0.5 * arm(row[d]) @ sigma @ arm(row[d])

    between = jax.vmap(jax.vmap(jax.grad(pair), (None, 0)), (0, None))(rows, rows)
    return between + jnp.eye(len(rows))[:, :, None] * jax.vmap(jax.grad(noise))(rows)[:, None, :]


def information(found: Slopes, root: Float[Array, "q q"], people: float) -> Float[Array, "N N"]:
    """½⟨∂T̃, ∂'T̃⟩ in units of M, and l in units of `people`: J'J of one draw."""
    a, b = found.a @ root, found.b @ root
    entries = len(a) // len(b)
    across = jnp.repeat(a @ b.T, entries, 1)  # [N, n] → a_kc·b_l for every entry of l
    alike = jnp.repeat(jnp.repeat(b @ b.T, entries, 0), entries, 1)
    log_det = found.log_det / people
    return (a @ a.T) * alike + across * across.T + jnp.outer(log_det, log_det)


def own_information(found: Slopes, root: Float[Array, "q q"], people: float) -> Float[Array, "n c c"]:
    """The blocks of `information` on its diagonal, of each person's own entries: cheap for any number of people."""
    a, b = found.a @ root, found.b @ root
    a = a.reshape(len(b), -1, a.shape[1])
    across, log_det = jnp.einsum("kcq,kq->kc", a, b), found.log_det.reshape(len(b), -1) / people
    return (jnp.einsum("kcq,keq->kce", a, a) * jnp.sum(b * b, 1)[:, None, None]
            + across[:, :, None] * across[:, None, :] + log_det[:, :, None] * log_det[:, None, :])


@partial(jax.jit, static_argnames=("model", "sizes"))
def normal(model: SharedModel, sizes: Sizes, vectors: Array, rows: Float[Array, "n c"], goal: Told,
           roots: Float[Array, "L q q"]) -> Normal:
    """Of all draws together, against what was told."""
    people, size = float(sum(sizes)), rows.size

    def add(total: Normal, draw: tuple[Array, Told, Array]) -> tuple[Normal, None]:
        vector, aim, root = draw
        gap, away = _gaps(model, sizes, vector, rows, aim, root)
        found = slopes(model, sizes, vector, rows)
        a, b = found.a @ root, found.b @ root
        entries = len(a) // len(b)
        gradient = jnp.sum((a @ gap) * jnp.repeat(b, entries, 0), 1) + away * found.log_det / people
        return Normal(total.misfit + 0.25 * jnp.sum(gap**2) + 0.5 * away**2, total.gradient + gradient,
                      total.matrix + information(found, root, people)), None

    begin = Normal(jnp.zeros(()), jnp.zeros(size), jnp.zeros((size, size)))
    return jax.lax.scan(add, begin, (vectors, goal, roots))[0]


def _gaps(model: SharedModel, sizes: Sizes, vector: Array, rows: Array, aim: Told, root: Array) -> tuple[Array, Array]:
    """(E, the misfit of l)."""
    now = of_draw(model, sizes, vector, rows)
    return root @ (now.gram - aim.gram) @ root, (now.log_det - aim.log_det) / sum(sizes)


@partial(jax.jit, static_argnames=("model", "sizes"))
def misfits(model: SharedModel, sizes: Sizes, vectors: Array, candidates: Float[Array, "m n c"], goal: Told,
            roots: Float[Array, "L q q"]) -> Float[Array, "m"]:
    """Half the squared misfit of each candidate table."""
    def of_candidate(rows: Array) -> Array:
        def of_one(draw: tuple[Array, Told, Array]) -> Array:
            vector, aim, root = draw
            gap, away = _gaps(model, sizes, vector, rows, aim, root)
            return 0.25 * jnp.sum(gap**2) + 0.5 * away**2

        return jnp.sum(jax.lax.map(of_one, (vectors, goal, roots)))

    return jax.lax.map(of_candidate, candidates)


# --- in which units two Gram matrices are compared

def whitening(gram: Float[Array, "L q q"], epsilon: float) -> Float[Array, "L q q"]:
    """(T̃ + ε t I)^−½, t the largest eigenvalue: every direction counts alike down to ε."""
    values, vectors = jnp.linalg.eigh(gram)
    scale = jax.lax.rsqrt(jnp.maximum(values, 0.0) + epsilon * values[:, -1:])
    return jnp.einsum("lij,lj,lkj->lik", vectors, scale, vectors)


def by_entry(gram: Float[Array, "L q q"]) -> Float[Array, "L q q"]:
    """diag(T̃)^−½: entry (i, j) in units of √(T_ii T_jj)."""
    scale = jax.lax.rsqrt(jnp.diagonal(gram, axis1=1, axis2=2))
    return jax.vmap(jnp.diag)(scale)


def by_sampling(gram: Float[Array, "L q q"]) -> Float[Array, "L q q"]:
    """(T̃ + I)^−½: in units that grow as the sampling error does; 1/√n is its size."""
    values, vectors = jnp.linalg.eigh(gram)
    return jnp.einsum("lij,lj,lkj->lik", vectors, jax.lax.rsqrt(jnp.maximum(values, 0.0) + 1.0), vectors)
