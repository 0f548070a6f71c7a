"""How an outcome lies about the function behind it, as every sum sees it: a Gaussian with *a precision per row*.

    y_i = η_i + ε_i + e_i      Cov(ε_i(0), ε_i(1)) = Σ/weight_i      Var e_i = added/weight_i      C = K_own + diag(1/ω)
    ω_i = weight_i / (Σ[w_i, w_i] + added)

`weight` stands with the rows; a Gaussian outcome has ones, one known better or worse than others has its own. So does
`added`, the known variance of the noise e_i that a site adds to its people's outcomes (`site.outcome_noise`): a
person's own, whatever the arm, so Σ + added 𝟙𝟙ᵀ takes Σ's place and a person's effect y_i(1) − y_i(0) is free of it.
Evidence, large sites, predictions and leaving one out know the outcome through ω_i and y_i alone, so a likelihood that
a Gaussian bounds from below (ω_i of its own, y_i a pseudo-outcome) comes in here.

Of an outcome of 0 and 1, η the log odds, with a number ξ_i of each person that stays at the site (Jaakkola and Jordan):

    log σ(±η) ≥ κη − ½ω(ξ)η² + log σ(ξ) − ½ξ + ½ω(ξ)ξ²       κ = y − ½       ω(ξ) = tanh(ξ/2)/(2ξ)       η̃ = κ/ω

It touches at η = ±ξ, and is highest on average at ξ² = E η². Where a site flips outcomes with probability p
(`site.outcome_noise`), y is not known: with r = P(y = 1) it is the mean over y, plus the entropy of r, and κ = r − ½:

    log p(ỹ | η) ≥ r log σ(η) + (1 − r) log σ(−η) + Σ_y r_y log(p(ỹ | y)/r_y)      log odds of r = E η ± log((1 − p)/p)

The bound has one maximum in θ for all people and an exact gradient, so a fit rests on it; but ω(ξ) is more than the
likelihood's own curvature, and what it leaves uncertain is too little (by 5 to 30 %). With θ given, effects rest on the
Gaussian that is nearest to the posterior (least KL divergence), which has, with ℓ = log p(ỹ | η),

    ω = −E ℓ″(η)       η̃ = E η + E ℓ′(η)/ω          expectations over the person's own law of η

A row may count for a share s of one (a person who was followed for a part of an interval): s ℓ in ℓ's place, sω in ω's.

Of a count, η the log of the rate, with exposure e^o and μ = e^{o + η}, negative binomial of size r, which stands in θ:

    ℓ(η) = log Γ(y + r)/(Γ(r) y!) + y log σ(ψ) + r log σ(−ψ)        ψ = o + η − log r        Var y = μ + μ²/r

Its bound by Pólya-Gamma variables would be (y + r)ω(ξ), far more than ℓ's own curvature where r is large. So a fit
rests on the nearest Gaussian too: with q(η) held, E_q ℓ − KL(q‖p(η | θ)) is a bound of the evidence, and its
derivative in θ is that of the Gaussian evidence of (ω, η̃), plus E_q ∂ℓ/∂r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array, Float
from scipy.special import expit, ndtr

NODES = 32
LEAST = 1e-4
"""The least ω: an outcome that is all but surely a flip tells next to nothing, and never less."""
SURE = 1e-300
"""The least p: with none at all r is y to the last digit."""


@runtime_checkable
class Likelihood(Protocol):
    def arm_precision(self, log_sd: Float[Array, "A"], added: Array | float = 0.0) -> Float[Array, "A"]: ...

    def effect_noise(self, sigma: Float[Array, "A A"]) -> Float[Array, ""]: ...

    def place(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Gaussian:
    """y | η ~ N(η, (σ² + added)/weight), σ² of the arm."""

    def arm_precision(self, log_sd: Float[Array, "A"], added: Array | float = 0.0) -> Float[Array, "A"]:
        """1/(σ_a² + added), the precision of a row of weight 1 in each arm."""
        return 1.0 / (jnp.exp(2.0 * log_sd) + added)

    def effect_noise(self, sigma: Float[Array, "A A"]) -> Float[Array, ""]:
        """Var(ε(1) − ε(0)) of a person of weight 1: what a realised effect has beyond the expected one."""
        return sigma[0, 0] + sigma[1, 1] - 2.0 * sigma[0, 1]

    def place(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """P(Y ≤ y) where Y ~ N(mean, var), noise and all: uniform over people where the model is right."""
        return ndtr((y - mean) / np.sqrt(var))


class Told(NamedTuple):
    """What rows tell of η."""

    y: Float[Array, "*k"]
    flips: Float[Array, ""] | float
    """p, with which outcomes of 0 and 1 were flipped."""
    more: Float[Array, "*k"] | float
    """Of 0 and 1 the share s for which a row counts, of a count o, the log of its exposure."""


class Touching(NamedTuple):
    """Where a bound touches, row by row; it stays at the site."""

    xi: Float[Array, "*k n"]
    chance: Float[Array, "*k n"]
    """r, that the outcome without flips is 1."""


class Bounded(NamedTuple):
    """Rows as a Gaussian in place of their likelihood sees them, a bound or the nearest; of one θ."""

    weight: Float[Array, "*k n"]
    """ω."""
    y: Float[Array, "*k n"]
    """η̃, the pseudo-outcome."""
    price: Float[Array, "*k"]
    """What is added to log|C|, so that N(η̃; η, 1/ω) becomes the bound: a sum over people."""


class Held(NamedTuple):
    """The nearest Gaussian of a likelihood with a part in θ, and the law of η that is held for it."""

    weight: Float[Array, "*k n"]
    y: Float[Array, "*k n"]
    mean: Float[Array, "*k n"]
    var: Float[Array, "*k n"]


@runtime_checkable
class Latent(Likelihood, Protocol):
    """Of a function η that outcomes tell of through a Gaussian in their likelihood's place."""

    def expected(self, eta: Array) -> Array:
        """E[y | η] of a row that counts whole, with exposure 1: a risk, or a rate."""
        ...

    def begin(self, told: Told, mean: Array, var: Array) -> tuple[Array, Array]:
        """(E η, Var η) from which the Gaussian is looked for, given those of the prior."""
        ...

    def own(self, told: Told, theta: Any, mask: Array, mean: Array, var: Array) -> Bounded:
        """The Gaussian that a fit rests on, from E η and Var η."""
        ...

    def nearest(self, told: Told, theta: Any, mask: Array, mean: Array, var: Array) -> Bounded:
        """The one that effects rest on."""
        ...

    def kept(self, own: Bounded, mean: Array, var: Array) -> Bounded | Held:
        """What a fit keeps of it while θ moves."""
        ...

    def price(self, told: Told, theta: Any, mask: Array, kept: Any) -> Array:
        """`Bounded.price` at θ."""
        ...


@dataclass(frozen=True)
class Binary:
    """P(y = 1 | η) = σ(η); there is no noise beside it."""

    def arm_precision(self, log_sd: Float[Array, "A"], added: Array | float = 0.0) -> Float[Array, "A"]:
        """1: ω is the row's own."""
        return jnp.ones(log_sd.shape[0])

    def effect_noise(self, sigma: Float[Array, "A A"]) -> Float[Array, ""]:
        return jnp.zeros(())

    def place(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Of two values there are no places between."""
        raise AssertionError("an outcome of 0 and 1 has no place among its predictions")

    def risk(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """E σ(η) of η ~ N(mean, var), by Gauss and Hermite: to 1e-6 where the sd is below 4."""
        at, weight = np.polynomial.hermite_e.hermegauss(NODES)
        return expit(mean[..., None] + np.sqrt(var)[..., None] * at) @ weight / np.sqrt(2.0 * np.pi)

    def touching(self, y: Float[Array, "*n"], flips: Array | float, mean: Float[Array, "*n"],
                 square: Float[Array, "*n"]) -> Touching:
        """From E η and E η² of each row; `flips`: p."""
        p = jnp.maximum(flips, SURE)
        return Touching(jnp.sqrt(square), jax.nn.sigmoid(mean + (2.0 * y - 1.0) * (jnp.log1p(-p) - jnp.log(p))))

    def expected(self, eta: Array) -> Array:
        return jax.nn.sigmoid(eta)

    def begin(self, told: Told, mean: Array, var: Array) -> tuple[Array, Array]:
        return mean, var

    def own(self, told: Told, theta: Any, mask: Array, mean: Array, var: Array) -> Bounded:
        return self.bounded(told.y, told.flips, mask, self.touching(told.y, told.flips, mean, mean**2 + var), told.more)

    def nearest(self, told: Told, theta: Any, mask: Array, mean: Array, var: Array) -> Bounded:
        return self.matched(told.y, told.flips, mask, mean, var, told.more)

    def kept(self, own: Bounded, mean: Array, var: Array) -> Bounded | Held:
        return own

    def price(self, told: Told, theta: Any, mask: Array, kept: Any) -> Array:
        return kept.price

    def matched(self, y: Float[Array, "*n"], flips: Array | float, mask: Float[Array, "*n"], mean: Float[Array, "*n"],
                var: Float[Array, "*n"], share: Array | float = 1.0) -> Bounded:
        """Of the nearest Gaussian, from E η and Var η; it is no bound, and has no price."""
        sign, (eta, weight) = (2.0 * y - 1.0)[..., None], _nodes(mean, var)
        sure = jax.nn.sigmoid(sign * eta)
        slope, told = (1.0 - 2.0 * flips) * sure * (1.0 - sure), flips + (1.0 - 2.0 * flips) * sure
        first = sign * slope / told
        second = slope * (1.0 - 2.0 * sure) / told - first**2
        omega = jnp.maximum(-second @ weight, LEAST)
        return Bounded(share * omega, mask * (mean + first @ weight / omega), jnp.zeros(()))

    def bounded(self, y: Float[Array, "*n"], flips: Array | float, mask: Float[Array, "*n"], at: Touching,
                share: Array | float = 1.0) -> Bounded:
        p, omega, kappa = jnp.maximum(flips, SURE), precision(at.xi), at.chance - 0.5
        right = jnp.where(y == 1, at.chance, 1.0 - at.chance)
        known = (right * jnp.log1p(-p) + (1.0 - right) * jnp.log(p)
                 - xlogy(right, right) - xlogy(1.0 - right, 1.0 - right))
        bound = share * (jax.nn.log_sigmoid(at.xi) - 0.5 * at.xi + 0.5 * omega * at.xi**2 + known)
        gaussian = -0.5 * share * kappa**2 / omega + 0.5 * jnp.log(share * omega) - 0.5 * math.log(2.0 * math.pi)
        return Bounded(share * omega, mask * kappa / omega, -2.0 * jnp.sum(mask * (bound - gaussian)))


@dataclass(frozen=True)
class Count:
    """y | η negative binomial of mean e^{o + η} and size r = e^θ."""

    def arm_precision(self, log_sd: Float[Array, "A"], added: Array | float = 0.0) -> Float[Array, "A"]:
        """1: ω is the row's own."""
        return jnp.ones(log_sd.shape[0])

    def effect_noise(self, sigma: Float[Array, "A A"]) -> Float[Array, ""]:
        return jnp.zeros(())

    def place(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Few values have no places between."""
        raise AssertionError("a count has no place among its predictions")

    def risk(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """E e^η of η ~ N(mean, var): a rate."""
        return np.exp(mean + 0.5 * var)

    def expected(self, eta: Array) -> Array:
        return jnp.exp(eta)

    def begin(self, told: Told, mean: Array, var: Array) -> tuple[Array, Array]:
        """As if each count were its own mean: the prior is too wide for e^η."""
        return jnp.log(told.y + 0.5) - told.more, jnp.zeros_like(mean)

    def own(self, told: Told, theta: Any, mask: Array, mean: Array, var: Array) -> Bounded:
        return self.nearest(told, theta, mask, mean, var)

    def nearest(self, told: Told, theta: Any, mask: Array, mean: Array, var: Array) -> Bounded:
        size = jnp.exp(theta["dispersion"])
        eta, weight = _nodes(mean, var)
        over = jax.nn.sigmoid(eta + jnp.asarray(told.more)[..., None] - theta["dispersion"])
        first = told.y - (told.y + size) * (over @ weight)
        omega = jnp.maximum((told.y + size) * ((over * (1.0 - over)) @ weight), LEAST)
        return Bounded(omega, mask * (mean + first / omega), jnp.zeros(()))

    def kept(self, own: Bounded, mean: Array, var: Array) -> Bounded | Held:
        return Held(own.weight, own.y, mean, var)

    def price(self, told: Told, theta: Any, mask: Array, kept: Any) -> Array:
        """−2 Σ (E_q ℓ − E_q log N(η̃; η, 1/ω)) with q held."""
        log_size = theta["dispersion"]
        size, (eta, weight) = jnp.exp(log_size), _nodes(kept.mean, kept.var)
        psi = eta + jnp.asarray(told.more)[..., None] - log_size
        level = gammaln(told.y + size) - gammaln(size) - gammaln(told.y + 1.0)
        above, below = (jax.nn.log_sigmoid(sign * psi) @ weight for sign in (1.0, -1.0))
        log_likelihood = level + told.y * above + size * below
        away = (kept.y - kept.mean) ** 2 + kept.var
        gaussian = -0.5 * kept.weight * away + 0.5 * jnp.log(kept.weight) - 0.5 * math.log(2.0 * math.pi)
        return -2.0 * jnp.sum(mask * (log_likelihood - gaussian))


def _nodes(mean: Array, var: Array) -> tuple[Array, Array]:
    """(η [*k, NODES], weights that sum to 1) of Gauss and Hermite."""
    at, weight = np.polynomial.hermite_e.hermegauss(NODES)
    away = jnp.tensordot(jnp.sqrt(jnp.maximum(var, 0.0)), jnp.asarray(at), axes=0)
    return mean[..., None] + away, jnp.asarray(weight / weight.sum())


def precision(xi: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """ω(ξ), by its series near 0."""
    near = jnp.abs(xi) < 1e-3
    safe = jnp.where(near, 1.0, xi)
    return jnp.where(near, 0.25 - xi**2 / 48.0, jnp.tanh(0.5 * safe) / (2.0 * safe))


GAUSSIAN, BINARY, COUNT = Gaussian(), Binary(), Count()
LIKELIHOODS: dict[str, Likelihood] = {"numeric": GAUSSIAN, "binary": BINARY, "survival": BINARY, "count": COUNT}
"""By the type of the study's outcome; of a time to an event, of its rows of an interval each."""
