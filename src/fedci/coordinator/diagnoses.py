"""What the coordinator makes of the diagnostics' sums: balance, overlap, fit, plausibility, heterogeneity, sensitivity.

Which sums are asked for, the course says (`protocol.course`). Under masks only sums over all sites are seen; in the
clear, and of what a site tells of itself, the report has each site's part too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedci.coordinator.talk import GIVEN_UP, Talk, Total
from fedci.diagnostics import (
    balance,
    described,
    fit,
    follow_up,
    heterogeneity,
    missingness,
    overlap,
    plausibility,
    sameness,
    sensitivity,
    trial,
)
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.propensity import Propensity
from fedci.effect import EffectSums
from fedci.model import leave_one_out
from fedci.model.family import Family, Sums
from fedci.protocol import timing
from fedci.protocol.course import Contract, Opening, column_names, squares_about
from fedci.protocol.requests import MEANS, MOMENTS, SPREADS, diagnostic


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What the checks need of a fitted study."""

    model: Family
    theta: np.ndarray
    draws: Mapping[str, np.ndarray]
    trace: tuple[fit.Step, ...]
    cap: int
    ended: str
    sums: Mapping[str, Mapping[str, np.ndarray]]
    """Each site's per-draw effect sums; under secure sums its averages, or of no site."""
    total: Mapping[str, np.ndarray]
    """The same summed over sites."""
    correlations: np.ndarray
    people: Mapping[str, np.ndarray]
    """Site → [2] untreated and treated."""


def summary(talk: Talk, contract: Contract, opened: Opening, model: Propensity | None,
            fitted: Fitted) -> Diagnostics | None:
    """None where the study does not want them."""
    if not contract.diagnoses:
        return None
    columns = column_names(contract)
    names = (*columns, *(f"{columns[i]} missing" for i in opened.indicators))
    outcome = _of(talk, "outcome")
    effects = {name: heterogeneity.Sums(*map(float, own["effect"])) for name, own in outcome.sites.items()}
    everyone = _pooled_fit(opened, outcome.sums)
    made, failed = tried({
        "described": lambda: _described(talk, contract, opened, names),
        "balance": lambda: _balance(talk, names),
        "overlap": lambda: _overlap(talk, opened, model, names),
        "missingness": lambda: _missingness(talk, contract),
        "follow_up": lambda: _follow_up(talk, contract),
        "fit": lambda: fit.summary(fitted.trace, fitted.cap, fitted.ended,
                                   {name: own["residuals"] for name, own in outcome.sites.items()}, everyone),
        "plausibility": lambda: plausibility.summary(
            _outcome_sd(opened), opened.share, _noise_sd(fitted, opened), _averages(contract, fitted),
            fit.line(everyone.line)[2] if everyone else None),
        "heterogeneity": lambda: heterogeneity.summary(effects, {name: _site_effect(fitted.sums[name])
                                                                 for name in effects if name in fitted.sums}),
        "sameness": lambda: sameness.summary(outcome.sums["sameness"], opened.unit)
        if "sameness" in outcome.sums else None,
        "trial": lambda: _trial(talk, contract, opened, fitted),
        "sensitivity": lambda: _sensitivity(fitted, opened, len(names),
                                            outcome.sums.get("treated_share", np.zeros(2)))})
    return trial.of_lot(Diagnostics(notes=talk.notes + failed, **made), contract.study.design, fitted.people)


def _of(talk: Talk, kind: str) -> Total:
    return talk.totals.get(diagnostic(kind), GIVEN_UP)


def _balance(talk: Talk, names: tuple[str, ...]) -> balance.Balance | None:
    moments = _of(talk, "balance")
    if not moments.sums:
        return None
    sites = {name: balance.arm_moments(own) for name, own in moments.sites.items() if "size" in own}
    return balance.summary(balance.arm_moments(moments.sums), sites, names)


def _described(talk: Talk, contract: Contract, opened: Opening, names: tuple[str, ...]) -> described.Described | None:
    """None where noise for privacy is in the sums it is made of."""
    study, moments = contract.study, _of(talk, "balance")
    if study.policy.noises("moments"):
        return None
    arms = described.columns_of(balance.arm_moments(moments.sums), names, opened.centre,
                                opened.spread) if moments.sums else ()
    exposure = talk.totals["AskExposure"].sums["exposure"] if study.exposure else None
    means = _means(talk)
    spreads = (talk.totals[SPREADS].sums if SPREADS in talk.totals else
               squares_about(means.sums, opened.columns.values[0], opened.outcome[0]))
    return described.summary(study.outcome_type, means.sums, float(spreads["y_square"]), exposure,
                             study.policy.outcome_noise > 0, arms)


def _missingness(talk: Talk, contract: Contract) -> missingness.Missingness | None:
    """None where nothing may be missing. A categorical is one column, whatever its levels."""
    lacking = _of(talk, "missingness")
    if not lacking.sums:
        return None
    names = column_names(contract)
    columns = {covariate.name: names.index(covariate.design_columns()[0]) for covariate in contract.study.covariates
               if contract.study.fills(covariate)}
    sites = {name: own for name, own in lacking.sites.items() if "gaps" in own}
    return missingness.summary(lacking.sums, sites, columns, len(talk.sites))


def _follow_up(talk: Talk, contract: Contract) -> follow_up.FollowUp | None:
    """None where the outcome is no time to an event."""
    study = contract.study
    if study.outcome_type != "survival":
        return None
    told, people = talk.totals["AskTimes"].sums, talk.totals["AskMeans"].sums["y_count"]
    return follow_up.summary(study.horizons, timing.grid(study), told["events"], told["censored"], people,
                             study.arms or ("untreated", "treated"))


def _overlap(talk: Talk, opened: Opening, model: Propensity | None,
             names: tuple[str, ...]) -> overlap.Overlap | None:
    scores, weights = _of(talk, "overlap"), _of(talk, "balance")
    if model is None or not scores.sums:
        return None
    m = len(talk.sites)
    sites = {name: overlap.Seen(_counts(own), _effective(weights.sites[name], 1))
             for name, own in scores.sites.items() if "counts" in own}
    everyone = overlap.Seen(_counts(scores.sums), _effective(weights.sums, m))
    sizes = np.array([opened.people - opened.treated, opened.treated])
    intercepts = {name: float(own["intercept"]) for name, own in scores.sites.items()}
    return overlap.summary(everyone, sites, sizes, model, names, scales=(opened.centre, opened.spread),
                           intercepts=intercepts, shifts=_shifts(talk, names))


def _counts(sums: Sums) -> overlap.Counts:
    return overlap.Counts(*(sums[name] for name in overlap.Counts._fields))


def _effective(sums: Sums, sites: int) -> np.ndarray:
    """[2] (Σω)²/Σω² of inverse probability weights; NaN where a site withholds its own."""
    which = balance.WEIGHTINGS.index("iptw")
    weight, square = sums["weight"][which], sums["square"][which]
    known = (sums["carried"][which] >= sites) & (square > 0)
    return np.where(known, weight**2 / np.where(known, square, 1.0), np.nan)


def _means(talk: Talk) -> Total:
    return talk.totals.get(MEANS) or talk.totals[MOMENTS]


def _shifts(talk: Talk, names: tuple[str, ...]) -> tuple[overlap.Shift, ...]:
    """Each site against the others, where their means are seen."""
    means, pooled = _means(talk).sites, _means(talk).sums
    if len(talk.sites) < 2 or any("total" not in own for own in means.values()):
        return ()
    centre = pooled["total"] / np.maximum(pooled["count"], 1)
    spreads = (talk.totals[SPREADS].sites if SPREADS in talk.totals else
               {site: squares_about(own, centre, 0.0) for site, own in means.items()})
    count = np.stack([means[site]["count"] for site in talk.sites])
    mean = np.stack([means[site]["total"] for site in talk.sites]) / np.maximum(count, 1)
    square = np.stack([spreads[site]["square"] for site in talk.sites]) / np.maximum(count, 1)
    return overlap.shift_of_sites(mean, np.maximum(square - (mean - centre) ** 2, 0.0), count, names, talk.sites)


def _pooled_fit(opened: Opening, sums: Sums) -> fit.Pooled | None:
    """In the outcome's units."""
    if not sums or not sums["sites"] > 0:
        return None
    sites, *parts = (sums[name] for name in fit.Pooled._fields)
    return fit.in_units(fit.Pooled(float(sites), *parts), opened.scales.y_mean, opened.unit)


def tried(sections: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(the sections, a note for each that has no finite answer): a fit of hours is not lost for it."""
    made, failed = {}, []
    for name, make in sections.items():
        try:
            made[name] = make()
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as problem:
            failed.append(f"the section '{name}' could not be computed ({type(problem).__name__})")
    return made, tuple(failed)


def _averages(contract: Contract, fitted: Fitted) -> tuple[plausibility.Average, ...]:
    """Over all people and over each site's; none where noise for privacy is in them."""
    if contract.study.policy.noises("effects"):
        return ()
    sums = {plausibility.EVERYBODY: fitted.total, **fitted.sums}
    return plausibility.averages_of({over: EffectSums((part,)).expected() for over, part in sums.items()})


def _outcome_sd(opened: Opening) -> float:
    """In the units of effects: of a count per unit of exposure, as if it were the same for everybody."""
    mean, sd = opened.outcome
    return sd * float(opened.timing[0]) / mean if opened.model.outcome == "count" else sd


def _noise_sd(fitted: Fitted, opened: Opening) -> tuple[float, float] | None:
    """None of 0 and 1."""
    if fitted.model.outcome != "numeric":
        return None
    draws = fitted.model.draws_at(fitted.draws, 0)
    return leave_one_out.mean_noise_sd(fitted.model, fitted.theta, draws, opened.scales.y_sd)


def _site_effect(sums: Mapping[str, np.ndarray]) -> heterogeneity.Interval:
    effect = EffectSums((sums,)).expected()
    low, high = effect.interval()
    return heterogeneity.Interval(mean=effect.mean, low=low, high=high)


def _sensitivity(fitted: Fitted, opened: Opening, columns: int, share: np.ndarray) -> sensitivity.Sensitivity:
    sums = EffectSums((fitted.total,))
    effect = sums.expected()
    low, high = effect.interval()
    dof = float(sums.people()) - columns - len(fitted.people) - 1
    # where no site tells its mean propensity, the share of the treated: the two agree on average
    treated = float(share[1] / share[0]) if share[0] > 0 else opened.share
    noise_sd = _noise_sd(fitted, opened)
    if sums.of_rates:
        return sensitivity.of_rates(sums.rates(), _outcome_sd(opened))
    if noise_sd is None:
        return sensitivity.of_risks(sums.risks(), opened.outcome[1], treated)
    return sensitivity.summary(
        effect=effect.mean, se=effect.sd, low=low, high=high, outcome_sd=opened.outcome[1], dof=dof, mean_e=treated,
        noise_sd=noise_sd, correlations=_correlations(sums, fitted.correlations))


def _trial(talk: Talk, contract: Contract, opened: Opening, fitted: Fitted) -> trial.Trial | None:
    """None where treatment was not drawn by lot."""
    design = contract.study.design
    if not design.randomised:
        return None
    effect = EffectSums((fitted.total,)).expected()
    model = (effect.mean, *effect.interval())
    if opened.model.outcome == "survival":
        told, people = talk.totals["AskTimes"].sums, np.array([opened.people - opened.treated, opened.treated])
        return trial.of_times(told["events"], told["censored"], people, model, effect.sd, design)
    sums = _of(talk, "trial").sums
    if not sums:
        return None
    return trial.summary(sums["arms"], sums["strata"], opened.unit, opened.scales.y_mean, model, effect.sd, design)


def _correlations(sums: EffectSums, correlations: np.ndarray) -> tuple[sensitivity.NoiseCorrelation, ...]:
    rows = []
    for correlation in correlations:
        effect = sums.realised(correlation)
        low, high = effect.interval()
        rows.append(sensitivity.NoiseCorrelation(
            correlation=None if np.isnan(correlation) else float(correlation), mean=effect.mean, low=low, high=high,
            person_sd=sums.person_sd(correlation)))
    return tuple(rows)
