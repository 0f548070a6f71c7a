"""Of more than two arms: each against the reference, every contrast, each site, and what carries them."""

from __future__ import annotations

from typing import Any

from fedci.report import choices, plots
from fedci.report.parts import TITLES, Figure, Part, Section, Table
from fedci.report.slots import Interval
from fedci.report.svg import number
from fedci.result.result import Result
from fedci.result.words import average, by_when


def answer(result: Result, effect_on: str, alpha: float) -> Section:
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
    return Section("answer", TITLES["answer"], [choices.glance_of_arms(result, alpha), *words, figure, each,
                                                *[f"Note: {text}" for text in result.warnings()]])


def sites(result: Result, effect_on: str, alpha: float) -> Section:
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


def drivers(result: Result) -> Section:
    table = result.drivers()
    parts: list[Part] = [] if table is None else [
        Table(["part of the model", "share of the outcome", "share of the effect", "largest weights"],
              [[row.part, f"{row.outcome:.0%}", f"{row.effect:.0%}", row.covariates] for row in table.itertuples()],
              "What carries the outcome, and what the other arms on average change of it")]
    return Section("people", TITLES["people"], parts)
