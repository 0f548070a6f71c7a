"""What drives the outcome and the effect in the model `shared`: how much of each its parts carry.

For people x ~ N(0, I) on the model's scale, and each draw of (θ, β̃), the parts of a function h(x) = Σ_b h_b(x) are

    lines             β of x and of its common slope
    direction k       the hinges along t_k
    own functions     f^s: E[f(x)²] under its own law

and a part's share is Var_x h_b(x) / Σ_b Var_x h_b(x), averaged over the draws: of the outcome, h = (μ₀ + μ₁)/2, and of
the effect, h = μ₁ − μ₀. Parts may move together, so that shares describe and do not decompose.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.shared import basis
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared import SharedModel, own_root

PEOPLE = 512
ARMS = {"outcome": (0.5, 0.5), "effect": (-1.0, 1.0)}


class Drivers(NamedTuple):
    """Averages over the draws."""

    shares: Float[Array, "2 K+2"]
    """Of (outcome, effect): lines, direction 1 … K, own functions."""
    weights: Float[Array, "d K"]
    """A, each direction scaled to length 1."""


def drivers(model: SharedModel, draws: SharedDraws) -> Drivers:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((PEOPLE, model.covariates)))
    found = jax.vmap(lambda theta, beta: _of_theta(model, theta, beta, x))(draws.theta, draws.beta)
    return Drivers(*(np.asarray(part).mean(0) for part in found))


def _of_theta(model: SharedModel, vector: Float[Array, "p"], beta: Float[Array, "B q"], x) -> Drivers:
    theta = model.unravel(vector)
    weights = basis.directions(theta)
    weights = weights / jnp.maximum(jnp.linalg.norm(weights, axis=0), 1e-12)
    shares = jnp.stack([_shares(model, theta, beta, x, jnp.array(arms)) for arms in ARMS.values()])
    return Drivers(shares, weights)


def _shares(model: SharedModel, theta: dict, beta: Float[Array, "B q"], x, arms: Float[Array, "2"]):
    z = basis.rows(theta, x, jnp.broadcast_to(arms, (x.shape[0], 2)), model.options.knots)
    along = 2 * model.options.knots
    hinges = z.shape[1] - along * model.options.directions
    ends = [(2, hinges)] + [(hinges + k * along, hinges + (k + 1) * along) for k in range(model.options.directions)]
    shared = [jnp.mean(jnp.var(z[:, a:b] @ beta[:, a:b].T, axis=0)) for a, b in ends]
    root = own_root(theta)
    own = arms @ (root @ root.T) @ arms * jnp.mean(kernels.diagonal(model.kernel, theta["kernel"], x))
    parts = jnp.stack([*shared, own])
    return parts / parts.sum()
