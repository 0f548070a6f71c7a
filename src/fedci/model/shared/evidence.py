"""The evidence of the model `shared`, from sums over sites; β is integrated out exactly.

A site, for given θ, with C = K_obs of its f^s and noise (Lemma 3) and Z its rows z_i:

    T_s = ZᵀC⁻¹Z      v_s = ZᵀC⁻¹y      c_s = yᵀC⁻¹y      l_s = log|C|                     sums over sites

The coordinator, with P = I + Σ T_s and v = Σ v_s:

    log p(y | θ) = −½ [ Σ c_s − vᵀP⁻¹v + Σ l_s + log|P| + n log 2π ]          β̃ | y, θ ~ N(P⁻¹v, P⁻¹)

    L = mean_l log p(y | θ_l) − KL(q(θ)‖p(θ)),      θ_l = mean + sd ∘ ε_l,      the same ε in every round

The gradient takes a second exchange: the coordinator sends ∂L/∂(T, v, c, l), each site pulls it back through its own
statistics to ∂/∂θ_l, and those are sums again. T travels as its upper half.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float, Int

from fedci.model.parallel import each, of_one, over_draws
from fedci.model.programs import compiled
from fedci.model.rows import BetaLaw, Rows, Scalar, Vector
from fedci.model.shared.shared import SharedModel


class Statistics(NamedTuple):
    """What a site sends for each of L draws of θ."""

    gram: Float[Array, "L h"]
    """T, its upper half row by row: h = q(q + 1)/2."""
    cross: Float[Array, "L q"]
    square: Float[Array, "L"]
    log_det: Float[Array, "L"]


def shapes(model: SharedModel, draws: int) -> dict[str, tuple[int, ...]]:
    """Of the statistics of so many draws."""
    q = model.columns
    return {"gram": (draws, q * (q + 1) // 2), "cross": (draws, q), "square": (draws,), "log_det": (draws,)}


def of_draw(model: SharedModel, vector: Float[Array, "p"], rows: Rows, jitter: Scalar, sums: Any) -> Statistics:
    """(T, v, c, l) of a site for one θ, without the leading axis; `sums`: over its rows, where it keeps them."""
    gram, cross, square, log_det = rows.statistics(model, vector, jitter, sums)
    return Statistics(gram[np.triu_indices(model.columns)], cross, square, log_det)


@compiled(static="model")
def _first_half(model: SharedModel, vectors: Float[Array, "L p"], rows: Rows, jitter: Scalar,
                local: Any) -> tuple[Statistics, Any]:
    def of_theta(parts: tuple[Array, Any]) -> tuple[Statistics, Any]:
        vector, seen = parts[0], rows.seen(parts[1])
        sums = seen.sums_over_rows(model, vector, jitter)
        return _priced(model, vector, rows, of_draw(model, vector, seen, jitter, sums), parts[1]), sums

    return each(of_theta, (vectors, local), rows.at_once(vectors.shape[0]))


@compiled(static="model")
def _second_half(model: SharedModel, vectors: Float[Array, "L p"], rows: Rows, jitter: Scalar,
                 cotangents: Statistics, sums: Any, local: Any) -> Float[Array, "L p"]:
    def of_theta(parts: tuple[Array, Statistics, Any, Any]) -> Float[Array, "p"]:
        vector, cotangent, own, near = parts
        seen = rows.seen(near)
        back = jax.vjp(lambda v, s: _priced(model, v, rows, of_draw(model, v, seen, jitter, s), near), vector, own)[1]
        direct, by_sums = back(cotangent)
        if not jax.tree.leaves(own):
            return direct
        return direct + jax.vjp(lambda v: seen.sums_over_rows(model, v, jitter), vector)[1](by_sums)[0]

    return each(of_theta, (vectors, cotangents, sums, local), rows.at_once(vectors.shape[0]))


def _priced(model: SharedModel, vector: Array, rows: Any, found: Statistics, local: Any) -> Statistics:
    """With what makes a bound of the likelihood out of the Gaussian in its place; of a Gaussian one nothing."""
    return found._replace(log_det=found.log_det + rows.price(model, vector, local)) if jax.tree.leaves(local) else found


def first_half(model: SharedModel, vectors: Vector, rows: Rows, jitter: Scalar,
               local: Any = ()) -> tuple[Statistics, Any]:
    """What a site answers to the first exchange of a round, and the sums over its rows that it keeps for the second.
    `local`: what a bound of the likelihood has of each row, for each draw (`rows.Rows.local`)."""
    one = vectors.shape[0] == 1 and model.options.posterior == "gaussian"  # where a fit starts
    found: tuple[Statistics, Any] = (of_one if one else over_draws)(
        lambda part: _first_half(model, part[0], rows, jitter, part[1]), (vectors, local), rows.is_small())
    return found


def second_half(model: SharedModel, vectors: Vector, rows: Rows, jitter: Scalar, cotangents: Statistics,
                sums: Any, local: Any = ()) -> Float[Array, "L p"]:
    """∂/∂θ_l of ⟨statistics, cotangents⟩ [L, p]: what a site answers to the second exchange."""
    every = vectors, cotangents, sums, local
    return over_draws(lambda part: _second_half(model, part[0], rows, jitter, *part[1:]), every, rows.is_small())


def statistics(model: SharedModel, vectors: Vector, rows: Rows, jitter: Scalar, local: Any = ()) -> Statistics:
    return first_half(model, vectors, rows, jitter, local)[0]


def pull_back(model: SharedModel, vectors: Vector, rows: Rows, jitter: Scalar,
              cotangents: Statistics, local: Any = ()) -> Float[Array, "L p"]:
    """Both halves, where nothing was kept."""
    kept = first_half(model, vectors, rows, jitter, local)[1]
    return second_half(model, vectors, rows, jitter, cotangents, kept, local)


class SharedDraws(NamedTuple):
    """L draws of θ, and B of β̃ for each."""

    theta: Float[Array, "L p"]
    beta: Float[Array, "L B q"]
    number: Int[Array, "L"] | None = None
    """Which of all draws each is: it sees a completed copy of its own (`model.completed`)."""


def posterior_of_draw(gram: Float[Array, "h"], cross: Float[Array, "q"]) -> tuple[Array, Array]:
    """(mean, root of P) for one draw."""
    q = cross.shape[0]
    upper = jnp.zeros((q, q)).at[np.triu_indices(q)].set(gram)
    chol = jnp.linalg.cholesky(jnp.eye(q) + upper + upper.T - jnp.diag(jnp.diag(upper)))
    return cho_solve((chol, True), cross), chol


@compiled()
def collapse(total: Statistics) -> BetaLaw:
    """β̃ | y, θ_l ~ N(P⁻¹v, P⁻¹) for each draw."""
    return BetaLaw(*each(lambda sums: posterior_of_draw(*sums), (total.gram, total.cross)))


def log_evidence_of_draw(total: Statistics, people: Scalar) -> Float[Array, ""]:
    """log p(y | θ) from one draw's sums."""
    mean, chol = posterior_of_draw(total.gram, total.cross)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diag(chol)))
    return -0.5 * (total.square - total.cross @ mean + total.log_det + log_det + people * math.log(2.0 * math.pi))


@compiled()
def log_evidence(total: Statistics, people: Scalar) -> tuple[Float[Array, "L"], Statistics]:
    """(log p(y | θ_l), its derivative in the sums) for each draw."""
    return each(lambda sums: jax.value_and_grad(log_evidence_of_draw)(sums, people), total)


# --- q(θ): a Gaussian with a diagonal, as one vector [means, log sds]

@lru_cache(maxsize=8)
def common_normals(seed: int, stream: int, draws: int, p: int) -> np.ndarray:
    """ε [draws, p]: antithetic pairs, each column scaled to mean square 1, so that few draws leave the sds unbiased."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, 5, stream)))
    half = rng.standard_normal((-(-draws // 2), p))
    both = np.concatenate([half, -half])[:draws]
    normals = both / np.sqrt(np.mean(both**2, 0))
    normals.setflags(write=False)
    return normals


def draw(q: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """θ_l = mean + sd ∘ ε_l [L, p]."""
    mean, log_sd = np.split(q, 2)
    return mean + np.exp(log_sd) * normals


def objective(model: SharedModel, q: np.ndarray, normals: np.ndarray, values: np.ndarray,
              by_theta: np.ndarray) -> tuple[float, np.ndarray]:
    """(L, ∂L/∂q) from each draw's log p(y | θ_l) and its gradient in θ_l."""
    _, log_sd = np.split(q, 2)
    value, by_mean, by_log_sd = _divergence(model, q)
    tails, by_tails = log_tails(model, draw(q, normals))
    by_theta = by_theta + by_tails
    gradient = by_theta.mean(0), (by_theta * normals).mean(0) * np.exp(log_sd)
    by_width = gradient[1] - by_log_sd if model.options.posterior == "gaussian" else np.zeros_like(log_sd)
    return float(values.mean() + tails.mean() - value), np.concatenate([gradient[0] - by_mean, by_width])


def _divergence(model: SharedModel, q: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The part of KL(q‖p) in closed form, and its gradient in (mean, log sd).

        Gaussian priors   Σ log(s_p/s_q) + (s_q² + (m_q − m_p)²)/(2 s_p²) − ½
        Student's t       Σ −log s_q − ½ log 2πe, the entropy; E_q[−log p] is a mean over draws, see `log_tails`
    """
    (mean, log_sd), (prior_mean, prior_sd), heavy = np.split(q, 2), model.prior, model.heavy_tailed
    away, ratio = (mean - prior_mean) / prior_sd, np.exp(2.0 * log_sd) / prior_sd**2
    gaussian = np.log(prior_sd) - log_sd + 0.5 * (ratio + away**2) - 0.5
    each, learnt = np.where(heavy, -log_sd - 0.5 * math.log(2.0 * math.pi * math.e), gaussian), ~model.held
    return (float(np.sum(each[learnt])), np.where(heavy, 0.0, away / prior_sd) * learnt,
            (np.where(heavy, 0.0, ratio) - 1.0) * learnt)


def log_tails(model: SharedModel, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([L] Σ log t_ν(θ_l), [L, p] its gradient) over the heavy-tailed part of θ.

        log t_ν(u) = log Γ((ν+1)/2) − log Γ(ν/2) − ½ log(νπ) − log s − ½(ν+1) log(1 + u²/ν),      u = (θ − m)/s
    """
    (mean, sd), heavy, dof = model.prior, model.heavy_tailed, model.options.tails
    if dof is None or not heavy.any():
        return np.zeros(len(thetas)), np.zeros_like(thetas)
    u = np.where(heavy, (thetas - mean) / sd, 0.0)
    level = math.lgamma(0.5 * (dof + 1.0)) - math.lgamma(0.5 * dof) - 0.5 * math.log(dof * math.pi)
    value = np.sum(level - np.log(sd[heavy])) - 0.5 * (dof + 1.0) * np.log1p(u**2 / dof).sum(1)
    return value, -(dof + 1.0) * u / (dof + u**2) / sd
