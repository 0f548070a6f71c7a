"""Covariance functions k, γ, κ: stationary shapes of the scaled distance, linear and constant; sums and products.

    r² = Σ_c ((x_c − z_c)/ℓ_c)²      k(x, z) = s² · ϱ(r)      ϱ ∈ {RBF, Matérn 1/2, 3/2, 5/2}
    linear  k(x, z) = s² xᵀz/d       constant  k(x, z) = s²

A kernel is a frozen description; its parameters live in Θ. `evaluate` is the maths for one pair of points,
`cross` maps it over two sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedci.study.options import WITHOUT_LENGTH, Expression, parse_kernel

Params = dict[str, Any]


@runtime_checkable
class Kernel(Protocol):
    def init(self, dim: int) -> Params: ...

    def evaluate(self, params: Params, x: Float[Array, "d"], z: Float[Array, "d"]) -> Float[Array, ""]: ...


def _distance(r2: Float[Array, "..."]) -> Float[Array, "..."]:
    """√r², with derivative 0 (not NaN) where two points coincide."""
    positive = r2 > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, r2, 1.0)), 0.0)


def rbf(r2: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.exp(-0.5 * r2)


def matern12(r2: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.exp(-_distance(r2))


def matern32(r2: Float[Array, "..."]) -> Float[Array, "..."]:
    a = math.sqrt(3.0) * _distance(r2)
    return (1.0 + a) * jnp.exp(-a)


def matern52(r2: Float[Array, "..."]) -> Float[Array, "..."]:
    a = math.sqrt(5.0) * _distance(r2)
    return (1.0 + a + a * a / 3.0) * jnp.exp(-a)


SHAPES = {"rbf": rbf, "matern12": matern12, "matern32": matern32, "matern52": matern52}


@dataclass(frozen=True)
class Stationary:
    """s²·ϱ(r). Without `scale`, s = 1: in the paper Φ carries the scale of the outcomes.

    Length-scales start at √dim: the typical distance of standardised inputs grows like that.
    """

    shape: str
    ard: bool = False
    scale: bool = False

    def init(self, dim: int) -> Params:
        start = 0.5 * math.log(dim)
        params = {"log_length": jnp.full((dim,) if self.ard else (), start)}
        return params | ({"log_scale": jnp.zeros(())} if self.scale else {})

    def evaluate(self, params: Params, x: Float[Array, "d"], z: Float[Array, "d"]) -> Float[Array, ""]:
        away, ell = x - z, params["log_length"]
        # one length-scale: divide the sum, not each term, and the gradient needs no pass over the d terms
        r2 = jnp.sum((away * jnp.exp(-ell)) ** 2) if self.ard else jnp.sum(away**2) * jnp.exp(-2.0 * ell)
        s2 = jnp.exp(2.0 * params["log_scale"]) if self.scale else 1.0
        return s2 * SHAPES[self.shape](r2)


@dataclass(frozen=True)
class Plain:
    """s²·xᵀz/d, or s²: slopes, or a level, of a function's own."""

    kind: str
    scale: bool = False

    def init(self, dim: int) -> Params:
        return {"log_scale": jnp.zeros(())} if self.scale else {}

    def evaluate(self, params: Params, x: Float[Array, "d"], z: Float[Array, "d"]) -> Float[Array, ""]:
        s2 = jnp.exp(2.0 * params["log_scale"]) if self.scale else 1.0
        return s2 * (x @ z / x.shape[0] if self.kind == "linear" else jnp.ones(()))


@dataclass(frozen=True)
class Sum:
    """k = Σ_c k_c."""

    parts: tuple[Kernel, ...]

    def init(self, dim: int) -> Params:
        return _init_parts(self.parts, dim)

    def evaluate(self, params: Params, x: Float[Array, "d"], z: Float[Array, "d"]) -> Float[Array, ""]:
        return sum(_evaluate_parts(self.parts, params, x, z), jnp.zeros(()))


@dataclass(frozen=True)
class Product:
    """k = Π_c k_c."""

    parts: tuple[Kernel, ...]

    def init(self, dim: int) -> Params:
        return _init_parts(self.parts, dim)

    def evaluate(self, params: Params, x: Float[Array, "d"], z: Float[Array, "d"]) -> Float[Array, ""]:
        return math.prod(_evaluate_parts(self.parts, params, x, z), start=jnp.ones(()))


def _init_parts(parts: tuple[Kernel, ...], dim: int) -> Params:
    return {f"part{i}": part.init(dim) for i, part in enumerate(parts)}


def _evaluate_parts(parts: tuple[Kernel, ...], params: Params, x: Float[Array, "d"],
                    z: Float[Array, "d"]) -> list[Float[Array, ""]]:
    return [part.evaluate(params[f"part{i}"], x, z) for i, part in enumerate(parts)]


def build(text: str) -> Kernel:
    """The kernel an expression such as 'rbf(ard) + matern12(scale)' describes."""
    return _from_tree(parse_kernel(text))


def _from_tree(tree: Expression) -> Kernel:
    head, *rest = tree
    if head in ("sum", "product"):
        return (Sum if head == "sum" else Product)(tuple(_from_tree(part) for part in rest))
    if head in WITHOUT_LENGTH:
        return Plain(head, scale="scale" in rest[0])
    return Stationary(head, ard="ard" in rest[0], scale="scale" in rest[0])


FLAT, NOTHING = 5.0, -6.0
"""log of what length-scales are multiplied by, and of the scale of slopes, where a function is a level alone."""


def level_of(kernel: Kernel, params: Params) -> Params:
    """`params` with which k is all but constant: functions are levels."""
    if isinstance(kernel, Stationary):
        return params | {"log_length": params["log_length"] + FLAT}
    if isinstance(kernel, Plain):
        return {name: NOTHING + 0.0 * value for name, value in params.items()} if kernel.kind == "linear" else params
    parts: tuple[Kernel, ...] = kernel.parts if isinstance(kernel, Sum | Product) else ()
    return {f"part{i}": level_of(part, params[f"part{i}"]) for i, part in enumerate(parts)}


def cross(kernel: Kernel, params: Params, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """k(x_i, z_j) for all pairs."""
    over_z = jax.vmap(kernel.evaluate, in_axes=(None, None, 0))
    return jax.vmap(over_z, in_axes=(None, 0, None))(params, x, z)


def diagonal(kernel: Kernel, params: Params, x: Float[Array, "n d"]) -> Float[Array, "n"]:
    """k(x_i, x_i)."""
    return jax.vmap(lambda row: kernel.evaluate(params, row, row))(x)


@dataclass(frozen=True)
class Split:
    """k = s_c² + s_l² xᵀz/d + k̇(x, z): level and slopes are d + 1 numbers, only the rest needs a covariance."""

    constant: Float[Array, ""]
    """s_c."""
    linear: Float[Array, ""]
    """s_l."""
    rest: Callable[[Array, Array], Array]
    """k̇ ([n, d], [m, d]) → [n, m]."""
    own: Callable[[Array], Array]
    """k̇(x_i, x_i) [n]."""


def split(kernel: Kernel, params: Params) -> Split:
    """Only terms of a sum are split off; a product is left whole."""
    terms = [(part, params[f"part{i}"]) for i, part in enumerate(kernel.parts)] if isinstance(kernel, Sum) else [
        (kernel, params)]
    left = [(part, p) for part, p in terms if not isinstance(part, Plain)]
    return Split(_plain_scale("constant", terms), _plain_scale("linear", terms),
                 lambda x, z: sum((_fast(part, p, x, z) for part, p in left), jnp.zeros((x.shape[0], z.shape[0]))),
                 lambda x: sum((diagonal(part, p, x) for part, p in left), jnp.zeros(x.shape[0])))


def _plain_scale(kind: str, terms: list[tuple[Kernel, Params]]) -> Float[Array, ""]:
    """√Σ s² of the terms of a kind."""
    squares = [jnp.exp(2.0 * p["log_scale"]) if part.scale else jnp.ones(())
               for part, p in terms if isinstance(part, Plain) and part.kind == kind]
    return jnp.sqrt(sum(squares, jnp.zeros(()))) if squares else jnp.zeros(())


def _fast(kernel: Kernel, params: Params, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
    """`cross` with squared distances from one matrix product: |x|² + |z|² − 2xᵀz, whose rounding (1e-15 |x|²) smooth
    shapes do not feel."""
    if not isinstance(kernel, Stationary) or kernel.shape == "matern12":
        return cross(kernel, params, x, z)
    ell = params["log_length"]
    x, z = (x * jnp.exp(-ell)[None], z * jnp.exp(-ell)[None]) if kernel.ard else (x, z)
    r2 = jnp.maximum(jnp.sum(x * x, 1)[:, None] + jnp.sum(z * z, 1)[None] - 2.0 * x @ z.T, 0.0)
    r2 = r2 if kernel.ard else r2 * jnp.exp(-2.0 * ell)
    s2 = jnp.exp(2.0 * params["log_scale"]) if kernel.scale else 1.0
    return s2 * SHAPES[kernel.shape](r2)
