"""The four moments of each column at a site, and their exact pooling.

    m_k = Σ_i (v_i − v̄)^k / n        variance = m₂      skewness = m₃ / m₂^{3/2}      excess kurtosis = m₄ / m₂² − 3

Two passes (mean first): the one-pass form loses all digits when |mean| ≫ sd. Pooling shifts each site's central
moments to the common mean, so the coordinator gets the moments of the rows it never sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedci.study.policy import Policy


class Moments(NamedTuple):
    """Moments of some columns: `values` [4, c] = mean, variance, skewness, excess kurtosis; `count` [c] rows seen."""

    values: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # hides tuple.count, which nobody asks of moments


class SiteMoments(NamedTuple):
    """All that a site tells of its columns."""

    x: Moments
    suppressed: np.ndarray
    """[d] True where a cell is too small to tell: the column's moments are then zeros and not used."""
    incomplete: np.ndarray
    """[d] True where the site has missing values."""
    y: tuple[Moments, Moments]
    """Observed outcomes under control and under treatment."""
    w: Moments

    @property
    def rows(self) -> int:
        return int(self.w.count[0])

    @property
    def treated(self) -> int:
        return int(self.y[1].count[0])


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


def describe_site(x: np.ndarray, w: np.ndarray, y: np.ndarray, kinds: Sequence[str], policy: Policy) -> SiteMoments:
    """The moments that leave the site: small cells suppressed, digits cut as the policy says."""
    suppressed = small_cells(x, kinds, policy.min_cell)
    moments = describe(x)
    told = Moments(np.where(suppressed, 0.0, moments.values), np.where(suppressed, 0, moments.count))
    parts = [told, describe(y[w == 0][:, None]), describe(y[w == 1][:, None]), describe(w[:, None])]
    x_told, y0, y1, w_told = (Moments(round_digits(part.values, policy.moment_digits), part.count) for part in parts)
    return SiteMoments(x_told, suppressed, np.isnan(x).any(0), (y0, y1), w_told)


def small_cells(x: np.ndarray, kinds: Sequence[str], least: int) -> np.ndarray:
    """[d] True for 0/1 columns with fewer than `least` people on either side."""
    ones, zeros = (x == 1).sum(0), (x == 0).sum(0)
    return (np.array(kinds) != "numeric") & (np.minimum(ones, zeros) < least)


def round_digits(values: np.ndarray, digits: int | None) -> np.ndarray:
    """Values to so many significant digits; None: as they are."""
    if digits is None:
        return values
    return np.vectorize(lambda value: float(f"{value:.{digits}g}"), otypes=[float])(values)


def scales(sites: Sequence[SiteMoments], kinds: Sequence[str], binary_sd: float | None = None) -> Scales:
    """Pooled centre and spread; a 0/1 column that every site suppressed keeps its natural ones, ½ and ½, and with
    `binary_sd` all 0/1 columns have that spread."""
    x = pool([site.x for site in sites])
    y = pool([arm for site in sites for arm in site.y])
    untold = x.count == 0
    binary = np.array(kinds) != "numeric"
    mean = np.where(untold & binary, 0.5, x.values[0])
    sd = np.where(untold & binary, 0.5, np.sqrt(x.values[1]))
    sd = sd if binary_sd is None else np.where(binary, binary_sd, sd)
    return Scales(mean, sd, float(y.values[0, 0]), float(np.sqrt(y.values[1, 0])))


def no_scales(d: int) -> Scales:
    """Model units = the user's units."""
    return Scales(np.zeros(d), np.ones(d), 0.0, 1.0)


def describe_in_model_units(site: SiteMoments, pooled_x: Moments, scale: Scales, spread: str) -> np.ndarray:
    """u^s = [ỹ(0), ỹ(1), x̃, w̃]; a column's four moments stand together. Suppressed columns take the pooled moments."""
    x = np.where(site.suppressed, pooled_x.values, site.x.values)
    blocks = [_rescaled(site.y[0].values, scale.y_mean, scale.y_sd, spread),
              _rescaled(site.y[1].values, scale.y_mean, scale.y_sd, spread),
              _rescaled(x, scale.x_mean, scale.x_sd, spread),
              _rescaled(site.w.values, 0.0, 1.0, spread)]
    return np.concatenate([block.T.ravel() for block in blocks])


def _rescaled(values: np.ndarray, centre: float | np.ndarray, sd: float | np.ndarray, spread: str) -> np.ndarray:
    mean, variance, skewness, kurtosis = values
    second = variance / sd**2 if spread == "variance" else np.sqrt(variance) / sd
    return np.stack([(mean - centre) / sd, second, skewness, kurtosis])
