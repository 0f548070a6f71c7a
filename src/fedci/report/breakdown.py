"""The effect taken apart: as sources are added, site by site, and person by person."""

from __future__ import annotations

from typing import Any

from fedci.effect import Effect, EffectSums
from fedci.report import plots
from fedci.report.answer import effects_table
from fedci.report.parts import TITLES, Figure, Grid, Part, Section, Table
from fedci.report.slots import Interval
from fedci.report.svg import number
from fedci.result.result import Result
from fedci.result.words import thresholds


def sources(result: Result, others: dict[str, Result], effect_on: str) -> Section:
    parts: list[Part] = []
    if others:
        named = {f"{len(other.sites)} sources ({name})": other.ate() for name, other in others.items()}
        named[f"all {len(result.sites)} sources"] = result.ate()
        parts = [Figure(plots.densities(named, effect_on.capitalize(), "by number of sources"),
                        "The average effect as sources are added: each curve is a fit over so many sources.",
                        _density_table(named))]
    elif len(result.sites) > 1 and not _by_draw(result):
        parts = ["How the sites' effects vary together is not told in this study, so averages over some of them have "
                 "no interval. Fits over fewer sources are shown when given by --with."]
    elif len(result.sites) > 1 and set(result.sites) <= set(result.outcome.effects.sums):
        named = _cumulative(result)
        parts = [Figure(plots.densities(named, effect_on.capitalize(), "over the people of more and more sites"),
                        "The average effect over the people of the first site, the first two, …: all from this one "
                        "fit, which learnt from every site. Fits over fewer sources are shown when given by --with.",
                        _density_table(named))]
    elif len(result.sites) > 1:
        parts = ["The effects of single sites are not told in this study."]
    else:
        parts = ["There is one source only."]
    return Section("sources", TITLES["sources"], parts)


def _by_draw(result: Result) -> bool:
    """Whether sites told their effects draw by draw: within a draw they are independent, and may be added."""
    return result.outcome.effects.total is None and not result.study.policy.noises("effects")


def _cumulative(result: Result) -> dict[str, Effect]:
    sums = result.outcome.effects.sums
    named = {}
    for k in range(1, len(result.sites) + 1):
        of_some = EffectSums(tuple(sums[site] for site in result.sites[:k]))
        label = result.sites[0] if k == 1 else f"+ {result.sites[k - 1]}"
        named[label] = of_some.expected() if k < len(result.sites) else result.ate()
    return named


def _density_table(named: dict[str, Effect]) -> Table:
    return Table(["curve", "mean", "sd", "95% interval"], [
        [name, number(effect.mean), number(effect.sd), " to ".join(number(end) for end in effect.interval())]
        for name, effect in named.items()])


def sites(result: Result, alpha: float, effect_on: str) -> Section:
    rows = {row.site: row for row in result.table(alpha).itertuples() if row.estimand == "ATE"}
    made = {name: Interval(site="all sites" if name == "all" else name, mean=row.mean, low=row.low, high=row.high)
            for name, row in rows.items()}
    overall = made.pop("all")
    people = {"all sites" if name == "all" else name: row.people for name, row in rows.items()}
    figure = Figure(plots.forest(list(made.values()), overall, effect_on.capitalize(), people),
                    "The average effect over each site's own people, and over all (diamond). Sites share what the "
                    "model learns, so that small sites borrow from the others.", effects_table(result, alpha))
    return Section("sites", TITLES["sites"], [figure])


def people(made: dict[str, Any], effect_on: str, level: str = "risk") -> Section:
    """`level`: what is expected in an arm, of what is no number: a risk, or a rate."""
    spread = made["population"]
    parts: list[Part] = [
        f"Effects differ between people by a standard deviation of about {number(spread['sd'])}; the expected "
        f"effect is above zero for {spread['positive']:.0%} of people (what is known leaves "
        f"{spread['positive_low']:.0%} to {spread['positive_high']:.0%}). Both are computed for a population drawn "
        f"with the pooled means, spreads and shares that the sites told, columns independent: nothing here is of any "
        f"person.",
        Figure(plots.population(spread, effect_on.capitalize()),
               "How effects are spread over people like the study's. Lines: 95% bands of each bar.",
               Table(["from", "to", "share", "95% band"], [
                   [number(spread["edges"][k]), number(spread["edges"][k + 1]), f"{share:.1%}",
                    f"{spread['low'][k]:.1%} to {spread['high'][k]:.1%}"] for k, share in enumerate(spread["share"])]))]
    drivers = made["drivers"]
    if drivers is not None:
        parts.append(Table(["part of the model", "share of the outcome", "share of the effect", "largest weights"], [
            [row["part"], f"{row['outcome']:.0%}", f"{row['effect']:.0%}", row["covariates"]] for row in drivers],
            "What carries the outcome and the effect"))
    if made["thresholds"] is not None:
        parts.extend(thresholds(made["thresholds"], 0.05))
    steep = sorted(made["curves"], key=lambda curve: min(curve["effect"]) - max(curve["effect"]))
    parts.append("The effect along each covariate, the others at their pooled means; those that change the effect most "
                 "come first. Bands hold 95% of what is known of the function that all sites share.")
    parts.append(Grid([Figure(plots.curve(curve, "effect"), "", _curve_table(curve)) for curve in steep[:12]]))
    if any("arms" in curve for curve in steep):
        parts.append(f"The same of the {level} in each arm: where both lines are far apart treatment does much, and "
                     f"where they are high many have the event whatever is done.")
        parts.append(Grid([Figure(plots.arms(curve, level), "", _arms_table(curve)) for curve in steep[:6]]))
    if len(steep) > 12:
        parts.append(f"{len(steep) - 12} more covariates change the effect less and are not drawn; "
                     f"aggregates.json beside the result holds them.")
    return Section("people", TITLES["people"], parts)


def _curve_table(curve: dict[str, Any]) -> Table:
    return Table([curve["covariate"], "effect", "95% band"], [
        [where, number(curve["effect"][k]), f"{number(curve['low'][k])} to {number(curve['high'][k])}"]
        for k, where in _places(curve)])


def _places(curve: dict[str, Any]) -> list[tuple[int, str]]:
    """Of a number every fourth."""
    is_line = curve["type"] == "numeric"
    return [(k, number(curve["at"][k]) if is_line else str(curve["at"][k]))
            for k in range(0, len(curve["at"]), 4 if is_line else 1)]


def _arms_table(curve: dict[str, Any]) -> Table:
    def cell(arm: str, k: int) -> str:
        mean, low, high = (curve["arms"][arm][part][k] for part in ("mean", "low", "high"))
        return f"{number(mean)} ({number(low)} to {number(high)})"

    return Table([curve["covariate"], "without treatment", "with treatment"], [
        [where, cell("untreated", k), cell("treated", k)] for k, where in _places(curve)])
