"""The answer: the average effect in words and as a density, and what is expected without and with treatment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedci.effect import POPULATIONS
from fedci.report import choices, plots
from fedci.report.parts import TITLES, Figure, Part, Section, Table
from fedci.report.svg import number
from fedci.result.result import Result
from fedci.result.words import by_when, of_people, plain_difference

OVER = {population.estimand: population.who for population in POPULATIONS}


def section(result: Result, alpha: float) -> Section:
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
                    effects_table(result, alpha, ("all",)))
    risks: list[Part] = [_risks_table(result, alpha)] if result.of_risks else []
    risks += [_rates_table(result, alpha)] if result.of_rates else []
    risks += _curves(result, alpha) if result.of_times else []
    lot = result.diagnostics.trial if result.diagnostics is not None else None
    by_lot = [] if lot is None else [plain_difference(lot, result.of_risks)]
    return Section("answer", TITLES["answer"], [choices.glance(result, alpha), words, *by_lot, figure, *risks,
                                                *[f"Note: {text}" for text in result.warnings()]])


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


def effects_table(result: Result, alpha: float, sites: Sequence[str] | None = None) -> Table:
    rows = [[row.estimand, row.site, f"{row.people:,}", number(row.mean), number(row.sd),
             f"{number(row.low)} to {number(row.high)}"] for row in result.table(alpha).itertuples()
            if sites is None or row.site in sites]
    return Table(["average over", "site", "people", "effect", "sd", f"{100 * (1 - alpha):g}% interval"],
                 [[OVER[row[0]], *row[1:]] for row in rows])
