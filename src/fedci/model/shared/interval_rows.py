"""A site's people of a time to an event: a row for each interval in which a person was followed, and curves from them.

    P(event in interval j | none before, x, arm) = σ(η_a(x, τ_j))        S_a(t_j | x) = Π_{i ≤ j} (1 − σ(η_a(x, τ_i)))

x of a row has the interval's place τ_j in its last column. y is 1 in the interval that the event ended. Who was
followed for a share s of the last interval without an event has a row that counts for s of one: (1 − h)^s, as where
the hazard is constant within it. So all of it is rows of 0 and 1 in blocks (`latent_blocks`), however few.

With each draw of (θ, β̃) a site draws its own function once, and sums over its people of their curves are told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.effect import person_weights
from fedci.model.likelihood import Bounded, Held
from fedci.model.parallel import over_draws
from fedci.model.programs import compiled
from fedci.model.rows import (
    Anchor,
    BetaLaw,
    LeftOut,
    Moments,
    Scalar,
    SurvivalSums,
    Vector,
    Weighed,
    merged,
    on_device,
)
from fedci.model.shared import basis, latent, latent_blocks, learnt
from fedci.model.shared.arranged import arranged
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.inducing import blocks_of
from fedci.model.shared.latent_blocks import LatentBlocks
from fedci.model.shared.learnt import Learnt
from fedci.model.shared.shared import SharedModel, own_root
from fedci.model.shared.sparse import Blocks

LEAST = 0.02
"""Of an interval: who was followed for less of it has no row there."""
PEOPLE = 64
"""Whose curves are made at a time."""


class Expanded(NamedTuple):
    """A row for each person and interval."""

    person: np.ndarray
    interval: np.ndarray
    y: np.ndarray
    share: np.ndarray


def expanded(event: np.ndarray, followed: np.ndarray, intervals: int) -> Expanded:
    """`followed` [n]: for how many intervals, the last one in part; `event` [n]: whether one ended it."""
    whole = np.clip(np.ceil(followed), 1, intervals).astype(int)
    person = np.repeat(np.arange(len(whole)), whole)
    interval = np.arange(len(person)) - np.repeat(np.cumsum(whole) - whole, whole)
    last = interval == whole[person] - 1
    y = np.where(last, event[person], 0.0)
    share = np.where(last & (y == 0), np.minimum(followed[person] - interval, 1.0), 1.0)
    stays = share >= LEAST
    return Expanded(*(part[stays] for part in (person, interval, y, share)))


def at_intervals(x: np.ndarray, intervals: int) -> np.ndarray:
    """[n, d] → [n, J, d + 1]."""
    places = np.broadcast_to(basis.moments_of(intervals)[None, :, None], (len(x), intervals, 1))
    return np.concatenate([np.repeat(x[:, None], intervals, 1), places], 2)


class SurvivalRows(NamedTuple):
    """Rows of intervals, and the people they are of."""

    latent: LatentBlocks
    x: Float[Array, "k b d"]
    """Of people, in blocks."""
    weights: Float[Array, "k b e"]
    """Of each in the sums over everyone, and over who got an arm; 0 for padding."""

    @property
    def u(self) -> Array:
        return self.latent.u

    @property
    def index(self) -> Array:  # type: ignore[override]  # hides tuple.index, which nobody asks of rows
        return self.latent.index

    @property
    def added(self) -> Array:
        return self.latent.added

    def people(self) -> int:
        return int((np.asarray(self.weights)[..., 0] > 0).sum())

    def is_small(self) -> bool:
        return False

    def at_once(self, draws: int) -> int:
        return 1

    def local(self, model: SharedModel, anchor: Anchor | None, draws: int, matched: bool) -> Bounded | Held:
        return self.latent.local(model, anchor, draws, matched)

    def seen(self, local: Bounded | Held) -> Blocks:
        return self.latent.seen(local)

    def price(self, model: SharedModel, vector: Vector, local: Bounded | Held) -> Array:
        """The evidence counts people where it norms Gaussians, and each has several rows."""
        more = jnp.sum(self.latent.rows.mask) - jnp.sum(self.weights[..., 0])
        return self.latent.price(model, vector, local) + math.log(2.0 * math.pi) * more

    def sums_over_rows(self, model: SharedModel, vector: Vector, jitter: Scalar) -> Any:
        return self.latent.sums_over_rows(model, vector, jitter)

    def statistics(self, model: SharedModel, vector: Float[Array, "p"], jitter: Scalar, sums: Any) -> Any:
        return self.latent.statistics(model, vector, jitter, sums)

    def known(self, model: SharedModel, draws: SharedDraws, jitter: Scalar) -> Learnt:
        return self.latent.known(model, draws, jitter)

    def effects(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector,
                jitter: Scalar, known: Learnt | None = None) -> SurvivalSums:
        known = self.known(model, draws, jitter) if known is None else known
        every = known, latent_blocks.keys(int(self.index), draws)
        return SurvivalSums(merged(over_draws(lambda part: _sums(model, self, *part), every)))

    def weighed(self, model: SharedModel, vector: Vector, draws: SharedDraws, weights: Vector,
                jitter: Scalar, known: Learnt | None = None) -> Weighed:
        """Risks by the last horizon: 1 − S."""
        given, blocks = np.asarray(weights), self.x.shape[0]
        placed = np.pad(given.T, ((0, blocks * PEOPLE - given.shape[1]), (0, 0))).reshape(blocks, PEOPLE, -1)
        some = self._replace(weights=on_device(placed))
        curves = some.effects(model, vector, draws, np.zeros(0), jitter, known).survival
        sums = on_device(given.sum(1)[None, None] - np.asarray(curves)[:, :, -1])
        return Weighed(sums, latent.nothing_left(sums))

    def realised(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector, jitter: Scalar,
                 known: Any = None) -> Iterator[tuple[np.ndarray, Moments]]:
        return self.latent.realised(model, vector, draws, correlations, jitter, known)

    def left_out(self, model: SharedModel, vector: Vector, draws: SharedDraws, beta: BetaLaw,
                 jitter: Scalar) -> LeftOut:
        """Of each row of an interval, from all others."""
        return self.latent.left_out(model, vector, draws, beta, jitter)


def survival_rows(model: SharedModel, x: np.ndarray, w: np.ndarray, event: np.ndarray, followed: np.ndarray,
                  u: np.ndarray, index: int, inducing: np.ndarray | None = None) -> SurvivalRows:
    rows = expanded(event, followed, model.intervals)
    each = at_intervals(x, model.intervals)[rows.person, rows.interval]
    latent_rows = arranged(model, each, w[rows.person], rows.y, u, index, 0.0, rows.share, inducing, blocks=True)
    if not isinstance(latent_rows, LatentBlocks):
        raise AssertionError("rows of intervals stand in blocks")
    blocks = blocks_of(len(x), PEOPLE)
    more = blocks * PEOPLE - len(x)
    weights = np.pad(person_weights(w, np.ones(len(x)), model.arms).T, ((0, more), (0, 0)))
    return SurvivalRows(latent_rows, on_device(np.pad(x, ((0, more), (0, 0))).reshape(blocks, PEOPLE, -1)),
                        on_device(weights.reshape(blocks, PEOPLE, -1)))


def nobody(model: SharedModel, u: np.ndarray) -> SurvivalRows:
    """A site without people: conditioning on it returns the prior."""
    none = np.zeros((1, model.covariates - 1))
    one = survival_rows(model, none, np.zeros(1), np.zeros(1), np.ones(1), u, 0)
    empty = one.latent.rows._replace(mask=on_device(np.zeros(one.latent.rows.mask.shape)),
                                     paired=on_device(np.zeros(one.latent.rows.paired.shape)))
    return one._replace(latent=one.latent._replace(rows=empty), weights=on_device(np.zeros(one.weights.shape)))


# --- curves


def curves(eta: Float[Array, "B n J A"]) -> Float[Array, "B n J A"]:
    """S after each interval, from the log odds of the hazards."""
    return jnp.exp(jnp.cumsum(jax.nn.log_sigmoid(-eta), 2))


@compiled(static="model")
def _sums(model: SharedModel, site: SurvivalRows, known: Learnt, key: Array) -> Float[Array, "L B A J e"]:
    def of_draw(parts: tuple[Learnt, Array]) -> Float[Array, "B A J e"]:
        own, seed = parts
        function = latent_blocks.drawn(model, own, site.latent.rows, seed)
        count, j, arms = own.mean.shape[0], model.intervals, model.arms

        def add(total: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
            x, weights, number = block
            each = latent_blocks.normals(jax.random.fold_in(seed, number), count, (PEOPLE, arms))
            eta = function(_in_time(x, j), jnp.repeat(each, j, 1)).reshape(count, PEOPLE, j, arms)
            return total + jnp.einsum("BnJa,ne->BaJe", curves(eta), weights), None

        start = jnp.zeros((count, arms, j, site.weights.shape[-1]))
        return jax.lax.scan(add, start, (site.x, site.weights, 2 + jnp.arange(site.x.shape[0])))[0]

    return jax.lax.map(of_draw, (known, key))


def _in_time(x: Float[Array, "n d"], intervals: int) -> Float[Array, "nJ d+1"]:
    places = jnp.tile(jnp.asarray(basis.moments_of(intervals)), x.shape[0])
    return jnp.column_stack([jnp.repeat(x, intervals, 0), places])


@compiled(static=("model", "alone"))
def curves_at(model: SharedModel, known: Learnt, x: Float[Array, "p d"], key: Array,
              alone: bool = True) -> Float[Array, "L p J A"]:
    """Curves of new people for each draw of (θ, β̃), with one draw of the site's own function; not `alone`: by what all
    sites share, its own at its mean."""
    def of_draw(parts: tuple[Learnt, Array]) -> Float[Array, "B p J A"]:
        own, seed = parts
        theta, count, j = model.unravel(own.theta), own.mean.shape[0], model.intervals
        phi = learnt.features(model, theta, _in_time(x, j), own.root, own.inducing)
        away, open_ = (latent_blocks.normals(jax.random.fold_in(seed, k), count, shape) * alone
                       for k, shape in ((0, (own.spread.shape[1],)), (1, (model.arms,))))
        coefficients = own.mean + jnp.einsum("jhf,Bh->Bjf", own.spread, away)
        size = jnp.sqrt(learnt.left(model, theta, _in_time(x, j), phi))
        left_open = open_ @ own_root(theta, model.arms).T
        eta = jnp.einsum("Bjf,nf->Bnj", coefficients, phi) + jnp.einsum("n,Bj->Bnj", size, left_open)
        return curves(eta.reshape(count, x.shape[0], j, model.arms))

    seeds = jax.random.split(key, known.theta.shape[0])
    return merged(jax.lax.map(of_draw, (known, seeds)))
