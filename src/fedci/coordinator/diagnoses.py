"""The coordinator's side of the diagnostics: which sums it asks for, and what it makes of them.

    design   after the units are agreed, before the fit     propensity (a few exchanges), balance, overlap
    checks   after the effects                              one exchange; heterogeneity, sensitivity, fit

A site that may not tell something (its policy) is left out of that part and named; the study goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedci.coordinator.talk import Make, Talk, Total, check_form, summed
from fedci.diagnostics import balance, fit, heterogeneity, overlap, propensity, sensitivity
from fedci.diagnostics.findings import Diagnostics
from fedci.effect import EffectSums
from fedci.errors import DisclosureError, NumericalError
from fedci.model import leave_one_out
from fedci.model.family import Ask, Family, Sums
from fedci.model.rows import BetaLaw
from fedci.protocol.ask import request_of, sizes
from fedci.protocol.messages import Reply
from fedci.protocol.requests import REQUESTS, diagnostic
from fedci.study.study import Study
from fedci.table.moments import SiteMoments, pool, scales
from fedci.table.table import design_columns

WITHHELD_ERRORS = (DisclosureError, NumericalError)
WITHHELD = tuple(error.code for error in WITHHELD_ERRORS)
"""Refusals that leave a site out of a diagnostic; any other ends the study, as everywhere."""
NO_NOTES: tuple[str, ...] = ()
LARGEST_LAW = 2**20
"""Numbers of β̃'s law that are sent at most: fewer draws where it has many columns."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is known before the fit."""

    names: tuple[str, ...]
    """The columns: covariates, and indicators of missing values."""
    model: propensity.Propensity | None
    """None where no site may tell."""
    scales: tuple[np.ndarray, np.ndarray]
    willing: tuple[str, ...]
    """Sites that take part in the propensity model."""
    balance: balance.Balance | None
    overlap: overlap.Overlap | None
    notes: tuple[str, ...]


def design(talk: Talk, study: Study, moments: Mapping[str, SiteMoments], indicators: np.ndarray) -> Design:
    """Balance and overlap: nothing here has seen an outcome."""
    columns, kinds = design_columns(study)
    names = (*columns, *(f"{columns[i]} missing" for i in indicators))
    own = scales(list(moments.values()), kinds)
    extra = len(indicators)
    varies = np.where(own.x_sd > 0, own.x_sd, 1.0)  # a trait that nobody has yet is no error, and says nothing here
    centre, spread = np.append(own.x_mean, np.zeros(extra)), np.append(varies, np.ones(extra))
    model, willing, notes = _fit_propensity(talk, centre, spread)
    parts = {"centre": centre, "spread": spread, "coefficients": model.coefficients}
    treated = sum(site.treated for site in moments.values()) / sum(site.rows for site in moments.values())
    replies, away = _ask(talk, "balance", parts | {"share": np.array(treated)}, talk.sites)
    notes += _noted(away)
    # Without the propensity model its weights are those of a model that knows nothing: they adjust nothing.
    arms = {name: _arm_moments(reply, weighted=name in willing) for name, reply in replies.items()}
    shown = None
    if willing:
        shown, more = _overlap(talk, parts, willing, replies, model, names, moments, columns)
        notes += more
    return Design(names=names, model=model if willing else None, scales=(centre, spread), willing=willing,
                  balance=balance.summary(arms, names) if arms else None, overlap=shown, notes=notes)


def _fit_propensity(talk: Talk, centre: np.ndarray,
                    spread: np.ndarray) -> tuple[propensity.Propensity, tuple[str, ...], tuple[str, ...]]:
    """(the model, the sites in it, notes). A site that refuses at some step leaves, and the rest begin again: a sum
    that changes its people on the way has no maximum."""
    willing, notes = list(talk.sites), NO_NOTES
    begin = nobody = np.zeros(len(centre) + len(talk.sites))
    for _ in range(propensity.STARTS):
        try:
            return _newton(talk, centre, spread, tuple(willing), begin), tuple(willing), notes
        except _Away as problem:
            willing = [name for name in willing if name not in problem.reasons]
            notes, begin = notes + _noted(problem.reasons), problem.begin
            if not willing:
                break
    return propensity.Propensity(nobody[:len(centre)], nobody[len(centre):], 0, False), (), notes


class _Away(Exception):
    """Sites leave the propensity model, and the others begin again."""

    def __init__(self, reasons: Mapping[str, str], begin: np.ndarray):
        self.reasons, self.begin = reasons, begin


def _newton(talk: Talk, centre: np.ndarray, spread: np.ndarray, willing: Sequence[str],
            begin: np.ndarray) -> propensity.Propensity:
    def ask(at: np.ndarray) -> propensity.Sums:
        values = {"centre": centre, "spread": spread, "coefficients": at}
        total = _masked_sum(talk, values, willing) if talk.secure else _plain_sum(talk, values, willing)
        return propensity.Sums(*(total[name] for name in propensity.Sums._fields))

    return propensity.fit(ask, len(centre), len(talk.sites), start=begin)


def _plain_sum(talk: Talk, values: Mapping[str, np.ndarray], willing: Sequence[str]) -> Sums:
    replies, away = _ask(talk, "propensity", values, willing)
    if away:
        raise _Away(away, np.zeros_like(values["coefficients"]))
    return summed(replies)


def _masked_sum(talk: Talk, values: Mapping[str, np.ndarray], willing: Sequence[str]) -> Sums:
    """Sites that leave add nothing from then on. The others begin half-way to where that was: never where a sum with
    them was opened, from which the one without them could be subtracted."""
    total, refused = _summed(talk, "propensity", values)
    withheld = {} if total is None else total.withheld
    away = refused or {site: _withheld(site, "propensity", code) for site, code in withheld.items() if site in willing}
    if total is None or away:
        raise _Away(away, 0.5 * values["coefficients"])
    return total.sums


def _summed(talk: Talk, kind: str, values: Mapping[str, np.ndarray]) -> tuple[Total | None, dict[str, str]]:
    """(a diagnostic's sum under masks, no reasons), or (none, a reason for every site): a site that refuses openly
    (its operator declined) keeps the sum of all closed."""
    try:
        return talk.terms.sums.total(talk, Ask(diagnostic(kind), dict(values))), {}
    except WITHHELD_ERRORS as problem:
        return None, dict.fromkeys(talk.sites, f"the diagnostic '{kind}' is not summed over the sites: {problem}")


def _withheld(site: str, kind: str, code: str) -> str:
    why = "it could not be computed there" if code == NumericalError.code else "too few people would carry it"
    return f"site '{site}' withholds its part of the diagnostic '{kind}': {why}. The diagnostics go on without it"


Willing = tuple[dict[str, Reply], dict[str, str]]
"""(replies, reasons of the sites that may not tell)."""


def _ask(talk: Talk, kind: str, values: Mapping[str, np.ndarray], sites: Sequence[str]) -> Willing:
    """(replies, reasons of those who may not tell)."""
    return _ask_each(talk, kind, dict.fromkeys(sites, values))


def _ask_each(talk: Talk, kind: str, values: Mapping[str, Mapping[str, np.ndarray]]) -> Willing:
    """The same, with parameters for each site; MessageError names the site whose answer has another form."""
    asks = {site: Ask(diagnostic(kind), dict(own)) for site, own in values.items()}

    def request(ask: Ask) -> Make:
        return lambda base: request_of(ask, base, 0, {})

    replies, away = talk.ask_willing({site: request(ask) for site, ask in asks.items()}, WITHHELD)
    for site, reply in replies.items():
        check_form(reply, REQUESTS[asks[site].name], sizes(asks[site].arrays))
    return replies, away


def _noted(away: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(away.values()))


def _arm_moments(reply: Reply, weighted: bool) -> balance.ArmMoments:
    s = reply.sums
    shown = s["told"] & np.array([True, weighted, weighted])[:, None]
    return balance.ArmMoments(s["size"], s["mean"], s["variance"], shown)


def _overlap(talk: Talk, parts: Mapping[str, np.ndarray], willing: Sequence[str], balanced: Mapping[str, Reply],
             model: propensity.Propensity, names: Sequence[str], moments: Mapping[str, SiteMoments],
             columns: Sequence[str]) -> tuple[overlap.Overlap, tuple[str, ...]]:
    """(the overlap, notes)."""
    replies, away = _ask(talk, "overlap", parts, willing)
    site_counts = {name: _site_counts(reply) for name, reply in replies.items()}
    sizes = {name: np.array([moments[name].rows - moments[name].treated, moments[name].treated]) for name in moments}
    effective = {name: _effective([balanced[name]] if name in balanced else []) for name in site_counts}
    everyone = _effective([balanced[name] for name in site_counts if name in balanced])
    values, counts = (np.stack([getattr(moments[name].x, key) for name in talk.sites]) for key in ("values", "count"))
    shifts = overlap.shift_of_sites(values[:, 0], values[:, 1], counts, columns, talk.sites) if len(moments) > 1 else ()
    own_scales = parts["centre"], parts["spread"]
    made = overlap.summary(site_counts, sizes, effective, everyone, model, names, own_scales, talk.sites, shifts)
    return made, _noted(away)


def _effective(replies: Sequence[Reply]) -> np.ndarray:
    """[2] (Σω)²/Σω² of inverse probability weights over these sites; NaN where one of them withholds its own."""
    if not replies:
        return np.full(2, np.nan)
    which = balance.WEIGHTINGS.index("iptw")
    weight, square = (np.array([reply.sums[key][which] for reply in replies]) for key in ("weight", "square"))
    known = (square > 0).all(0)
    return np.where(known, weight.sum(0) ** 2 / np.where(known, square.sum(0), 1.0), np.nan)


def _site_counts(reply: Reply) -> overlap.SiteCounts:
    s = reply.sums
    return overlap.SiteCounts(s["counts"], s["hidden"], s["totals"], s["totals_hidden"], s["where_size"],
                              s["where_mean"], s["where_told"])


# --- after the effects

@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What the checks need of a fitted study."""

    model: Family
    theta: np.ndarray
    draws: Mapping[str, np.ndarray]
    beta: BetaLaw | None
    """Of each draw of θ; None in the model `paper`."""
    trace: tuple[fit.Step, ...]
    cap: int
    ended: str
    sums: Mapping[str, Mapping[str, np.ndarray]]
    """Each site's per-draw effect sums; under secure sums its averages, or of no site."""
    total: Mapping[str, np.ndarray]
    """The same summed over sites."""
    correlations: np.ndarray
    y_mean: float
    y_sd: float
    """Of the outcome's model units."""


def checks(talk: Talk, moments: Mapping[str, SiteMoments], before: Design, fitted: Fitted) -> Diagnostics:
    """All diagnostics: those of the design, and those that need the fitted model."""
    outcome = pool([arm for site in moments.values() for arm in site.y]).values
    sd = float(np.sqrt(outcome[1, 0]))
    law = _beta_law(fitted)
    centre, spread = before.scales
    values = {"centre": centre, "spread": spread, "edges": fit.calibration_edges(float(outcome[0, 0]), sd),
              "beta_mean": np.asarray(law.mean), "beta_root": np.asarray(law.root)}
    known = before.model.coefficients if before.model is not None else np.zeros(0)
    answers = (_masked_checks(talk, values | {"coefficients": known}, fitted) if talk.secure
            else _plain_checks(talk, values, known, before.willing))
    effects = {name: heterogeneity.Sums(*map(float, own["effect"])) for name, own in answers.sites.items()}
    made, failed = tried({
        "fit": lambda: fit.summary(fitted.trace, fitted.cap, fitted.ended,
                                   {name: own["residuals"] for name, own in answers.sites.items()}, answers.everyone),
        "heterogeneity": lambda: heterogeneity.summary(effects, {name: _site_effect(fitted.sums[name])
                                                                 for name in effects if name in fitted.sums}),
        "sensitivity": lambda: _sensitivity(fitted, sd, moments, before, answers.share)})
    notes = before.notes + answers.notes + failed
    return Diagnostics(balance=before.balance, overlap=before.overlap, notes=notes, **made)


class _Told(NamedTuple):
    """What the sites say of the fitted model."""

    sites: Mapping[str, Sums]
    """Site → its 'effect' [3] and 'residuals' [2, 3]."""
    everyone: fit.Pooled | None
    share: np.ndarray
    """[2] people, Σe."""
    notes: tuple[str, ...]


def _plain_checks(talk: Talk, values: dict[str, np.ndarray], known: np.ndarray, willing: Sequence[str]) -> _Told:
    replies, away = _ask_each(talk, "outcome", {
        name: values | {"coefficients": known if name in willing else np.zeros(0)} for name in talk.sites})
    share = sum((reply.sums["treated_share"] for reply in replies.values()), np.zeros(2))
    return _Told({name: reply.sums for name, reply in replies.items()}, fit.pooled([*map(_site_fit, replies.values())]),
                 share, _noted(away))


def _masked_checks(talk: Talk, values: dict[str, np.ndarray], fitted: Fitted) -> _Told:
    """Only effects and residuals are told site by site."""
    total, refused = _summed(talk, "outcome", values)
    if total is None:
        return _Told({}, None, np.zeros(2), _noted(refused))
    own = {site: part for site, part in total.sites.items()
           if site not in total.withheld and part.keys() >= set(REQUESTS[diagnostic("outcome")].by_site)}
    sites, *sums = (total.sums[name] for name in fit.Pooled._fields)
    everyone = fit.Pooled(float(sites), *sums)
    shown = fit.in_units(everyone, fitted.y_mean, fitted.y_sd) if everyone.sites > 0 else None
    return _Told(own, shown, total.sums["treated_share"],
                 tuple(_withheld(site, "outcome", code) for site, code in total.withheld.items()))


def tried(sections: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(the sections, a note for each that has no finite answer): a fit of hours is not lost for it."""
    made, failed = {}, []
    for name, make in sections.items():
        try:
            made[name] = make()
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as problem:
            failed.append(f"the section '{name}' could not be computed ({type(problem).__name__})")
    return made, tuple(failed)


def _beta_law(fitted: Fitted) -> BetaLaw:
    draws = len(next(iter(fitted.draws.values())))
    which = leave_one_out.chosen(draws)
    if fitted.beta is None:
        return leave_one_out.no_beta(len(which))
    most = max(1, LARGEST_LAW // fitted.beta.root.shape[-1] ** 2)
    which = which[:most]
    return BetaLaw(np.asarray(fitted.beta.mean)[which], np.asarray(fitted.beta.root)[which])


def _site_fit(reply: Reply) -> fit.SiteFit:
    return fit.SiteFit(*(reply.sums[name] for name in fit.SiteFit._fields))


def _site_effect(sums: Mapping[str, np.ndarray]) -> heterogeneity.Interval:
    effect = EffectSums((sums,)).expected()
    low, high = effect.interval()
    return heterogeneity.Interval(mean=effect.mean, low=low, high=high)


def _sensitivity(fitted: Fitted, sd: float, moments: Mapping[str, SiteMoments], before: Design,
                 share: np.ndarray) -> sensitivity.Sensitivity:
    sums = EffectSums((fitted.total,))
    effect = sums.expected()
    low, high = effect.interval()
    noise = np.asarray(leave_one_out.noise_sd(fitted.model, fitted.theta, fitted.model.draws_at(fitted.draws, 0)))
    noise_sd = fitted.y_sd * np.sqrt(np.mean(noise**2, axis=0))
    dof = sums.people() - len(before.names) - len(moments) - 1
    return sensitivity.summary(effect.mean, effect.sd, low, high, sd, dof,
                               float(share[1] / share[0]) if share[0] > 0 else _treated(moments),
                               (float(noise_sd[0]), float(noise_sd[1])),
                               _correlations(sums, fitted.correlations))


def _treated(moments: Mapping[str, SiteMoments]) -> float:
    """The share of the treated, where no site tells its mean propensity: the two agree on average."""
    return sum(site.treated for site in moments.values()) / sum(site.rows for site in moments.values())


def _correlations(sums: EffectSums, correlations: np.ndarray) -> tuple[sensitivity.NoiseCorrelation, ...]:
    rows = []
    for correlation in correlations:
        effect = sums.realised(correlation)
        low, high = effect.interval()
        rows.append(sensitivity.NoiseCorrelation(
            correlation=None if np.isnan(correlation) else float(correlation), mean=effect.mean, low=low, high=high,
            person_sd=sums.person_sd(correlation)))
    return tuple(rows)
