"""Effects of people at a site outside the study: with nobody in it, and average moments.

    the prior of f, and of g given the sites'; draw by draw
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedci.coordinator.coordinator import Outcome
from fedci.effect import Effect, Rates
from fedci.model.completed import repeated
from fedci.site.people import Pair, by_the_end, stream_cate, stream_curves, stream_risks
from fedci.site.prepared import Units, common_units
from fedci.study.study import Study


def effects(study: Study, outcome: Outcome, x: np.ndarray, pair: Pair, outcome_noise: bool) -> Effect:
    """At rows x [p, d] of the design; with `outcome_noise`, realised ones."""
    vector, nobody, draws, units = _nowhere(study, outcome)
    model = outcome.layout.model
    return stream_cate(model, vector, nobody, draws, units.covariates(x), model.options.jitter, units.y_sd,
                       outcome_noise, pair)


def rates(study: Study, outcome: Outcome, x: np.ndarray, pair: Pair, drawn: bool = True) -> Rates:
    """Risks, or rates; not `drawn`: without what is a site's own."""
    if study.outcome_type == "survival":
        return by_the_end(curves(study, outcome, x, drawn), pair)
    vector, nobody, draws, units = _nowhere(study, outcome)
    model = outcome.layout.model
    rate = float(units.timing[0]) if study.outcome_type == "count" else 1.0
    return stream_risks(model, vector, nobody, draws, units.covariates(x), model.options.jitter, drawn, rate, pair)


def curves(study: Study, outcome: Outcome, x: np.ndarray, drawn: bool = True) -> np.ndarray:
    """Of a time to an event, survival by arm."""
    _, nobody, draws, units = _nowhere(study, outcome)
    model = outcome.layout.model
    known = nobody.known(model, draws, model.options.jitter)
    return stream_curves(model, known, units.covariates(x), len(outcome.layout.sites), drawn)


def _nowhere(study: Study, outcome: Outcome) -> tuple[np.ndarray, Any, Any, Units]:
    """(Θ, a site without people, its draws, the units)."""
    layout, fit = outcome.layout, outcome.fit
    draws = layout.model.draws_elsewhere(outcome.effects.draws, fit.theta, layout.u, layout.pooled_u, outcome.seed)
    nobody = layout.model.no_rows(layout.pooled_u)
    return (fit.theta, repeated(nobody, draws) if layout.laws.size else nobody, draws,
            common_units(study, layout, len(layout.sites), outcome.seed))
