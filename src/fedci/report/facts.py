"""From a result to what the report's page shows: sentences, tables and plots, section by section.

A section is {id, title, parts}; a part is a paragraph, a plot with its caption and the numbers behind it, or a table.
What a section needs and the result does not hold is said in a sentence, so that a reader misses nothing silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedci.effect import POPULATIONS, Effect, EffectSums
from fedci.report import checklists, choices, manuscript, plots
from fedci.report.parts import Figure, Grid, Part, Section, Table
from fedci.report.slots import Curve, Interval, Slots
from fedci.report.svg import number
from fedci.result.result import Result
from fedci.result.words import average, by_when, of_people, plain_difference, thresholds
from fedci.site import ledger
from fedci.site.release import numbers_told
from fedci.study.study import Study

WAITING = "This result holds no {what}. {how}"
TITLES = {"answer": "The answer", "sources": "As sources are added", "sites": "Site by site",
          "people": "For whom, and what drives it", "sensitivity": "What if an assumption is wrong?"}
"""Of the sections that tell effects."""
SCALES = {"numeric": "Gaussian noise", "binary": "log odds", "survival": "log odds of hazards by interval",
          "count": "logs of rates"}
"""What the model's function is on, by the type of the outcome."""
OVER = {population.estimand: population.who for population in POPULATIONS}
DIAGNOSTICS = ("It is shown here when the study asks for it (docs/diagnostics.md) and its diagnostics lie beside the "
               "result (diagnostics.json).")


@dataclass(frozen=True)
class Extra:
    """What a report may be given beside its result."""

    slots: Slots
    aggregates: dict[str, Any]
    others: dict[str, Result]
    """Results over fewer sources, in the order in which sources were added."""
    ledgers: dict[str, list[dict[str, Any]]]


def sections(result: Result, extra: Extra, alpha: float) -> list[Section]:
    effect_on, degenerate = f"effect on {result.study.said(result.study.outcome)}", result.degenerate
    sensitivity = (_sensitivity(result, extra.slots, effect_on, alpha) if degenerate is None else
                   _untold("sensitivity"))
    return [
        *(_effects(result, extra, effect_on, alpha) if degenerate is None else _no_effects(result, degenerate)),
        *(_with_verdicts(section, extra.slots) for section in (
            _balance(_labelled(extra.slots, result.study)), _overlap(extra.slots),
            _heterogeneity(extra.slots, effect_on), sensitivity, _refuters(extra.slots), _fit(result, extra.slots))),
        *manuscript.sections(result, alpha), _left(result, extra.ledgers), _assumptions(result, extra.slots),
        _made(result), *checklists.sections(result, alpha)]


def _labelled(slots: Slots, study: Study) -> Slots:
    """Covariates by what the study calls them."""
    rows = [row.model_copy(update={"covariate": study.label(row.covariate)}) for row in slots.balance or ()]
    return slots.model_copy(update={"balance": rows}) if rows else slots


def _with_verdicts(section: Section, slots: Slots, kind: str | None = None) -> Section:
    """What the diagnostics of this section (or of another kind) say in words stands before its plots."""
    said = (slots.verdicts or {}).get(kind or section.id)
    if not said:
        return section
    table = Table(["verdict", "of", "in words"], [[verdict.verdict, verdict.name, verdict.words] for verdict in said])
    return Section(section.id, section.title, [table, *section.parts])


def _effects(result: Result, extra: Extra, effect_on: str, alpha: float) -> list[Section]:
    if result.many:
        return [_answer_of_arms(result, effect_on, alpha), _sites_of_arms(result, effect_on, alpha), _drivers(result)]
    return [_answer(result, alpha), _sources(result, extra, effect_on), _sites(result, alpha, effect_on),
            *choices.subgroups(result, effect_on, alpha), *choices.whom_to_treat(result, alpha),
            _with_verdicts(_people(extra.aggregates, effect_on), extra.slots, "sameness")]


def _no_effects(result: Result, degenerate: str) -> list[Section]:
    """In place of what would be read as a finding."""
    answer = Section("answer", TITLES["answer"], [degenerate, *[f"Note: {text}" for text in result.warnings()]])
    return [answer, *(_untold(name) for name in ("sources", "sites", "people"))]


def _untold(name: str) -> Section:
    return Section(name, TITLES[name], ["Not shown: the fit is degenerate, as the answer says. The numbers stand in "
                                        "effects.csv beside the result, and are not to be used."])


# ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────


def _answer(result: Result, alpha: float) -> Section:
    ate, study = result.ate(), result.study
    low, high = ate.interval(alpha)
    unit = f" {study.unit(study.outcome)}" if study.unit(study.outcome) else ""
    level, certain = f"{100 * (1 - alpha):g}%", plots.positive(ate)
    direction = "raises" if ate.mean > 0 else "lowers"
    clear = (f"the whole {level} interval lies {'above' if low > 0 else 'below'} zero" if low > 0 or high < 0 else
             f"the {level} interval holds zero: the data do not settle the direction")
    words = (f"{of_people(result, alpha)} On average over all people {clear}. The probability that treatment raises "
             f"the {'rate' if result.of_rates else 'risk'} is {_chance(certain)}." if not result.of_numbers else
             f"On average, {study.label(study.treatment)} {direction} {study.label(study.outcome)} by "
             f"{number(abs(ate.mean))}{unit} ({level} interval {number(low)} to {number(high)}); {clear}. The "
             f"probability of a positive average effect is {_chance(certain)}.")
    figure = Figure(plots.answer(ate, low, high, study.said(study.outcome)),
                    f"What is known of the average effect over all people. The shaded part is the {level} "
                    f"interval; the dashed line marks no effect, where it is near.",
                    _effects_table(result, alpha, ("all",)))
    risks: list[Part] = [_risks_table(result, alpha)] if result.of_risks else []
    risks += [_rates_table(result, alpha)] if result.of_rates else []
    risks += _curves(result, alpha) if result.of_times else []
    lot = result.diagnostics.trial if result.diagnostics is not None else None
    by_lot = [] if lot is None else [plain_difference(lot)]
    return Section("answer", TITLES["answer"], [choices.glance(result, alpha), words, *by_lot, figure, *risks,
                                                *[f"Note: {text}" for text in result.warnings()]])


def _answer_of_arms(result: Result, effect_on: str, alpha: float) -> Section:
    """Of more than two arms: each against the reference in words, every contrast over everybody drawn."""
    names, level = result.study.arms, f"{100 * (1 - alpha):g}%"
    words = [f"{name} compared with {names[0]}: {average(result.between(name), alpha)}" for name in names[1:]]
    table, arms = result.contrasts(alpha), result.arm_table(alpha)
    arms = arms[(arms.over == "all") & (arms.site == "all")]
    shown = table[(table.estimand == "ATE") & (table.site == "all")]
    figure = Figure(plots.forest(_contrast_intervals(shown), None, effect_on.capitalize(), {}),
                    f"Every arm against every other, over all people, with {level} intervals.",
                    _contrast_table(shown, level))
    what = "mean" if result.of_numbers else "rate" if result.of_rates else f"risk{by_when(result)}"
    each = Table(["arm", what, "sd", f"{level} interval"],
                 [[row.arm, number(row.mean), number(row.sd), f"{number(row.low)} to {number(row.high)}"]
                  for row in arms.itertuples()], f"{result.study.said(result.study.outcome)}, if everybody got the arm")
    return Section("answer", TITLES["answer"], [*words, figure, each,
                                                *[f"Note: {text}" for text in result.warnings()]])


def _sites_of_arms(result: Result, effect_on: str, alpha: float) -> Section:
    """A forest of the sites for each arm against the reference, and every contrast over every group in a table."""
    table, level, parts = result.contrasts(alpha), f"{100 * (1 - alpha):g}%", list[Part]()
    for name in result.study.arms[1:]:
        own = table[(table.arm == name) & (table.against == result.study.arms[0]) & (table.estimand == "ATE")]
        rows = {row.site: row for row in own.itertuples()}
        made = {site: Interval(site="all sites" if site == "all" else site, mean=row.mean, low=row.low, high=row.high)
                for site, row in rows.items()}
        overall = made.pop("all")
        people = {"all sites" if site == "all" else site: row.people for site, row in rows.items()}
        parts.append(Figure(plots.forest(list(made.values()), overall, effect_on.capitalize(), people),
                            f"{name} compared with {result.study.arms[0]}, over each site's own people, and over all "
                            f"(diamond)."))
    return Section("sites", TITLES["sites"], [*parts, _contrast_table(table, level)])


def _contrast_intervals(table: Any) -> list[Interval]:
    return [Interval(site=f"{row.arm} vs {row.against}", mean=row.mean, low=row.low, high=row.high)
            for row in table.itertuples()]


def _contrast_table(table: Any, level: str) -> Table:
    over = {"ATE": "everybody", "ATT": "who got {0.arm}", "ATC": "who got {0.against}"}
    return Table(["arm", "against", "average over", "site", "people", "effect", "sd", f"{level} interval"],
                 [[row.arm, row.against, over[row.estimand].format(row), row.site, f"{row.people:,}", number(row.mean),
                   number(row.sd), f"{number(row.low)} to {number(row.high)}"] for row in table.itertuples()])


def _drivers(result: Result) -> Section:
    table = result.drivers()
    parts: list[Part] = [] if table is None else [
        Table(["part of the model", "share of the outcome", "share of the effect", "largest weights"],
              [[row.part, f"{row.outcome:.0%}", f"{row.effect:.0%}", row.covariates] for row in table.itertuples()],
              "What carries the outcome, and what the other arms on average change of it")]
    return Section("people", TITLES["people"], parts)


def _curves(result: Result, alpha: float) -> list[Part]:
    """Of a time to an event, over everybody: survival by arm, and in numbers at each time."""
    curves, time = result.survival(), str(result.study.time)
    arms = {name: (np.asarray(arm.mean), np.asarray(arm.interval(alpha)[0]), np.asarray(arm.interval(alpha)[1]))
            for name, arm in (("without treatment", curves.of_untreated), ("with treatment", curves.of_treated))}
    table = result.survival_table(alpha)
    table = table[(table.over == "all") & (table.site == "all")]

    def cell(row: Any, name: str) -> str:
        value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
        return f"{number(value)} ({number(low)} to {number(high)})"

    names = ("survival_untreated", "survival_treated", "difference", "rmst_difference")
    level = f"{100 * (1 - alpha):g}%"
    return [Figure(plots.survival(curves.times.tolist(), arms, time),
                   f"Survival without {result.study.outcome} over all people, with {level} bands at the ends of the "
                   f"intervals; competing events are not told apart from the end of follow-up.",
                   Table([time, "survival without", "survival with", "difference", "difference of mean times"],
                         [[number(row.time), *(cell(row, name) for name in names)] for row in table.itertuples()],
                         f"Survival, and the mean time without the event up to each time, with {level} intervals"))]


def _rates_table(result: Result, alpha: float) -> Table:
    def cell(row: Any, name: str) -> str:
        value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
        return f"{number(value)} ({number(low)} to {number(high)})"

    who = {population.name: population.who for population in POPULATIONS}
    names = ("rate_untreated", "rate_treated", "difference", "ratio")
    return Table(["over", "site", "rate without", "rate with", "difference", "rate ratio"],
                 [[who[row.over], row.site, *(cell(row, name) for name in names)]
                  for row in result.rate_table(alpha).itertuples()],
                 f"Rates of {result.study.outcome}, with {100 * (1 - alpha):g}% intervals")


def _risks_table(result: Result, alpha: float) -> Table:
    def cell(row: Any, name: str) -> str:
        value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
        return "–" if np.isnan(value) else f"{number(value)} ({number(low)} to {number(high)})"

    names = ("risk_untreated", "risk_treated", "difference", "ratio", "odds_ratio", "needed")
    who = {population.name: population.who for population in POPULATIONS}
    return Table(["over", "site", "risk without", "risk with", "difference", "risk ratio", "odds ratio",
                  "number needed to treat"],
                 [[who[row.over], row.site, *(cell(row, name) for name in names)]
                  for row in result.risk_table(alpha).itertuples()],
                 f"Risks of {result.study.label(result.study.outcome)} = 1{by_when(result)}, with "
                 f"{100 * (1 - alpha):g}% intervals")


def _chance(value: float) -> str:
    return "below 0.1%" if value < 0.001 else "above 99.9%" if value > 0.999 else f"{value:.1%}"


def _effects_table(result: Result, alpha: float, sites: Sequence[str] | None = None) -> Table:
    rows = [[row.estimand, row.site, f"{row.people:,}", number(row.mean), number(row.sd),
             f"{number(row.low)} to {number(row.high)}"] for row in result.table(alpha).itertuples()
            if sites is None or row.site in sites]
    return Table(["average over", "site", "people", "effect", "sd", f"{100 * (1 - alpha):g}% interval"],
                 [[OVER[row[0]], *row[1:]] for row in rows])


def _sources(result: Result, extra: Extra, effect_on: str) -> Section:
    parts: list[Part] = []
    if extra.others:
        named = {f"{len(other.sites)} sources ({name})": other.ate() for name, other in extra.others.items()}
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


def _sites(result: Result, alpha: float, effect_on: str) -> Section:
    rows = {row.site: row for row in result.table(alpha).itertuples() if row.estimand == "ATE"}
    made = {name: Interval(site="all sites" if name == "all" else name, mean=row.mean, low=row.low, high=row.high)
            for name, row in rows.items()}
    overall = made.pop("all")
    people = {"all sites" if name == "all" else name: row.people for name, row in rows.items()}
    figure = Figure(plots.forest(list(made.values()), overall, effect_on.capitalize(), people),
                    "The average effect over each site's own people, and over all (diamond). Sites share what the "
                    "model learns, so that small sites borrow from the others.", _effects_table(result, alpha))
    return Section("sites", TITLES["sites"], [figure])


# ── who profits ─────────────────────────────────────────────────────────────────────────────────────────────


def _people(made: dict[str, Any], effect_on: str) -> Section:
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
    if len(steep) > 12:
        parts.append(f"{len(steep) - 12} more covariates change the effect less and are not drawn; "
                     f"aggregates.json beside the result holds them.")
    return Section("people", TITLES["people"], parts)


def _curve_table(curve: dict[str, Any]) -> Table:
    rows = range(0, len(curve["at"]), 4 if curve["type"] == "numeric" else 1)
    return Table([curve["covariate"], "effect", "95% band"], [
        [number(curve["at"][k]) if curve["type"] == "numeric" else str(curve["at"][k]), number(curve["effect"][k]),
         f"{number(curve['low'][k])} to {number(curve['high'][k])}"] for k in rows])


# ── diagnostics, where they are ─────────────────────────────────────────────────────────────────────────────


def _absent(slots: Slots, slot: str, what: str) -> str:
    if slot in slots.problems:
        return f"The diagnostics hold {what} in a form that this report cannot show ({slots.problems[slot]})."
    noted = " What was asked for and could not be made is noted under what was checked, below." if slots.notes else ""
    return WAITING.format(what=what, how=DIAGNOSTICS) + noted


def _balance(slots: Slots) -> Section:
    rows, title = slots.balance, "Were treated and untreated alike?"
    if not rows:
        return Section("balance", title, [_absent(slots, "balance", "balance of covariates")])
    worst = max(abs(row.after if row.after is not None else row.before) for row in rows)
    table = Table(["covariate", "before", "after"], [
        [row.covariate, number(row.before), "–" if row.after is None else number(row.after)] for row in rows])
    words = f"The largest standardised mean difference is {number(worst)}; 0.1 is the usual bound (dashed)."
    return Section("balance", title, [
        words, Figure(plots.love(rows), "Standardised mean differences of the covariates.", table)])


def _overlap(slots: Slots) -> Section:
    scores = slots.overlap
    if scores is None:
        return Section("overlap", "Could everybody have been treated?", [_absent(slots, "overlap", "overlap")])
    table = Table(["from", "to", "treated", "untreated"], [
        [number(scores.edges[k]), number(scores.edges[k + 1]),
         *("hidden" if n is None else number(n) for n in (scores.treated[k], scores.control[k]))]
        for k in range(len(scores.treated))])
    hidden = " Where a site has few people of an arm, it does not tell how many, and the bars are without them"
    hidden += "; grey stumps: nobody but such." if None in (*scores.treated, *scores.control) else "."
    return Section("overlap", "Could everybody have been treated?", [
        Figure(plots.overlap(scores), f"Preference scores of treated (above) and untreated (below): where only one "
               f"side has people, effects rest on the model.{hidden}", table)])


def _heterogeneity(slots: Slots, effect_on: str) -> Section:
    spread = slots.heterogeneity
    title = "Do sites disagree?"
    if spread is None:
        return Section("heterogeneity", title, [_absent(slots, "heterogeneity", "analysis of the sites' own effects")])
    parts: list[Part] = []
    if spread.figures:
        parts.append(Table(["figure", "value"], [[name, number(value)] for name, value in spread.figures.items()]))
    modelled = any("model" in row.site for row in spread.sites)
    shrunk = ", and as the model draws it towards the others" if modelled else ""
    for rows, what in ((spread.sites, f"Each site by itself{shrunk}"), (spread.leave_one_out, "All sites but one")):
        if rows:
            parts.append(Figure(plots.forest(rows, None, effect_on.capitalize()), f"{what}.", _interval_table(rows)))
    return Section("heterogeneity", title, parts or [_absent(slots, "heterogeneity", "analysis of the sites' effects")])


def _interval_table(rows: Iterable[Interval]) -> Table:
    return Table(["site", "effect", "interval"],
                 [[r.site, number(r.mean), f"{number(r.low)} to {number(r.high)}"] for r in rows])


def _sensitivity(result: Result, slots: Slots, effect_on: str, alpha: float) -> Section:
    if result.many:
        return Section("sensitivity", TITLES["sensitivity"], [
            "What hidden confounders would change is worked out for two arms: run a study of two of them."])
    parts = _realised(result, effect_on, alpha)
    for curve in slots.sensitivity or ():
        rows = [[number(x), number(mean)] for x, mean in zip(curve.x, curve.mean, strict=True)]
        bounds = None if curve.low is None or curve.high is None else [
            f"{number(low)} to {number(high)}" for low, high in zip(curve.low, curve.high, strict=True)]
        if bounds is not None:
            rows = [[*row, bound] for row, bound in zip(rows, bounds, strict=True)]
        table = Table([curve.x_label or "x", "effect", *(["bounds"] if bounds is not None else [])], rows)
        parts.append(Figure(plots.sensitivity(curve, effect_on), f"{curve.name}.", table))
    if not slots.sensitivity:
        parts.append(_absent(slots, "sensitivity", "analysis of a hidden confounder"))
    return Section("sensitivity", TITLES["sensitivity"], parts)


def _realised(result: Result, effect_on: str, alpha: float) -> list[Part]:
    if not result.of_numbers:
        return ["Realised effects of an outcome that is no number are not told: nobody is seen both treated and "
                "untreated, and what would have to be assumed of the two outcomes of a person decides them."]
    if not result.study.tells_realised:
        return ["Realised effects are not told where effects have noise for privacy."]
    parts: list[Part] = [
        "No data inform the correlation of the two outcomes' noise, because nobody is seen both treated and untreated. "
        "Realised effects are therefore given for several values of it."]
    table = result.sensitivity(alpha)
    known = table[table.noise_correlation != "prior"]
    curve = Curve(name="Average realised effect by noise correlation", x_label="noise correlation",
                  x=known.noise_correlation.astype(float).tolist(), mean=known["mean"].tolist(), low=known.low.tolist(),
                  high=known.high.tolist())
    parts.append(Figure(plots.sensitivity(curve, effect_on), "The average realised effect of the people of the study.",
                        Table(["noise correlation", "effect", "interval", "sd of a person"], [
                            [str(r.noise_correlation), number(r.mean), f"{number(r.low)} to {number(r.high)}",
                             number(r.person_sd)] for r in table.itertuples()])))
    return parts


def _refuters(slots: Slots) -> Section:
    if not slots.refuters:
        return Section("refuters", "Attempts to refute it", [_absent(slots, "refuters", "refutation tests")])
    rows = [[r.name, number(r.estimate),
             "–" if r.low is None or r.high is None else f"{number(r.low)} to {number(r.high)}",
             r.expected, r.verdict or "–"] for r in slots.refuters]
    return Section("refuters", "Attempts to refute it", [
        Table(["test", "estimate", "interval", "expected", "verdict"], rows)])


def _fit(result: Result, slots: Slots) -> Section:
    fit = result.outcome.fit
    whole = [r for r in fit.rounds if not r.few]
    numbers, objectives = [r.number for r in whole], [r.objective for r in whole]
    first = len(fit.rounds) - len(whole)
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in result.outcome.seconds.items())
    parts: list[Part] = [f"The fit {fit.verdict} after {len(fit.rounds)} rounds of at most {fit.rounds[-1].cap}"
                   f"{f', the first {first} of them on some of the people of each large site' if first else ''}. "
                   f"Time: {seconds}.",
                   Figure(plots.trace(numbers, objectives), "The objective over the rounds; the climb at the start "
                          "is cut off.", Table(["round", "objective", "gradient norm"], [
                              [str(r.number), f"{r.objective:.3f}", f"{r.gradient_norm:.2e}"] for r in whole]))]
    if slots.calibration:
        table = Table(["expected", "observed", "people"], [
            [number(b.expected), number(b.observed), "–" if b.count is None else f"{b.count:,}"]
            for b in slots.calibration])
        parts.append(Figure(plots.calibration(slots.calibration), "Calibration: on the line, what was expected "
                            "is what was seen.", table))
    else:
        parts.append(_absent(slots, "calibration", "calibration"))
    return Section("fit", "Did the fit work?", parts)


# ── what left, what is assumed, how it was made ─────────────────────────────────────────────────────────────


def _left(result: Result, ledgers: dict[str, list[dict[str, Any]]]) -> Section:
    policy, masked = result.study.policy, result.outcome.effects.total is not None
    fit = ("the sums of each round of the fit and of the effects, under masks that open only over all sites together"
           if masked else "the sums of each round of the fit, and sums of effects for each draw")
    if masked and policy.site_effects and not result.study.noises_sums:
        fit += "; each site's own average effects, in the clear"
    diagnostics = result.outcome.diagnostics
    hidden = ", under such masks" if masked else ""
    checks = (f"; for the diagnostics, sums of the propensity model and of each arm, and counts of groups{hidden}; "
              f"each site's own effect and its residuals' sums" if diagnostics else "")
    if diagnostics and diagnostics.refuters:
        checks += "; for each refuter, moments, fit and effects once more, of changed rows"
    parts: list[Part] = [
        f"Rows and ids stayed at the sites. Under the policy '{policy.name}' (at least {policy.min_rows} rows and "
        f"{policy.min_arm_rows} in each arm) these sums left: each column's, and of its squares; "
        f"{fit}{checks}."]
    if result.study.links:
        parts.append("To find people who stand at several sites, each site sent one keyed token for each of its "
                     "people; the key is the sites' own, and the coordinator cannot read it (docs/linkage.md).")
    if result.study.noises_sums:
        parts.append(f"All sums of people's values have noise, drawn at the sites and known to the model: whoever "
                     f"knows all else learns a number of a person to ± {policy.sum_noise:g} standard deviations at "
                     f"best. The outcome and the effect were fitted as straight in every covariate.")
    if policy.epsilon is not None:
        parts.append(f"Under differential privacy (epsilon {policy.epsilon:g}), noise was added at the sites to: "
                     f"{', '.join(sorted(policy.noised))}. What it protects, the summary of the result says.")
    parts.append(_numbers(result))
    if result.traffic:
        parts.append(Table(["site", "people", "left out by linkage", "answers", "bytes out of the site", "bytes in"], [
            [site, f"{result.outcome.layout.people[site].rows:,}", f"{result.outcome.excluded.get(site, 0):,}",
             f"{seen.messages:,}", f"{seen.received:,}", f"{seen.sent:,}"]
            for site, seen in sorted(result.traffic.items())], "Traffic, as the coordinator counted it"))
    for site, entries in ledgers.items():
        rows = [[_phase(total, result.outcome.run), f"{total.answers:,}", f"{total.refusals:,}", f"{total.numbers:,}",
                 f"{total.bytes:,}", ", ".join(total.names)] for total in ledger.totals(entries)
                if total.run in ("", result.outcome.run) or total.run.startswith(f"{result.outcome.run}-")]
        parts.append(Table(["phase", "answers", "refusals", "numbers", "bytes", "what"], rows,
                           f"Ledger of {site}: {len(entries)} lines, chain whole"))
    if not ledgers:
        parts.append("Each site's own ledger lists every answer; give a site's folder with --ledger to show it here.")
    withheld = [name for name, away in zip(_names(result), result.outcome.layout.withheld, strict=True) if away]
    if withheld:
        parts.append(f"{', '.join(withheld)} stayed at every site: at one of them too few people stand apart in it.")
    return Section("left", "What left each site", parts)


def _numbers(result: Result) -> str:
    """How many were told, refuters included, over the people in the sums; and the noise on outcomes."""
    layout, options = result.outcome.layout, result.outcome.options
    asked = options.optimiser.model_copy(update={"rounds": max(len(result.outcome.fit.rounds), 1)})
    people = sum(site.rows for site in layout.people.values())
    numbers = numbers_told(result.study, options.model_copy(update={"optimiser": asked}), layout.model, people,
                           len(_names(result)), len(layout.indicators))
    policy = result.study.policy
    noise, on_sums = policy.outcome_noise, policy.sum_noise if layout.model.noises_sums else 0.0
    return (f"Numbers told in all sums: about {numbers:,}, {numbers / people:,.3g} for each of {people:,} people. "
            + (f"Some outcomes were flipped at their sites, once and for ever, by a rule of strength {noise:g} "
               f"(outcome_noise); the model knows how many on average." if noise and result.of_risks else
               f"To each outcome its site added noise of {noise:g} standard deviations, once and for ever; the model "
               f"knows it." if noise else "No noise was added to outcomes.")
            + (f" The sums of people's values have noise, drawn at the sites, so that whoever knows all else learns a "
               f"number of a person to ± {on_sums:g} standard deviations at best (sum_noise); the model knows it."
               if on_sums else ""))


def _phase(total: ledger.Total, run: str) -> str:
    """Of a refuter's run with the refuter's name."""
    refuter = total.run.removeprefix(run).lstrip("-") if total.run else ""
    return f"{refuter}: {total.phase}" if refuter else total.phase


def _names(result: Result) -> list[str]:
    return [name for covariate in result.study.covariates for name in covariate.design_columns()]


def _assumptions(result: Result, slots: Slots) -> Section:
    said = {name: "; ".join(f"{verdict.name}: {verdict.verdict}" for verdict in rows)
            for name, rows in (slots.verdicts or {}).items()}
    probed = f" Probed: {said['refuters']}." if "refuters" in said else ""
    links = (f"Checked: linkage found and left out {sum(result.outcome.excluded.values()):,} repeated entries."
             if result.study.links else "Not checked: the study names no ids, so a person at two sites counts twice.")
    lot = result.study.design.randomised
    rows = [
        ["Unconfoundedness: given the covariates, treatment does not depend on the potential outcomes",
         f"Given by the design: treatment was drawn by lot.{probed}" if lot else
         "Cannot be checked by any data. It fails if something that drives both treatment and outcome was not "
         f"measured. How strong that would have to be: the section on what if an assumption is wrong.{probed}"],
        ["Stable unit treatment value: one version of the treatment, and nobody's treatment changes another's outcome",
         "Cannot be checked here; a matter of how the treatment was given."],
        ["All sources share the same covariates",
         f"Checked: every site read the same study file (hash {result.study.hash()[:12]}), with "
         f"{len(result.study.covariates)} covariates, levels and ranges. Whether they measure alike, they must say."],
        ["A primary key identifies a person across sources", links],
        ["Overlap: everybody could have been treated or not (needed for effects without the model's help)",
         f"Checked: {said['overlap']}." if "overlap" in said else "Not checked: the result holds no such diagnostics."],
        [f"The model: few directions, products and thresholds, {SCALES[result.study.outcome_type]}, "
         f"sites alike but for their own function",
         f"Checked in part: {said['fit']}. What the model cannot express, its page in the documentation says."
         if "fit" in said else "Not checked: the result holds no such diagnostics."]]
    unread = [f"The diagnostics' {name} cannot be shown ({slots.problems[name]})." for name in ("verdicts", "notes")
              if name in slots.problems]
    return Section("assumptions", "What is assumed, and what was checked", [
        Table(["assumption", "checked?"], rows, "The assumptions of the paper (the first four), and two more"),
        *(f"Note: {text}" for text in slots.notes or ()), *unread])


def _made(result: Result) -> Section:
    o = result.outcome
    facts = [["study", result.study.name], ["study hash", result.study.hash()], ["run", o.run], ["made", result.made],
             ["seed", str(o.seed)], ["preset", result.study.preset], ["model", o.options.model.family],
             ["posterior draws", f"{o.options.prediction.draws}"], ["policy", result.study.policy.name],
             *[[name, version] for name, version in result.versions.items()]]
    return Section("made", "How it was made", [
        Table(["", ""], facts, "The same study, seed and versions give the same bits"),
        Table(["study.toml"], [[result.study.to_toml()]])])


def headline(result: Result) -> dict[str, Any]:
    people = result.outcome.layout.rows
    study = result.study
    return {"name": study.name, "treatment": study.label(study.treatment), "outcome": study.label(study.outcome),
            "people": people, "sites": list(result.sites), "made": result.made}


def read_ledgers(folders: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """By their folders; a broken chain is an error."""
    return {name: ledger.read(folder) for name, folder in named(folders).items()}


def named(folders: Sequence[Path]) -> dict[str, Path]:
    """By name, or by whole path where names repeat."""
    names = [folder.resolve().name for folder in folders]
    return {name if names.count(name) == 1 else str(folder): folder
            for folder, name in zip(folders, names, strict=True)}

