"""Noise on the sums of a fit at home: how much a person is owed, and what the model makes of sums that have it.

The model is straight (a level and a slope for each covariate and arm), and a site's own function a level of each arm.
With f_i = (c·1, x_i, y_i) in the columns of i's arm, and f̄_i the same less what the site's own levels take of it,

    σ̂²G = Σ_i f̄_i f_iᵀ + E        E symmetric, Gaussian: sd τ off the diagonal, √2 τ on it
    ∂G/∂x_ik = e_k f̄_iᵀ + f̄_i e_kᵀ        information about x_ik: (‖f̄_i‖² + f̄_ik²)/τ²; about y_i the same

so, with covariates within ±3 and outcomes within ±4 sd, τ follows from the largest ‖f̄‖ that anybody can have, and not
from the data. Information adds over messages: 1/s² in all, and whoever knows all else learns a value to ± s sd at best
(Cramér-Rao). Bends are not told: columns that bend make ‖∂f‖ and ‖f̄‖ larger, and are nearly sums of the others, so
that the noise in what they add is many times as large (docs/model.md).

The fit knows τ. For coefficients β, v − Tβ has beside its sampling covariance σ²T that of e_v − E_T β:

    N = τ²(‖a‖²I + ββᵀ),   a = (β̂, −1),   S = T + N/σ²        T' = T S⁻¹ T,   v' = T S⁻¹ v        in place of T and v

after eigenvalues of T below the edge of the noise, 2τ√D, are dropped: what noise drowns stays at the prior.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model import kernels
from fedci.model.family import Draw, Theta
from fedci.model.programs import compiled
from fedci.model.rows import on_device
from fedci.model.shared import basis, dictionary
from fedci.model.shared.dictionary import Point, Products, Stage
from fedci.model.shared.shared import SharedModel, own_root
from fedci.study.policy import SECURE_SUM_SITES

CLIP_X, CLIP_Y = 3.0, 4.0
"""Model units beyond which covariates and outcomes are moved to it, at the site."""
AWAY = 1.0
"""How far the mean of a site's arm may lie from that of all people, in model units; farther, the site refuses."""
WIDE = 1.5
"""How many common units the sd of a site's column may be, clipped; more, the site refuses."""
LEAST = 50
"""People of an arm that a site must have, at the least (`arm_needed`)."""
LEVEL = 6.0
"""The most that a person's levels weigh in f̄."""
SHARES = {"means": 0.04, "squares": 0.04, "products": 0.88, "effects": 0.04}
"""Of the information that a study may tell of a value."""

BEARABLE, EXPLAINED = 1.1, 0.75


def noise_of(model: SharedModel) -> float:
    """τ, as it must be in whatever is seen: of a person at the corner of all clips, x or y."""
    length = LEVEL**2 + model.covariates * (CLIP_X + AWAY) ** 2 + (CLIP_Y + AWAY) ** 2
    most = length + max(CLIP_X, CLIP_Y) ** 2 + 2.0 * AWAY * CLIP_Y + AWAY**2
    return float(model.options.sum_noise * np.sqrt(most / SHARES["products"]))


def part_of_site(model: SharedModel) -> float:
    masked = model.options.noise_masked
    return part_of(model.sites, masked is True or (masked == "auto" and model.sites >= SECURE_SUM_SITES))


def part_of(sites: int, masked: bool) -> float:
    """Of the noise, that a site adds: in a masked sum enough of it is there even if one other site tells the
    coordinator its own."""
    return float(1.0 / np.sqrt(max(1, sites - 1))) if masked else 1.0


def in_total(model: SharedModel) -> float:
    """τ of the sum over sites."""
    return float(noise_of(model) * part_of_site(model) * np.sqrt(model.sites))


def people_needed(model: SharedModel) -> int:
    """Of all sites, so that noise makes errors at most 1.1 times as large: 1.1² ≥ 1 + 2τ²(1 + ‖β‖²)/(σ²n), of n/2
    people in an arm, where covariates explain EXPLAINED of the outcome (docs/model.md has what was measured)."""
    worst = (1.0 + EXPLAINED) / (1.0 - EXPLAINED)
    return int(np.ceil(2.0 * in_total(model) ** 2 * worst / (BEARABLE**2 - 1.0)))


def arm_needed(model: SharedModel) -> int:
    """People that a site must have in each arm: half of what its share of `people_needed` has. The more there are, the
    less a person weighs in what the site's own levels leave of the shared ones, and the better these are told."""
    return max(LEAST, people_needed(model) // (4 * model.sites))


# --- the columns


def scale_of(model: SharedModel, point: Point) -> Float[np.ndarray, "D"]:
    """By which the columns of F̃ are multiplied: lines to x, levels so that LEVEL is the most that is left of them."""
    return np.asarray(_scale(model, on_device(point.vector)))


@compiled(static="model")
def _scale(model: SharedModel, vector: Float[Array, "p"]) -> Float[Array, "D"]:
    """Of the levels' row (P + n)⁻¹P is left, P = σ²Φ⁻¹ and n ≥ `arm_needed`: at most σ²/(φn), φ the least
    eigenvalue of Φ."""
    theta, by = model.unravel(vector), dictionary.of(model, Stage.FIRST).layout.coefficients
    left = dictionary.noise_level(theta) / (arm_needed(model) * jnp.linalg.eigvalsh(own_variance(model, theta))[0])
    scale = jnp.ones(dictionary.of(model, Stage.FIRST).columns)
    return scale.at[by[basis.LINES]].set(np.sqrt(model.covariates)).at[by[basis.LEVELS]].set(LEVEL / left)


def own_variance(model: SharedModel, theta: Theta) -> Float[Array, "2 2"]:
    """Of a site's own two levels."""
    root = own_root(theta)
    return root @ root.T * kernels.diagonal(model.kernel, theta["kernel"], jnp.zeros((1, model.covariates)))[0]


def _noise(model: SharedModel, point: Point) -> float:
    """σ̂²."""
    return float(dictionary.noise_level(model.unravel(on_device(point.vector))))


# --- what a site adds


def on_products(model: SharedModel, point: Point, sums: dict[str, np.ndarray], draw: Draw) -> dict[str, np.ndarray]:
    """A site's products with its part of the noise."""
    c, width = np.append(scale_of(model, point), 1.0), sums["cross"].size
    drawn = draw((width + 1) ** 2).reshape(width + 1, width + 1)
    e = part_of_site(model) * noise_of(model) * (drawn + drawn.T) / np.sqrt(2.0)
    e = e / np.outer(c, c) / _noise(model, point)
    return sums | {"gram": sums["gram"] + e[:width, :width][np.triu_indices(width)],
                   "cross": sums["cross"] + e[:width, width], "square": sums["square"] + e[width, width]}


# --- what the model makes of it


def known(model: SharedModel, total: Products, point: Point, people: float) -> Products:
    """T', v', and c' = c − vᵀT⁺v + v'ᵀT'⁺v', in which the residuals' sum of squares is what it was."""
    tau, c, unit = in_total(model), scale_of(model, point), _noise(model, point)
    gram, cross = np.asarray(total.gram) * np.outer(c, c) * unit, np.asarray(total.cross) * c * unit
    gram = _apart(model, gram, tau)
    values, vectors = np.linalg.eigh(gram)
    kept = values > 2.0 * tau * np.sqrt(len(c))
    values, vectors = values[kept], vectors[:, kept]
    v = vectors.T @ cross
    beta = v / values
    rest = max(float(total.square) * unit - float(v @ beta), LEAST_REST * people)
    noise = tau**2 * ((beta @ beta + 1.0) * np.eye(len(v)) + np.outer(beta, beta)) / (rest / people)
    s = np.linalg.inv(np.diag(values) + noise)
    along = vectors * values
    return Products(on_device(along @ s @ along.T / np.outer(c, c) / unit), on_device(along @ s @ v / c / unit),
                    on_device((rest + v @ s @ v) / unit), total.log_det)


def _apart(model: SharedModel, gram: Float[np.ndarray, "D D"], tau: float) -> Float[np.ndarray, "D D"]:
    """Products of one arm's lines with the other's are there only by sites' own levels, as far as sites' means differ:
    times (1 − τ²d²/their squares)₊ (Stein), or their noise, times the other arm's slopes, would be as much as the
    arm's own."""
    d = model.covariates
    lines = dictionary.of(model, Stage.FIRST).layout.coefficients[basis.LINES]
    first, second = slice(lines.start, lines.start + d), slice(lines.start + d, lines.stop)
    across = gram[first, second]
    kept = max(0.0, 1.0 - (tau * d) ** 2 / max(float(np.sum(across**2)), 1e-300))
    shrunk = gram.copy()
    shrunk[first, second], shrunk[second, first] = kept * across, kept * across.T
    return shrunk


LEAST_REST = 1e-3
"""Of the outcome's variance, that is noise at the least."""
