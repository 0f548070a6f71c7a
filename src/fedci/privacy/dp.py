"""Differential privacy, for those who ask for it: Gaussian noise, an exact account of it, and what it leaves to see.

    noise      released = value + N(0, (z Δ)²),     Δ the most that one record (or one site) can change the value (L2)
    account    one release is 1/z-Gaussian DP, T of them together  μ = √(Σ 1/z_t²)  (exactly: no subsampling)
    (ε, δ)     δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)

Neighbours differ by *replacing* one record (or one site's answer): the number of rows is no secret. Every bound is
declared in the study and enforced at the site by clipping, never taken from the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from fedci.privacy.secure_sum import stream
from fedci.table.moments import Moments, SiteMoments

POWERS = 4
PER_COLUMN = 10.0
"""Δ² of the four power sums of a column in [−1, 1] when one record is replaced: odd powers move by 2, even by 1."""


# --- the account


def composed(mus: Iterable[float]) -> float:
    """μ of several releases together."""
    return math.sqrt(sum(mu**2 for mu in mus))


def delta(mu: float, epsilon: float) -> float:
    """The smallest δ at this ε."""
    if mu == 0:
        return 0.0
    first = math.exp(log_ndtr(-epsilon / mu + mu / 2))
    return max(0.0, first - math.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2)))


def epsilon(mu: float, at: float) -> float:
    """The smallest ε at this δ."""
    if delta(mu, 0.0) <= at:
        return 0.0
    high = 1.0
    while delta(mu, high) > at:
        high *= 2.0
    return float(brentq(lambda e: delta(mu, e) - at, 0.0, high, xtol=1e-12, rtol=1e-12))


def mu_of(epsilon: float, at: float) -> float:
    """The largest μ that is (ε, δ)-private."""
    high = 1.0
    while delta(high, epsilon) < at:
        high *= 2.0
    return float(brentq(lambda mu: delta(mu, epsilon) - at, 1e-9, high, xtol=1e-14, rtol=1e-12))


def multipliers(epsilon: float, at: float, kinds: Sequence[str], rounds: int) -> dict[str, float]:
    """Kind of release → z, the budget shared alike: each kind has μ/√K, and gradients √rounds times its noise."""
    each = mu_of(epsilon, at) / math.sqrt(len(kinds))
    return {kind: (math.sqrt(rounds) if kind == "gradients" else 1.0) / each for kind in kinds}


# --- noise


def gaussian(seed: bytes, count: int) -> np.ndarray:
    """[count] standard normals from ChaCha20: the same for the same seed, so that asking twice averages nothing out."""
    uniform = ((stream(seed, count) >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    return ndtri(uniform)


def noised(values: np.ndarray, sensitivity: float, multiplier: float, seed: bytes) -> np.ndarray:
    values = np.asarray(values, float)
    return values + sensitivity * multiplier * gaussian(seed, values.size).reshape(values.shape)


def clipped(vector: np.ndarray, norm: float) -> np.ndarray:
    """The vector, shortened to `norm` if it is longer."""
    length = np.linalg.norm(vector)
    return vector * min(1.0, norm / length) if length > 0 else vector


EFFECTS_SENSITIVITY = math.sqrt(3 * 2.0**2 + 3 * 1.0**2)
"""Of three averages in ±1 and their three standard deviations in 0 … 1, when a site's answer is replaced."""


def effects(means: np.ndarray, sds: np.ndarray, bound: float, multiplier: float,
            seed: bytes) -> tuple[np.ndarray, np.ndarray]:
    """([3] noised averages, [3] their variances with the noise's own): one release, which protects a site's answer."""
    values = np.concatenate([np.clip(means, -bound, bound), np.clip(sds, 0.0, bound)])
    noisy = noised(values, EFFECTS_SENSITIVITY * bound, multiplier, seed)
    noise = EFFECTS_SENSITIVITY * bound * multiplier
    return noisy[:3], np.maximum(noisy[3:], 0.0) ** 2 + noise**2


def gradient(vector: np.ndarray, norm: float, multiplier: float, seed: bytes) -> np.ndarray:
    """A clipped and noised answer of one round; protects a site's answer, which moves by at most twice the norm."""
    return noised(clipped(vector, norm), 2.0 * norm, multiplier, seed)


# --- moments


class Bounds(NamedTuple):
    """Declared, not seen: values beyond are moved to them."""

    x: Sequence[tuple[float, float]]
    y: tuple[float, float]


def moments_sensitivity(columns: int) -> float:
    """Δ of Σ v, …, Σ v⁴ of each column in units of its bounds, of y in each arm, and of the treated."""
    return math.sqrt(PER_COLUMN * (columns + 1) + 1.0)


def moments(x: np.ndarray, w: np.ndarray, y: np.ndarray, bounds: Bounds, multiplier: float, seed: bytes) -> SiteMoments:
    """The site's moments from noised power sums: one release, which protects a record."""
    scaled = np.column_stack([_unit(x[:, c], limits) for c, limits in enumerate(bounds.x)])
    outcome = _unit(y, bounds.y)
    sums = np.concatenate([_powers(scaled).ravel(), _powers(outcome[w == 0][:, None]).ravel(),
                           _powers(outcome[w == 1][:, None]).ravel(), [w.sum()]])
    noisy = noised(sums, moments_sensitivity(x.shape[1]), multiplier, seed)
    n, d = len(w), x.shape[1]
    treated = float(np.clip(round(noisy[-1]), 1, n - 1))
    columns, y0, y1 = noisy[:POWERS * d].reshape(POWERS, d), noisy[POWERS * d:-1 - POWERS], noisy[-1 - POWERS:-1]
    never = np.zeros(d, bool)
    share = treated / n
    arms = _standard(y0[:, None], n - treated, [bounds.y]), _standard(y1[:, None], treated, [bounds.y])
    spread = share * (1 - share)
    w_told = Moments(np.array([[share], [spread], [(1 - 2 * share) / math.sqrt(spread)], [1 / spread - 6.0]]),
                     np.array([n]))
    return SiteMoments(_standard(columns, n, bounds.x), never, arms, w_told)


def _unit(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    low, high = limits
    return np.clip(2.0 * (values - low) / (high - low) - 1.0, -1.0, 1.0)


def _powers(columns: np.ndarray) -> np.ndarray:
    return np.stack([(columns**k).sum(0) for k in range(1, POWERS + 1)])


def _standard(sums: np.ndarray, count: float, limits: Sequence[tuple[float, float]]) -> Moments:
    """Mean, variance, skewness, excess kurtosis in the data's units from [4, c] noised power sums; kept possible."""
    raw = np.clip(sums / max(count, 1.0), -1.0, 1.0)
    mean, second, third, fourth = raw
    m2 = np.clip(second - mean**2, 1e-4, 1.0)
    m3 = third - 3 * mean * second + 2 * mean**3
    m4 = np.maximum(fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4, m2**2)
    half = np.array([(high - low) / 2.0 for low, high in limits])
    centre = np.array([(high + low) / 2.0 for low, high in limits])
    values = np.stack([centre + half * mean, half**2 * m2, np.clip(m3 / m2**1.5, -10, 10),
                       np.clip(m4 / m2**2 - 3.0, -2.0, 30.0)])
    return Moments(values, np.full(len(half), int(round(count))))
