"""Fixed columns in whose span ω(x; θ) lies, for θ near a point: their products give the evidence at all these θ.

A round of the fit asks for T, v, c, l at each draw of θ. Here a site tells once, with F_a(x) the columns of arm a,

    F_a(x) = [ ω(x; θ̂),  ∂(ωᵀβ̂_a)/∂θ_f ]         θ_f: directions, relevances, scales of the pooled covariance
    F̃_i = (F_0(x_i)(1 − w_i), F_1(x_i)w_i)         G = [F̃, y]ᵀC̃⁻¹[F̃, y]         C̃ = C(θ̂)/σ̂²

β̂_a the coefficients of arm a at the point; while none are known, the tangents are x·s(t_k) for two shapes s. Whoever
has ΣG works out T, v, c, l at any θ with the same own function: ω(x; θ) ≈ W_aᵀF_a(x), W_a by least squares over a Latin
hypercube of nobody (no data), and T = BᵀGB/σ², B the columns of W by the arms' roots. At θ̂ it is exact, and for all
roots and noise; in the rest of θ what is missed of the fitted function is of second order.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from fedci.model import covariance
from fedci.model.family import Theta
from fedci.model.rows import Scalar
from fedci.model.shared import basis, pooled
from fedci.model.shared.evidence import Statistics
from fedci.model.shared.shared import NOISE_FLOOR, SharedModel

REFERENCE = 400
"""People of nobody, over whom columns are fitted to columns."""
ALIKE = 1e-6
"""Columns that differ by less, relatively, say the same: the square of its inverse multiplies the rounding of G."""
SPANNED = ("common",)
"""Blocks whose columns are sums of others'."""
BENT = ("directions", "relevance", "relevance_effect", "pooled", "pooled_effect", "steepness")
OF_EFFECT = ("relevance_effect", "pooled_effect")
"""Parts of θ along which columns are bent, and which of them the arm without treatment does not see."""


class Point(NamedTuple):
    """Where a dictionary is exact."""

    vector: Float[Array | np.ndarray, "p"]
    """θ̂."""
    coefficients: Float[Array | np.ndarray, "2 b"] | None = None
    """β̂_a of each arm on ω(x; θ̂); none: not known yet."""


class Products(NamedTuple):
    """G in its parts: a sum over sites."""

    gram: Float[Array, "D D"]
    cross: Float[Array, "D"]
    square: Float[Array, ""]
    log_det: Float[Array, ""]
    """log|C̃|."""


class Span(NamedTuple):
    """The columns of each arm at the people of nobody, and what fits others by them."""

    columns: tuple[Float[Array, "R D0"], Float[Array, "R D1"]]
    fit: tuple[Float[Array, "D0 R"], Float[Array, "D1 R"]]


def coefficients(model: SharedModel, theta: Theta, beta: Float[Array, "q"]) -> Float[Array, "2 b"]:
    """β_a of each arm on ω(x), from β̃."""
    arms = []
    for block in model.layout.blocks:
        root = block.root(theta)
        arms.append(root @ beta[model.layout.coefficients[block.name]].reshape(root.shape[1], block.width))
    return jnp.concatenate(arms, 1)


@partial(jax.jit, static_argnames=("model", "arm"))
def columns(model: SharedModel, point: Point, x: Float[Array, "n d"], arm: int) -> Float[Array, "n D"]:
    """F_a(x)."""
    theta = model.unravel(point.vector)
    return jnp.concatenate([omega(model, theta, x)[:, _seen(model, arm)], _tangents(model, point, x, arm)], 1)


def omega(model: SharedModel, theta: Theta, x: Float[Array, "n d"]) -> Float[Array, "n b"]:
    return jnp.concatenate(model.layout.omega(theta, x), 1)


@lru_cache(maxsize=64)
def _seen(model: SharedModel, arm: int) -> np.ndarray:
    """Columns of ω that the arm has, and that are not sums of others."""
    layout = model.layout
    with jax.ensure_compile_time_eval():  # it may be asked for first while something is traced
        theta = model.unravel(jnp.asarray(model.prior[0]))
        names = [block.name for block in layout.blocks
                 if block.name not in SPANNED and np.any(np.asarray(block.root(theta))[arm] != 0.0)]
    return np.concatenate([np.arange(layout.width)[layout.columns[name]] for name in names])


@lru_cache(maxsize=64)
def _bent(model: SharedModel, arm: int) -> np.ndarray:
    """Places of θ_f in θ."""
    parts = [name.split("[")[0] for name in model.names()]
    seen = [part for part in BENT if arm == 1 or part not in OF_EFFECT]
    return np.array([place for place, part in enumerate(parts) if part in seen])


def _tangents(model: SharedModel, point: Point, x: Float[Array, "n d"], arm: int) -> Float[Array, "n f"]:
    vector = jnp.asarray(point.vector)
    if point.coefficients is None:
        t = x @ basis.directions(model.unravel(vector))
        shapes = [shape for k in range(t.shape[1]) for shape in (jax.nn.sigmoid(2.0 * t[:, k]), jnp.exp(-t[:, k] ** 2))]
        return jnp.concatenate([x * shape[:, None] for shape in shapes], 1)
    bent, beta = _bent(model, arm), jnp.asarray(point.coefficients)[arm]
    return jax.jacfwd(lambda some: omega(model, model.unravel(vector.at[bent].set(some)), x) @ beta)(vector[bent])


@partial(jax.jit, static_argnames="model")
def products(model: SharedModel, point: Point, x: Float[Array, "n d"], w: Float[Array, "n"],
             y: Float[Array, "n"]) -> Products:
    """G of a site's people, under its own function at the point in units of the noise there."""
    theta = model.unravel(point.vector)
    rows = jnp.concatenate([columns(model, point, x, 0) * (1.0 - w)[:, None], columns(model, point, x, 1) * w[:, None],
                            y[:, None]], 1)
    chol = jnp.linalg.cholesky(observed(model, theta, x, w) / noise_level(theta))
    half = solve_triangular(chol, rows, lower=True)
    both = half.T @ half
    return Products(both[:-1, :-1], both[:-1, -1], both[-1, -1], 2.0 * jnp.sum(jnp.log(jnp.diag(chol))))


def observed(model: SharedModel, theta: Theta, x: Float[Array, "n d"], w: Float[Array, "n"]) -> Float[Array, "n n"]:
    """C of a site's own function and noise."""
    phi, sigma = (root @ root.T for root in model.roots(theta))
    return covariance.observed(phi, sigma, model.k(theta, x), w.astype(int), jnp.ones_like(w))


def noise_level(theta: Theta) -> Float[Array, ""]:
    """σ², between the arms."""
    return jnp.exp(2.0 * theta["noise"][0]) + NOISE_FLOOR**2


@partial(jax.jit, static_argnames="model")
def span(model: SharedModel, point: Point) -> Span:
    people = jnp.asarray(pooled.landmarks(REFERENCE, model.covariates))
    both = tuple(columns(model, point, people, arm) for arm in (0, 1))
    return Span((both[0], both[1]), (_fit(both[0]), _fit(both[1])))


def _fit(f: Float[Array, "R D"]) -> Float[Array, "D R"]:
    """P with Pu the least coefficients of u on the columns, each scaled to length 1."""
    size = jnp.maximum(jnp.linalg.norm(f, axis=0), 1e-12)
    return jnp.linalg.pinv(f / size[None], rtol=ALIKE) / size[:, None]


def statistics(model: SharedModel, total: Products, by: Span, vector: Float[Array, "p"],
               people: Scalar) -> tuple[Statistics, Float[Array, "2 R b"]]:
    """(T, v, c, l of all sites at θ, for one draw; what the span misses of ω at the people of nobody, arm by arm)."""
    theta = model.unravel(vector)
    wanted = omega(model, theta, jnp.asarray(pooled.landmarks(REFERENCE, model.covariates)))
    weights = [fit @ wanted for fit in by.fit]
    missed = jnp.stack([wanted - f @ weight for f, weight in zip(by.columns, weights, strict=True)])
    b, noise = _by_arms(model, theta, weights), noise_level(theta)
    gram = b.T @ total.gram @ b / noise
    return Statistics(gram[np.triu_indices(model.columns)], b.T @ total.cross / noise, total.square / noise,
                      total.log_det + people * jnp.log(noise)), missed


def _by_arms(model: SharedModel, theta: Theta, weights: list[Float[Array, "_ b"]]) -> Float[Array, "D q"]:
    """B: z = BᵀF̃."""
    made = []
    for block in model.layout.blocks:
        root, own = block.root(theta), model.layout.columns[block.name]
        made += [jnp.concatenate([weight[:, own] * root[arm, i] for arm, weight in enumerate(weights)])
                 for i in range(root.shape[1])]
    return jnp.concatenate(made, 1)
