"""A site's rows of an outcome of 0 and 1: the model's function is the log odds η, and rows tell of it through a bound.

Given where the bound touches (`model.likelihood`), rows are Gaussian ones with precisions ω and pseudo-outcomes η̃, and
all that `exact` does holds. Where it touches best, ξ² = E η², the site works out by itself: with β̃ ~ N(m, DDᵀ) by the
sums of all sites at some θ (`rows.Anchor`), K = Φ[w, w']k of its own function, and A = (K + diag(1/ω))⁻¹,

    E η = Zm + KA(η̃ − Zm)          Cov η = K − KAK + RDDᵀRᵀ,   R = Z − KAZ          again and again, ω from the last ξ

ξ is a function of the anchor and of the rows: a site that starts again has the same. Any ξ gives a bound; so a fit
keeps an anchor for some rounds, in which its objective is one function of q, and then moves it (`protocol.optimise`).
After the fit the nearest Gaussian takes the bound's place, by the same steps: the bound alone would be overconfident.

Effects are risks σ(η), of which sums are not Gaussian: with each draw of (θ, β̃) the site draws f^s of its people
once (Matheron: a draw from the prior, moved by what its own pseudo-outcomes miss), and sums over them are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from fedci.effect import person_weights
from fedci.model import covariance, exact
from fedci.model.exact import ExactRows
from fedci.model.likelihood import Bounded, Held, Latent, Told
from fedci.model.parallel import each, over_draws
from fedci.model.programs import compiled
from fedci.model.rows import (
    Anchor,
    Arms,
    BetaLaw,
    LeftOut,
    Moments,
    RiskSums,
    Scalar,
    SufficientSums,
    Vector,
    Weighed,
    merged,
    on_device,
    same_shape,
)
from fedci.model.shared.evidence import SharedDraws, posterior_of_draw
from fedci.model.shared.shared import SharedModel

STEPS = 8
"""Of ξ at a site for one anchor: from the prior's spread they settle to about 1 %."""
MATCHING = 2
"""More, towards the nearest Gaussian: each is a step of Newton's."""
LIFT = 1e-8
"""Of k's diagonal where f^s is drawn, relative: people who are alike in everything have the same function."""


class LatentRows(NamedTuple):
    """Rows whose y is 0 or 1, as the site tells it, or a count."""

    rows: ExactRows
    more: Float[Array, "n"]
    """`likelihood.Told.more`."""
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

    def people(self) -> int:
        return self.rows.people()

    def is_small(self) -> bool:
        return self.rows.is_small()

    def at_once(self, draws: int) -> int:
        return self.rows.at_once(draws)

    @property
    def told(self) -> Told:
        return Told(self.rows.y, self.flips, self.more)

    def local(self, model: SharedModel, anchor: Anchor | None, draws: int, matched: bool) -> Bounded | Held:
        return near_anchor(model, self, anchor, draws, matched)

    def seen(self, local: Bounded | Held) -> ExactRows:
        return self.rows._replace(weight=local.weight, y=local.y)

    def price(self, model: SharedModel, vector: Vector, local: Bounded | Held) -> Array:
        return price_of(model, self, vector, local)

    def sums_over_rows(self, model: SharedModel, vector: Vector, jitter: Scalar) -> tuple[()]:
        return ()

    def statistics(self, model: SharedModel, vector: Float[Array, "p"], jitter: Scalar,
                   sums: tuple[()] = ()) -> SufficientSums:
        raise AssertionError("rows of 0 and 1 tell of the log odds through a bound: see them with it first")

    def known(self, model: SharedModel, draws: SharedDraws, jitter: Scalar) -> Seen:
        return Seen(self.rows, self.given(model, draws))

    def given(self, model: SharedModel, draws: SharedDraws) -> Bounded:
        return given_draws(model, self, draws)

    def log_odds(self, model: SharedModel, vector: Float[Array, "p"], mean: Float[Array, "q"],
                 spread: Float[Array, "q r"], matched: bool) -> LogOdds:
        return log_odds(model, self, vector, mean, spread, matched)

    def effects(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector,
                jitter: Scalar, known: Seen | None = None) -> RiskSums:
        """Sums of risks (or rates) over everyone, the treated, the controls; no data inform a correlation of 0/1
        outcomes."""
        local, weights = known.local if known else self.given(model, draws), self._weights(model.arms)
        normals = on_device(antithetic(int(self.index), draws.beta.shape, self.rows.y.shape[0], model.arms))
        every = draws, local, normals
        return RiskSums(merged(over_draws(lambda part: _risks(model, self, *part, weights, jitter), every)))

    def weighed(self, model: SharedModel, vector: Vector, draws: SharedDraws, weights: Vector,
                jitter: Scalar, known: Seen | None = None) -> Weighed:
        """With the draws of the function that the sums over everyone have."""
        local, placed = known.local if known else self.given(model, draws), self.rows.placed(weights)
        normals = on_device(antithetic(int(self.index), draws.beta.shape, self.rows.y.shape[0], model.arms))
        every = draws, local, normals
        sums = merged(over_draws(lambda part: _risks(model, self, *part, placed, jitter), every))
        return Weighed(sums, nothing_left(sums))

    def _weights(self, arms: int) -> Array:
        return on_device(person_weights(np.asarray(self.rows.w), np.asarray(self.rows.mask), arms))

    def realised(self, model: SharedModel, vector: Vector, draws: SharedDraws, correlations: Vector, jitter: Scalar,
                 known: Any = None) -> Iterator[tuple[np.ndarray, Moments]]:
        raise AssertionError("realised effects of an outcome of 0 and 1 are not computed")

    def left_out(self, model: SharedModel, vector: Vector, draws: SharedDraws, beta: BetaLaw,
                 jitter: Scalar) -> LeftOut:
        """Of the log odds η: the person's pseudo-outcome is taken out, and its spread 1/ω from the variance."""
        def of_draw(parts: tuple[SharedDraws, BetaLaw]) -> LeftOut:
            draw, law = parts
            own = nearest(model, self, draw.theta, self.log_odds(model, draw.theta, *of_draws(draw.beta), matched=True))
            out = exact.left_out(model.law(vector, draw, self.index), self.seen(own), law, jitter)
            return out._replace(var=jnp.maximum(out.var - 1.0 / own.weight, 1e-12))

        return jax.lax.map(of_draw, (draws, beta))


class LogOdds(NamedTuple):
    """E η and Var η of each row; they stay at the site."""

    mean: Float[Array, "*k n"]
    var: Float[Array, "*k n"]


def likelihood_of(model: SharedModel) -> Latent:
    found = model.likelihood
    if not isinstance(found, Latent):
        raise AssertionError("a number tells of the function itself")
    return found


def fitted(model: SharedModel, site: Any, vector: Vector, at: LogOdds) -> Bounded:
    """The Gaussian that a fit rests on."""
    return likelihood_of(model).own(site.told, model.unravel(vector), site.rows.mask, *at)


def nearest(model: SharedModel, site: Any, vector: Vector, at: LogOdds) -> Bounded:
    """The one that effects rest on."""
    return likelihood_of(model).nearest(site.told, model.unravel(vector), site.rows.mask, *at)


def price_of(model: SharedModel, site: Any, vector: Vector, local: Bounded | Held) -> Array:
    """Of one θ. The nearest Gaussian (`matched`) is asked for without."""
    if isinstance(local, Bounded):
        return local.price
    return likelihood_of(model).price(site.told, model.unravel(vector), site.rows.mask, local)


def near_anchor(model: SharedModel, site: Any, anchor: Anchor | None, draws: int, matched: bool) -> Bounded | Held:
    """With an anchor of other draws the average E η and E η² over these; without one β̃ has its prior, and θ is
    where a fit starts."""
    known = nowhere(model) if anchor is None else anchor
    found = over_draws(lambda part: _anchored(model, site, part, matched), known)
    return _seen_by(model, site, *_repeated(found, known.theta, draws), matched)


def given_draws(model: SharedModel, site: Any, draws: SharedDraws) -> Bounded:
    """What each of these draws of (θ, β̃) has of the rows: β̃'s law is that of its draws."""
    found = over_draws(lambda part: _drawn_with(model, site, part), draws)
    return _seen_by(model, site, found, draws.theta, True)


class Seen(NamedTuple):
    """A site's rows and what each draw has of them."""

    rows: ExactRows
    local: Bounded

    def effects_at(self, model: SharedModel, vector: Vector, draws: SharedDraws, x: Float[Array, "p d"],
                   jitter: Scalar) -> Moments:
        """Of the log odds."""
        mean, cov = self.outcomes_at(model, vector, draws, x, jitter)
        var = cov[..., 0, 0] + cov[..., 1, 1] - 2.0 * cov[..., 0, 1]
        return same_shape(mean[..., 1] - mean[..., 0], jnp.maximum(var, 0.0))

    def outcomes_at(self, model: SharedModel, vector: Vector, draws: SharedDraws, x: Float[Array, "p d"],
                    jitter: Scalar) -> Arms:
        """Of the log odds."""
        def of_draw(parts: tuple[SharedDraws, Bounded]) -> Arms:
            draw, own = parts
            rows = self.rows._replace(weight=own.weight, y=own.y)
            law = model.law(vector, draw, rows.index)
            mean, cov = exact.arms_at(law, rows, exact.condition(law, rows, jitter), x)
            return mean, jnp.broadcast_to(cov, (mean.shape[0], *cov.shape))

        return jax.lax.map(of_draw, (draws, self.local))


# --- where the bound touches


def nowhere(model: SharedModel) -> Anchor:
    """Before any sum is known."""
    q = model.columns
    return Anchor(on_device(model.ravel(model.starts)[None]), on_device(np.zeros((1, q * (q + 1) // 2))),
                  on_device(np.zeros((1, q))))


@compiled(static=("model", "matched"))
def _anchored(model: SharedModel, site: Any, anchor: Anchor, matched: bool) -> LogOdds:
    return each(lambda part: site.log_odds(model, part.theta, *_of_sums(part), matched=matched), anchor,
                site.at_once(anchor.theta.shape[0]))


@compiled(static="model")
def _drawn_with(model: SharedModel, site: Any, draws: SharedDraws) -> LogOdds:
    return each(lambda draw: site.log_odds(model, draw.theta, *of_draws(draw.beta), matched=True), draws,
                site.at_once(draws.theta.shape[0]))


def _of_sums(anchor: Anchor) -> tuple[Array, Array]:
    """(m, D) of one of its draws."""
    mean, chol = posterior_of_draw(anchor.gram, anchor.cross)
    return mean, solve_triangular(chol, jnp.eye(chol.shape[0]), lower=True).T


def of_draws(beta: Float[Array, "B q"]) -> tuple[Array, Array]:
    """(m, D) of draws of β̃."""
    mean = jnp.mean(beta, 0)
    return mean, (beta - mean[None]).T / jnp.sqrt(beta.shape[0])


def log_odds(model: SharedModel, site: LatentRows, vector: Float[Array, "p"], mean: Float[Array, "q"],
             spread: Float[Array, "q r"], matched: bool) -> LogOdds:
    """Of one θ, with β̃ ~ N(mean, spread spreadᵀ): STEPS of the bound, and then some of the nearest Gaussian."""
    theta, rows = model.unravel(vector), site.rows
    e, root = covariance.arms(rows.w, model.arms), model.roots(theta)[0]
    k = jnp.outer(rows.mask, rows.mask) * (e @ root @ root.T @ e.T) * rows.alike(model.k(theta, rows.x))
    z = rows.mask[:, None] * model.design(theta, rows.x, e)
    first = LogOdds(z @ mean, jnp.diag(k) + jnp.sum((z @ spread) ** 2, 1))
    return settled(model, site, vector, first, lambda own: given_rows(k, z, mean, spread, own), matched)


def settled(model: SharedModel, site: Any, vector: Float[Array, "p"], first: LogOdds,
            given: Callable[[Bounded], LogOdds], matched: bool) -> LogOdds:
    """From the prior's E η and Var η, by what a Gaussian in the likelihood's place makes of them, again and again."""
    first = LogOdds(*likelihood_of(model).begin(site.told, *first))
    found = jax.lax.fori_loop(0, STEPS, lambda _, now: given(fitted(model, site, vector, now)), first)
    if not matched:
        return found
    return jax.lax.fori_loop(0, MATCHING, lambda _, now: given(nearest(model, site, vector, now)), found)


def given_rows(k: Float[Array, "n n"], z: Float[Array, "n q"], mean: Float[Array, "q"], spread: Float[Array, "q r"],
               own: Bounded) -> LogOdds:
    """I + √ω K √ω has no eigenvalue below 1: no jitter."""
    s = jnp.sqrt(own.weight)
    chol = jnp.linalg.cholesky(jnp.eye(k.shape[0]) + s[:, None] * k * s[None])
    white = solve_triangular(chol, s[:, None] * jnp.column_stack([k, z, own.y - z @ mean]), lower=True)
    local, shared, missed = white[:, :k.shape[0]], white[:, k.shape[0]:-1], white[:, -1]
    rest = (z - local.T @ shared) @ spread
    var = jnp.diag(k) - jnp.sum(local**2, 0) + jnp.sum(rest**2, 1)
    return LogOdds(z @ mean + local.T @ missed, jnp.maximum(var, 0.0))


def _repeated(found: LogOdds, theta: Array, draws: int) -> tuple[LogOdds, Array]:
    """For so many draws: their own, or of each the average over these."""
    if found.mean.shape[0] == draws:
        return found, theta
    mean, square = np.mean(found.mean, 0), np.mean(np.square(found.mean) + np.asarray(found.var), 0)
    average = LogOdds(mean, square - mean**2), np.mean(theta, 0)
    return jax.tree.map(lambda leaf: on_device(np.repeat(leaf[None], draws, 0)), average)


@compiled(static=("model", "matched"))
def _seen_by(model: SharedModel, site: Any, found: LogOdds, theta: Array, matched: bool) -> Any:
    def of(at: LogOdds, vector: Array) -> Bounded | Held:
        if matched:
            return nearest(model, site, vector, at)
        return likelihood_of(model).kept(fitted(model, site, vector, at), *at)

    return jax.vmap(of)(found, theta)


# --- risks of the site's own people


def nothing_left(sums: Any) -> Array:
    """Covariances within a draw that gives risks."""
    return jnp.zeros((1, sums.shape[-1], sums.shape[-1]))


def antithetic(index: int, betas: tuple[int, ...], rows: int, arms: int = 2) -> np.ndarray:
    """[L, B, A + 1, n] normals: of f^s in each arm and of the pseudo-outcomes. Their second half is the first with the
    other sign, as are draws of β̃."""
    draws, count = betas[:2]
    rng = np.random.default_rng(np.random.SeedSequence((index, 8)))
    half = rng.standard_normal((draws, -(-count // 2), arms + 1, rows))
    return np.concatenate([half, -half], 1)[:, :count]


@compiled(static="model")
def _risks(model: SharedModel, site: LatentRows, draws: SharedDraws, local: Bounded, normals: Float[Array, "L B _ n"],
           weights: Float[Array, "e n"], jitter: Scalar) -> Float[Array, "L B A e"]:
    def of_draw(parts: tuple[SharedDraws, Bounded, Array]) -> Float[Array, "B A e"]:
        draw, own, away = parts
        eta = drawn(model, site.seen(own), draw, away, jitter)
        return jnp.einsum("Bnj,en->Bje", likelihood_of(model).expected(eta), weights)

    return jax.lax.map(of_draw, (draws, local, normals))


def drawn(model: SharedModel, rows: ExactRows, draw: SharedDraws, normals: Float[Array, "B _ n"],
          jitter: Scalar) -> Float[Array, "B n A"]:
    """η of the rows' people in each arm: one draw from its law, given (θ, β̃) and the rows, for each β̃."""
    law = model.law(jnp.zeros(0), draw, rows.index)
    given = exact.condition(law, rows, jitter)
    n, arms = rows.y.shape[0], model.arms
    lift = jnp.maximum(jitter, LIFT) * jnp.trace(given.k) / n
    h = normals[:, :arms] @ jnp.linalg.cholesky(given.k + lift * jnp.eye(n)).T
    prior = jnp.einsum("ji,Bin->Bnj", jnp.linalg.cholesky(law.phi), h)
    told = jnp.sum(covariance.arms(rows.w, arms)[None] * prior, -1) + normals[:, arms] / jnp.sqrt(rows.weight)[None]
    moved = given.alpha - cho_solve((given.chol, True), (rows.mask[None] * told).T).T
    own = jnp.stack([(law.phi[j, rows.w][None] * given.k * rows.mask[None]) @ moved.T for j in range(arms)], -1)
    return given.means + prior + jnp.swapaxes(own, 0, 1)
