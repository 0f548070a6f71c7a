"""A site's side of the diagnostics: sums and thresholded counts over its people.

    propensity   slopes → log-likelihood, gradient, Hessian, the site's own intercept profiled out
    balance      slopes → weighted sums of the arms            small cells and lopsided weights withheld
    overlap      slopes → people by preference score           small counts hidden (`diagnostics.counts`)
    missingness  people without a value, in each arm           small counts hidden
    outcome      slopes, law of β̃ → sums of ψ, residuals, places, calibration bins

    trial        sums of outcomes and of their squares in each arm, of a randomised study

Which arrays answer a kind, which of them are told of each site and how often it is asked, `protocol.requests` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedci.diagnostics import balance, counts, fit, heterogeneity, missingness, overlap, sameness, trial
from fedci.diagnostics import propensity as propensities
from fedci.errors import SiteError
from fedci.model.family import Arrays, Family
from fedci.model.rows import BetaLaw, Rows, on_device
from fedci.site.describing import Part
from fedci.site.left_out import predicted
from fedci.site.people import Posterior
from fedci.site.prepared import Units
from fedci.study.policy import Policy
from fedci.table import small_cells
from fedci.table.moments import round_digits
from fedci.table.table import Table


@dataclass(frozen=True, kw_only=True)
class Here:
    """What the diagnostics need of a site that knows the common units."""

    table: Table
    policy: Policy
    units: Units
    model: Family
    arrays: Rows
    posterior: Posterior | None
    """Once the effects were asked for."""
    tells_effect: bool = True
    """Whether the study lets the site's own average effect be seen."""

    def rows(self) -> np.ndarray:
        """[n, p] covariates, NaN where missing and 0 where the column stays here, and indicators of what is missing."""
        x = np.where(np.isfinite(self.units.x_sd), self.table.x, 0.0)
        return np.hstack([x, self.table.missing[:, self.units.indicators].astype(float)])

    def scaled(self, arrays: Arrays) -> np.ndarray:
        """[n, p] in pooled standard deviations, missing: the mean."""
        return np.nan_to_num((self.rows() - arrays["centre"]) / arrays["spread"], nan=0.0)


def answer(here: Here, kind: str, arrays: Arrays) -> Part:
    return KINDS[kind](here, arrays)


# --- the kinds

def _propensity(here: Here, arrays: Arrays) -> Part:
    return Part(propensities.sums(here.scaled(arrays), here.table.w, arrays["slopes"])._asdict())


def _balance(here: Here, arrays: Arrays) -> Part:
    """Under each weighting; of covariates whose small cells in an arm could be told, and of weights that few people
    carry, nothing."""
    w, x = here.table.w, (here.rows() - arrays["centre"]) / arrays["spread"]
    e = np.clip(propensities.scores(here.scaled(arrays), w, arrays["slopes"]), 1e-9, 1 - 1e-9)
    omega = balance.weights(w, e, float(np.clip(arrays["share"], 1e-9, 1 - 1e-9)))
    size, first, second = balance.arm_sums(x, w, omega)
    arms = np.stack([w == 0, w == 1]).astype(float).T
    weight, square = omega @ arms, omega**2 @ arms
    carried = np.array([[propensities.effective(weights[w == arm]) for arm in (0, 1)] for weights in omega])
    carries = np.array([True, *(carried[1:].min(1) >= here.policy.min_cell)])
    shown = carries[:, None] & ~_small(here, w)[None]
    size = _without_small_gaps(here, w, size, weight)
    sums = {name: np.where(shown[:, None, :], part, 0.0)
            for name, part in (("size", size), ("first", first), ("second", second))}
    return Part(sums | {"told": shown.astype(float), "carried": carries.astype(float),
                        "weight": np.where(carries[:, None], weight, 0.0),
                        "square": np.where(carries[:, None], square, 0.0)})


def _small(here: Here, group: np.ndarray) -> np.ndarray:
    """[p] columns of two values with a small cell in one of the two groups: withheld in both, or one tells the
    other; and those that stay here altogether."""
    away = np.append(~np.isfinite(here.units.x_sd), np.zeros(len(here.units.indicators), bool))
    return away | small_cells.alone(here.rows(), group, here.policy.min_cell)


def _without_small_gaps(here: Here, group: np.ndarray, size: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """[S, 2, p] Σω over known values; over all people where so few values are missing that their number may not be told
    (the mean then counts a little too much when sites are pooled)."""
    untold = small_cells.gaps(here.rows(), group, here.policy.min_cell)
    return np.where(untold, weight[:, :, None], size)


def _overlap(here: Here, arrays: Arrays) -> Part:
    w, least, x = here.table.w, here.policy.min_cell, here.scaled(arrays)
    eta = x @ arrays["slopes"]
    intercept = propensities.best_intercept(eta, w)
    place = overlap.bin_of(overlap.preference(propensities.scores(x, w, arrays["slopes"]), float(w.mean())))
    arms = [np.bincount(place[w == arm], minlength=overlap.BINS) for arm in (0, 1)]
    nested = [counts.hide_nested(arm, overlap.GROUP, least) for arm in arms]
    hidden, totals, totals_hidden = (np.stack(part) for part in zip(*nested, strict=True))
    outside = np.isin(overlap.GROUP[place], overlap.OUTSIDE).astype(float)
    side = np.where(place < overlap.BINS // 2, -1.0, 1.0)
    size, first, _ = balance.arm_sums(side[:, None] * (here.rows() - arrays["centre"]) / arrays["spread"], outside,
                                      np.ones((1, len(w))))
    tails_told = not totals_hidden[:, list(overlap.OUTSIDE)].any()
    enough = min(outside.sum(), (1 - outside).sum()) >= max(least, 1)
    shown = np.asarray((tails_told and enough) & ~_small(here, outside))
    people = np.array([[np.sum(1 - outside), np.sum(outside)]])
    size = _without_small_gaps(here, outside, size, people)
    return Part({
        "counts": counts.shown(np.stack(arms), hidden), "hidden": hidden.astype(float),
        "shares": overlap.shares(totals, totals_hidden, np.array([np.sum(w == 0), np.sum(w == 1)])),
        "where_told": shown.astype(float), "where_size": np.where(shown, size[0, 1], 0.0),
        "where_total": np.where(shown, first[0, 1], 0.0)}, {"intercept": np.asarray(intercept)})


def _outcome(here: Here, arrays: Arrays) -> Part:
    """Sums over the site's people of what the model says of each without them, in model units; without slopes no
    effect."""
    if here.posterior is None:
        raise SiteError(f"site '{here.table.site}' was asked out of turn: it waits for the effects' draws first")
    law = BetaLaw(on_device(arrays["beta_mean"]), on_device(arrays["beta_root"]))
    t, least, mean, kind = here.table, here.policy.min_cell, here.units.y_mean, here.model.outcome
    told, unit = predicted(t, here.units, here.model, here.arrays, here.posterior, law), here.units.of_effects(kind)
    residuals, bins, line = fit.site_fit_sums((told.y - mean) / unit, told.w, (told.mean - mean) / unit, told.sd / unit,
                                              (np.sort(arrays["edges"]) - mean) / unit)
    places = fit.place_counts(told.place)
    places_hidden, bins_hidden = counts.hide(places, least), counts.hide(bins[:, 0], least)
    if kind in ("binary", "survival"):
        bins_hidden |= fit.few_events(bins, least) | fit.few_people(told.mean, told.person, arrays["edges"], least)
    effect, share, same = np.zeros(3), np.zeros(2), np.zeros((sameness.POWERS, sameness.POWERS))
    if len(arrays["slopes"]) and here.tells_effect:
        e = propensities.scores(here.scaled(arrays), t.w, arrays["slopes"])
        share = np.array([t.rows, e.sum()])
        if kind != "survival" and tells_own_effect(here, e):  # a time that was cut short has no such effect
            psi = heterogeneity.influence(t.w, by_person(t, kind), told.arms, e)
            effect = np.array([len(psi), psi.sum(), psi @ psi])
            same = sameness.person_sums(psi / unit, (told.arms[:, 1] - told.arms[:, 0]) / unit)
    part = fit.site_part(counts.shown(places, places_hidden), places_hidden,
                         np.where(bins_hidden[:, None], 0.0, bins), line)
    return Part(part._asdict() | {"treated_share": share, "sameness": same},
                {"effect": effect, "residuals": _rounded(here, residuals)})


def tells_own_effect(here: Here, e: np.ndarray) -> bool:
    """Whether both arms are here, and the weights of ψ rest on min_cell people's worth in each: else Σψ² would tell one
    person's residual."""
    w, weights = here.table.w, heterogeneity.weights(here.table.w, e)
    return all(np.any(w == arm) and propensities.effective(weights[w == arm]) >= here.policy.min_cell for arm in (0, 1))


def _rounded(here: Here, rows: np.ndarray) -> np.ndarray:
    """Counts in the first column as they are, sums to the policy's digits."""
    return np.column_stack([rows[:, 0], round_digits(rows[:, 1:], here.policy.moment_digits)])


def by_person(table: Table, kind: str) -> np.ndarray:
    """[n] outcomes as effects are of them: 0 and 1 as they are on average without flips, counts per unit of
    exposure."""
    if kind == "binary":
        return (table.y - table.added) / (1.0 - 2.0 * table.added)
    return table.y / table.time if kind == "count" and table.time is not None else table.y


def _missingness(here: Here, arrays: Arrays) -> Part:
    table, away = here.table, ~np.isfinite(here.units.x_sd)
    return Part(missingness.site_sums(np.isnan(table.x), table.w, table.dropped, here.policy.min_cell, away))


def _trial(here: Here, arrays: Arrays) -> Part:
    """Of numbers in model units; in the plain, as the site tells outcomes."""
    table, kind = here.table, here.model.outcome
    y = by_person(table, kind) if kind == "binary" else (table.y - here.units.y_mean) / here.units.of_effects(kind)
    exposure = table.time if kind == "count" and table.time is not None else np.ones(table.rows)
    arms = trial.arm_moments(table.w, y, exposure)
    return Part({"arms": np.column_stack([arms[:, 0], round_digits(arms[:, 1:], here.policy.moment_digits)]),
                 "strata": round_digits(trial.stratum(arms), here.policy.moment_digits)})


KINDS: Mapping[str, Callable[[Here, Arrays], Part]] = {
    "propensity": _propensity, "balance": _balance, "overlap": _overlap, "missingness": _missingness,
    "outcome": _outcome, "trial": _trial}
"""What computes each kind; the rows of `protocol.requests` say what of it leaves."""
