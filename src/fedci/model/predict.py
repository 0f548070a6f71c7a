"""Effects at new x given Θ and draws: the conditional mean and variance per draw. All of it stays at the site.

How rows are conditioned on is theirs to know (`model.rows`). The variance over draws is added by the law of total
variance (`effect`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model.family import Family
from fedci.model.programs import compiled
from fedci.model.rows import Arms, Draws, Known, Moments, Scalar, Vector, merged


@compiled(static="model")
def cate_at(model: Family, vector: Vector, known: Known, draws: Draws, x: Float[Array, "*K p d"],
            jitter: Scalar) -> Moments:
    """τ(x) for each draw and new person; also used without rows (padding only): then it is the prior's."""
    mean, var = known.effects_at(model, vector, draws, x, jitter)
    return merged(Moments(mean, var + model.unasked(draws, x)))


@compiled(static="model")
def outcomes_at(model: Family, vector: Vector, known: Known, draws: Draws, x: Float[Array, "*K p d"],
                jitter: Scalar) -> Arms:
    """E y of each arm for each draw: means [L, p, A], covariances [L, p, A, A]."""
    return merged(known.outcomes_at(model, vector, draws, x, jitter))


@compiled(static=("model", "pair"))
def noise_variance(model: Family, vector: Vector, draws: Draws, pair: tuple[int, int] = (0, 1)) -> Float[Array, "L"]:
    """Var(ε(1) − ε(0)) for each draw; of more arms of a pair."""
    def of_draw(draw: Draws) -> Float[Array, "B"]:
        law = model.law(vector, draw, jnp.asarray(0))
        sigma = law.sigma if model.arms == 2 else law.sigma[np.ix_(pair, pair)]
        var = model.likelihood.effect_noise(sigma)
        return jnp.broadcast_to(var, law.means(jnp.zeros((1, model.covariates))).shape[:1])

    return merged(jax.lax.map(of_draw, draws))
