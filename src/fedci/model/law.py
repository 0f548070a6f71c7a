"""What one draw from q says of a site before its rows are seen: the seam between the two models and the predictions.

    E[y(0), y(1)] = means(x)      Cov(f_a(x), f_b(x')) = Φ[a, b] k(x, x')      Cov(ε) = Σ

The model `paper` draws (Φ, Σ, g) and has μ and k fixed; the model `shared` draws θ and, for each θ, B values of β.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.paper import means
from fedci.model.paper.paper import Model
from fedci.model.paper.posterior import Roots
from fedci.model.shared.shared import SharedModel, noise_root, own_root

AnyModel = Model | SharedModel


class Draws(NamedTuple):
    """L draws of the model `paper`, as one site needs them."""

    roots: Roots
    g: Float[Array, "L 2"]


class SharedDraws(NamedTuple):
    """L draws of θ, and B of β̃ for each."""

    theta: Float[Array, "L p"]
    beta: Float[Array, "L B q"]


@dataclass(frozen=True)
class Law:
    """One draw, made of functions; lives inside traced code only."""

    phi: Float[Array, "2 2"]
    sigma: Float[Array, "2 2"]
    k: Callable
    """([n, d], [m, d]) → [n, m]."""
    own: Callable
    """[n, d] → k(x_i, x_i) [n]."""
    means: Callable
    """[n, d] → [B, n, 2]: B values of β̃ (one in the model `paper`) share all else."""


def of_draw(model: AnyModel, vector, draw: Draws | SharedDraws, index) -> Law:
    """The law of one draw (no leading axis) at the site with number `index`."""
    if isinstance(model, SharedModel):
        return _shared(model, draw)
    return _paper(model, vector, draw, index)


def _paper(model: Model, vector, draw: Draws, index) -> Law:
    theta, (phi, sigma) = model.unravel(vector), draw.roots
    return Law(phi @ phi.T, sigma @ sigma.T, *_kernel(model, theta),
               lambda x: ((means.over_rows(model.mean, theta["mean"], x, index) + draw.g[None]) @ phi.T)[None])


def _shared(model: SharedModel, draw: SharedDraws) -> Law:
    theta = model.unravel(draw.theta)
    phi, sigma = own_root(theta), noise_root(theta)

    def arm(x, j):
        z = model.layout.rows(theta, x, jnp.broadcast_to(jnp.eye(2)[j], (x.shape[0], 2)))
        return draw.beta @ z.T

    return Law(phi @ phi.T, sigma @ sigma.T, *_kernel(model, theta),
               lambda x: jnp.stack([arm(x, 0), arm(x, 1)], -1))


def _kernel(model: AnyModel, theta: dict) -> tuple[Callable, Callable]:
    return (lambda x, z: kernels.cross(model.kernel, theta["kernel"], x, z),
            lambda x: kernels.diagonal(model.kernel, theta["kernel"], x))


def draws_at(model: AnyModel, arrays: Mapping, index: int) -> Draws | SharedDraws:
    """The draws of a site, from the named arrays that all sites share."""
    if isinstance(model, SharedModel):
        return SharedDraws(jnp.asarray(arrays["thetas"]), jnp.asarray(arrays["betas"]))
    roots = Roots(jnp.asarray(arrays["phi_roots"]), jnp.asarray(arrays["sigma_roots"]))
    return Draws(roots, jnp.asarray(arrays["g"])[:, index])
