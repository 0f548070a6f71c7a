"""The model `shared`: a random function μ that all sites share, a function f^s of each site's own, and noise.

    y_i = z_iᵀβ̃ + f^s_{w_i}(x_i) + ε_i        β̃ ~ N(0, I)      f^s ~ GP(0, Φ ⊗ k)      ε ~ N(0, Σ)

It is the paper's section 3.4 (β_jᵀω(x), β Gaussian) with β integrated out, its f^s with Φ and k, its Σ; its g^s is the
constant of k. All other unknowns stand in one vector θ with independent priors, Gaussian but for a (Student's t: few
covariates may carry a direction), and q(θ) is Gaussian with a diagonal:

    directions, direction_scale, direction_common        A
    effect, alike                                        η and ρ₀: how much simpler than the outcome the effect is
    linear, common, hinges                               roots of β's prior
    pooled …, relevance …, steepness                     the pooled covariance of outcome and effect
    together                                             κ, of more than two arms: how alike their effects are
    phi, kernel                                          Φ^{1/2} in units of the noise; length-scale and scales of k
    noise                                                log sd of ε, and half of what it differs by between the arms
    baseline, dispersion                                 of times to an event and of counts, which have no noise

`priors` has their shapes, laws and reasons; `basis` what they mean for β.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.family import Family, Theta, names_of, unraveller
from fedci.model.rows import Vector
from fedci.model.shared import basis, priors
from fedci.study.options import SharedOptions

NOISE_FLOOR = 0.01
"""Of σ, in standard deviations of the outcome: where most outcomes are equal, a function that passes through all of
them would have infinite evidence."""


class SharedModel(Family):
    """θ, its prior and its place in one vector; what it does stands in `shared_family`."""

    options: SharedOptions

    @property
    def is_bounded(self) -> bool:
        """Whether rows tell of the function through a bound of their likelihood."""
        return self.outcome != "numeric"

    @property
    def layout(self) -> basis.Layout:
        """Of ω(x) and of β̃."""
        return _layout(self)

    @property
    def columns(self) -> int:
        """q."""
        return self.layout.size

    @property
    def size(self) -> int:
        """p, the length of θ."""
        return self.prior[0].size

    @property
    def prior(self) -> tuple[np.ndarray, np.ndarray]:
        """([p] means, [p] standard deviations) of θ's prior."""
        return _prior(self)

    @property
    def heavy_tailed(self) -> np.ndarray:
        """[p] which of θ have Student's t, with their sd as its scale."""
        return _heavy_tailed(self)

    @property
    def held(self) -> np.ndarray:
        """[p] which of θ the start sets and the fit leaves."""
        return _held(self)

    @property
    def starts(self) -> Theta:
        """`priors.starts`."""
        return _starts(self)

    @property
    def ridge(self) -> Theta:
        """`priors.ridge`."""
        return _ridge(self)

    def design(self, theta: Theta, x: Float[Array, "n d"], arms: Float[Array, "n A"]) -> Float[Array, "n q"]:
        """z of each person, `arms` picking (or weighing) the outcomes."""
        return self.layout.rows(theta, x, arms)

    def k(self, theta: Theta, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
        return kernels.cross(self.kernel, theta["kernel"], x, x)

    def roots(self, theta: Theta) -> tuple[Float[Array, "A A"], Float[Array, "A A"]]:
        """(Φ^{1/2}, Σ^{1/2})."""
        return own_root(theta, self.arms), noise_root(theta, self.arms)

    def unravel(self, vector: Vector) -> Theta:
        return _unraveller(self)(vector)

    def ravel(self, theta: Theta) -> np.ndarray:
        return _vector(theta)

    def names(self) -> list[str]:
        return names_of(_means(self))

    @property
    def noise_places(self) -> np.ndarray:
        """Where a vector θ holds the noise; nowhere, of an outcome that has none beside its likelihood."""
        return _places(self, "noise")

    @property
    def dispersion_places(self) -> np.ndarray:
        """Where it holds log r of a count; nowhere, of any other outcome."""
        return _places(self, "dispersion")


@lru_cache(maxsize=64)
def _layout(model: SharedModel) -> basis.Layout:
    return basis.layout_of(model.options, model.covariates, model.intervals, model.arms)


@lru_cache(maxsize=64)
def _means(model: SharedModel) -> Theta:
    return priors.means(model.options, model.covariates, model.outcome, model.arms)


@lru_cache(maxsize=64)
def _starts(model: SharedModel) -> Theta:
    return priors.starts(model.options, model.covariates, model.outcome, model.arms)


@lru_cache(maxsize=64)
def _ridge(model: SharedModel) -> Theta:
    return priors.ridge(model.options, model.covariates, model.outcome, model.arms)


def _vector(theta: Theta) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(theta)])


@lru_cache(maxsize=64)
def _prior(model: SharedModel) -> tuple[np.ndarray, np.ndarray]:
    return _vector(_means(model)), _vector(priors.sds(model.options, model.covariates, model.outcome, model.arms))


@lru_cache(maxsize=64)
def _heavy_tailed(model: SharedModel) -> np.ndarray:
    return _vector(priors.heavy(model.options, model.covariates, model.outcome, model.arms)) == 1.0


@lru_cache(maxsize=64)
def _held(model: SharedModel) -> np.ndarray:
    return _vector(priors.fixed(model.options, model.covariates, model.outcome, model.arms)) == 1.0


@lru_cache(maxsize=64)
def _unraveller(model: SharedModel) -> Callable[[Any], Theta]:
    return unraveller(_means(model))


@lru_cache(maxsize=64)
def _places(model: SharedModel, part_of: str) -> np.ndarray:
    marked = {name: jax.tree.map(lambda leaf, name=name: np.full(np.shape(leaf), name == part_of), part)
              for name, part in _means(model).items()}
    return np.flatnonzero(_vector(marked))


def own_root(theta: Theta, arms: int = 2) -> Float[Array, "A A"]:
    """Φ^{1/2}, in units of the noise: what rows are too few to learn looks like noise to the evidence, so the prior
    must say how much of it may be function. A site's own effect is simpler than its own outcome, by its own amount."""
    own, noise = theta["phi"], theta["noise"][0] if "noise" in theta else 0.0
    return basis.simpler(own[0] + noise, own[1], own[2] + theta["alike"], basis.together(theta, arms - 1))


def noise_sd(theta: Theta, arms: int = 2) -> Float[Array, "A"]:
    """σ_a = √(e^{2(n ∓ δ)} + floor²): the arms' noise is alike but for δ, and never vanishes. Without noise in θ (0/1)
    it is 1, and a row's weight all there is to its precision. Of more arms log σ_a = log σ_0 + 2δ_a, n their mean."""
    if "noise" not in theta:
        return jnp.ones(arms)
    if arms == 2:
        level, half = theta["noise"]
        logs = jnp.stack([level - half, level + half])
    else:
        away = 2.0 * jnp.concatenate([jnp.zeros(1), theta["noise"][1:]])
        logs = theta["noise"][0] + away - jnp.mean(away)
    return jnp.sqrt(jnp.exp(2.0 * logs) + NOISE_FLOOR**2)


def symmetric(upper: Float[np.ndarray, "h"]) -> Float[np.ndarray, "q q"]:
    """A matrix from its upper half, row by row: as statistics are told."""
    q = math.isqrt(2 * len(upper))
    half = np.zeros((q, q))
    half[np.triu_indices(q)] = upper
    return half + np.triu(half, 1).T


def noise_root(theta: Theta, arms: int = 2) -> Float[Array, "A A"]:
    """Σ^{1/2}; the correlation, which no data inform, is taken as 0 and varied afterwards."""
    return jnp.diag(noise_sd(theta, arms))
