"""Fixed columns in whose span ω(x; θ) lies, for θ near a point: their products give the evidence at all these θ.

A round of the fit asks for T, v, c, l at each draw of θ. Here a site tells once, with F_a(x) the columns of arm a,

    F_a(x) = [ ω(x; θ̂),  x·s(2t_k) ]     J_a(x) = ∂(ωᵀβ̂_a)/∂θ_f     s logistic
    F̃_i = (F_0(x_i)(1 − w_i), F_1(x_i)w_i, J_w(x_i))         G = [F̃, y]ᵀC(θ̂)⁻¹[F̃, y],   log|C(θ̂)|

    θ_f: relevances and scales of the pooled covariance, directions

β̂_a the coefficients of arm a at the point. θ_f moves the functions of both arms at once, so the tangents of the two
stand in the same columns, but for those of e; all else is each arm's own. A direction that turns adds x·g_a′(t_k),
whatever the function g_a along it came to so far, which is little while the direction is wrong; with x itself, s gives
any slope from one side of 0 to the other. Near the top g_a is known, and its tangents come beside x·s(2t_k), and then
in their place (`Stage`). While no β̂ is known, F = ω. Of e's pooled function ω has fewer landmarks here. F̃ is a basis
like any other (`Dictionary`), so a site's rows have its products in the form in which they are held. Whoever has ΣG
works out T, v, c, l at any θ with the same own function: what is ω_b(x) R_b[a, i] in arm a is near WᵀF̃, W by least
squares over a Latin hypercube of nobody in both arms (no data), and T = WᵀGW σ̂²/σ². At θ̂ it is exact but for e's
pooled function, and for all roots and noise; in θ_f what is missed of the fitted functions is of second order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fedci.model.family import Theta
from fedci.model.programs import compiled
from fedci.model.rows import Scalar, Vector
from fedci.model.shared import basis, pooled
from fedci.model.shared.basis import Block, Layout, Points
from fedci.model.shared.evidence import Statistics
from fedci.model.shared.shared import NOISE_FLOOR, SharedModel
from fedci.model.shared.shared_family import SharedFamily

REFERENCE = 400
"""People of nobody, over whom columns are fitted to columns."""
ALIKE = 1e-6
"""Columns that differ by less, relatively, say the same: the square of its inverse multiplies the rounding of G."""
SPANNED = ("common", basis.BETWEEN_ARMS)
"""Blocks whose columns are sums of others'."""
SCALES = "pooled"
BENT = (SCALES, "relevance")
OF_EFFECT = ("pooled_effect",)
"""Parts of θ along which columns are bent in both arms, in the order of a tree's leaves, and in that with treatment.
Not among them: e's own relevances, which fits leave at their prior, and the steepness, whose tangent is the sum of all
relevances'."""


EFFECT_LANDMARKS = 8
"""Of the pooled function of e: the arm with treatment has the columns of b's too, and e is seen near their span."""


class Stage(IntEnum):
    """Which columns a message has."""

    FIRST = 0
    """ω alone: nothing is known, A = 0 and hinges are levels."""
    SHAPED = 1
    """With x·s(2t_k)."""
    BOTH = 2
    """And the tangents of directions."""
    TURNED = 3
    """The tangents alone."""


STAGES = (Stage.FIRST, Stage.SHAPED, Stage.SHAPED, Stage.BOTH, Stage.TURNED)
"""Of the messages of a fit; more are like the last. Functions along directions are known from the fourth on."""


def stage_of(number: int) -> Stage:
    """Of a fit's messages, from 1."""
    return STAGES[min(number, len(STAGES)) - 1]


SHAPES, TURNS = (Stage.SHAPED, Stage.BOTH), (Stage.BOTH, Stage.TURNED)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Point:
    """Where a dictionary is exact."""

    vector: Float[Array | np.ndarray, "p"]
    """θ̂."""
    coefficients: Float[Array | np.ndarray, "2 b"] | None = None
    """β̂_a of each arm on ω(x; θ̂); none: not known yet."""
    stage: Stage = field(default=Stage.FIRST, metadata={"static": True})

    @property
    def packed(self) -> np.ndarray:
        """As `Dictionary` takes it for its θ."""
        known = () if self.coefficients is None else np.ravel(np.asarray(self.coefficients))
        return np.concatenate([np.asarray(self.vector), known])


class Products(NamedTuple):
    """G in its parts: a sum over sites."""

    gram: Float[Array, "D D"]
    cross: Float[Array, "D"]
    square: Float[Array, ""]
    log_det: Float[Array, ""]


class Span(NamedTuple):
    """The columns of each arm at the people of nobody, and what fits others by them."""

    columns: tuple[Float[Array, "R D"], Float[Array, "R D"]]
    """Zeros where a column is the other arm's."""
    fit: tuple[Float[Array, "D R"], Float[Array, "D R"]]
    """Of a function that is u_a in arm a, the least coefficients are Σ_a fit_a u_a."""


# --- the columns as a basis


class Dictionary(SharedFamily):
    """The model with F̃ in place of z, and [θ̂, β̂] in place of θ."""

    stage = Stage.SHAPED

    @property
    def tangents(self) -> bool:
        """Whether β̂ is known."""
        return self.stage != Stage.FIRST

    @property
    def layout(self) -> Layout:
        return _layout(self)

    @property
    def plain(self) -> Layout:
        """Of ω."""
        return _plain(self)

    @property
    def size(self) -> int:
        return super().size + (2 * self.plain.width if self.tangents else 0)

    def unravel(self, vector: Vector) -> Theta:
        theta = super().unravel(vector[:super().size])
        if not self.tangents:
            return theta
        return theta | {"coefficients": vector[super().size:].reshape(2, self.plain.width)}


class First(Dictionary):
    stage = Stage.FIRST


class Both(Dictionary):
    stage = Stage.BOTH


class Turned(Dictionary):
    stage = Stage.TURNED


KINDS = {kind.stage: kind for kind in (First, Dictionary, Both, Turned)}


@lru_cache(maxsize=64)
def of(model: SharedModel, stage: Stage) -> Dictionary:
    return KINDS[stage](options=model.options, covariates=model.covariates, described=model.described,
                        sites=model.sites, outcome=model.outcome, intervals=model.intervals)


def at(model: SharedModel, point: Point) -> Dictionary:
    return of(model, point.stage)


@dataclass(frozen=True)
class Joined(Layout):
    """The last two blocks are tangents of the two arms' functions, those of the arm without treatment the first of the
    other's: θ_f moves both at once, so both stand in the same columns."""

    @property
    def size(self) -> int:
        return super().size - self.blocks[-2].width

    def weighed(self, theta: Theta, omega: Sequence[Float[Array, "n _"]],
                arms: Float[Array, "n A"]) -> Float[Array, "n D"]:
        apart = super().weighed(theta, omega, arms)
        few, many = (block.width for block in self.blocks[-2:])
        rest, one, other = jnp.split(apart, [apart.shape[1] - few - many, apart.shape[1] - many], 1)
        return jnp.concatenate([rest, other.at[:, :few].add(one)], 1)


@lru_cache(maxsize=64)
def _plain(model: Dictionary) -> Layout:
    return basis.layout_of(model.options, model.covariates)


@lru_cache(maxsize=64)
def _layout(model: Dictionary) -> Layout:
    with jax.ensure_compile_time_eval():  # it may be asked for first while something is traced
        if not model.tangents:
            return Layout(tuple(_as_they_stand(model)))
        return Joined((*_as_they_stand(model), *(_shaped(model) if model.stage in SHAPES else ()), *_bent(model)))


def _as_they_stand(model: Dictionary) -> Iterator[Block]:
    """ω at the point, once for each arm that sees it."""
    theta = SharedModel.unravel(model, jnp.asarray(model.prior[0]))
    for block in model.plain.blocks:
        if block.name in SPANNED or (not model.tangents and _has_direction(block)):
            continue
        width, columns = block.width, block.columns
        if block.name == basis.POOLED_EFFECT and width > EFFECT_LANDMARKS:
            width, columns = EFFECT_LANDMARKS, _of_few_landmarks
        yield _of_arms(block.name, width, columns, np.any(np.asarray(block.root(theta)) != 0.0, 1))


def _has_direction(block: Block) -> bool:
    return block.part is not None and block.part.along is not None


def _of_few_landmarks(theta: Theta, points: Points) -> Float[Array, "n f"]:
    return pooled.features(pooled.of_effect(theta), points.placed, points.landmarks(EFFECT_LANDMARKS))


def _of_arms(name: str, width: int, columns: Callable[[Theta, Points], jax.Array], sees: np.ndarray) -> Block:
    """Columns that stand once for each arm that sees them."""
    root = np.eye(2)[:, sees]
    return Block(name=name, width=width, columns=columns, copies=root.shape[1], part=None,
                 root=lambda theta: jnp.asarray(root))


def _shaped(model: Dictionary) -> Iterator[Block]:
    """x·s(t_k): of directions that turn, whatever the function along them."""
    def columns(theta: Theta, points: Points) -> Float[Array, "n f"]:
        return jnp.concatenate([points.x * jax.nn.sigmoid(2.0 * t)[:, None] for t in points.t.T], 1)

    if count := model.options.directions * model.covariates:
        yield _of_arms("shapes", count, columns, np.array([True, True]))


def _bent(model: Dictionary) -> Iterator[Block]:
    """Of each arm ∂(ωᵀβ̂_a)/∂θ_f, those of e last, which the arm without treatment has not; of directions
    x·g′_a(t_k), g_a what the point has along them. Along all three scales of the pooled covariance together it is ψ's
    own columns and e's tangents: one of them is left out."""
    parts = {name.split("[")[0] for name in model.names()}
    both, own = (tuple(name for name in names if name in parts) for names in (BENT, OF_EFFECT))
    width = sum(name.split("[")[0] in both for name in model.names()) - (SCALES in both)
    width += model.options.directions * model.covariates * (model.stage in TURNS)
    more = sum(name.split("[")[0] in own for name in model.names())
    for arm in (0, 1):
        yield _of_arms(f"tangents {arm}", width + arm * more, partial(_tangents, model, both, own * arm, arm),
                       np.arange(2) == arm)


def _tangents(model: Dictionary, both: tuple[str, ...], own: tuple[str, ...], arm: int, theta: Theta, points: Points
              ) -> Float[Array, "n f"]:
    turns = [_turns(model.plain, arm, theta, points)] if model.stage in TURNS else []
    bent = _along(model.plain, both, arm, theta, points)
    if SCALES in both:
        bent = jnp.delete(bent, jnp.argmax(theta[SCALES])[None], 1, assume_unique_indices=True)
    return jnp.concatenate([*turns, bent, _along(model.plain, own, arm, theta, points)], 1)


def _turns(plain: Layout, arm: int, theta: Theta, points: Points) -> Float[Array, "n f"]:
    """x·g′_a(t_k)."""
    beta = theta["coefficients"][arm]

    def along(t: Float[Array, "n K"]) -> Float[Array, ""]:
        moved = replace(points, t=t)
        found = [block.columns(theta, moved) @ beta[plain.columns[block.name]] for block in plain.blocks
                 if _has_direction(block)]
        return sum((jnp.sum(part) for part in found), jnp.zeros(()))

    slopes = jax.grad(along)(points.t)
    return jnp.concatenate([jnp.zeros((len(points.x), 0)), *(points.x * slope[:, None] for slope in slopes.T)], 1)


def _along(plain: Layout, names: tuple[str, ...], arm: int, theta: Theta, points: Points) -> Float[Array, "n f"]:
    """∂(ωᵀβ̂_a)/∂θ of these parts of it."""
    here, back = ravel_pytree({name: theta[name] for name in names})
    return jax.jacfwd(lambda moved: omega(plain, theta | back(moved), points.x) @ theta["coefficients"][arm])(here)


def omega(layout: Layout, theta: Theta, x: Float[Array, "n d"]) -> Float[Array, "n b"]:
    return jnp.concatenate(layout.omega(theta, x), 1)


def coefficients(model: SharedModel, theta: Theta, beta: Float[Array, "q"]) -> Float[Array, "2 b"]:
    """β_a of each arm on ω(x), from β̃."""
    arms = []
    for block in model.layout.blocks:
        root = block.root(theta)
        arms.append(root @ beta[model.layout.coefficients[block.name]].reshape(root.shape[1], block.width))
    return jnp.concatenate(arms, 1)


# --- what comes of their products


def noise_level(theta: Theta) -> Float[Array, ""]:
    """σ², between the arms; 1 where there is none beside the likelihood."""
    return jnp.exp(2.0 * theta["noise"][0]) + NOISE_FLOOR**2 if "noise" in theta else jnp.ones(())


def products(total: Statistics) -> Products:
    """From the statistics of a dictionary, of its one draw."""
    width = total.cross.shape[-1]
    upper = jnp.zeros((width, width)).at[np.triu_indices(width)].set(jnp.ravel(total.gram))
    return Products(upper + upper.T - jnp.diag(jnp.diag(upper)), jnp.ravel(total.cross), jnp.ravel(total.square)[0],
                    jnp.ravel(total.log_det)[0])


@compiled(static="model")
def span(model: SharedModel, point: Point) -> Span:
    people, by = jnp.asarray(pooled.landmarks(REFERENCE, model.covariates)), at(model, point)
    known = () if point.coefficients is None else (jnp.ravel(jnp.asarray(point.coefficients)),)
    theta = by.unravel(jnp.concatenate([jnp.asarray(point.vector), *known]))
    seen = by.layout.omega(theta, people)
    columns = [by.layout.weighed(theta, seen, jnp.broadcast_to(arm, (REFERENCE, 2))) for arm in jnp.eye(2)]
    return Span((columns[0], columns[1]), _fit(jnp.concatenate(columns)))


def _fit(f: Float[Array, "E D"]) -> tuple[Float[Array, "D R"], Float[Array, "D R"]]:
    """f: those of the one arm, then of the other. Each column scaled to length 1."""
    size = jnp.maximum(jnp.linalg.norm(f, axis=0), 1e-12)
    both = jnp.linalg.pinv(f / size[None], rtol=ALIKE) / size[:, None]
    return both[:, :REFERENCE], both[:, REFERENCE:]


def statistics(model: SharedModel, total: Products, by: Span, point: Point, vector: Float[Array, "p"],
               people: Scalar) -> tuple[Statistics, Float[Array, "2 R"]]:
    """(T, v, c, l of all sites at θ, for one draw; what the span misses of ω(x; θ)ᵀβ̂ at the people of nobody, arm by
    arm)."""
    theta, here = model.unravel(vector), model.unravel(jnp.asarray(point.vector))
    wanted = omega(model.layout, theta, jnp.asarray(pooled.landmarks(REFERENCE, model.covariates)))
    weights = [fit @ wanted for fit in by.fit]
    b, ratio = _by_arms(model, theta, weights), noise_level(theta) / noise_level(here)
    gram = b.T @ total.gram @ b / ratio
    return Statistics(gram[np.triu_indices(model.columns)], b.T @ total.cross / ratio, total.square / ratio,
                      total.log_det + people * jnp.log(ratio)), _missed(by, wanted, weights, point)


def _missed(by: Span, wanted: Float[Array, "R b"], weights: list[Float[Array, "D b"]], point: Point
            ) -> Float[Array, "2 R"]:
    if point.coefficients is None:
        return jnp.zeros((2, REFERENCE))
    beta = jnp.asarray(point.coefficients)
    seen = sum(weight @ own for weight, own in zip(weights, beta, strict=True))
    return jnp.stack([wanted @ own - f @ seen for f, own in zip(by.columns, beta, strict=True)])


def _by_arms(model: SharedModel, theta: Theta, weights: list[Float[Array, "D b"]]) -> Float[Array, "D q"]:
    """W: z = WᵀF̃."""
    made = []
    for block in model.layout.blocks:
        root, own = block.root(theta), model.layout.columns[block.name]
        made += [sum(weight[:, own] * root[arm, i] for arm, weight in enumerate(weights))
                 for i in range(root.shape[1])]
    return jnp.concatenate(made, 1)
