"""What drives the outcome and the effect in the model `shared`: how much of each its parts carry.

For people x ~ N(0, I) on the model's scale, and each draw of (θ, β̃), the parts of a function h(x) = Σ_b h_b(x) are

    of the blocks     each with the name that its block gives it (`basis.Part`): lines, direction 1 … K
    sites' own        f^s: E[f(x)²] under its own law

and a part's share is Var_x h_b(x) / Σ_b Var_x h_b(x), averaged over the draws: of the outcome, h = (μ₀ + μ₁)/2, and of
the effect, h = μ₁ − μ₀. Parts may move together, so that shares describe and do not decompose.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.family import Theta
from fedci.model.parallel import each
from fedci.model.programs import compiled
from fedci.model.rows import on_device
from fedci.model.shared.basis import Part
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared import SharedModel, own_root

PEOPLE = 512
Pair = tuple[int, int]


def weighings(arms: int, pair: Pair | None = None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """How outcome and effect weigh the arms: of (against, arm); without a pair, of more than two, what the other arms
    do on average."""
    if pair is None:
        more = arms - 1
        return (0.5, *[0.5 / more] * more), (-1.0, *[1.0 / more] * more)
    at = [(pair.count(arm), (arm == pair[1]) - (arm == pair[0])) for arm in range(arms)]
    return tuple(0.5 * here for here, _ in at), tuple(float(sign) for _, sign in at)


OWN = Part("sites' own", "the sites' own functions")


class Drivers(NamedTuple):
    """Averages over the draws, by part."""

    shares: Float[Array, "2 P"]
    """Of (outcome, effect)."""
    weights: Float[Array, "d P"]
    """The direction a part bends along, or its relevances, scaled to length 1; 0 for a part that has none."""


def parts_of(model: SharedModel) -> list[Part]:
    """Those of the blocks in their order, then the sites' own functions."""
    return [*{block.part.name: block.part for block in model.layout.blocks if block.part is not None}.values(), OWN]


def drivers(model: SharedModel, draws: SharedDraws, pair: Pair | None = None) -> Drivers:
    x = on_device(np.random.default_rng(0).standard_normal((PEOPLE, model.covariates)))
    return Drivers(*(np.asarray(values).mean(0) for values in _by_draw(model, draws, x, pair)))


@compiled(static=("model", "pair"))
def _by_draw(model: SharedModel, draws: SharedDraws, x: Float[Array, "n d"], pair: Pair | None) -> Drivers:
    """One program: step by step they would be two hundred. One draw after the other: batches of factorisations may wait
    for each other (`model.parallel`)."""
    return each(lambda draw: _of_theta(model, draw.theta, draw.beta, x, pair), draws)


def _of_theta(model: SharedModel, vector: Float[Array, "p"], beta: Float[Array, "B q"],
              x: Float[Array, "n d"], pair: Pair | None) -> Drivers:
    theta = model.unravel(vector)
    omega = model.layout.omega(theta, x)
    shares = jnp.stack([_shares(model, theta, beta, x, omega, jnp.array(arms))
                        for arms in weighings(model.arms, pair)])
    return Drivers(shares, _weights(model, theta))


def _weights(model: SharedModel, theta: Theta) -> Float[Array, "d P"]:
    nowhere = jnp.zeros(model.covariates)
    weights = jnp.stack([nowhere if part.weights is None else part.weights(theta) for part in parts_of(model)], 1)
    return weights / jnp.maximum(jnp.linalg.norm(weights, axis=0), 1e-12)[None]


def _shares(model: SharedModel, theta: Theta, beta: Float[Array, "B q"], x: Float[Array, "n d"],
            omega: list[Array], arms: Float[Array, "A"]) -> Float[Array, "P"]:
    z = model.layout.weighed(theta, omega, jnp.broadcast_to(arms, (x.shape[0], model.arms)))
    columns = [_columns(model, part) for part in parts_of(model) if part is not OWN]
    shared = [jnp.mean(jnp.var(z[:, at] @ beta[:, at].T, axis=0)) for at in columns]
    root = own_root(theta, model.arms)
    own = arms @ (root @ root.T) @ arms * jnp.mean(kernels.diagonal(model.kernel, theta["kernel"], x))
    parts = jnp.stack([*shared, own])
    return parts / parts.sum()


def _columns(model: SharedModel, part: Part) -> np.ndarray:
    """The part's entries of z and β̃."""
    layout = model.layout
    blocks = [layout.coefficients[block.name] for block in layout.blocks if block.part and block.part.name == part.name]
    return np.concatenate([np.arange(place.start, place.stop) for place in blocks])
