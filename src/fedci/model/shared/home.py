"""The fit at home: all that a coordinator learns of q(θ) from one message of products, without asking again.

A message has G, the products of a dictionary at a point θ̂ (`dictionary`), and, of the scales o of the sites' own
functions, which change C and so every product, the start of a series (sums over sites):

    ℓ(β, o) = Σ_s log p(y_s | β, o)         E ∂ℓ,  E ∂²ℓ,  and ∂ℓ at R draws of β̃ ~ N(m, P⁻¹), as the message before
                                            had it; all at the point's ô

With the law of β̃ that the point has, E ∂ℓ is the slope of log p(y | o) (Fisher). The message before had another law:
of other own functions, and foreseen. The point's own, N(m′, P′⁻¹), follows from G, so what E ∂ℓ moves by is regressed
on what tells the two laws apart (`under`). On G the whole bound is ascended with o held; o goes to the top of the bound
that the series gives, with σ² beside it. The next message is about where both came to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float
from scipy.optimize import minimize
from scipy.special import expit

from fedci.model.programs import compiled
from fedci.model.rows import BetaLaw, Rows, Scalar, SufficientSums
from fedci.model.shared import dictionary, evidence, exchanges
from fedci.model.shared.dictionary import Point, Products, Span
from fedci.model.shared.shared import SharedModel

STEPS = (15, 30, 60)
"""Of the ascent after the second message, the third, and the others: where a direction is still wrong, its whole top
leads away from it."""
FAR = (1.5, 0.75, 0.75, 0.5)
"""A step of o in prior sds at most, each number of it, after the second message, the third, …: the series is of the
second order, and what the last step leads to is seen by no message."""
KNOWN = 0.8
"""Of −E ∂²ℓ, what is left where β̃ is not known: two thirds to nine tenths, in fits looked at. Louis' Cov ∂ℓ would say
it, but of a law that is not the point's it is several times too large."""
NARROW = 0.02
"""The least that q's sds of o may be, in prior sds."""
DRAWS = 32
"""Of o, over which its bound is averaged."""
SCALES = "phi[0]", "log_scale"
"""How the names end of those of o that are log scales."""
OWN = ("phi", "kernel", "noise[1]")
"""How the names of o begin: parts of θ that only sites can learn."""
NOISE = "noise[0]"
SCORES = 128
"""R: over them two numbers of each slope are regressed."""


class OwnSeries(NamedTuple):
    """ℓ about the point's (o, log σ), σ the last: a sum over sites."""

    slope: Float[Array, "k"]
    """E ∂ℓ."""
    bend: Float[Array, "k k"]
    """E ∂²ℓ."""
    scores: Float[Array, "R k"]
    """∂ℓ at each draw of β̃."""

    @staticmethod
    def shapes(k: int) -> dict[str, tuple[int, ...]]:
        return {"slope": (k,), "bend": (k, k), "scores": (SCORES if k else 0, k)}


@lru_cache(maxsize=64)
def own_places(model: SharedModel) -> np.ndarray:
    """Of o in θ."""
    return np.array([place for place, name in enumerate(model.names()) if name.startswith(OWN)])


@lru_cache(maxsize=64)
def series_places(model: SharedModel) -> np.ndarray:
    """Of o and, where there is one, of the noise, the last."""
    names = model.names()
    return np.append(own_places(model), [names.index(NOISE)] if NOISE in names else []).astype(int)


# --- what a site tells


@lru_cache(maxsize=8)
def _normals(count: int) -> np.ndarray:
    """[R, q] of β̃'s draws, the same in every exchange."""
    return np.random.default_rng(np.random.SeedSequence((count, 11))).standard_normal((SCORES, count))


@compiled(static="model")
def own_series(model: SharedModel, vector: Float[Array, "p"], law: BetaLaw, rows: Rows, jitter: Scalar,
               local: Any = ()) -> OwnSeries:
    """Of a site's people; `law`: β̃'s at the point, of one draw. With S = P⁻¹ + mmᵀ, and S = ββᵀ of one β,

        E ℓ(o) = −½ [ c − 2mᵀv + ⟨T, S⟩ + l ]          T, v, c, l of the rows at o, z at the point's θ
    """
    places, seen = series_places(model), rows.seen(local)
    spread = solve_triangular(law.root, jnp.eye(law.root.shape[0]), lower=True)
    square = spread.T @ spread + jnp.outer(law.mean, law.mean)
    betas = law.mean[None] + jnp.asarray(_normals(law.mean.shape[0])) @ spread

    def statistics(some: Float[Array, "k"]) -> SufficientSums:
        moved = vector.at[places].set(some)
        return seen.statistics(model, moved, jitter, seen.sums_over_rows(model, moved, jitter))

    def expected(some: Float[Array, "k"]) -> tuple[Float[Array, ""], Float[Array, "R"]]:
        gram, cross, rest, log_det = statistics(some)
        each = rest - 2.0 * betas @ cross + jnp.sum((betas @ gram) * betas, 1) + log_det
        return -0.5 * (rest - 2.0 * law.mean @ cross + jnp.sum(gram * square) + log_det), -0.5 * each

    here = vector[places]
    slope, _ = jax.grad(expected, has_aux=True)(here)
    bend, scores = jax.jacfwd(jax.grad(expected, has_aux=True))(here)
    return OwnSeries(slope, bend, scores)


# --- what comes of it


@compiled(static="model")
def laws_at(model: SharedModel, vectors: Float[Array, "L p"], total: Products, by: Span, point: Point,
            people: Scalar) -> BetaLaw:
    """β̃'s at each θ near the point."""
    def of_draw(vector: Float[Array, "p"]) -> BetaLaw:
        found, _ = dictionary.statistics(model, total, by, point, vector, people)
        return BetaLaw(*evidence.posterior_of_draw(found.gram, found.cross))

    return jax.lax.map(of_draw, vectors)


def ridge(model: SharedModel, total: Products, by: Span, point: Point, people: Scalar
          ) -> tuple[float, np.ndarray, np.ndarray]:
    """(log p(y | θ̂), β̃'s mean there, T) of a message about one θ̂."""
    here = jnp.asarray(point.vector)
    found, _ = dictionary.statistics(model, total, by, point, here, people)
    mean, _ = evidence.posterior_of_draw(found.gram, found.cross)
    return float(evidence.log_evidence_of_draw(found, people)), np.asarray(mean), np.asarray(found.gram)


def beginning(model: SharedModel, beta: np.ndarray, gram: np.ndarray, people: int) -> np.ndarray:
    """q after the first message: directions from ridge regressions, the own functions' scales at their prior."""
    q, own = exchanges.beginning(model, beta, gram, people), own_places(model)
    q[own], q[own + model.size] = model.prior[0][own], np.log(model.prior[1][own])
    return q


@compiled(static="model")
def bound(model: SharedModel, thetas: Float[Array, "L p"], total: Products, by: Span, point: Point,
          people: Scalar) -> tuple[Float[Array, "L"], Float[Array, "L p"]]:
    """(log p(y | θ_l) less what the span misses of ωᵀβ̂, in units of the point's noise; its gradient)."""
    noise = dictionary.noise_level(model.unravel(jnp.asarray(point.vector)))

    def of_draw(vector: Float[Array, "p"]) -> Float[Array, ""]:
        found, missed = dictionary.statistics(model, total, by, point, vector, people)
        return evidence.log_evidence_of_draw(found, people) - 0.5 * people * jnp.mean(missed**2) / noise

    return jax.lax.map(jax.value_and_grad(of_draw), thetas)


def ascend(model: SharedModel, q: np.ndarray, total: Products, by: Span, point: Point, people: Scalar,
           normals: Float[np.ndarray, "L p"], steps: int) -> tuple[float, float, np.ndarray]:
    """(the bound at q; the bound and q at its top, or after so many steps); o held."""
    held = np.zeros(model.size, bool)
    held[own_places(model)] = True

    def less(vector: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = bound(model, jnp.asarray(evidence.draw(vector, normals)), total, by, point, people)
        value, slope = evidence.objective(model, vector, normals, np.asarray(values), np.asarray(gradients))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e9, np.zeros_like(vector)
        return -value, np.where(np.tile(held, 2), 0.0, -slope)

    found = minimize(less, q, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": 20})
    return -less(q)[0], -float(found.fun), np.asarray(found.x)


def with_own_step(model: SharedModel, q: np.ndarray, at: np.ndarray, slope: np.ndarray, series: OwnSeries,
                  far: float) -> np.ndarray:
    """q with its o at the top of the bound that the series about the point `at` gives. `slope`: of log p(y | o)."""
    top, own = OwnBound.about(model, at, slope, series, far), own_places(model)
    found = minimize(top.less, top.first, jac=True, method="L-BFGS-B", bounds=top.box).x
    means, log_sds = (part.copy() for part in np.split(q, 2))
    means[own], log_sds[own] = found[:len(own)], found[-len(own):]
    return np.concatenate([means, log_sds])


def under(series: OwnSeries, told: BetaLaw, now: BetaLaw) -> np.ndarray:
    """E′ ∂ℓ of the law N(m′, P′⁻¹) that a message's own products give; the series is of N(m, P⁻¹). With P = RRᵀ, ε =
    Rᵀ(β̃ − m) ~ N(0, I), R⁻¹P′R⁻ᵀ = I + B and δ = Rᵀ(m′ − m) the laws differ by f = (δᵀε, ½ εᵀBε) alone, to an order:

        E′ ∂ℓ = E ∂ℓ + (E′ f − E f)ᵀ b         b: ∂ℓ on f, over the draws
        E f   = (0, ½ tr B)                     E′ f = (δᵀδ, ½ (tr B(I + B)⁻¹ + δᵀBδ))"""
    (m, root), (there, root_there) = ([np.asarray(part) for part in law] for law in (told, now))
    draws, shift, turn = np.asarray(_normals(len(m))), root.T @ (there - m), np.linalg.solve(root, root_there)
    ratio = turn @ turn.T
    away = ratio - np.eye(len(m))
    seen = np.column_stack([draws @ shift, 0.5 * np.sum((draws @ away) * draws, 1)])
    moved = np.array([shift @ shift, 0.5 * (np.trace(np.linalg.solve(ratio, away) - away) + shift @ away @ shift)])
    scores = np.asarray(series.scores)
    by = np.linalg.lstsq(seen - seen.mean(0), scores - scores.mean(0), rcond=None)[0]
    return np.asarray(series.slope) + moved @ by


class OwnBound(NamedTuple):
    """E_q log p(y | o) − KL(q‖p) of q(o) alone, σ beside it a point, by a series in u (`levelling`) about `here`.

        log p ≈ uᵀs − ½ uᵀPu        s = E′ ∂ℓ (`under`),  P about −E ∂²ℓ"""

    here: np.ndarray
    slope: np.ndarray
    precision: np.ndarray
    scales: np.ndarray
    """Which are log scales."""
    prior: tuple[np.ndarray, np.ndarray]
    normals: np.ndarray
    """Of o, without σ."""
    far: float

    @staticmethod
    def about(model: SharedModel, at: np.ndarray, slope: np.ndarray, series: OwnSeries, far: float) -> OwnBound:
        places, own = series_places(model), own_places(model)
        scales = np.array([model.names()[place].endswith(SCALES) for place in places])
        bend = KNOWN * np.asarray(series.bend) - np.diag(np.where(scales, slope, 0.0))
        prior = model.prior[0][places], model.prior[1][places]
        return OwnBound(at[places], slope, _not_negative(-bend, prior[1]), scales, prior,
                        evidence.common_normals(0, 1, DRAWS, len(own)), far)

    @property
    def widths(self) -> np.ndarray:
        """Prior sds of o."""
        return self.prior[1][:self.normals.shape[1]]

    @property
    def first(self) -> np.ndarray:
        """[means of (o, log σ), log sds of o]."""
        return np.concatenate([self.here, np.log(0.5 * self.widths)])

    @property
    def box(self) -> list[tuple[float, float]]:
        reach = self.far * self.prior[1]
        return [*zip(self.here - reach, self.here + reach, strict=True),
                *zip(np.log(NARROW * self.widths), np.log(self.widths), strict=True)]

    def less(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """(−the bound, its slope)."""
        (mean, log_sd), k = np.split(vector, [len(self.here)]), self.normals.shape[1]
        sd, ratio = np.exp(log_sd), np.exp(2.0 * log_sd) / self.widths**2
        away = (mean - self.prior[0]) / self.prior[1]
        moved = (mean - self.here)[None] + np.pad(sd * self.normals, ((0, 0), (0, len(mean) - k)))
        u, by_move = levelling(moved, self.scales)
        slopes = (self.slope - u @ self.precision) * by_move
        value = np.mean(u @ self.slope - 0.5 * np.sum((u @ self.precision) * u, 1))
        value -= 0.5 * np.sum(away**2) + np.sum(0.5 * ratio - log_sd)
        by_log_sd = np.mean(slopes[:, :k] * self.normals, 0) * sd - ratio + 1.0
        return -float(value), -np.concatenate([slopes.mean(0) - away / self.prior[1], by_log_sd])


def levelling(moved: Float[np.ndarray, "L k"], scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(u, ∂u/∂o): log scales as log(1 + e^{2δ}) − log 2 of their move δ, which is δ near 0 and has an end below. A
    function that is all but gone can lose no more, and a series in δ itself would not know it."""
    u = np.where(scales, np.logaddexp(0.0, 2.0 * moved) - np.log(2.0), moved)
    return u, np.where(scales, 2.0 * expit(2.0 * moved), 1.0)


def _not_negative(bend: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Directions in which it bends the other way are as if flat there by as much: steps go uphill."""
    values, vectors = np.linalg.eigh(bend * np.outer(unit, unit))
    return np.asarray((vectors * np.abs(values)) @ vectors.T) / np.outer(unit, unit)
