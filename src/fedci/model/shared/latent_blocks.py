"""Many rows that tell of a function through a bound (`latent`), in blocks and with few inducing inputs (`sparse`).

The function at a row of arm a is φᵀ(S_a β̃ + V_a c) and what the inducing inputs leave open, c ~ N(0, I). With ω and
η̃ of the rows, B = I + WᵀΩW, and β̃ ~ N(m, DDᵀ) by the sums of all sites, everything the bound needs of η is in φ-space,

    E η = φᵀ(S_a m + V_a c̄)        Var η = φᵀM_aφ + Φ[a, a](k̇ − ‖ψ‖²)(x, x)        c̄ = B⁻¹WᵀΩ(η̃ − Zm)
    M_a = V_aB⁻¹V_aᵀ + R_aDDᵀR_aᵀ,       R_a = S_a − V_aB⁻¹WᵀΩZ

so a step is one pass over the blocks: each makes its η from the last step's numbers, its ω and η̃ from that, and adds
to the sums of the next. Where all rows induce, it is what `latent` computes. Titsias' price is that of `sparse`, with
ω_i in the place of 1/σ²: the two bounds add up to one.

For effects c is drawn once with each draw of (θ, β̃); what the inducing inputs leave open is drawn for each person,
with the part that people share on average (`shared_part`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from fedci.effect import weights_of
from fedci.model import kernels
from fedci.model.family import Theta
from fedci.model.likelihood import NODES, Bounded, Held, Told
from fedci.model.parallel import over_draws
from fedci.model.programs import compiled
from fedci.model.rows import Anchor, BetaLaw, LeftOut, Moments, RiskSums, Scalar, Vector, Weighed, merged, on_device
from fedci.model.shared import latent, learnt, sparse
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.latent import MATCHING, STEPS, LogOdds, likelihood_of
from fedci.model.shared.learnt import Learnt
from fedci.model.shared.shared import SharedModel, own_root
from fedci.model.shared.sparse import Blocks, Grams

KEPT = 2**25
"""Numbers of φ that are kept from step to step (256 MiB); of more rows each step makes them again."""


def bytes_needed(rows: int, width: int) -> int:
    """Beyond what blocks need themselves: φ that is kept, and a row's η at the nodes of an expectation."""
    return 8 * (min(rows * width, KEPT) + 4 * NODES * rows)


class LatentBlocks(NamedTuple):
    """Rows whose y is 0 or 1, as the site tells it, or a count."""

    rows: Blocks
    more: Float[Array, "k b"]
    """`likelihood.Told.more`; 1 or 0 for padding."""
    flips: Float[Array, ""] = np.zeros(())  # type: ignore[assignment]  # traced as an array
    """p, the probability with which the site flipped an outcome."""

    @property
    def u(self) -> Array:
        return self.rows.u

    @property
    def index(self) -> Array:  # type: ignore[override]  # hides tuple.index, which nobody asks of rows
        return self.rows.index

    @property
    def added(self) -> Array:
        """The flips: they are the noise there is."""
        return self.flips

    @property
    def told(self) -> Told:
        return Told(self.rows.y, self.flips, self.more)

    def people(self) -> int:
        return self.rows.people()

    def is_small(self) -> bool:
        return False

    def at_once(self, draws: int) -> int:
        return 1

    def local(self, model: SharedModel, anchor: Anchor | None, draws: int, matched: bool) -> Bounded | Held:
        return latent.near_anchor(model, self, anchor, draws, matched)

    def seen(self, local: Bounded | Held) -> Blocks:
        return self.rows._replace(weight=local.weight, y=local.y)

    def price(self, model: SharedModel, vector: Vector, local: Bounded | Held) -> Array:
        return latent.price_of(model, self, vector, local)

    def sums_over_rows(self, model: SharedModel, vector: Vector, jitter: Scalar) -> Grams:
        raise AssertionError("such rows tell of the function through a bound: see them with it first")

    def statistics(self, model: SharedModel, vector: Float[Array, "p"], jitter: Scalar, sums: Grams) -> Any:
        raise AssertionError("such rows tell of the function through a bound: see them with it first")

    def known(self, model: SharedModel, draws: SharedDraws, jitter: Scalar) -> Learnt:
        every = draws, latent.given_draws(model, self, draws)
        return over_draws(lambda part: _learnt(model, self, *part, jitter), every)

    def effects(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector,
                jitter: Scalar, known: Learnt | None = None) -> RiskSums:
        """Sums of risks (or rates) over everyone, the treated, the controls."""
        every = self.known(model, draws, jitter) if known is None else known, keys(int(self.index), draws)
        return RiskSums(merged(over_draws(lambda part: _risks(model, self, *part), every)))

    def weighed(self, model: SharedModel, vector: Vector, draws: SharedDraws, weights: Vector,
                jitter: Scalar, known: Learnt | None = None) -> Weighed:
        placed = self.rows.placed(weights)
        every = self.known(model, draws, jitter) if known is None else known, keys(int(self.index), draws)
        sums = merged(over_draws(lambda part: _weighed(model, self, *part, placed), every))
        return Weighed(sums, latent.nothing_left(sums))

    def realised(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector, jitter: Scalar,
                 known: Any = None) -> Iterator[tuple[np.ndarray, Moments]]:
        raise AssertionError("realised effects of an outcome that is no number are not computed")

    def left_out(self, model: SharedModel, vector: Vector, draws: SharedDraws, beta: BetaLaw,
                 jitter: Scalar) -> LeftOut:
        """Of the log odds η: the row's pseudo-outcome is taken out, and its spread 1/ω from the variance."""
        def of_draw(parts: tuple[SharedDraws, BetaLaw]) -> tuple[Array, Array, Array]:
            draw, law = parts
            at = self.log_odds(model, draw.theta, *latent.of_draws(draw.beta), matched=True)
            own = latent.nearest(model, self, draw.theta, at)
            arms, mean, var = sparse.left_out_of_draw(model, draw.theta, law.mean, law.root, self.seen(own), jitter)
            return arms, mean, jnp.maximum(var - 1.0 / own.weight, 1e-12)

        return sparse.in_order(self.rows, jax.lax.map(of_draw, (draws, beta)))

    def log_odds(self, model: SharedModel, vector: Float[Array, "p"], mean: Float[Array, "q"],
                 spread: Float[Array, "q r"], matched: bool) -> LogOdds:
        return log_odds(model, self, vector, mean, spread, matched)


# --- where the bound touches


class Known(NamedTuple):
    """E η and Var η of any row, in φ-space."""

    mean: Float[Array, "A f"]
    cov: Float[Array, "A f f"]
    """M_a."""


class Pass(NamedTuple):
    """What a block shows to a pass over the rows."""

    x: Array
    y: Array
    mask: Array
    more: Array
    arm: Array
    phi: Any
    """φ of its rows, where it is kept; else ()."""


def log_odds(model: SharedModel, site: LatentBlocks, vector: Float[Array, "p"], mean: Float[Array, "q"],
             spread: Float[Array, "q r"], matched: bool) -> LogOdds:
    """As `latent.log_odds`, pass by pass."""
    theta, rows, jitter = model.unravel(vector), site.rows, model.options.jitter
    root = learnt.inducing_root(model, theta, rows.inducing, jitter)
    placed = sparse.maps(model, theta, rows.inducing.shape[0])
    own, likelihood = jnp.sum(own_root(theta, model.arms) ** 2, 1), likelihood_of(model)

    def features(x: Float[Array, "b d"]) -> Float[Array, "b f"]:
        return learnt.features(model, theta, x, root, rows.inducing)

    keep = rows.mask.size * sparse.width_of(model, rows) <= KEPT
    blocks = Pass(rows.x, rows.y, rows.mask, site.more, rows.arm, jax.lax.map(features, rows.x) if keep else ())

    def at_block(block: Pass, known: Known) -> tuple[Array, LogOdds]:
        phi = block.phi if keep else features(block.x)
        var = jnp.sum((phi @ known.cov[block.arm]) * phi, 1) + own[block.arm] * learnt.left(model, theta, block.x, phi)
        return phi, LogOdds(phi @ known.mean[block.arm], jnp.maximum(var, 0.0))

    def step(known: Known, first: bool = False, nearest: bool = False) -> Known:
        def add(total: Grams, block: Pass) -> tuple[Grams, None]:
            phi, at = at_block(block, known)
            told = Told(block.y, site.flips, block.more)
            at = LogOdds(*likelihood.begin(told, *at)) if first else at
            seen = (likelihood.nearest if nearest else likelihood.own)(told, theta, block.mask, *at)
            both = (block.mask * jnp.sqrt(seen.weight))[:, None] * jnp.column_stack([phi, seen.y])
            return total._replace(both=total.both.at[block.arm].add(both.T @ both)), None

        width = sparse.width_of(model, rows) + 1
        total = jax.lax.scan(add, Grams(jnp.zeros((model.arms, width, width)), jnp.zeros(model.arms)), blocks)[0]
        s = sparse.solve(model, theta, rows, jitter, total)
        return _given(s, mean, spread)

    prior = Known(jnp.einsum("afq,q->af", placed.z, mean), _square(placed.w) + _square(placed.z @ spread))
    known = jax.lax.fori_loop(1, STEPS, lambda _, now: step(now), step(prior, first=True))
    if matched:
        known = jax.lax.fori_loop(0, MATCHING, lambda _, now: step(now, nearest=True), known)
    return jax.lax.map(lambda block: at_block(block, known)[1], blocks)


def _square(root: Float[Array, "A f h"]) -> Float[Array, "A f f"]:
    return jnp.einsum("afh,agh->afg", root, root)


def _given(s: sparse.Solved, mean: Float[Array, "q"], spread: Float[Array, "q r"]) -> Known:
    own = cho_solve((s.chol, True), s.wy - s.wz @ mean)
    white = jax.vmap(lambda w: solve_triangular(s.chol, w.T, lower=True).T)(s.maps.w)
    rest = s.maps.z - s.maps.w @ cho_solve((s.chol, True), s.wz)[None]
    return Known(s.maps.z @ mean + s.maps.w @ own, _square(white) + _square(rest @ spread))


# --- effects


@compiled(static="model")
def _learnt(model: SharedModel, site: LatentBlocks, draws: SharedDraws, local: Bounded, jitter: Scalar) -> Learnt:
    return jax.lax.map(lambda part: sparse.learn(model, part[0].theta, part[0].beta, site.seen(part[1]), jitter),
                       (draws, local))


def keys(index: int, draws: SharedDraws) -> Array:
    """[L] of the normals with which a site draws its function, one key for each θ."""
    key = jax.random.fold_in(jax.random.PRNGKey(8), index)
    return on_device(np.asarray(jax.random.split(key, draws.theta.shape[0])))


def normals(key: Array, count: int, shape: tuple[int, ...]) -> Float[Array, "B *k"]:
    """Their second half is the first with the other sign, as are draws of β̃."""
    half = jax.random.normal(key, (-(-count // 2), *shape))
    return jnp.concatenate([half, -half])[:count]


@compiled(static="model")
def _risks(model: SharedModel, site: LatentBlocks, known: Learnt, key: Array) -> Float[Array, "L B A e"]:
    def of_draw(parts: tuple[Learnt, Array]) -> Float[Array, "B A e"]:
        own, seed = parts
        function, count = drawn(model, own, site.rows, seed), own.mean.shape[0]

        def add(total: Array, block: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
            x, mask, arm, number = block
            eta = function(x, normals(jax.random.fold_in(seed, number), count, (x.shape[0], model.arms)))
            more = jnp.einsum("Bbj,b->Bj", likelihood_of(model).expected(eta), mask)
            return total.at[:, :, arm].add(more), None

        rows = site.rows
        start = jnp.zeros((count, model.arms, model.arms))
        numbers = 2 + jnp.arange(rows.arm.shape[0])
        by_arm = jax.lax.scan(add, start, (rows.x, rows.mask, rows.arm, numbers))[0]
        return jnp.einsum("Bja,ea->Bje", by_arm, jnp.array(weights_of(model.arms)))

    return jax.lax.map(of_draw, (known, key))


@compiled(static="model")
def _weighed(model: SharedModel, site: LatentBlocks, known: Learnt, key: Array,
             weights: Float[Array, "k b e"]) -> Float[Array, "L B 2 e"]:
    """The same draws of the function as `_risks`, under any weights."""
    def of_draw(parts: tuple[Learnt, Array]) -> Float[Array, "B 2 e"]:
        own, seed = parts
        function, count = drawn(model, own, site.rows, seed), own.mean.shape[0]

        def add(total: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
            x, t, number = block
            eta = function(x, normals(jax.random.fold_in(seed, number), count, (x.shape[0], 2)))
            return total + jnp.einsum("Bbj,be->Bje", likelihood_of(model).expected(eta), t), None

        start = jnp.zeros((count, 2, weights.shape[-1]))
        return jax.lax.scan(add, start, (site.rows.x, weights, 2 + jnp.arange(weights.shape[0])))[0]

    return jax.lax.map(of_draw, (known, key))


def drawn(model: SharedModel, known: Learnt, rows: Blocks, seed: Array) -> Callable[[Array, Array], Array]:
    """x [b, d] and normals [B, b, A] → η [B, b, A] in each arm: for each β̃ one draw of the site's own function, the
    same wherever it is asked for, but for what inducing inputs leave open, which the normals draw."""
    theta = model.unravel(known.theta)
    count, own = known.mean.shape[0], own_root(theta, model.arms)
    away = normals(jax.random.fold_in(seed, 0), count, (known.spread.shape[1],))
    coefficients = known.mean + jnp.einsum("jhf,Bh->Bjf", known.spread, away)
    together = normals(jax.random.fold_in(seed, 1), count, (model.arms,))
    share = shared_part(model, theta, known, rows)

    def function(x: Float[Array, "b d"], each: Float[Array, "B b A"]) -> Float[Array, "B b A"]:
        phi = learnt.features(model, theta, x, known.root, known.inducing)
        open_ = jnp.sqrt(share) * together[:, None] + jnp.sqrt(1.0 - share) * each
        size = jnp.sqrt(learnt.left(model, theta, x, phi))
        return jnp.einsum("Bjf,bf->Bbj", coefficients, phi) + size[None, :, None] * (open_ @ own.T)

    return function


def shared_part(model: SharedModel, theta: Theta, known: Learnt, site: Blocks) -> Float[Array, ""]:
    """The correlation of what the inducing inputs leave open, averaged over some pairs of people."""
    x, there = site.pairs.reshape(-1, site.pairs.shape[-1]), site.paired.reshape(-1)
    psi = learnt.features(model, theta, x, known.root, known.inducing)[:, learnt.own_columns(model)]
    away = kernels.split(model.kernel, theta["kernel"]).rest(x, x) - psi @ psi.T
    pairs = jnp.outer(there, there) * (1.0 - jnp.eye(x.shape[0]))
    between = jnp.sum(pairs * away) / jnp.maximum(jnp.sum(pairs), 1.0)
    each = jnp.sum(there * jnp.diag(away)) / jnp.maximum(jnp.sum(there), 1.0)
    return jnp.clip(between / jnp.maximum(each, 1e-12), 0.0, 1.0)
