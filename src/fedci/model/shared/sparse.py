"""The own function f^s of a large site through M inducing inputs: cost linear in its rows, memory of one block.

With h = (h_0, h_1) two independent functions, f = Φ^{1/2}h, and k = s_c² + s_l² xᵀz/d + k̇(x, z) (level and slopes are
few numbers and stay exact; k̇ is the rest), h is known through its values at U: Q̇ = ψψᵀ, ψ(x) = K̇_UU^{−1/2} k̇(U, x).
Titsias' bound replaces C = K_obs + D by Q + D and pays for what Q misses,

    log N(y; Zβ̃, C) ≥ log N(y; Zβ̃, Q + D) − ½ Σ_i Φ[w_i, w_i] (k̇(x_i, x_i) − ‖ψ(x_i)‖²)/σ²_{w_i}      for every β̃

so it bounds the evidence too, equals it when U holds all rows, and rises with M. (1/σ² stands for each row's own
precision ω_i: weight_i times its arm's, see `model.likelihood`.) All columns of a person's row of Z and
of the root of Q are columns of φ(x) = [ω(x), ψ(x)] times numbers that depend on the arm only:

    z_i = S_{w_i}ᵀφ(x_i)      Q = WWᵀ, W_i = V_{w_i}ᵀφ(x_i)     all it needs: G_a = Σ_{w_i=a} weight_i (φ, y)_i(φ, y)_iᵀ

    B = I + Σ_a V_aᵀG_aV_a/σ_a²      T = Σ_a S_aᵀG_aS_a/σ_a² − (WᵀD⁻¹Z)ᵀB⁻¹(WᵀD⁻¹Z)      |Q + D| = |B| Π_a σ_a^{2n_a}

Effects: given y, h's coefficients are N(B⁻¹WᵀD⁻¹(y − Zβ̃), B⁻¹), and sums over people need Σ_i φ(x_i) only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, Int

from fedci.effect import WEIGHTS, weights_of
from fedci.model import kernels
from fedci.model.family import Theta
from fedci.model.parallel import over_draws
from fedci.model.programs import compiled
from fedci.model.rows import (
    Anchor,
    ArmSums,
    BetaLaw,
    LeftOut,
    Moments,
    Scalar,
    SiteEffects,
    SufficientSums,
    Vector,
    Weighed,
    merged,
    on_device,
    same_shape,
)
from fedci.model.shared import basis
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.learnt import (
    Block,
    Learnt,
    MeanAndVariance,
    features,
    inducing_root,
    left,
    noise_moments,
    own_columns,
    realised_each,
)
from fedci.model.shared.shared import SharedModel, noise_root, noise_sd, own_root


class Blocks(NamedTuple):
    """A site's rows in model units: k blocks of b rows."""

    x: Float[Array, "k b d"]
    y: Float[Array, "k b"]
    mask: Float[Array, "k b"]
    """1 for a person, 0 for padding."""
    arm: Int[Array, "k"]
    row: Int[Array, "k b"]
    """The person's place among the site's rows; padding has the number of rows."""
    inducing: Float[Array, "M d"]
    pairs: Float[Array, "A s d"]
    """Some rows of each arm."""
    paired: Float[Array, "A s"]
    """1 where `pairs` holds a person."""
    u: Float[Array, "q"]
    index: Int[Array, ""]  # type: ignore[assignment]  # hides tuple.index, which nobody asks of rows
    weight: Float[Array, "k b"]
    """Of each row's precision (`model.likelihood`); 1 for padding."""
    added: Float[Array, ""] = np.zeros(())  # type: ignore[assignment]  # traced as an array
    """Variance of the noise that the site added to its outcomes (`model.likelihood`)."""

    def people(self) -> int:
        return int(np.asarray(self.mask).sum())

    def is_small(self) -> bool:
        return False

    def at_once(self, draws: int) -> int:
        return draws

    def local(self, model: Any, anchor: Anchor | None, draws: int, matched: bool) -> tuple[()]:
        return ()

    def seen(self, local: tuple[()]) -> Blocks:
        return self

    def price(self, model: Any, vector: Vector, local: Any) -> Any:
        raise AssertionError("the likelihood is Gaussian itself")

    def sums_over_rows(self, model: SharedModel, vector: Float[Array, "p"], jitter: Scalar) -> Grams:
        theta = model.unravel(vector)
        return grams(model, theta, self, inducing_root(model, theta, self.inducing, jitter))

    def statistics(self, model: SharedModel, vector: Float[Array, "p"], jitter: Scalar, sums: Grams) -> SufficientSums:
        return of_draw(model, vector, self, jitter, sums)

    def known(self, model: SharedModel, draws: SharedDraws, jitter: Scalar) -> Learnt:
        """The rows are passed over once, for all people to come."""
        return over_draws(lambda part: _learnt(model, self, part, jitter), draws)

    def effects(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector,
                jitter: Scalar, known: Learnt | None = None) -> SiteEffects | ArmSums:
        """Another pass over the rows for each θ."""
        known = self.known(model, draws, jitter) if known is None else known
        if model.arms > 2:
            return over_draws(lambda part: _by_arm(model, self, part), known)
        return over_draws(lambda part: _effects(model, self, part, correlations), known)

    def weighed(self, model: SharedModel, vector: Vector, draws: SharedDraws, weights: Vector,
                jitter: Scalar, known: Learnt | None = None) -> Weighed:
        placed, known = self.placed(weights), self.known(model, draws, jitter) if known is None else known
        return Weighed(*over_draws(lambda part: _weighed(model, self, part, placed), known))

    def placed(self, weights: Vector) -> Float[Array, "k b e"]:
        """Weights [e, people] as weights of rows: padding, whose place is behind all, has none."""
        behind = np.pad(np.asarray(weights), ((0, 0), (0, 1)))
        return on_device(np.moveaxis(behind[:, np.asarray(self.row)], 0, -1))

    def realised(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector,
                 jitter: Scalar, known: Learnt | None = None) -> Iterator[tuple[np.ndarray, Moments]]:
        known = self.known(model, draws, jitter) if known is None else known
        blocks = [np.asarray(part) for part in (self.x, self.y, self.weight, self.arm)]
        for i, (place, mask) in enumerate(zip(np.asarray(self.row), np.asarray(self.mask) > 0, strict=True)):
            block = Block(*(on_device(part[i]) for part in blocks))
            each = jax.device_get(over_draws(partial(_realised, model, block, correlations, self.added), known))
            yield place[mask], Moments(each.mean[..., mask], each.var[..., mask])

    def left_out(self, model: SharedModel, vector: Vector, draws: SharedDraws, beta: BetaLaw,
                 jitter: Scalar) -> LeftOut:
        def of_draw(draw: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            vector, mean, root = draw
            return left_out_of_draw(model, vector, mean, root, self, jitter)

        return in_order(self, jax.lax.map(of_draw, (draws.theta, beta.mean, beta.root)))


def in_order(site: Blocks, parts: tuple[Array, Array, Array]) -> LeftOut:
    """[L, k, b, …] of blocks as the site has its rows."""
    rows = site.row.ravel()

    def flat(part: Array) -> Array:
        listed = part.reshape(part.shape[0], rows.size, *part.shape[3:])
        return jnp.zeros((part.shape[0], rows.size + 1, *part.shape[3:])).at[:, rows].set(listed)

    return LeftOut(*map(flat, parts))


Passed = tuple[Array, Array, Array, Array, Array]
"""(x, y, mask, weight, arm) of a block that a pass over the rows sees."""


class Grams(NamedTuple):
    """Sums over a site's people, by arm."""

    both: Float[Array, "A f+1 f+1"]
    """Σ weight (φ, y)(φ, y)ᵀ."""
    own: Float[Array, "A"]
    """Σ weight k̇(x_i, x_i)."""


class Maps(NamedTuple):
    """From φ to the columns of Z and of Q's root, for each arm."""

    z: Float[Array, "A f q"]
    w: Float[Array, "A f h"]


def grams(model: SharedModel, theta: Theta, site: Blocks, root: Float[Array, "M M"]) -> Grams:
    """One pass over the rows; the gradient makes each block's φ again instead of keeping it."""
    own = kernels.split(model.kernel, theta["kernel"]).own

    @jax.checkpoint
    def of_block(x: Float[Array, "b d"], y: Float[Array, "b"], mask: Float[Array, "b"],
                 weight: Float[Array, "b"]) -> Grams:
        both = jnp.column_stack([features(model, theta, x, root, site.inducing), y])
        both = (mask * jnp.sqrt(weight))[:, None] * both
        return Grams(both.T @ both, jnp.sum(mask * weight * own(x)))

    def add(total: Grams, block: Passed) -> tuple[Grams, None]:
        x, y, mask, weight, arm = block
        return jax.tree.map(lambda sums, more: sums.at[arm].add(more), total, of_block(x, y, mask, weight)), None

    width = width_of(model, site) + 1
    start = Grams(jnp.zeros((model.arms, width, width)), jnp.zeros(model.arms))
    return jax.lax.scan(add, start, (site.x, site.y, site.mask, site.weight, site.arm))[0]


class Totals(NamedTuple):
    """Sums over a site's people, by arm, in which everybody counts alike: what sums of effects need."""

    people: Float[Array, "A"]
    phi: Float[Array, "A f"]
    """Σ φ(x_i)."""
    y: Float[Array, "A"]
    missed: Float[Array, "A"]
    """Σ (k̇(x_i, x_i) − ‖ψ(x_i)‖²)."""
    noise: Float[Array, "A"]
    """Σ 1/weight_i."""


def totals(model: SharedModel, theta: Theta, site: Blocks, root: Float[Array, "M M"]) -> Totals:
    """One pass over the rows."""
    def add(total: Totals, block: Passed) -> tuple[Totals, None]:
        x, y, mask, weight, arm = block
        phi = features(model, theta, x, root, site.inducing)
        more = Totals(jnp.sum(mask), mask @ phi, mask @ y, mask @ left(model, theta, x, phi), jnp.sum(mask / weight))
        return jax.tree.map(lambda sums, part: sums.at[arm].add(part), total, more), None

    zero = jnp.zeros(model.arms)
    start = Totals(zero, jnp.zeros((model.arms, width_of(model, site))), zero, zero, zero)
    return jax.lax.scan(add, start, (site.x, site.y, site.mask, site.weight, site.arm))[0]


def width_of(model: SharedModel, site: Blocks) -> int:
    """f."""
    return model.layout.width + site.inducing.shape[0]


def maps(model: SharedModel, theta: Theta, inducing: int) -> Maps:
    """S_a, V_a."""
    layout, places = model.layout, jnp.eye(model.layout.width + inducing)
    omega = [places[:, at] for at in layout.columns.values()]
    z = [layout.weighed(theta, omega, jnp.broadcast_to(arm, (len(places), model.arms))) for arm in jnp.eye(model.arms)]
    scales, phi = kernels.split(model.kernel, theta["kernel"]), own_root(theta, model.arms)
    own = jnp.concatenate([scales.constant * places[:, layout.columns[basis.LEVELS]],
                           scales.linear * places[:, layout.columns[basis.LINES]], places[:, own_columns(model)]], 1)
    every = range(model.arms)
    w = [jnp.concatenate([phi[a, i] * own for i in every], 1) for a in every]
    return Maps(jnp.stack(z), jnp.stack(w))


class Solved(NamedTuple):
    """A draw's sums, and B."""

    grams: Grams
    maps: Maps
    precision: Float[Array, "A"]
    """1/σ_a²."""
    chol: Float[Array, "h h"]
    """Lower root of B."""
    wz: Float[Array, "h q"]
    wy: Float[Array, "h"]
    zz: Float[Array, "q q"]
    zy: Float[Array, "q"]
    root: Float[Array, "M M"]


def solve(model: SharedModel, theta: Theta, site: Blocks, jitter: Scalar,
          total: Grams | None = None) -> Solved:
    """`total`: the sums over rows, where they are there already."""
    root = inducing_root(model, theta, site.inducing, jitter)
    total = grams(model, theta, site, root) if total is None else total
    placed = maps(model, theta, site.inducing.shape[0])
    precision = model.likelihood.arm_precision(jnp.log(noise_sd(theta, model.arms)), site.added)
    weighted = total.both * precision[:, None, None]
    inner, with_y = weighted[:, :-1, :-1], weighted[:, :-1, -1]
    across = jnp.einsum("afg,agq->afq", inner, placed.z)
    b = jnp.eye(placed.w.shape[2]) + jnp.einsum("afh,afg,agk->hk", placed.w, inner, placed.w)
    return Solved(total, placed, precision, jnp.linalg.cholesky(b), jnp.einsum("afh,afq->hq", placed.w, across),
                  jnp.einsum("afh,af->h", placed.w, with_y), jnp.einsum("afq,afr->qr", placed.z, across),
                  jnp.einsum("afq,af->q", placed.z, with_y), root)


def missed(model: SharedModel, solved: Solved) -> Float[Array, "A"]:
    """Σ_{i: w_i=a} weight_i (k̇(x_i, x_i) − ‖ψ(x_i)‖²)."""
    psi = jnp.diagonal(solved.grams.both, axis1=1, axis2=2)[:, :-1][:, own_columns(model)]
    return jnp.maximum(solved.grams.own - jnp.sum(psi, 1), 0.0)


def of_draw(model: SharedModel, vector: Float[Array, "p"], site: Blocks, jitter: Scalar,
            total: Grams | None = None) -> SufficientSums:
    """(T, v, c, l) of a large site for one θ; what the bound pays stands in l."""
    theta = model.unravel(vector)
    s = solve(model, theta, site, jitter, total)
    white = solve_triangular(s.chol, jnp.column_stack([s.wz, s.wy]), lower=True)
    explained = white.T @ white
    q = model.columns
    people = jnp.zeros(model.arms).at[site.arm].add(jnp.sum(site.mask, 1))
    phi = own_root(theta, model.arms)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diag(s.chol))) - people @ jnp.log(s.precision)
    log_det = log_det - jnp.sum(site.mask * jnp.log(site.weight))
    paid = jnp.sum(s.precision * jnp.sum(phi**2, 1) * missed(model, s))
    square = jnp.sum(s.precision * s.grams.both[:, -1, -1])
    return (s.zz - explained[:q, :q], s.zy - explained[:q, q], square - explained[q, q], log_det + paid)


# --- effects


@compiled(static="model")
def _learnt(model: SharedModel, site: Blocks, draws: SharedDraws, jitter: Scalar) -> Learnt:
    """For each draw of θ."""
    return jax.lax.map(lambda draw: learn(model, draw.theta, draw.beta, site, jitter), draws)


@compiled(static="model")
def _effects(model: SharedModel, site: Blocks, known: Learnt, correlations: Float[Array, "C"]) -> SiteEffects:
    def of_draw(known: Learnt) -> SiteEffects:
        over = totals(model, model.unravel(known.theta), site, known.root)
        cate, ite = sums(model, known, over, site, correlations)
        return SiteEffects(same_shape(*cate), same_shape(*ite))

    return merged(jax.lax.map(of_draw, known))


@compiled(static="model")
def _weighed(model: SharedModel, site: Blocks, known: Learnt,
             weights: Float[Array, "k b e"]) -> tuple[Float[Array, "LB 1 e"], Float[Array, "L e e"]]:
    """Σ t τ(x): of what inducing inputs leave open the diagonal is exact, pairs are taken to be as the average pair."""
    def of_draw(known: Learnt) -> tuple[Array, Array]:
        theta = model.unravel(known.theta)

        def add(total: tuple[Array, Array, Array], block: tuple[Array, Array]) -> tuple[Any, None]:
            x, t = block
            phi = features(model, theta, x, known.root, site.inducing)
            more = t.T @ phi, t.T @ t, (t * left(model, theta, x, phi)[:, None]).T @ t
            return tuple(a + b for a, b in zip(total, more, strict=True)), None

        e = weights.shape[-1]
        start = jnp.zeros((e, width_of(model, site))), jnp.zeros((e, e)), jnp.zeros((e, e))
        phi, squares, missed = jax.lax.scan(add, start, (site.x, weights))[0]
        away = phi @ (known.spread[1] - known.spread[0]).T
        size, own = jnp.sum(weights, (0, 1)), own_root(theta)
        apart = left_between(model, theta, known, site) * (jnp.outer(size, size) - squares) + missed
        cov = away @ away.T + jnp.sum((own[1] - own[0]) ** 2) * apart
        return ((known.mean[:, 1] - known.mean[:, 0]) @ phi.T)[:, None], cov

    means, cov = jax.lax.map(of_draw, known)
    return merged(means), cov


def left_between(model: SharedModel, theta: Theta, known: Learnt, site: Blocks) -> Float[Array, ""]:
    """What the inducing inputs leave open between two people, averaged over some pairs."""
    x, there = site.pairs.reshape(-1, site.pairs.shape[-1]), site.paired.reshape(-1)
    psi = features(model, theta, x, known.root, known.inducing)[:, own_columns(model)]
    pairs = jnp.outer(there, there) * (1.0 - jnp.eye(x.shape[0]))
    away = kernels.split(model.kernel, theta["kernel"]).rest(x, x) - psi @ psi.T
    return jnp.sum(pairs * away) / jnp.maximum(jnp.sum(pairs), 1.0)


@compiled(static="model")
def _realised(model: SharedModel, block: Block, correlations: Float[Array, "C"], added: Scalar,
              known: Learnt) -> Moments:
    """τ_i [L, C, b] of the people of one block. Stays at the site."""
    return merged(jax.lax.map(lambda draw: same_shape(*realised_each(model, draw, block, correlations, added)), known))


def learn(model: SharedModel, vector: Float[Array, "p"], betas: Float[Array, "B q"], site: Blocks,
          jitter: Scalar) -> Learnt:
    theta = model.unravel(vector)
    s = solve(model, theta, site, jitter)
    own = cho_solve((s.chol, True), s.wy[:, None] - s.wz @ betas.T)
    mean = jnp.einsum("afq,Bq->Baf", s.maps.z, betas) + jnp.einsum("afh,hB->Baf", s.maps.w, own)
    spread = jax.vmap(lambda w: solve_triangular(s.chol, w.T, lower=True))(s.maps.w)
    return Learnt(vector, mean, spread, s.root, site.inducing)


def sums(model: SharedModel, known: Learnt, over: Totals, site: Blocks,
         correlations: Float[Array, "C"]) -> tuple[MeanAndVariance, MeanAndVariance]:
    """Over the populations: (means [B, 3], variances [3]) of Σ τ(x_i), (means [B, C, 3], variances [C, 3]) of Σ τ_i."""
    theta = model.unravel(known.theta)
    own, noise = own_root(theta), noise_root(theta)
    apart = missed_together(model, theta, known, over, site)
    weights = jnp.array(WEIGHTS)

    def of(contrast: Float[Array, "2 2"]) -> MeanAndVariance:
        """Of Σ_i contrast[w_i]·f(x_i): means [B, 3] and variances [3]."""
        means = jnp.einsum("ea,aj,Bjf,af->Be", weights, contrast, known.mean, over.phi)
        away = jnp.einsum("ea,aj,jhf,af->eh", weights, contrast, known.spread, over.phi)
        between = contrast @ own @ own.T @ contrast.T * apart
        return means, jnp.sum(away**2, 1) + jnp.maximum(jnp.einsum("ea,ab,eb->e", weights, between, weights), 0.0)

    def realised(correlation: Scalar) -> MeanAndVariance:
        """τ_i = w̃_i(y_i − y_mis,i), y_mis = m_w̄ + f_w̄ + r_w(y − m_w − f_w) + noise, r_w = σ₀₁/σ_w²; both with the noise
        that was added to y_i, which is the same in both."""
        var, shared = noise_moments(noise, correlation, site.added)
        ratio, sign = shared / var, jnp.array([-1.0, 1.0])
        contrast = sign[:, None] * (ratio[:, None] * jnp.eye(2) - jnp.eye(2)[::-1])
        means, variances = of(contrast)
        rest = over.noise * (var[::-1] - shared * ratio)
        return means + (weights @ (sign * (1.0 - ratio) * over.y))[None], variances + weights**2 @ rest

    return of(jnp.array([[-1.0, 1.0], [-1.0, 1.0]])), jax.vmap(realised, out_axes=(1, 0))(correlations)


def by_arm(model: SharedModel, known: Learnt, over: Totals, site: Blocks) -> tuple[Array, Array]:
    """(means [B, A, e], covariances [A, A, e]) of Σ_i t_i E y_a(x_i) over the populations."""
    theta, weights = model.unravel(known.theta), jnp.array(weights_of(model.arms))
    own = own_root(theta, model.arms)
    apart = jnp.einsum("ea,ab,eb->e", weights, missed_together(model, theta, known, over, site), weights)
    phi = weights @ over.phi
    away = jnp.einsum("jhf,ef->jhe", known.spread, phi)
    cov = jnp.einsum("jhe,khe->jke", away, away) + (own @ own.T)[..., None] * jnp.maximum(apart, 0.0)[None, None]
    return jnp.einsum("Bjf,ef->Bje", known.mean, phi), cov


@compiled(static="model")
def _by_arm(model: SharedModel, site: Blocks, known: Learnt) -> ArmSums:
    def of_draw(known: Learnt) -> ArmSums:
        over = totals(model, model.unravel(known.theta), site, known.root)
        mean, cov = by_arm(model, known, over, site)
        return ArmSums(mean, jnp.broadcast_to(cov, (mean.shape[0], *cov.shape)))

    return merged(jax.lax.map(of_draw, known))


def missed_together(model: SharedModel, theta: Theta, known: Learnt, over: Totals, site: Blocks) -> Float[Array, "A A"]:
    """1_aᵀ(K̇ − Q̇)1_b over the people of arms a and b: the diagonal exactly, the pairs from some of them (the n² pairs
    would cost more than the fit)."""
    split, own = kernels.split(model.kernel, theta["kernel"]), own_columns(model)

    def left(a: int, b: int) -> Float[Array, ""]:
        psi = [features(model, theta, site.pairs[i], known.root, site.inducing)[:, own] for i in (a, b)]
        away = split.rest(site.pairs[a], site.pairs[b]) - psi[0] @ psi[1].T
        pairs = jnp.outer(site.paired[a], site.paired[b]) * (1.0 - (a == b) * jnp.eye(away.shape[0]))
        return jnp.sum(pairs * away) / jnp.maximum(jnp.sum(pairs), 1.0)

    every = range(model.arms)
    each = jnp.array([[left(a, b) for b in every] for a in every])
    return each * (jnp.outer(over.people, over.people) - jnp.diag(over.people)) + jnp.diag(over.missed)


def left_out_of_draw(model: SharedModel, vector: Float[Array, "p"], beta: Float[Array, "q"], root: Float[Array, "q q"],
              site: Blocks, jitter: Scalar) -> tuple[Array, Array, Array]:
    """`model.leave_one_out` of a large site for one draw: (E[y_a | y_−i] [k, b, A], mean and variance [k, b]).

    With β̃ ~ N(β̂, P⁻¹) from all sites and A = (Q + D)⁻¹, all from small matrices and the person's own row:

        b_i = (z_i − (WᵀD⁻¹Z)ᵀB⁻¹w_i)/σ²         S_ii = (1 − w_iᵀB⁻¹w_i/σ²)/σ² − b_iᵀP⁻¹b_i
        r_i = (y_i − w_iᵀE[c] − z_iᵀβ̂)/σ²        WᵀS_·i = B⁻¹(w_i/σ² − WᵀD⁻¹Z P⁻¹b_i)
    """
    theta = model.unravel(vector)
    s = solve(model, theta, site, jitter)
    own = cho_solve((s.chol, True), s.wy - s.wz @ beta)
    phi_root = own_root(theta, model.arms)

    def of_block(block: Block) -> tuple[Array, Array, Array]:
        x, y, weight, arm = block
        phi, precision = features(model, theta, x, s.root, site.inducing), weight * s.precision[arm]
        z, w = jnp.einsum("bf,afq->abq", phi, s.maps.z), jnp.einsum("bf,afh->abh", phi, s.maps.w)
        inner = cho_solve((s.chol, True), w[arm].T).T * precision[:, None]
        b = precision[:, None] * z[arm] - inner @ s.wz
        solved = cho_solve((root, True), b.T).T
        s_ii = precision * (1.0 - jnp.sum(w[arm] * inner, 1)) - jnp.sum(b * solved, 1)
        r = precision * (y - w[arm] @ own - z[arm] @ beta)
        coefficients = inner - cho_solve((s.chol, True), s.wz @ solved.T).T
        together = jnp.einsum("abq,bq->ab", z, solved) + jnp.einsum("abh,bh->ab", w, coefficients)
        arms = jnp.einsum("abq,q->ab", z, beta) + jnp.einsum("abh,h->ab", w, own) - together * r[None] / s_ii[None]
        return arms.T, y - r / s_ii, 1.0 / s_ii + left(model, theta, x, phi) * jnp.sum(phi_root[arm] ** 2)

    return jax.lax.map(of_block, Block(site.x, site.y, site.weight, site.arm))
