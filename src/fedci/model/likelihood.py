"""How an outcome lies about the function behind it, as every sum sees it: a Gaussian with *a precision per row*.

    y_i = η_i + ε_i + e_i      Cov(ε_i(0), ε_i(1)) = Σ/weight_i      Var e_i = added/weight_i      C = K_own + diag(1/ω)
    ω_i = weight_i / (Σ[w_i, w_i] + added)

`weight` stands with the rows; a Gaussian outcome has ones, one known better or worse than others has its own. So does
`added`, the known variance of the noise e_i that a site adds to its people's outcomes (`site.outcome_noise`): a
person's own, whatever the arm, so Σ + added 𝟙𝟙ᵀ takes Σ's place and a person's effect y_i(1) − y_i(0) is free of it.
Evidence, large sites, predictions and leaving one out know the outcome through ω_i and y_i alone, so a likelihood that
a Gaussian bounds from below (ω_i of its own, y_i a pseudo-outcome) comes in here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr


@runtime_checkable
class Likelihood(Protocol):
    def arm_precision(self, log_sd: Float[Array, "2"], added: Array | float = 0.0) -> Float[Array, "2"]: ...

    def effect_noise(self, sigma: Float[Array, "2 2"]) -> Float[Array, ""]: ...

    def place(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Gaussian:
    """y | η ~ N(η, (σ² + added)/weight), σ² of the arm."""

    def arm_precision(self, log_sd: Float[Array, "2"], added: Array | float = 0.0) -> Float[Array, "2"]:
        """1/(σ_a² + added), the precision of a row of weight 1 in each arm."""
        return 1.0 / (jnp.exp(2.0 * log_sd) + added)

    def effect_noise(self, sigma: Float[Array, "2 2"]) -> Float[Array, ""]:
        """Var(ε(1) − ε(0)) of a person of weight 1: what a realised effect has beyond the expected one."""
        return sigma[0, 0] + sigma[1, 1] - 2.0 * sigma[0, 1]

    def place(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """P(Y ≤ y) where Y ~ N(mean, var), noise and all: uniform over people where the model is right."""
        return ndtr((y - mean) / np.sqrt(var))


GAUSSIAN = Gaussian()
