"""The model `shared`: a random function μ that all sites share, a function f^s of each site's own, and noise.

    y_i = z_iᵀβ̃ + f^s_{w_i}(x_i) + ε_i        β̃ ~ N(0, I)      f^s ~ GP(0, Φ ⊗ k)      ε ~ N(0, Σ)

It is the paper's section 3.4 (β_jᵀω(x), β Gaussian) with β integrated out, its f^s with Φ and k, its Σ; its g^s is the
constant of k. All other unknowns stand in one vector θ with independent priors, Gaussian but for a (Student's t: few
covariates may carry a direction), and q(θ) is Gaussian with a diagonal:

    directions [d, K], direction_scale [K], direction_common [K]         A
    linear, common [3], hinges [K, 3]                                    roots of β's prior, as (log sd, log sd, angle)
    phi [3], kernel {…}                                  Φ^{1/2} in units of the noise; length-scale and scales of k
    noise [2]                                                            log sd of ε in each arm
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.family import Family, Theta, names_of
from fedci.model.shared import basis


class SharedModel(Family):
    """θ, its prior and its place in one vector; what it does stands in `shared_family`."""

    @property
    def columns(self) -> int:
        """q."""
        options = self.options
        return basis.columns(self.covariates, options.directions, options.knots, options.common)

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

    def design(self, theta: Theta, x: Float[Array, "n d"], arms: Float[Array, "n 2"]) -> Float[Array, "n q"]:
        """z of each person, `arms` picking (or weighing) the two outcomes."""
        return basis.rows(theta, x, arms, self.options.knots)

    def k(self, theta: Theta, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
        return kernels.cross(self.kernel, theta["kernel"], x, x)

    def roots(self, theta: Theta) -> tuple[Float[Array, "2 2"], Float[Array, "2 2"]]:
        """(Φ^{1/2}, Σ^{1/2})."""
        return own_root(theta), noise_root(theta)

    def unravel(self, vector: Float[Array, "p"]) -> Theta:
        return _unraveller(self)(vector)

    def ravel(self, theta: Theta) -> np.ndarray:
        return np.asarray(ravel_pytree(theta)[0])

    def names(self) -> list[str]:
        return names_of(_priors(self))


@lru_cache(maxsize=64)
def _priors(model: SharedModel, part: int = 0) -> Theta:
    """θ filled with its prior means (part 0) or standard deviations (part 1)."""
    d, k = model.covariates, model.options.directions

    def matrix(mean: float, sd: float = 1.0, shape: tuple = ()) -> np.ndarray:
        return np.broadcast_to(((mean, mean, 0.0), (sd, sd, 0.7))[part], (*shape, 3)).copy()

    with jax.ensure_compile_time_eval():  # may be asked for first while something is traced
        kernel = jax.tree.map(np.asarray, model.kernel.init(d))
    bent = {"directions": np.full((d, k), (0.0, 1.0)[part]),
            "direction_scale": np.full(k, (0.0, 0.5)[part]), "hinges": matrix(-0.3, shape=(k,))}
    shared = {"direction_common": np.full(k, (0.0, 1.0)[part]), "common": matrix(-1.0)}
    return bent | (shared if model.options.common else {}) | {
        "linear": matrix(-1.0), "phi": matrix(-0.5, 0.5),
        "kernel": kernel if part == 0 else jax.tree.map(lambda leaf: np.full(leaf.shape, 0.6), kernel),
        "noise": np.full(2, (-1.5, 1.2)[part])}


@lru_cache(maxsize=64)
def _prior(model: SharedModel) -> tuple[np.ndarray, np.ndarray]:
    with jax.ensure_compile_time_eval():
        return tuple(np.asarray(ravel_pytree(_priors(model, part))[0]) for part in (0, 1))


@lru_cache(maxsize=64)
def _heavy_tailed(model: SharedModel) -> np.ndarray:
    return np.array([name.startswith("directions[") and model.options.tails is not None for name in model.names()])


@lru_cache(maxsize=64)
def _unraveller(model: SharedModel):
    with jax.ensure_compile_time_eval():
        return ravel_pytree(jax.tree.map(jnp.asarray, _priors(model)))[1]


def own_root(theta: Theta) -> Float[Array, "2 2"]:
    """Φ^{1/2}, in units of each arm's noise: what rows are too few to learn looks like noise to the evidence, so the
    prior must say how much of it may be function."""
    return basis.root(theta["phi"] + jnp.append(theta["noise"], 0.0))


def noise_root(theta: Theta) -> Float[Array, "2 2"]:
    """Σ^{1/2}; the correlation, which no data inform, is taken as 0 and varied afterwards."""
    return jnp.diag(jnp.exp(theta["noise"]))
