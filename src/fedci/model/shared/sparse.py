"""The own function f^s of a large site through M inducing inputs: cost linear in its rows, memory of one block.

With h = (h_0, h_1) two independent functions, f = Φ^{1/2}h, and k = s_c² + s_l² xᵀz/d + k̇(x, z) (level and slopes are
few numbers and stay exact; k̇ is the rest), h is known through its values at U: Q̇ = ψψᵀ, ψ(x) = K̇_UU^{−1/2} k̇(U, x).
Titsias' bound replaces C = K_obs + D by Q + D and pays for what Q misses,

    log N(y; Zβ̃, C) ≥ log N(y; Zβ̃, Q + D) − ½ Σ_i Φ[w_i, w_i] (k̇(x_i, x_i) − ‖ψ(x_i)‖²)/σ²_{w_i}      for every β̃

so it bounds the evidence too, equals it when U holds all rows, and rises with M. All columns of a person's row of Z and
of the root of Q are columns of φ(x) = [ω(x), ψ(x)] times numbers that depend on the arm only:

    z_i = S_{w_i}ᵀφ(x_i)      Q = WWᵀ, W_i = V_{w_i}ᵀφ(x_i)      G_a = Σ_{w_i=a} (φ_i, y_i)(φ_i, y_i)ᵀ is all it needs

    B = I + Σ_a V_aᵀG_aV_a/σ_a²      T = Σ_a S_aᵀG_aS_a/σ_a² − (WᵀD⁻¹Z)ᵀB⁻¹(WᵀD⁻¹Z)      |Q + D| = |B| Π_a σ_a^{2n_a}

Effects: given y, h's coefficients are N(B⁻¹WᵀD⁻¹(y − Zβ̃), B⁻¹), and sums over people need Σ_i φ(x_i) only, which is the
row of G_a at φ's constant.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.shared import basis
from fedci.model.shared.inducing import Blocks
from fedci.model.shared.shared import SharedModel, noise_root, own_root

POPULATIONS = ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0))
"""Weights of (controls, treated) in: all, treated, control."""


class Grams(NamedTuple):
    """Sums over a site's people, by arm."""

    both: Float[Array, "2 f+1 f+1"]
    """Σ (φ, y)(φ, y)ᵀ."""
    own: Float[Array, "2"]
    """Σ k̇(x_i, x_i)."""


class Maps(NamedTuple):
    """From φ to the columns of Z and of Q's root, for each arm."""

    z: Float[Array, "2 f q"]
    w: Float[Array, "2 f h"]


def features(model: SharedModel, theta: dict, x: Float[Array, "b d"], root: Float[Array, "M M"],
             inducing: Float[Array, "M d"]) -> Float[Array, "b f"]:
    """φ(x) = [ω(x), ψ(x)]; `root` is K̇_UU^{−1/2}, lower."""
    rest = kernels.split(model.kernel, theta["kernel"]).rest
    return jnp.concatenate([*model.layout.omega(theta, x), rest(x, inducing) @ root.T], 1)


def inducing_root(model: SharedModel, theta: dict, inducing: Float[Array, "M d"], jitter) -> Float[Array, "M M"]:
    """K̇_UU^{−1/2}: a product with it costs less than a triangular solve for each block."""
    k = kernels.split(model.kernel, theta["kernel"]).rest(inducing, inducing)
    m = k.shape[0]
    lift = jnp.maximum(jitter * jnp.trace(k) / max(m, 1), 1e-300)
    return solve_triangular(jnp.linalg.cholesky(k + lift * jnp.eye(m)), jnp.eye(m), lower=True)


def grams(model: SharedModel, theta: dict, site: Blocks, root: Float[Array, "M M"]) -> Grams:
    """One pass over the rows; the gradient makes each block's φ again instead of keeping it."""
    own = kernels.split(model.kernel, theta["kernel"]).own

    @jax.checkpoint
    def of_block(x, y, mask):
        both = mask[:, None] * jnp.column_stack([features(model, theta, x, root, site.inducing), y])
        return Grams(both.T @ both, jnp.sum(mask * own(x)))

    def add(total, block):
        x, y, mask, arm = block
        return jax.tree.map(lambda sums, more: sums.at[arm].add(more), total, of_block(x, y, mask)), None

    width = width_of(model, site) + 1
    start = Grams(jnp.zeros((2, width, width)), jnp.zeros(2))
    return jax.lax.scan(add, start, (site.x, site.y, site.mask, site.arm))[0]


def width_of(model: SharedModel, site: Blocks) -> int:
    """f."""
    return model.layout.width + site.inducing.shape[0]


def own_columns(model: SharedModel) -> slice:
    """Where ψ stands in φ = [ω, ψ]."""
    return slice(model.layout.width, None)


def maps(model: SharedModel, theta: dict, inducing: int) -> Maps:
    """S_a, V_a."""
    layout, places = model.layout, np.eye(model.layout.width + inducing)
    z = [jnp.concatenate([r[a, i] * places[:, layout.columns[name]] for name, r in layout.roots(theta).items()
                          for i in (0, 1)], 1) for a in (0, 1)]
    scales, phi = kernels.split(model.kernel, theta["kernel"]), own_root(theta)
    own = jnp.concatenate([scales.constant * places[:, layout.columns[basis.LEVELS]],
                           scales.linear * places[:, layout.columns[basis.LINES]], places[:, own_columns(model)]], 1)
    w = [jnp.concatenate([phi[a, i] * own for i in (0, 1)], 1) for a in (0, 1)]
    return Maps(jnp.stack(z), jnp.stack(w))


class Solved(NamedTuple):
    """A draw's sums, and B."""

    grams: Grams
    maps: Maps
    precision: Float[Array, "2"]
    """1/σ_a²."""
    chol: Float[Array, "h h"]
    """Lower root of B."""
    wz: Float[Array, "h q"]
    wy: Float[Array, "h"]
    zz: Float[Array, "q q"]
    zy: Float[Array, "q"]
    root: Float[Array, "M M"]


def grams_of(model: SharedModel, vector: Float[Array, "p"], site: Blocks, jitter) -> Grams:
    """All that takes a pass over the rows."""
    theta = model.unravel(vector)
    return grams(model, theta, site, inducing_root(model, theta, site.inducing, jitter))


def solve(model: SharedModel, theta: dict, site: Blocks, jitter, total: Grams | None = None) -> Solved:
    """`total`: the sums over rows, where they are there already."""
    root = inducing_root(model, theta, site.inducing, jitter)
    total = grams(model, theta, site, root) if total is None else total
    placed = maps(model, theta, site.inducing.shape[0])
    precision = jnp.exp(-2.0 * theta["noise"])
    weighted = total.both * precision[:, None, None]
    inner, with_y = weighted[:, :-1, :-1], weighted[:, :-1, -1]
    across = jnp.einsum("afg,agq->afq", inner, placed.z)
    b = jnp.eye(placed.w.shape[2]) + jnp.einsum("afh,afg,agk->hk", placed.w, inner, placed.w)
    return Solved(total, placed, precision, jnp.linalg.cholesky(b), jnp.einsum("afh,afq->hq", placed.w, across),
                  jnp.einsum("afh,af->h", placed.w, with_y), jnp.einsum("afq,afr->qr", placed.z, across),
                  jnp.einsum("afq,af->q", placed.z, with_y), root)


def at_constant(model: SharedModel, total: Grams) -> Float[Array, "2 g"]:
    """Σ (φ, y) of each arm, g = f + 1 numbers: φ's constant, the column of the levels, times all others."""
    return total.both[:, model.layout.columns[basis.LEVELS].start]


def people_of(model: SharedModel, total: Grams) -> Float[Array, "2"]:
    """Of each arm: the constant's square, summed."""
    return at_constant(model, total)[:, model.layout.columns[basis.LEVELS].start]


def missed(model: SharedModel, solved: Solved) -> Float[Array, "2"]:
    """Σ_{i: w_i=a} (k̇(x_i, x_i) − ‖ψ(x_i)‖²)."""
    psi = jnp.diagonal(solved.grams.both, axis1=1, axis2=2)[:, :-1][:, own_columns(model)]
    return jnp.maximum(solved.grams.own - jnp.sum(psi, 1), 0.0)


def of_draw(model: SharedModel, vector: Float[Array, "p"], site: Blocks, jitter, total: Grams | None = None):
    """(T, v, c, l) of a large site for one θ; what the bound pays stands in l."""
    theta = model.unravel(vector)
    s = solve(model, theta, site, jitter, total)
    white = solve_triangular(s.chol, jnp.column_stack([s.wz, s.wy]), lower=True)
    explained = white.T @ white
    q = model.columns
    people = people_of(model, s.grams)
    phi = own_root(theta)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diag(s.chol))) - people @ jnp.log(s.precision)
    paid = jnp.sum(s.precision * jnp.sum(phi**2, 1) * missed(model, s))
    square = jnp.sum(s.precision * s.grams.both[:, -1, -1])
    return (s.zz - explained[:q, :q], s.zy - explained[:q, q], square - explained[q, q], log_det + paid)


# --- effects

class Learnt(NamedTuple):
    """One draw of (θ, β̃) given a large site's rows: f of both arms is φ(x)ᵀ times Gaussian coefficients."""

    theta: Float[Array, "p"]
    mean: Float[Array, "B 2 f"]
    """E[y(j) | x] = φ(x)ᵀ mean_j: the shared function and the site's own."""
    spread: Float[Array, "2 h f"]
    """Cov(f_j(x), f_k(x')) = (spread_j φ(x))ᵀ(spread_k φ(x')) + Φ[j, k] (k̇ − ψᵀψ)(x, x')."""
    root: Float[Array, "M M"]
    inducing: Float[Array, "M d"]


def learn(model: SharedModel, vector: Float[Array, "p"], betas: Float[Array, "B q"], site: Blocks,
          jitter) -> tuple[Learnt, Solved]:
    theta = model.unravel(vector)
    s = solve(model, theta, site, jitter)
    own = cho_solve((s.chol, True), s.wy[:, None] - s.wz @ betas.T)
    mean = jnp.einsum("afq,Bq->Baf", s.maps.z, betas) + jnp.einsum("afh,hB->Baf", s.maps.w, own)
    spread = jax.vmap(lambda w: solve_triangular(s.chol, w.T, lower=True))(s.maps.w)
    return Learnt(vector, mean, spread, s.root, site.inducing), s


def arms_at(model: SharedModel, known: Learnt, x: Float[Array, "p d"]):
    """Means [B, p, 2] and covariances [p, 2, 2] of (E y(0), E y(1)) at any x: no outcome noise."""
    theta = model.unravel(known.theta)
    phi, own = features(model, theta, x, known.root, known.inducing), own_root(theta)
    away = jnp.einsum("jhf,pf->jph", known.spread, phi)
    cov = jnp.einsum("jph,kph->pjk", away, away) + _left(model, theta, x, phi)[:, None, None] * (own @ own.T)[None]
    return jnp.einsum("Bjf,pf->Bpj", known.mean, phi), cov


def _left(model: SharedModel, theta: dict, x: Float[Array, "p d"], phi: Float[Array, "p f"]) -> Float[Array, "p"]:
    """k̇(x, x) − ‖ψ(x)‖²: what the inducing inputs leave open at x."""
    own = kernels.split(model.kernel, theta["kernel"]).own(x)
    return jnp.maximum(own - jnp.sum(phi[:, own_columns(model)] ** 2, 1), 0.0)


def effect_at(model: SharedModel, known: Learnt, x: Float[Array, "p d"]):
    """(mean [B, p], variance [p]) of τ(x): half the work of `arms_at`."""
    theta = model.unravel(known.theta)
    phi, own = features(model, theta, x, known.root, known.inducing), own_root(theta)
    away = phi @ (known.spread[1] - known.spread[0]).T
    return ((known.mean[:, 1] - known.mean[:, 0]) @ phi.T,
            jnp.sum(away**2, 1) + _left(model, theta, x, phi) * jnp.sum((own[1] - own[0]) ** 2))


def sums(model: SharedModel, known: Learnt, s: Solved, site: Blocks, correlations: Float[Array, "C"]):
    """Over the populations: (means [B, 3], variances [3]) of Σ τ(x_i), (means [B, C, 3], variances [C, 3]) of Σ τ_i."""
    theta = model.unravel(known.theta)
    own, noise = own_root(theta), noise_root(theta)
    total = at_constant(model, s.grams)[:, :-1]
    apart = missed_together(model, theta, s, site)
    weights = jnp.array(POPULATIONS)

    def of(contrast):
        """Of Σ_i contrast[w_i]·f(x_i): means [B, 3] and variances [3]."""
        means = jnp.einsum("ea,aj,Bjf,af->Be", weights, contrast, known.mean, total)
        away = jnp.einsum("ea,aj,jhf,af->eh", weights, contrast, known.spread, total)
        between = contrast @ own @ own.T @ contrast.T * apart
        return means, jnp.sum(away**2, 1) + jnp.maximum(jnp.einsum("ea,ab,eb->e", weights, between, weights), 0.0)

    def realised(correlation):
        """τ_i = w̃_i(y_i − y_mis,i), y_mis = m_w̄ + f_w̄ + r_w(y − m_w − f_w) + noise, r_w = σ₀₁/σ_w²."""
        sd = jnp.diag(noise)
        shared = jnp.where(jnp.isnan(correlation), 0.0, correlation) * sd[0] * sd[1]
        ratio, sign = shared / sd**2, jnp.array([-1.0, 1.0])
        contrast = sign[:, None] * (ratio[:, None] * jnp.eye(2) - jnp.eye(2)[::-1])
        means, variances = of(contrast)
        people, y = people_of(model, s.grams), at_constant(model, s.grams)[:, -1]
        rest = people * (sd[::-1] ** 2 - shared * ratio)
        return means + (weights @ (sign * (1.0 - ratio) * y))[None], variances + weights**2 @ rest

    return of(jnp.array([[-1.0, 1.0], [-1.0, 1.0]])), jax.vmap(realised, out_axes=(1, 0))(correlations)


def missed_together(model: SharedModel, theta: dict, s: Solved, site: Blocks) -> Float[Array, "2 2"]:
    """1_aᵀ(K̇ − Q̇)1_b over the people of arms a and b: the diagonal exactly, the pairs from some of them (the n² pairs
    would cost more than the fit)."""
    split, own = kernels.split(model.kernel, theta["kernel"]), own_columns(model)

    def left(a, b):
        psi = [features(model, theta, site.pairs[i], s.root, site.inducing)[:, own] for i in (a, b)]
        away = split.rest(site.pairs[a], site.pairs[b]) - psi[0] @ psi[1].T
        pairs = jnp.outer(site.paired[a], site.paired[b]) * (1.0 - (a == b) * jnp.eye(away.shape[0]))
        return jnp.sum(pairs * away) / jnp.maximum(jnp.sum(pairs), 1.0)

    people = people_of(model, s.grams)
    each = jnp.array([[left(a, b) for b in (0, 1)] for a in (0, 1)])
    return each * (jnp.outer(people, people) - jnp.diag(people)) + jnp.diag(missed(model, s))


def realised_each(model: SharedModel, known: Learnt, x, y, arm, correlations: Float[Array, "C"]):
    """(means [B, C, b], variances [C, b]) of τ_i for the people of one block, all of one arm."""
    theta = model.unravel(known.theta)
    mean, cov = arms_at(model, known, x)
    sd = jnp.diag(noise_root(theta))
    sign = 2.0 * arm - 1.0

    def at(correlation):
        shared = jnp.where(jnp.isnan(correlation), 0.0, correlation) * sd[0] * sd[1]
        ratio = shared / sd[arm] ** 2
        contrast = sign * (ratio * jnp.eye(2)[arm] - jnp.eye(2)[1 - arm])
        var = jnp.einsum("j,pjk,k->p", contrast, cov, contrast) + sd[1 - arm] ** 2 - shared * ratio
        return mean @ contrast + (sign * (1.0 - ratio) * y)[None], jnp.maximum(var, 0.0)

    return jax.vmap(at, out_axes=(1, 0))(correlations)


def left_out(model: SharedModel, vector: Float[Array, "p"], beta: Float[Array, "q"], root: Float[Array, "q q"],
             site: Blocks, jitter):
    """`model.leave_one_out` of a large site for one draw: (E[y_a | y_−i] [k, b, 2], mean and variance [k, b]).

    With β̃ ~ N(β̂, P⁻¹) from all sites and A = (Q + D)⁻¹, all from small matrices and the person's own row:

        b_i = (z_i − (WᵀD⁻¹Z)ᵀB⁻¹w_i)/σ²         S_ii = (1 − w_iᵀB⁻¹w_i/σ²)/σ² − b_iᵀP⁻¹b_i
        r_i = (y_i − w_iᵀE[c] − z_iᵀβ̂)/σ²        WᵀS_·i = B⁻¹(w_i/σ² − WᵀD⁻¹Z P⁻¹b_i)
    """
    theta = model.unravel(vector)
    s = solve(model, theta, site, jitter)
    own = cho_solve((s.chol, True), s.wy - s.wz @ beta)
    phi_root = own_root(theta)

    def of_block(block):
        x, y, arm = block
        phi, precision = features(model, theta, x, s.root, site.inducing), s.precision[arm]
        z, w = jnp.einsum("bf,afq->abq", phi, s.maps.z), jnp.einsum("bf,afh->abh", phi, s.maps.w)
        inner = cho_solve((s.chol, True), w[arm].T).T * precision
        b = precision * z[arm] - inner @ s.wz
        solved = cho_solve((root, True), b.T).T
        s_ii = precision * (1.0 - jnp.sum(w[arm] * inner, 1)) - jnp.sum(b * solved, 1)
        r = precision * (y - w[arm] @ own - z[arm] @ beta)
        coefficients = inner - cho_solve((s.chol, True), s.wz @ solved.T).T
        together = jnp.einsum("abq,bq->ab", z, solved) + jnp.einsum("abh,bh->ab", w, coefficients)
        arms = jnp.einsum("abq,q->ab", z, beta) + jnp.einsum("abh,h->ab", w, own) - together * r[None] / s_ii[None]
        return arms.T, y - r / s_ii, 1.0 / s_ii + _left(model, theta, x, phi) * jnp.sum(phi_root[arm] ** 2)

    return jax.lax.map(of_block, (site.x, site.y, site.arm))
