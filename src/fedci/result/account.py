"""What differential privacy a run gave: ε, δ, whom they protect, and what the noise left to see."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedci.coordinator.coordinator import Outcome
from fedci.privacy import dp
from fedci.site.noising import bounds_of
from fedci.study.policy import given
from fedci.study.study import Study

PROTECTS = {"moments": "one record of a site", "effects": "all that one site answers",
            "gradients": "all that one site answers"}
NOT_NOISED = {"moments": "the sites' moments", "gradients": "the sums of the fit", "effects": "the final effects"}


class Account(NamedTuple):
    """One kind of release."""

    what: str
    protects: str
    multiplier: float
    """z: noise per sensitivity."""
    releases: int
    signal_to_noise: float

    @property
    def mu(self) -> float:
        return math.sqrt(self.releases) / self.multiplier


def accounts(study: Study, outcome: Outcome) -> list[Account]:
    """Nothing where the study asks for no differential privacy."""
    policy, rounds = study.policy, outcome.options.optimiser.rounds
    if policy.epsilon is None:
        return []
    made = dp.multipliers(policy.epsilon, given(policy.delta), policy.noised, rounds)
    ratio = {"moments": _moments_ratio, "effects": _effects_ratio, "gradients": _gradients_ratio}
    return [Account(kind, PROTECTS[kind], z, rounds if kind == "gradients" else 1, ratio[kind](study, outcome, z))
            for kind, z in made.items()]


def _moments_ratio(study: Study, outcome: Outcome, z: float) -> float:
    """The least of: a column's spread over the noise of its mean at a site."""
    half = np.array([(high - low) / 2.0 for low, high in bounds_of(study)])
    delta = dp.moments_sensitivity(len(half))
    spread = np.sqrt(outcome.layout.columns.values[1])
    return min(float((spread / (delta * z * half / site.rows)).min()) for site in outcome.layout.people.values())


def _effects_ratio(study: Study, outcome: Outcome, z: float) -> float:
    """|ATE| over its noise."""
    people = np.array([site.rows for site in outcome.layout.people.values()], float)
    noise = dp.EFFECTS_SENSITIVITY * given(study.policy.effect_bound) * z * np.linalg.norm(people) / people.sum()
    return abs(outcome.effects.over_all.expected().mean) / noise


def _gradients_ratio(study: Study, outcome: Outcome, z: float) -> float:
    """The most that all sites' clipped gradients can have over the noise in their sum."""
    size, sites = outcome.layout.model.size, len(outcome.layout.sites)
    return sites / (2.0 * z * math.sqrt(size * sites))


def in_words(study: Study, outcome: Outcome) -> list[str]:
    """For the result's summary; empty where there is nothing to say."""
    noised, policy = accounts(study, outcome), study.policy
    if not noised:
        return []
    mu = dp.composed(account.mu for account in noised)
    lines = [f"Differential privacy: ε = {dp.epsilon(mu, given(policy.delta)):.3g} at δ = {policy.delta:g} for "
             f"{', '.join(account.what for account in noised)} together (μ = {mu:.3g}, replacing one record); "
             f"how many rows there are is no secret."]
    for account in noised:
        times = "" if account.releases == 1 else f", {account.releases} times"
        word = " (the noise is larger than the signal)" if account.signal_to_noise < 1 else ""
        lines.append(f"  {account.what}: protects {account.protects}; noise {account.multiplier:.3g} times the "
                     f"sensitivity{times}; signal to noise {account.signal_to_noise:.2g}{word}.")
    bare = [words for kind, words in NOT_NOISED.items() if kind not in policy.noised]
    if bare:
        lines.append(f"  Not covered by it: {' and '.join(bare)}.")
    return [*lines, ""]

