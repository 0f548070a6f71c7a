"""The paper's model, its parameters: which kernels and means, for how many covariates and sites; and the vector Θ.

Θ is a nested dict of arrays in the code and one float64 vector on the wire; `PaperModel.unravel` goes between them.

    kernel             k            shared by all sites
    mean               μ            shared by all sites
    source_kernel      γ            prior of g         over x̃
    source_mean        r            prior of g
    posterior_kernel   κ            posterior of g     over u = [ỹ(0), ỹ(1), x̃, w̃]
    posterior_mean     h            posterior of g
    phi, sigma         V_q, d_q, S_q, n_q
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.family import Family, Theta, names_of, unraveller
from fedci.model.paper import means, wishart
from fedci.model.rows import Vector
from fedci.study.options import ModelOptions

MOMENTS = 4
"""Mean, variance (or sd), skewness, excess kurtosis."""


class PaperModel(Family):
    """Kernels and means, and the vector Θ; what it does stands in `paper_family`."""

    options: ModelOptions

    @property
    def x_moments(self) -> slice:
        """Where x̃ stands in u = [ỹ(0), ỹ(1), x̃, w̃]."""
        return slice(2 * MOMENTS, (2 + self.described) * MOMENTS)

    @property
    def u_dim(self) -> int:
        return MOMENTS * (self.described + 3)

    @property
    def source_kernel(self) -> kernels.Kernel:
        return kernels.build(self.options.source_kernel)

    @property
    def posterior_kernel(self) -> kernels.Kernel:
        return kernels.build(self.options.posterior_kernel)

    @property
    def mean(self) -> means.Mean:
        return means.build(self.options.mean)

    @property
    def source_mean(self) -> means.Mean:
        return means.build(self.options.source_mean)

    @property
    def posterior_mean(self) -> means.Mean:
        return means.build(self.options.posterior_mean)

    def initial(self, seed: int) -> Theta:
        """Θ at the start; only networks draw on the seed."""
        rng = np.random.default_rng(np.random.SeedSequence((seed, 0)))
        theta: Theta = {"kernel": self.kernel.init(self.covariates),
                        "mean": self.mean.init(rng, self.covariates, self.sites),
                        "phi": wishart.init(self.options.phi),
                        "sigma": wishart.init(self.options.sigma)}
        return theta | (self._init_source_level(rng) if self.options.inter_dependency else {})

    def _init_source_level(self, rng: np.random.Generator) -> Theta:
        x_dim = MOMENTS * self.described
        return {"source_kernel": self.source_kernel.init(x_dim),
                "source_mean": self.source_mean.init(rng, x_dim, self.sites),
                "posterior_kernel": self.posterior_kernel.init(self.u_dim),
                "posterior_mean": self.posterior_mean.init(rng, self.u_dim, self.sites)}

    def first_vector(self, seed: int) -> Float[Array, "p"]:
        return ravel_pytree(self.initial(seed))[0]

    def unravel(self, vector: Vector) -> Theta:
        return _unraveller(self)(vector)

    @property
    def size(self) -> int:
        """p, the number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(_shapes(self)))

    def place(self, name: str) -> slice:
        """Where Θ's part `name` stands in the vector."""
        return _places(self)[name]

    def names(self) -> list[str]:
        return names_of(_shapes(self))


@lru_cache(maxsize=64)
def _shapes(model: PaperModel) -> Theta:
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape), model.initial(0))


@lru_cache(maxsize=64)
def _unraveller(model: PaperModel) -> Callable[[Any], Theta]:
    return unraveller(_shapes(model))


@lru_cache(maxsize=256)
def _places(model: PaperModel) -> dict[str, slice]:
    places, at = {}, 0
    for name, part in sorted(_shapes(model).items()):
        size = sum(leaf.size for leaf in jax.tree.leaves(part))
        places[name] = slice(at, at + size)
        at += size
    return places
