"""The four moments of each column at a site, and their exact pooling.

    m_k = Σ_i (v_i − v̄)^k / n        variance = m₂      skewness = m₃ / m₂^{3/2}      excess kurtosis = m₄ / m₂² − 3

Two passes (mean first): the one-pass form loses all digits when |mean| ≫ sd. Pooling shifts each site's central
moments to the common mean, so the coordinator gets the moments of the rows it never sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Moments of some columns: `values` [4, c] = mean, variance, skewness, excess kurtosis; `count` [c] rows seen."""

    values: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # hides tuple.count, which nobody asks of moments


class SiteMoments(NamedTuple):
    """All that a site tells of its columns."""

    x: Moments
    incomplete: np.ndarray
    """[d] True where the site has missing values."""
    y: tuple[Moments, ...]
    """Observed outcomes in each arm: under control, and under treatment."""
    w: Moments

    @property
    def rows(self) -> int:
        return int(self.w.count[0])

    @property
    def treated(self) -> int:
        return sum(int(arm.count[0]) for arm in self.y[1:])


class Scales(NamedTuple):
    """Pooled centre and spread: model units are (value − centre) / spread."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float


def describe(columns: np.ndarray) -> Moments:
    """Moments of each column of [n, c], missing values (NaN) left out; a constant or empty column has shape 0, 0."""
    seen = ~np.isnan(columns)
    count = seen.sum(0)
    safe = np.maximum(count, 1)
    mean = np.where(seen, columns, 0.0).sum(0) / safe
    away = np.where(seen, columns - mean, 0.0)
    return Moments(_standard_form(mean, *((away**k).sum(0) / safe for k in (2, 3, 4))), count)


def _standard_form(mean: np.ndarray, m2: np.ndarray, m3: np.ndarray, m4: np.ndarray) -> np.ndarray:
    """[4, c] mean, variance, skewness, kurtosis; the last three 0 where the spread is only the mean's rounding."""
    varies = m2 > (1e-13 * np.abs(mean)) ** 2
    spread = np.where(varies, m2, 1.0)
    shape = np.where(varies, m3 / spread**1.5, 0.0), np.where(varies, m4 / spread**2 - 3.0, 0.0)
    return np.stack([mean, np.where(varies, m2, 0.0), *shape])


def pool(parts: Sequence[Moments]) -> Moments:
    """Moments of all rows together, from the moments of each part."""
    count = sum((part.count for part in parts), np.zeros((), int))
    safe = np.maximum(count, 1)
    mean = sum((part.count * part.values[0] for part in parts), np.zeros(())) / safe
    m2, m3, m4 = (sum((part.count * _about(part, mean)[k] for part in parts), np.zeros(())) / safe for k in range(3))
    return Moments(_standard_form(mean, m2, m3, m4), count)


def _about(part: Moments, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Second, third and fourth moments of a part about another centre, δ = mean − centre."""
    mean, m2, skew, kurtosis = part.values
    m3, m4, d = skew * m2**1.5, (kurtosis + 3.0) * m2**2, part.values[0] - centre
    return m2 + d**2, m3 + 3 * d * m2 + d**3, m4 + 4 * d * m3 + 6 * d**2 * m2 + d**4


def round_digits(values: np.ndarray, digits: int | None) -> np.ndarray:
    """Values to so many significant digits; None: as they are."""
    if digits is None:
        return values
    return np.vectorize(lambda value: float(f"{value:.{digits}g}"), otypes=[float])(values)
