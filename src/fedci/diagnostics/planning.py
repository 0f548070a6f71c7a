"""What a study would find, before outcomes are looked at: from people, arms, overlap and an assumed spread.

    e       propensity of all sites together, each with its own intercept; ω its inverse probability weights
    n_a     (Σω)²/Σω² of each arm: as many people carry a comparison of arms that were not drawn by lot
    se      σ √(1 − R²) √(1/n₁ + 1/n₀)          σ: spread of the outcome, R²: what the covariates explain of it
    MDE     (z_{1−α/2} + z_power) se            the smallest effect found with that power

Of 0 and 1 σ = √(p(1 − p)) at an assumed risk p. It is a plan for the average over all sites: subgroups need more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from fedci.diagnostics import heterogeneity, propensity
from fedci.errors import UsageError

POWERS = (0.8, 0.9)


class People(NamedTuple):
    """Of one site: nothing of outcomes."""

    x: np.ndarray
    """[n, d] covariates, NaN where missing."""
    w: np.ndarray


class Plan(NamedTuple):
    """Of some sites together."""

    sites: str
    untreated: int
    treated: int
    effective_untreated: float
    effective_treated: float
    se: float
    mde_80: float
    mde_90: float


def plans(sites: Mapping[str, People], sd: float, explained: float = 0.0, alpha: float = 0.05,
          randomised: bool = False) -> list[Plan]:
    """Of all sites, and without each of them."""
    if not sd > 0:
        raise UsageError(f"the assumed spread of the outcome is {sd:g}: give a number above 0")
    if not 0.0 <= explained < 1.0:
        raise UsageError(f"what the covariates explain is a share from 0 to below 1, got {explained:g}")
    some = {"all sites": dict(sites)} | ({f"without {name}": {key: one for key, one in sites.items() if key != name}
                                          for name in sites} if len(sites) > 1 else {})
    return [_plan(name, own, sd * float(np.sqrt(1.0 - explained)), alpha, randomised) for name, own in some.items()]


def _plan(name: str, sites: Mapping[str, People], sd: float, alpha: float, randomised: bool) -> Plan:
    arms = [np.concatenate([part[one.w == arm] for part, one in zip(_weights(sites, randomised), sites.values(),
                                                                   strict=True)]) for arm in (0, 1)]
    if not all(len(arm) for arm in arms):
        raise UsageError(f"{name}: one of the two arms has nobody, and nothing can be compared")
    effective = [float(arm.sum() ** 2 / (arm**2).sum()) for arm in arms]
    se = sd * float(np.sqrt(sum(1.0 / n for n in effective)))
    found = [(float(ndtri(1.0 - alpha / 2.0)) + float(ndtri(power))) * se for power in POWERS]
    return Plan(name, len(arms[0]), len(arms[1]), effective[0], effective[1], se, found[0], found[1])


def _weights(sites: Mapping[str, People], randomised: bool) -> list[np.ndarray]:
    """ω of each site's people; of a randomised study all alike."""
    if randomised:
        return [np.ones(len(one.w)) for one in sites.values()]
    whole = np.concatenate([one.x for one in sites.values()])
    mean, sd = np.nanmean(whole, 0), np.nanstd(whole, 0)
    scaled = [np.nan_to_num((one.x - mean) / np.where(sd > 0, sd, 1.0)) for one in sites.values()]
    steps = propensity.fit(whole.shape[1], 0.0)
    slopes = next(steps)
    try:
        while True:
            parts = [propensity.sums(x, one.w, slopes) for x, one in zip(scaled, sites.values(), strict=True)]
            slopes = steps.send(propensity.Sums(*(np.asarray(sum(part)) for part in zip(*parts, strict=True))))
    except StopIteration as done:
        slopes = slopes if done.value is None else done.value.slopes
    return [heterogeneity.weights(one.w, propensity.scores(x, one.w, slopes))
            for x, one in zip(scaled, sites.values(), strict=True)]
