"""Mean functions with two outputs, one per arm: μ of the covariates, r and h of a site's moments.

Every mean has `init(rng, dim, sites)` and `evaluate(params, x, site)` for one point x; only `Table` looks at
the site's number. `rng` is a NumPy generator made from the study's seed: no global random state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fedci.study.options import MeanOptions

Params = dict[str, Any]


@runtime_checkable
class Mean(Protocol):
    def init(self, rng: np.random.Generator, dim: int, sites: int) -> Params: ...

    def evaluate(self, params: Params, x: Float[Array, "d"], site: Int[Array, ""]) -> Float[Array, "2"]: ...


@dataclass(frozen=True)
class Zero:
    """x → (0, 0)."""

    def init(self, rng: np.random.Generator, dim: int, sites: int) -> Params:
        return {}

    def evaluate(self, params: Params, x: Float[Array, "d"], site: Int[Array, ""]) -> Float[Array, "2"]:
        return jnp.zeros(2)


@dataclass(frozen=True)
class Linear:
    """x → b + xᵀW, W of d × 2, started at 0."""

    def init(self, rng: np.random.Generator, dim: int, sites: int) -> Params:
        return {"weight": jnp.zeros((dim, 2)), "bias": jnp.zeros(2)}

    def evaluate(self, params: Params, x: Float[Array, "d"], site: Int[Array, ""]) -> Float[Array, "2"]:
        return params["bias"] + x @ params["weight"]


@dataclass(frozen=True)
class Table:
    """site → its own free pair, started at 0."""

    def init(self, rng: np.random.Generator, dim: int, sites: int) -> Params:
        return {"value": jnp.zeros((sites, 2))}

    def evaluate(self, params: Params, x: Float[Array, "d"], site: Int[Array, ""]) -> Float[Array, "2"]:
        return params["value"][site]


@dataclass(frozen=True)
class Network:
    """x → trunk (ReLU layers, shared) → one head per output (ReLU layers, then a linear unit)."""

    trunk: tuple[int, ...]
    head: tuple[int, ...] = ()

    def init(self, rng: np.random.Generator, dim: int, sites: int) -> Params:
        top = self.trunk[-1] if self.trunk else dim
        params = {"trunk": _layers(rng, (dim, *self.trunk))}
        return params | {f"head{j}": _layers(rng, (top, *self.head, 1)) for j in (0, 1)}

    def evaluate(self, params: Params, x: Float[Array, "d"], site: Int[Array, ""]) -> Float[Array, "2"]:
        for layer in _in_order(params["trunk"]):
            x = jax.nn.relu(_affine(layer, x))
        return jnp.concatenate([self._head(params[f"head{j}"], x) for j in (0, 1)])

    def _head(self, params: Params, x: Float[Array, "d"]) -> Float[Array, "1"]:
        *hidden, last = _in_order(params)
        for layer in hidden:
            x = jax.nn.relu(_affine(layer, x))
        return _affine(last, x)


def _layers(rng: np.random.Generator, widths: tuple[int, ...]) -> Params:
    """Weights and biases uniform in ±1/√fan-in, so that a unit's variance does not depend on the width."""
    return {f"layer{i}": {"weight": _uniform(rng, fan_in, (fan_in, fan_out)), "bias": _uniform(rng, fan_in, (fan_out,))}
            for i, (fan_in, fan_out) in enumerate(pairwise(widths))}


def _uniform(rng: np.random.Generator, fan_in: int, shape: tuple[int, ...]) -> Float[Array, "..."]:
    bound = 1.0 / math.sqrt(fan_in)
    return jnp.asarray(rng.uniform(-bound, bound, shape))


def _in_order(layers: Params) -> list[Params]:
    return [layers[f"layer{i}"] for i in range(len(layers))]


def _affine(layer: Params, x: Float[Array, "d"]) -> Float[Array, "k"]:
    return x @ layer["weight"] + layer["bias"]


def build(options: MeanOptions) -> Mean:
    kinds: dict[str, Mean] = {"zero": Zero(), "linear": Linear(), "table": Table(),
                              "network": Network(tuple(options.trunk), tuple(options.head))}
    return kinds[options.kind]


def over_rows(mean: Mean, params: Params, x: Float[Array, "n d"], site: Int[Array, ""]) -> Float[Array, "n 2"]:
    """The mean at each row of x, all of one site."""
    return jax.vmap(lambda row: mean.evaluate(params, row, site))(x)
