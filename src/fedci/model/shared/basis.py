"""The shared function μ_j(x) = β_jᵀω(x) of the model `shared`: its basis, and the prior of β.

    ω(x) = [ 1,  x/√d,  Σ_c x_c/√d,  ς(t_k − κ_1) … ς(t_k − κ_J)  for k = 1 … K ],      t = xA,   A of d × K
    ς(t) = s·softplus(t/s)                  a hinge, rounded over s = ¼
    A_ck = (1.5 τ_k a_ck + m_k)/√d          directions, with a common part m_k

β is Gaussian: block b of ω has a 2 × 2 root R_b, and β_j = Σ_i R_b[j, i] β̃_i with β̃ ~ N(0, I). So a person in arm w
has the row z = (R_b[w, i] ω_b(x))_{b, i} and mean zᵀβ̃; "the effect is simpler than the outcome" is a correlation.
Hinges are the simplest basis that bends: sums of them approximate any function of t, and are linear beyond the data.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

SMOOTH = 0.25
REACH = 1.5
"""Knots stand evenly on ±REACH, in units of t, whose spread the data choose."""
DIRECTION_SD = 1.5
LEVEL_SD = 3.0
"""Prior sd of the two levels, in standard deviations of the outcome: wide."""


def knots(count: int) -> np.ndarray:
    return np.linspace(-REACH, REACH, count) if count > 1 else np.zeros(1)


def columns(d: int, directions: int, count: int, common: bool) -> int:
    """q, the length of β̃."""
    return 2 * (1 + d + common + directions * count)


def root(values: Float[Array, "3"]) -> Float[Array, "2 2"]:
    """(log sd of arm 0, log sd of arm 1, angle) → lower root; the correlation is the angle's sine."""
    sd, angle = jnp.exp(values[:2]), values[2]
    return jnp.array([[sd[0], 0.0], [sd[1] * jnp.sin(angle), sd[1] * jnp.cos(angle)]])


def directions(theta: dict) -> Float[Array, "d K"]:
    """A."""
    a = theta["directions"]
    return (DIRECTION_SD * jnp.exp(theta["direction_scale"]) * a + theta.get("direction_common", 0.0)
            ) / math.sqrt(a.shape[0])


def blocks(theta: dict, x: Float[Array, "n d"], count: int) -> list[tuple[Float[Array, "2 2"], Float[Array, "n b"]]]:
    """(R_b, ω_b(x)) for each block."""
    d = x.shape[1]
    t = x @ directions(theta)
    found = [(LEVEL_SD * jnp.eye(2), jnp.ones((x.shape[0], 1))),
             (root(theta["linear"]), x / math.sqrt(d))]
    if "common" in theta:
        found.append((root(theta["common"]), jnp.sum(x, 1, keepdims=True) / math.sqrt(d)))
    at = knots(count)
    return found + [(root(theta["hinges"][k]), hinge(t[:, k:k + 1] - at) / math.sqrt(count))
                    for k in range(t.shape[1])]


def hinge(t):
    return SMOOTH * jax.nn.softplus(t / SMOOTH)


def rows(theta: dict, x: Float[Array, "n d"], arms: Float[Array, "n 2"], count: int) -> Float[Array, "n q"]:
    """z of each person, `arms` picking (or weighing) the two outcomes: [1 − w, w] observed, [−1, 1] the effect."""
    return jnp.concatenate([(arms @ r)[:, i:i + 1] * omega for r, omega in blocks(theta, x, count) for i in (0, 1)], 1)
