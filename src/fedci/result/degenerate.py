"""Whether noise, effects or intervals have sizes that the outcome leaves no room for (`diagnostics.plausibility`), from
what a result holds: for studies without diagnostics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedci.coordinator.coordinator import Outcome
from fedci.diagnostics import plausibility
from fedci.diagnostics.plausibility import Plausibility
from fedci.effect import EffectSums
from fedci.model import leave_one_out
from fedci.result.averages import ALL
from fedci.site.people import Pair
from fedci.study.study import Study


def plausibility_of(study: Study, outcome: Outcome, pair: Pair, sums: Mapping[str, EffectSums]) -> Plausibility:
    """Of one contrast; `sums`: of all sites together and of each whose sums were told."""
    treated = _share(study, outcome, pair)
    told = {} if study.policy.noises("effects") else {
        plausibility.EVERYBODY if site == ALL else site: part for site, part in sums.items()}
    averages = plausibility.averages_of({over: part.expected() for over, part in told.items()})
    return plausibility.summary(_outcome_sd(study, outcome, treated, sums[ALL]), treated,
                                _noise_sd(study, outcome, pair), averages, None)


def _share(study: Study, outcome: Outcome, pair: Pair) -> float:
    """Of the treated among both arms."""
    layout = outcome.layout
    if study.arms:
        people = np.sum([(site.rows - site.treated, *site.others) for site in layout.people.values()], 0)
        against, arm = (float(people[place]) for place in pair)
        return arm / max(arm + against, 1.0)
    return sum(site.treated for site in layout.people.values()) / layout.rows


def _outcome_sd(study: Study, outcome: Outcome, treated: float, everybody: EffectSums) -> float:
    """In its units; of 0 and 1 by the average risks, of counts by the average rates, as if they were Poisson's."""
    if study.outcome_type == "numeric":
        return outcome.layout.scales.y_sd
    if study.outcome_type == "count":
        rates = everybody.rates()
        return float(np.sqrt(np.mean((1.0 - treated) * rates.untreated + treated * rates.treated)))
    risks = everybody.risks()
    mean = float(np.mean((1.0 - treated) * risks.untreated + treated * risks.treated))
    return float(np.sqrt(mean * (1.0 - mean)))


def _noise_sd(study: Study, outcome: Outcome, pair: Pair) -> tuple[float, float] | None:
    """None of what is no number."""
    if study.outcome_type != "numeric":
        return None
    layout = outcome.layout
    draws = layout.model.draws_at(outcome.effects.draws, 0)
    return leave_one_out.mean_noise_sd(layout.model, outcome.fit.theta, draws, layout.scales.y_sd, pair)
