"""What a study would find, before outcomes are looked at: from people, arms, overlap and an assumed spread.

    e       propensity of all sites together, each with its own intercept; ω its inverse probability weights
    n_a     (Σω)²/Σω² of each arm: as many people carry a comparison of arms that were not drawn by lot
    se      σ √(1 − R²) √(1/n₁ + 1/n₀)          σ: spread of the outcome, R²: what the covariates explain of it
    MDE     (z_{1−α/2} + z_power) se            the smallest effect found with that power

Of 0 and 1 σ = √(p(1 − p)) at an assumed risk p. It is a plan for the average over all sites: subgroups need more. Of
more than two arms each is held against the reference, among the people of these two. After a blinded study n_a are
what its sites told together; without a site they are as many fewer as the arm has people fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtri

from fedci.diagnostics import heterogeneity, propensity
from fedci.errors import UsageError

POWERS = (0.8, 0.9)
Site = TypeVar("Site")


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
    _check(sd, explained)
    return [_plan(name, own, sd * float(np.sqrt(1.0 - explained)), alpha, randomised)
            for name, own in _with_and_without(sites).items()]


def plans_of_told(people: Mapping[str, tuple[int, int]], effective: tuple[float, float], sd: float,
                  explained: float = 0.0, alpha: float = 0.05) -> list[Plan]:
    """From untreated and treated people of each site, and as how many all of them count."""
    _check(sd, explained)
    every = np.sum(list(people.values()), axis=0)
    found = []
    for name, own in _with_and_without(people).items():
        arms = np.sum(list(own.values()), axis=0)
        found.append(_made(name, arms, np.array(effective) * arms / every, sd * float(np.sqrt(1.0 - explained)), alpha))
    return found


def _with_and_without(sites: Mapping[str, Site]) -> dict[str, dict[str, Site]]:
    """All sites, and all but each."""
    return {"all sites": dict(sites)} | ({f"without {name}": {key: one for key, one in sites.items() if key != name}
                                          for name in sites} if len(sites) > 1 else {})


def _plan(name: str, sites: Mapping[str, People], sd: float, alpha: float, randomised: bool) -> Plan:
    arms = [np.concatenate([part[one.w == arm] for part, one in zip(_weights(sites, randomised), sites.values(),
                                                                   strict=True)]) for arm in (0, 1)]
    effective = np.array([arm.sum() ** 2 / (arm**2).sum() if len(arm) else 0.0 for arm in arms])
    return _made(name, np.array([len(arm) for arm in arms]), effective, sd, alpha)


def _made(name: str, people: np.ndarray, effective: np.ndarray, sd: float, alpha: float) -> Plan:
    if not people.all():
        raise UsageError(f"{name}: one of the two arms has nobody, and nothing can be compared")
    se = sd * float(np.sqrt(np.sum(1.0 / effective)))
    found = [(float(ndtri(1.0 - alpha / 2.0)) + float(ndtri(power))) * se for power in POWERS]
    return Plan(name, int(people[0]), int(people[1]), float(effective[0]), float(effective[1]), se, *found)


def _check(sd: float, explained: float) -> None:
    if not sd > 0:
        raise UsageError(f"the assumed spread of the outcome is {sd:g}: give a number above 0")
    if not 0.0 <= explained < 1.0:
        raise UsageError(f"what the covariates explain is a share from 0 to below 1, got {explained:g}")


def of_pair(sites: Mapping[str, People], arm: int) -> dict[str, People]:
    """The people of the reference and of one other arm, as untreated and treated."""
    here = {name: np.isin(one.w, (0, arm)) for name, one in sites.items()}
    return {name: People(one.x[here[name]], (one.w[here[name]] == arm).astype(float)) for name, one in sites.items()}


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
