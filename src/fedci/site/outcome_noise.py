"""Noise on a site's outcomes, drawn once for each person and for ever: all that leaves is a function of y + e.

    e_i(δ) = s Σ_{k ≤ δ/0.05} √(v_k − v_{k−1}) z_ik     v_k = (0.05 k)²     z_ik ~ N(0, 1), keyed by the site's secret

Whoever knows all else about a person, and sees any number of sums, learns the outcome to ± δ sd at best; asking again
averages nothing out. The steps of e are nested: of two studies with different δ the one with more tells nothing that
the other has not. s is the outcome's sd when the column was first told of, which the site's store keeps: were it
computed anew, two studies would have two multiples of one noise, and the difference would solve for y.

A person is known by the outcome's value and its place among equal ones, in the order of the table: not by columns or
ids, which a study's author chooses and which would draw a new e with every choice.

An outcome of two values is flipped with probability p, (1 − 2p)² = 1/(1 + 4ν²s²/(hi − lo)²), and stretched so that its
mean stays; its variance grows by ν²s², ν = 3δ. Whoever solves for everybody's is wrong about a share p of them, and
does not know about whom: p = ν²/4 for small ν where both values are common, 2.1 % at δ = 0.1. Three times the noise
costs no more than δ does elsewhere: covariates explain little of two values, so an error grows by √(1 + ν²s²/σ²) with σ
near s. Where the study calls the outcome binary, it stays 0 and 1, and p is what the likelihood knows.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import floor, log10

import numpy as np
from scipy.special import ndtri

from fedci.privacy.secure_sum import info
from fedci.study.policy import NOISE_STEP
from fedci.study.study import Study
from fedci.table.table import Table

Scale = Callable[[str, float], float]
"""(column, its sd here and now) → the sd that its noise is measured by, for ever."""
BITS = 53
TWO_VALUES = 3
"""ν/δ: as much more noise has an outcome of two values."""


def noisy(table: Table, study: Study, key: bytes, scale: Scale) -> Table:
    """The table as sums see it: its outcomes with the site's noise, and how much that is."""
    delta = study.policy.outcome_noise
    if not delta or study.outcome_type in ("survival", "count"):  # such a study is refused (`limits.check_noise`)
        return table
    noise = flipped if study.outcome_type == "binary" else noised
    y, added = noise(table.y, table.origin(study.outcome).name, delta, key, scale)
    table = replace(table, y=y, added=added)
    many = [noise(column, table.origin(name).name, delta, key, scale) for name, column in
            zip(study.diagnostics.negative_controls, table.controls, strict=True)]
    table = replace(table, controls=tuple(part for part, _ in many), controls_added=tuple(part for _, part in many))
    control = study.diagnostics.negative_control
    if table.control is None or not control:
        return table
    y, added = noise(table.control, table.origin(control).name, delta, key, scale)
    return replace(table, control=y, control_added=added)


def noised(y: np.ndarray, column: str, delta: float, key: bytes, scale: Scale) -> tuple[np.ndarray, float]:
    """(ỹ [n] with E ỹ = y, Var ỹ); `key`: the site's secret."""
    s = scale(column, _two_digits(float(np.std(y))))
    values = np.unique(y)
    steps = round(delta / NOISE_STEP) * (TWO_VALUES if len(values) == 2 else 1)
    uniform = uniforms(y, column, key, steps)
    v = (NOISE_STEP * s * np.arange(steps + 1)) ** 2
    if len(values) == 2:
        return _flipped(y, values, uniform, v), float(v[-1])
    return y + ndtri(uniform) @ np.sqrt(np.diff(v)), float(v[-1])


def flipped(y: np.ndarray, column: str, delta: float, key: bytes, scale: Scale) -> tuple[np.ndarray, float]:
    """(y [n] of 0 and 1, some of them flipped; p): the same people as `noised` flips."""
    stretched, variance = noised(y, column, delta, key, scale)
    return np.where(stretched > 0.5, 1.0, 0.0), 0.5 - 0.5 * float(_contrast(np.array(variance), 1.0))


def _flipped(y: np.ndarray, values: np.ndarray, uniform: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Step by step, so that flips are nested: 1 − 2p_k = Π (1 − 2r_j)."""
    low, high = values
    contrast = _contrast(v, high - low)
    flips = uniform < 0.5 * (1.0 - contrast[1:] / contrast[:-1])[None]
    sign = np.where(y == high, 1.0, -1.0) * np.where(flips.sum(1) % 2, -1.0, 1.0)
    return 0.5 * (low + high) + 0.5 * (high - low) * sign / contrast[-1]


def _contrast(v: np.ndarray, apart: float) -> np.ndarray:
    """1 − 2p of two values so far apart, whose variance the flips raise by v."""
    return 1.0 / np.sqrt(1.0 + 4.0 * v / apart**2)


def flipped_share(share: float, delta: float) -> float:
    """p, where the larger value has this share of people."""
    return 0.5 - 0.5 / float(np.sqrt(1.0 + 4.0 * (TWO_VALUES * delta) ** 2 * share * (1.0 - share)))


def uniforms(y: np.ndarray, column: str, key: bytes, steps: int) -> np.ndarray:
    """[n, steps] in (0, 1), from HMAC-SHA256 of column, value, place among equal values, and step."""
    about, seen = info("outcome noise", column), Counter[bytes]()
    made = np.empty((len(y), steps), np.uint64)
    for i, value in enumerate(np.asarray(y, "<f8") + 0.0):  # no −0
        person = value.tobytes()
        whose = about + person + seen[person].to_bytes(8, "big")
        seen[person] += 1
        made[i] = [int.from_bytes(hmac.digest(key, whose + bytes([k]), "sha256")[:8], "big") for k in range(steps)]
    return ((made >> np.uint64(64 - BITS)).astype(float) + 0.5) / 2.0**BITS


def _two_digits(sd: float) -> float:
    """Enough for noise, and the site's store holds no more of its outcomes than that."""
    return round(sd, 1 - floor(log10(sd))) if sd > 0 else 1.0
