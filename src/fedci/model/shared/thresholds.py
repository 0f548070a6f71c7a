"""Where the outcome without treatment, and the effect, change abruptly along one covariate, and how sure that is.

For each draw of (θ, β̃) and each covariate c, the curve is the average over the others

    m_c(t) = mean_i h(x_i with x_ic = t),      h = μ₀ or μ₁ − μ₀,      x_i evenly spread like N(0, I): people of nobody

on the model's scale. At t there is a threshold where all of these hold:

    steep      over t ± 3/8 the curve changes by J, more than 1.75 times as fast as on either side: its range over the
               3/2 below that window, and over the 3/2 above, divided by their width
    large      |J| > 0.15 sd of the outcome
    one way    J has the sign that it has on average over the draws

Lines and bends change about as fast beside the window as in it. The probability is the share of draws in which they
hold. Place and size are those of the one step with the ends and the area of the curve over t ± 3/4, draw by draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.model.parallel import each
from fedci.model.programs import compiled
from fedci.model.shared import pooled
from fedci.model.shared.basis import Paths
from fedci.model.shared.drivers import Pair, weighings
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared import SharedModel

OF = ("outcome", "effect")
PEOPLE = 32
STEP = 0.125
GRID = np.linspace(-2.0, 2.0, 33)
"""In standard deviations of the covariate."""
PLACES = range(8, 25)
"""Where a threshold may be, ±1: beyond, few people are left on its other side."""
HALF, AROUND, ENDS = 3, 12, 6
"""In steps of the grid: half the window, what is looked at on either side of it, and half of what gives place and size.
"""
STEEPER, LARGE = 1.75, 0.15
PROBABLE = 0.9
"""From this probability on a threshold is told: 1 of 61 fits to smooth data had one (docs/model.md)."""
MOST = 3
"""Thresholds told of the outcome, and of the effect."""


class Known(NamedTuple):
    """Mean and interval over the draws."""

    mean: float
    low: float
    high: float

    def scaled(self, by: float, plus: float = 0.0) -> Known:
        return Known(*(plus + by * value for value in self))


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """On the model's scale."""

    of: str
    """'outcome' or 'effect'."""
    column: int
    place: Known
    change: Known
    """From below to above."""
    probability: float


def thresholds(model: SharedModel, draws: SharedDraws, columns: Sequence[int], alpha: float,
               pair: Pair | None = None) -> list[Threshold]:
    """Along these columns, of the outcome and then of the effect, the most probable first."""
    drawn = curves(model, draws, pair)
    return [found for h, of in enumerate(OF) for found in _told(of, drawn[:, h], columns, alpha)]


def curves(model: SharedModel, draws: SharedDraws, pair: Pair | None = None) -> Float[np.ndarray, "L 2 d G"]:
    """m_c on the grid: of (μ₀, μ₁ − μ₀), for each covariate and each draw."""
    people = jnp.asarray(pooled.landmarks(PEOPLE, model.covariates))
    drawn = np.asarray(_by_draw(model, draws, Paths(people, jnp.asarray(GRID)), _weighings(model, pair)))
    return np.moveaxis(drawn, -1, 1).reshape(-1, *drawn.shape[1:-1])


def _weighings(model: SharedModel, pair: Pair | None) -> tuple[tuple[float, ...], ...]:
    """Of the outcome in the arm that is compared with, and of the effect."""
    against = 0 if pair is None else pair[0]
    return tuple(float(arm == against) for arm in range(model.arms)), weighings(model.arms, pair)[1]


@compiled(static=("model", "arms"))
def _by_draw(model: SharedModel, draws: SharedDraws, paths: Paths,
             arms: tuple[tuple[float, ...], ...]) -> Float[Array, "T 2 d G B"]:
    """One draw of θ after the other (`model.parallel`)."""
    return each(lambda draw: model.layout.along(model.unravel(draw.theta), paths, arms) @ draw.beta.T, draws)


def _told(of: str, drawn: Float[np.ndarray, "L d G"], columns: Sequence[int], alpha: float) -> list[Threshold]:
    found = [Threshold(of=of, column=c, place=_known(place, alpha), change=_known(change, alpha), probability=sure)
             for c in columns for sure, place, change in _along(drawn[:, c])]
    return sorted(found, key=lambda one: -one.probability)[:MOST]


def _known(values: Float[np.ndarray, "L"], alpha: float) -> Known:
    low, high = np.quantile(values, [alpha / 2, 1 - alpha / 2])
    return Known(float(values.mean()), float(low), float(high))


def _along(drawn: Float[np.ndarray, "L G"]) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """(probability, place and size draw by draw) of each threshold along one covariate, none within the ends of a more
    probable one."""
    sure = np.array([probability(drawn, at) for at in PLACES])
    while sure.max() >= PROBABLE:
        best = int(sure.argmax())
        yield float(sure[best]), *_step(drawn, PLACES[best])
        sure[max(best - ENDS, 0):best + ENDS + 1] = 0.0


def probability(drawn: Float[np.ndarray, "L G"], at: int) -> float:
    """Share of the draws with a threshold at GRID[at]."""
    below, above = drawn[:, max(at - HALF - AROUND, 0):at - HALF + 1], drawn[:, at + HALF:at + HALF + AROUND + 1]
    change = above[:, 0] - below[:, -1]
    beside = np.maximum(*(np.ptp(side, axis=1) / (side.shape[1] - 1) for side in (below, above)))
    steep = np.abs(change) / (2 * HALF) > STEEPER * beside
    return float(np.mean(steep & (np.abs(change) > LARGE) & (np.sign(change) == np.sign(change.mean()))))


def _step(drawn: Float[np.ndarray, "L G"], at: int) -> tuple[np.ndarray, np.ndarray]:
    """(place, size) of the step with the ends a, b and the area of the curve: ∫(m − a) = (b − a)·(what is right of it).
    """
    curve, end = drawn[:, at - ENDS:at + ENDS + 1], GRID[at + ENDS]
    size = curve[:, -1] - curve[:, 0]
    area = np.trapezoid(curve - curve[:, :1], dx=STEP, axis=1)
    right = np.divide(area, size, out=np.full_like(size, ENDS * STEP), where=size != 0.0)
    return np.clip(end - right, GRID[at - ENDS], end), size
