"""The shared function μ_j(x) = β_jᵀω(x) of the model `shared`: the named blocks of its basis, and the prior of β.

    ω(x) = [ 1,  x/√d,  Σ_c x_c/√d,  ς(t_k − κ_1) … ς(t_k − κ_J)  for k = 1 … K ],      t = xA,   A of d × K
             levels  lines  common   direction k
    ς(t) = s·softplus(t/s)                  a hinge, rounded over s = ¼
    A_ck = (1.5 τ_k a_ck + m_k)/√d          directions, with a common part m_k

β is Gaussian: block b of ω has a 2 × 2 root R_b, and β_j = Σ_i R_b[j, i] β̃_i with β̃ ~ N(0, I). So a person in arm w
has the row z = (R_b[w, i] ω_b(x))_{b, i} and mean zᵀβ̃; "the effect is simpler than the outcome" is a correlation.
Hinges are the simplest basis that bends: sums of them approximate any function of t, and are linear beyond the data.

A new block is a function in BLOCKS, and a row of `priors.TABLE` for what it adds to θ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model.family import Theta
from fedci.study.options import SharedOptions

SMOOTH = 0.25
REACH = 1.5
"""Knots stand evenly on ±REACH, in units of t, whose spread the data choose."""
DIRECTION_SD = 1.5
LEVEL_SD = 3.0
"""Prior sd of the two levels, in standard deviations of the outcome: wide."""
LEVELS, LINES = "levels", "lines"
"""The blocks that other modules ask for by name: a function's own level and slopes (`kernels.split`) have their
columns, and the start reads the coefficients of the lines."""


class Part(NamedTuple):
    """What `drivers()` says of one block, or of several together."""

    name: str
    words: str
    """For a sentence: '… carry 12% of the outcome'."""
    along: Callable[[Theta], jax.Array] | None = None
    """θ → [d], the direction of x that the part bends along, if it has one."""


class Points(NamedTuple):
    """People as blocks see them."""

    x: Float[Array, "n d"]
    t: Float[Array, "n K"]
    """xA."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Columns of ω that share a root of β's prior."""

    name: str
    width: int
    """b."""
    columns: Callable[[Theta, Points], jax.Array]
    """ω_b(x) [n, b]."""
    root: Callable[[Theta], jax.Array]
    """R_b [2, 2]."""
    part: Part | None
    """None where the block does not vary from person to person."""


@dataclass(frozen=True)
class Layout:
    """Which block stands where: in ω(x), and in β̃ and z, where each block has its columns twice, i = 0 and 1."""

    blocks: tuple[Block, ...]

    def __getitem__(self, name: str) -> Block:
        return next(block for block in self.blocks if block.name == name)

    @property
    def width(self) -> int:
        """Columns of ω(x)."""
        return sum(block.width for block in self.blocks)

    @property
    def size(self) -> int:
        """q, the length of β̃."""
        return 2 * self.width

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Of each block in ω(x)."""
        return _one_after_the_other({block.name: block.width for block in self.blocks})

    @cached_property
    def coefficients(self) -> dict[str, slice]:
        """Of each block in β̃ and in z: 2b entries, those of i = 0 first."""
        return _one_after_the_other({block.name: 2 * block.width for block in self.blocks})

    def omega(self, theta: Theta, x: Float[Array, "n d"]) -> list[Float[Array, "n _"]]:
        """ω_b(x) of each block."""
        points = Points(x, x @ directions(theta))
        return [block.columns(theta, points) for block in self.blocks]

    def roots(self, theta: Theta) -> dict[str, Float[Array, "2 2"]]:
        """R_b of each block."""
        return {block.name: block.root(theta) for block in self.blocks}

    def rows(self, theta: Theta, x: Float[Array, "n d"], arms: Float[Array, "n 2"]) -> Float[Array, "n q"]:
        """z of each person, `arms` picking (or weighing) the two outcomes: [1 − w, w] observed, [−1, 1] the effect."""
        weights = [arms @ root for root in self.roots(theta).values()]
        return jnp.concatenate([weight[:, i:i + 1] * omega_b for weight, omega_b
                                in zip(weights, self.omega(theta, x), strict=True) for i in (0, 1)], 1)


def _one_after_the_other(widths: Mapping[str, int]) -> dict[str, slice]:
    ends = accumulate(widths.values())
    return {name: slice(end - width, end) for (name, width), end in zip(widths.items(), ends, strict=True)}


# --- the blocks


def levels(options: SharedOptions, d: int) -> Iterator[Block]:
    yield Block(name=LEVELS, width=1, part=None,
                columns=lambda theta, points: jnp.ones((points.x.shape[0], 1)),
                root=lambda theta: LEVEL_SD * jnp.eye(2))


STRAIGHT = Part("lines", "lines")


def lines(options: SharedOptions, d: int) -> Iterator[Block]:
    yield Block(name=LINES, width=d, part=STRAIGHT,
                columns=lambda theta, points: points.x / math.sqrt(d),
                root=lambda theta: root(theta["linear"]))


def common(options: SharedOptions, d: int) -> Iterator[Block]:
    """One slope for all covariates: coefficients may share a mean."""
    if options.common:
        yield Block(name="common", width=1, part=STRAIGHT,
                    columns=lambda theta, points: jnp.sum(points.x, 1, keepdims=True) / math.sqrt(d),
                    root=lambda theta: root(theta["common"]))


def hinges(options: SharedOptions, d: int) -> Iterator[Block]:
    """Of each direction."""
    for k in range(options.directions):
        yield _along(k, options.knots)


def _along(k: int, count: int) -> Block:
    name = f"direction {k + 1}"
    return Block(name=name, width=count, part=Part(name, name, lambda theta: directions(theta)[:, k]),
                 columns=lambda theta, points: hinge(points.t[:, k:k + 1] - knots(count)[None]) / math.sqrt(count),
                 root=lambda theta: root(theta["hinges"][k]))


BLOCKS: tuple[Callable[[SharedOptions, int], Iterator[Block]], ...] = (levels, lines, common, hinges)
"""In the order of ω."""


def layout_of(options: SharedOptions, d: int) -> Layout:
    """Of d covariates."""
    return Layout(tuple(block for make in BLOCKS for block in make(options, d)))


# --- their pieces


def knots(count: int) -> np.ndarray:
    return np.linspace(-REACH, REACH, count) if count > 1 else np.zeros(1)


def hinge(t: Float[Array, "*k"]) -> Float[Array, "*k"]:
    return SMOOTH * jax.nn.softplus(t / SMOOTH)


def root(values: Float[Array, "3"]) -> Float[Array, "2 2"]:
    """(log sd of arm 0, log sd of arm 1, angle) → lower root; the correlation is the angle's sine."""
    sd, angle = jnp.exp(values[:2]), values[2]
    return jnp.array([[sd[0], 0.0], [sd[1] * jnp.sin(angle), sd[1] * jnp.cos(angle)]])


def directions(theta: Theta) -> Float[Array, "d K"]:
    """A."""
    a = theta["directions"]
    shared = theta["direction_common"][None] if "direction_common" in theta else 0.0
    return (DIRECTION_SD * jnp.exp(theta["direction_scale"])[None] * a + shared) / math.sqrt(a.shape[0])
