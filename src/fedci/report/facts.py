"""From a result to what the report's page shows: sentences, tables and plots, section by section.

A section is {id, title, parts}; a part is a paragraph, a plot with its caption and the numbers behind it, or a table.
What a section needs and the result does not hold is said in a sentence, so that a reader misses nothing silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedci.report import answer, breakdown, checklists, choices, conduct, manuscript, many_arms, scrutiny
from fedci.report.parts import TITLES, Section
from fedci.report.slots import Slots
from fedci.result.result import Result
from fedci.site import ledger


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
    sensitivity = (scrutiny.sensitivity(result, extra.slots, effect_on, alpha) if degenerate is None else
                   _untold("sensitivity"))
    return [
        *(_effects(result, extra, effect_on, alpha) if degenerate is None else _no_effects(result, degenerate)),
        *(scrutiny.with_verdicts(section, extra.slots) for section in (
            scrutiny.balance(scrutiny.labelled(extra.slots, result.study)), scrutiny.overlap(extra.slots),
            scrutiny.heterogeneity(extra.slots, effect_on), sensitivity, scrutiny.refuters(extra.slots),
            scrutiny.fit(result, extra.slots))),
        *manuscript.sections(result, alpha), conduct.left(result, extra.ledgers),
        conduct.assumptions(result, extra.slots), conduct.made(result), *checklists.sections(result, alpha)]


def _effects(result: Result, extra: Extra, effect_on: str, alpha: float) -> list[Section]:
    if result.many:
        return [many_arms.answer(result, effect_on, alpha), many_arms.sites(result, effect_on, alpha),
                many_arms.drivers(result)]
    return [answer.section(result, alpha), breakdown.sources(result, extra.others, effect_on),
            breakdown.sites(result, alpha, effect_on),
            *choices.subgroups(result, effect_on, alpha), *choices.whom_to_treat(result, alpha),
            scrutiny.with_verdicts(breakdown.people(extra.aggregates, effect_on, "rate" if result.of_rates else "risk"),
                                   extra.slots, "sameness")]


def _no_effects(result: Result, degenerate: str) -> list[Section]:
    """In place of what would be read as a finding."""
    instead = Section("answer", TITLES["answer"], [degenerate, *[f"Note: {text}" for text in result.warnings()]])
    return [instead, *(_untold(name) for name in ("sources", "sites", "people"))]


def _untold(name: str) -> Section:
    return Section(name, TITLES[name], ["Not shown: the fit is degenerate, as the answer says. The numbers stand in "
                                        "effects.csv beside the result, and are not to be used."])


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
