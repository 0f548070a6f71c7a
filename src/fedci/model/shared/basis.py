"""The shared function μ_j(x) = β_jᵀω(x) of the model `shared`: the named blocks of its basis, and the prior of β.

    ω(x) = [ 1,  x/√d,  Σ_c x_c/√d,  ς(t_k − κ_1) … ς(t_k − κ_J)  for k = 1 … K,   ψ_b(x),  ψ_e(x) ]      t = xA
             levels  lines  common   direction k                                   pooled
    ς(t) = s·softplus(t/s)                  a hinge, rounded over s = ¼
    A_ck = (1.5 τ_k a_ck + m_k)/√d          directions, with a common part m_k
    ψ(x) = K_UU^{−1/2} k(U, x)              M landmarks U stand for the pooled covariance k (`pooled`)

β is Gaussian, and the effect is simpler than the outcome: block by block β₀ = b and β₁ = ρ b + e, e smaller than b; of
more arms β_a = ρ b + e_a, the e_a of one size and alike, Cov(e_a, e_a') = κ Var e_a, κ the same in all blocks. As an
A × A root R_b, β_j = Σ_i R_b[j, i] β̃_i with β̃ ~ N(0, I): a person in arm w has the row z = (R_b[w, i] ω_b(x))_{b, i}
and mean zᵀβ̃. ρ = ρ₀ + the block's own deviation, log(sd e / sd b) = η + the block's own: the blocks learn from each
other. The pooled function has columns for b and others for e, whose relevances differ: two blocks with one column of R
each.

A new block is a function in BLOCKS, and a row of `priors.TABLE` for what it adds to θ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fedci.model.family import Theta
from fedci.model.shared import pooled
from fedci.study.options import SharedOptions

SMOOTH = 0.25
REACH = 1.5
"""Knots stand evenly on ±REACH, in units of t, whose spread the data choose."""
DIRECTION_SD = 1.5
LEVEL_SD = 3.0
"""Prior sd of the two levels, in standard deviations of the outcome: wide."""
LEVELS, LINES, BETWEEN_ARMS, POOLED_EFFECT = "levels", "lines", "between arms", "pooled effect"
"""The blocks that other modules ask for by name: a function's own level and slopes (`kernels.split`) have the columns
of the first two, the start reads the coefficients of the lines, and messages of products tell nothing more of the third
and less of the fourth."""


class Part(NamedTuple):
    """What `drivers()` says of one block, or of several together."""

    name: str
    words: str
    """For a sentence: '… carry 12% of the outcome'."""
    along: Callable[[Theta], jax.Array] | None = None
    """θ → [d], the direction of x that the part bends along, if it has one."""
    relevances: Callable[[Theta], jax.Array] | None = None
    """θ → [d], how much each covariate matters to the part, if it says so."""

    @property
    def weights(self) -> Callable[[Theta], jax.Array] | None:
        """θ → [d]: of its direction, or the relevances."""
        return self.along or self.relevances


@dataclass(frozen=True)
class Points:
    """People as blocks see them."""

    x: Float[Array, "n d"]
    t: Float[Array, "n K"]
    """xA."""
    _bends: dict[int, list[jax.Array]] = field(default_factory=dict)

    @cached_property
    def placed(self) -> pooled.Placed:
        """As the pooled covariance sees them."""
        return pooled.placed(self.x)

    def landmarks(self, count: int) -> pooled.Placed:
        """Those of outcome and effect are the same."""
        return pooled.placed_landmarks(count, self.x.shape[1])

    def bends(self, theta: Theta, count: int) -> list[jax.Array]:
        """ψ of outcome and effect: made together. Points are those of one θ, as t is."""
        if count not in self._bends:
            both = pooled.of_outcome(theta), pooled.of_effect(theta)
            self._bends[count] = pooled.features_of(both, self.placed, self.landmarks(count))
        return self._bends[count]


class Paths(NamedTuple):
    """Along each covariate in turn: people who take the values of the grid there and keep their others."""

    people: Float[Array, "n d"]
    grid: Float[Array, "G"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Columns of ω that share a root of β's prior."""

    name: str
    width: int
    """b."""
    columns: Callable[[Theta, Points], jax.Array]
    """ω_b(x) [n, b]."""
    root: Callable[[Theta], jax.Array]
    """R_b [A, copies]."""
    part: Part | None
    """None where the block does not vary from person to person."""
    copies: int = 2
    """How many times its columns stand in z: once each for b and e (of each further arm), or for one of them only."""
    along: Callable[[Theta, Paths], jax.Array] | None = None
    """[d, G, b] averages of ω_b over the people of paths, where there is a shorter way than person by person."""
    size: Callable[[Theta], jax.Array] = lambda theta: jnp.ones(())
    """Of ω_b, where θ says it and not R_b."""


@dataclass(frozen=True)
class Layout:
    """Which block stands where: in ω(x), and in β̃ and z, where each block has its columns `copies` times."""

    blocks: tuple[Block, ...]
    count: int = 2
    """A."""

    def __getitem__(self, name: str) -> Block:
        return next(block for block in self.blocks if block.name == name)

    @property
    def width(self) -> int:
        """Columns of ω(x)."""
        return sum(block.width for block in self.blocks)

    @property
    def size(self) -> int:
        """q, the length of β̃."""
        return sum(block.copies * block.width for block in self.blocks)

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Of each block in ω(x)."""
        return _one_after_the_other({block.name: block.width for block in self.blocks})

    @cached_property
    def coefficients(self) -> dict[str, slice]:
        """Of each block in β̃ and in z: copies · b entries, those of i = 0 first."""
        return _one_after_the_other({block.name: block.copies * block.width for block in self.blocks})

    def omega(self, theta: Theta, x: Float[Array, "n d"]) -> list[Float[Array, "n _"]]:
        """ω_b(x) of each block."""
        points = Points(x, x @ directions(theta))
        return [block.columns(theta, points) for block in self.blocks]

    def roots(self, theta: Theta) -> dict[str, Float[Array, "A _"]]:
        """R_b of each block."""
        return {block.name: block.root(theta) for block in self.blocks}

    def sizes(self, theta: Theta) -> Float[Array, "q"]:
        """Of each column of z: ω_b's times the largest entry of R_b."""
        return jnp.concatenate([
            jnp.full(block.copies * block.width, block.size(theta) * jnp.max(jnp.abs(block.root(theta))))
            for block in self.blocks])

    def rows(self, theta: Theta, x: Float[Array, "n d"], arms: Float[Array, "n A"]) -> Float[Array, "n q"]:
        """z of each person, `arms` picking (or weighing) the outcomes: [1 − w, w] observed, [−1, 1] the effect."""
        return self.weighed(theta, self.omega(theta, x), arms)

    def along(self, theta: Theta, paths: Paths,
              weighings: Sequence[Sequence[float]] = ((1.0, 0.0), (-1.0, 1.0))) -> Float[Array, "2 d G q"]:
        """Averages over people of the rows z of (the outcome without treatment, the effect) along each covariate."""
        d, count = paths.people.shape[1], paths.grid.shape[0]
        omega = [_along_paths(block, theta, paths).reshape(d * count, -1) for block in self.blocks]
        arms = (jnp.broadcast_to(jnp.array(arm), (d * count, self.count)) for arm in weighings)
        return jnp.stack([self.weighed(theta, omega, arm) for arm in arms]).reshape(2, d, count, -1)

    def weighed(self, theta: Theta, omega: Sequence[Float[Array, "n _"]],
                arms: Float[Array, "n A"]) -> Float[Array, "n q"]:
        """z from ω(x): for several weighings of the same people, which share it."""
        weights = [arms @ root for root in self.roots(theta).values()]
        return jnp.concatenate([weight[:, i:i + 1] * omega_b for weight, omega_b
                                in zip(weights, omega, strict=True) for i in range(weight.shape[1])], 1)

    def arms(self, theta: Theta, x: Float[Array, "n d"]) -> Float[Array, "n A q"]:
        """z of each person in each arm."""
        omega, count = self.omega(theta, x), self.count
        return jnp.stack([self.weighed(theta, omega, jnp.broadcast_to(arm, (x.shape[0], count)))
                          for arm in jnp.eye(count)], 1)


def _along_paths(block: Block, theta: Theta, paths: Paths) -> Float[Array, "d G b"]:
    """mean_i ω_b(x_i with x_ic = grid_g)."""
    if block.along is not None:
        return block.along(theta, paths)
    people, count = paths.people, paths.grid.shape[0]

    def of(c: Int[Array, ""]) -> Float[Array, "G b"]:
        x = jnp.tile(people, (count, 1)).at[:, c].set(jnp.repeat(paths.grid, people.shape[0]))
        columns = block.columns(theta, Points(x, x @ directions(theta)))
        return jnp.mean(columns.reshape(count, people.shape[0], -1), 1)

    return jax.lax.map(of, jnp.arange(people.shape[1]))


def _one_after_the_other(widths: Mapping[str, int]) -> dict[str, slice]:
    ends = accumulate(widths.values())
    return {name: slice(end - width, end) for (name, width), end in zip(widths.items(), ends, strict=True)}


# --- the blocks


def levels(options: SharedOptions, d: int, arms: int) -> Iterator[Block]:
    yield Block(name=LEVELS, width=1, part=None, copies=arms,
                columns=lambda theta, points: jnp.ones((points.x.shape[0], 1)),
                root=lambda theta: LEVEL_SD * jnp.eye(arms))


STRAIGHT = Part("lines", "lines")


def lines(options: SharedOptions, d: int, arms: int) -> Iterator[Block]:
    yield Block(name=LINES, width=d, part=STRAIGHT, copies=arms,
                columns=lambda theta, points: points.x / math.sqrt(d),
                root=lambda theta: root(theta, theta["linear"], arms))


def common(options: SharedOptions, d: int, arms: int) -> Iterator[Block]:
    """One slope for all covariates: coefficients may share a mean."""
    if options.common:
        yield Block(name="common", width=1, part=STRAIGHT, copies=arms,
                    columns=lambda theta, points: jnp.sum(points.x, 1, keepdims=True) / math.sqrt(d),
                    root=lambda theta: root(theta, theta["common"], arms))


def between_arms(options: SharedOptions, d: int, arms: int) -> Iterator[Block]:
    """How probable each treatment is along x, with a coefficient of its own, the same in all arms: shrunk as the lines
    are, these would leave to the effect's level what confounding made of it."""
    if options.between_arms:
        yield Block(name=BETWEEN_ARMS, width=arms - 1, part=STRAIGHT, copies=1,
                    columns=lambda theta, points: points.x @ jax.lax.stop_gradient(theta["between_arms"]),
                    root=lambda theta: jnp.exp(theta["confounding"]) * jnp.ones((arms, 1)))


def hinges(options: SharedOptions, d: int, arms: int) -> Iterator[Block]:
    """Of each direction."""
    for k in range(options.directions):
        yield _along(k, options.knots, arms)


def _along(k: int, count: int, arms: int) -> Block:
    name = f"direction {k + 1}"
    return Block(name=name, width=count, copies=arms, part=Part(name, name, lambda theta: directions(theta)[:, k]),
                 columns=lambda theta, points: hinge(points.t[:, k:k + 1] - knots(count)[None]) / math.sqrt(count),
                 root=lambda theta: root(theta, theta["hinges"][k], arms))


BENDS = Part("products and thresholds", "products and thresholds", relevances=pooled.relevances)


def bends(options: SharedOptions, d: int, arms: int) -> Iterator[Block]:
    """Products and thresholds through landmarks: b with its relevances, e with its own."""
    if options.landmarks:
        count, at = options.landmarks, pooled.landmarks(options.landmarks, d)
        yield Block(name="pooled outcome", width=count, copies=1, part=BENDS,
                    columns=lambda theta, points: points.bends(theta, count)[0],
                    along=lambda theta, paths: pooled.features_along(pooled.of_outcome(theta), *paths, at),
                    size=lambda theta: pooled.size(pooled.of_outcome(theta)),
                    root=lambda theta: jnp.array([[1.0], *[[theta["alike"] + theta["pooled_alike"]]] * (arms - 1)]))
        yield Block(name=POOLED_EFFECT, width=count, copies=arms - 1, part=BENDS,
                    columns=lambda theta, points: points.bends(theta, count)[1],
                    along=lambda theta, paths: pooled.features_along(pooled.of_effect(theta), *paths, at),
                    size=lambda theta: pooled.size(pooled.of_effect(theta)),
                    root=lambda theta: effect_alone(theta, arms))


BLOCKS: tuple[Callable[[SharedOptions, int, int], Iterator[Block]], ...] = (
    levels, lines, common, between_arms, hinges, bends)
"""In the order of ω."""


def layout_of(options: SharedOptions, d: int, intervals: int = 0, arms: int = 2) -> Layout:
    """Of d covariates; of a time to an event the last of them is the place of one of so many intervals."""
    return Layout((*(block for make in BLOCKS for block in make(options, d, arms)), *baseline(intervals, arms)), arms)


def baseline(intervals: int, arms: int) -> Iterator[Block]:
    """A smooth function of time, of each arm: the hazards' level has its own two numbers already."""
    if intervals > 1:
        yield Block(name="baseline", width=intervals, copies=arms, part=Part("baseline", "time"),
                    columns=lambda theta, points: over_time(intervals, points.x[:, -1]),
                    root=lambda theta: simpler(theta["baseline"][0], theta["baseline"][1],
                                               theta["baseline"][2] + theta["alike"], together(theta, arms - 1)))


def over_time(intervals: int, at: Float[Array, "n"]) -> Float[Array, "n J"]:
    """ψ of Matérn 3/2 through the intervals' places: at these it is the whole covariance."""
    places = moments_of(intervals)
    root = np.linalg.inv(np.linalg.cholesky(_matern(places[:, None] - places[None]) + 1e-9 * np.eye(intervals)))
    return _matern(at[:, None] - places[None]) @ root.T


def moments_of(intervals: int) -> np.ndarray:
    """[J] where intervals stand in the last column of x: of a covariate's spread, one after the other."""
    return np.linspace(-REACH, REACH, intervals) if intervals > 1 else np.zeros(intervals)


def _matern(away: Any) -> Any:
    """Of length REACH."""
    far = math.sqrt(3.0) * abs(away) / REACH
    return (1.0 + far) * (jnp.exp(-far) if isinstance(far, jax.Array) else np.exp(-far))


# --- their pieces


def knots(count: int) -> np.ndarray:
    return np.linspace(-REACH, REACH, count) if count > 1 else np.zeros(1)


def hinge(t: Float[Array, "*k"]) -> Float[Array, "*k"]:
    return SMOOTH * jax.nn.softplus(t / SMOOTH)


def root(theta: Theta, values: Float[Array, "3"], arms: int = 2) -> Float[Array, "A A"]:
    """(log sd of b, the block's own part of log sd e/sd b, of ρ) → the root of (b, ρb + e_1, ρb + e_2, …)."""
    return simpler(values[0], values[1] + theta["effect"], values[2] + theta["alike"], together(theta, arms - 1))


def simpler(log_sd: Float[Array, ""], log_ratio: Float[Array, ""], rho: Float[Array, ""],
            e: Float[Array, "k k"] | None = None) -> Float[Array, "A A"]:
    """Of (b, ρb + e_a) with sd b = e^log_sd and sd e_a = e^(log_sd + log_ratio), e the root of their correlations;
    without it there is one."""
    sd = jnp.exp(log_sd)
    if e is None or e.shape[0] == 1:
        return jnp.array([[sd, 0.0], [rho * sd, jnp.exp(log_sd + log_ratio)]])
    first = jnp.concatenate([sd[None], jnp.full(e.shape[0], rho * sd)])
    return jnp.column_stack([first, jnp.vstack([jnp.zeros(e.shape[0]), jnp.exp(log_sd + log_ratio) * e])])


def effect_alone(theta: Theta, arms: int) -> Float[Array, "A k"]:
    """Of (0, e_1, e_2, …) with sd e_a = 1."""
    if arms == 2:
        return jnp.array([[0.0], [1.0]])
    return jnp.vstack([jnp.zeros(arms - 1), together(theta, arms - 1)])


def together(theta: Theta, k: int) -> Float[Array, "k k"]:
    """The symmetric root of (1 − κ)I + κ11ᵀ: e_1 … e_k of correlation κ. Symmetric, so that no order of the arms is
    another law of β̃."""
    if k == 1:
        return jnp.ones((1, 1))
    kappa = jax.nn.sigmoid(theta["together"])
    own = jnp.sqrt(1.0 - kappa)
    return own * jnp.eye(k) + (jnp.sqrt(1.0 + (k - 1.0) * kappa) - own) / k * jnp.ones((k, k))


def directions(theta: Theta) -> Float[Array, "d K"]:
    """A."""
    a = theta["directions"]
    shared = theta["direction_common"][None] if "direction_common" in theta else 0.0
    return (DIRECTION_SD * jnp.exp(theta["direction_scale"])[None] * a + shared) / math.sqrt(a.shape[0])
