"""What the model says of each person from all *other* people, given a draw: in closed form, no fit is repeated.

All outcomes of the study are jointly Gaussian given a draw, with covariance K = C + ZZᵀ over all sites (C block by
block, the sites' own functions and noise; Z the rows of the shared function, none in the paper's model). Without person
i, and with S = K⁻¹ and r = S(y − m):

    own outcome          y_i | y_{−i} ~ N( y_i − r_i/S_ii, 1/S_ii )
    E[y_a(x_i) | y_{−i}] = m_a + q_aᵀr − (q_aᵀS)_i r_i/S_ii            q_a = Cov(f_a(x_i), y)

A site has its own block of S from P = I + ZᵀC⁻¹Z over all sites and β̂ = P⁻¹v, which the coordinator has:

    A = C⁻¹,  b_i = ZᵀA_{·i}       S = A − bᵀP⁻¹b       r = A(y − m) − bᵀβ̂
    q_aᵀr = z_aᵀβ̂ + Q_aᵀr          (q_aᵀS)_i = z_aᵀP⁻¹b_i + (Q_a S)_ii          Q_a: the site's own function alone
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model.family import Family
from fedci.model.programs import compiled
from fedci.model.rows import BetaLaw, Draws, LeftOut, Rows, Scalar, Vector

DRAWS = 8
"""Of the posterior draws, evenly spaced: enough for a mean over people."""


def no_beta(draws: int) -> BetaLaw:
    return BetaLaw(jnp.zeros((draws, 0)), jnp.zeros((draws, 0, 0)))


def chosen(draws: int) -> np.ndarray:
    """Which draws are used."""
    return np.arange(draws)[::max(draws // DRAWS, 1)][:DRAWS]


@compiled(static="model")
def left_out(model: Family, vector: Vector, rows: Rows, draws: Draws, beta: BetaLaw, jitter: Scalar) -> LeftOut:
    """In model units, in the order of the site's rows; what stands beyond them means nothing."""
    return rows.left_out(model, vector, draws, beta, jitter)


@compiled(static="model")
def noise_sd(model: Family, vector: Vector, draws: Draws) -> Float[Array, "L A"]:
    """√Σ_jj of each draw, in model units."""
    return jax.lax.map(lambda draw: jnp.sqrt(jnp.diag(model.law(vector, draw, jnp.asarray(0)).sigma)), draws)


def mean_noise_sd(model: Family, vector: Vector, draws: Draws, unit: float,
                  pair: tuple[int, int] = (0, 1)) -> tuple[float, float]:
    """(σ₀, σ₁) in the outcome's units, `unit` of them to one of the model's: roots of the draws' mean variances. Of
    more arms those of a pair."""
    sd = unit * np.sqrt(np.mean(np.asarray(noise_sd(model, vector, draws)) ** 2, axis=0))
    return float(sd[pair[0]]), float(sd[pair[1]])

