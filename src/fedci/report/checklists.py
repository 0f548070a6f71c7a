"""Two checklists for manuscripts, filled from a result: TARGET (target trial emulation, 2025) and STROBE (2007).

The items' numbers are theirs, the words ours. What a result knows stands beside its item; the rest is FOR_AUTHORS.
Before a manuscript is sent, hold it against the published statements: they are what a journal asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from fedci.report.parts import Section, Table
from fedci.report.protocol import FOR_AUTHORS, MEASURES, MODELS, OWN_MEASURE, attributes, elements, gaps
from fedci.report.svg import number
from fedci.result.result import Result
from fedci.result.words import of_people
from fedci.study.estimand import Estimand
from fedci.study.study import Study


class Item(NamedTuple):
    number: str
    topic: str
    asks: str
    fact: str = ""
    """The key of what fills it (`facts_of`); '': only people can."""


TARGET = (
    Item("1a", "Abstract", "say that a target trial is emulated with observational data", "emulation"),
    Item("1b", "Abstract", "name the data sources", "sources"),
    Item("1c", "Abstract", "give assumptions, methods, findings and what follows", "answer"),
    Item("2", "Background", "what is known and why the question matters"),
    Item("3", "Question", "state the causal question", "question"),
    Item("4", "Rationale", "why a target trial is emulated, and if there is a trial, which"),
    Item("5", "Data sources", "where data come from, how they were linked, over which time", "sources"),
    *(Item(f"6{letter}", "Target trial", f"specify its {what}", f"trial {key}") for letter, key, what in (
        ("a", "eligibility", "eligibility criteria"), ("b", "strategies", "treatment strategies"),
        ("c", "assignment", "assignment"), ("d", "follow_up", "start (time zero) and end of follow-up"),
        ("e", "outcome", "outcomes"), ("f", "contrast", "causal contrasts and effect measures"))),
    Item("6g", "Target trial", "state the assumptions that identify the contrast", "assumptions"),
    Item("6h", "Target trial", "specify the data analysis", "trial analysis"),
    *(Item(f"7{letter}", "Emulation", f"say how the data emulate its {what}", f"data {key}") for letter, key, what in (
        ("a", "eligibility", "eligibility criteria"), ("b", "strategies", "treatment strategies"),
        ("c", "assignment", "assignment"), ("d", "follow_up", "start and end of follow-up"),
        ("e", "outcome", "outcomes"), ("f", "contrast", "causal contrasts"))),
    Item("7g", "Emulation", "name the covariates by which the assumptions are made plausible", "covariates"),
    Item("7h", "Emulation", "describe the analysis, missing data and additional analyses", "analysis"),
    Item("8", "Participants", "how many were looked at, eligible and analysed, by strategy", "people"),
    Item("9", "Baseline data", "describe the groups at time zero", "table 1"),
    Item("10", "Follow-up", "how long, and why it ended", "follow-up"),
    Item("11", "Missing data", "how much is missing of each variable", "missing"),
    Item("12", "Outcomes", "how often, or how large, in each group", "crude"),
    Item("13", "Effect estimates", "estimates with their precision, absolute and relative", "answer"),
    Item("14", "Additional analyses", "results of sensitivity and other analyses", "checks"),
    Item("15", "Interpretation", "what the findings mean, beside what else is known"),
    Item("16", "Limitations", "what may be wrong, and where it differs from the target trial", "limits"),
    Item("17", "Ethics", "approval, consent or waiver"),
    Item("18", "Registration", "whether and where; where the protocol is", "hash"),
    Item("19", "Data and code", "whether and how they can be had", "code"),
    Item("20", "Funding", "who paid, and what they had to say"),
    Item("21", "Interests", "whatever might be thought to have had influence"),
)
"""21 numbered items; letters are their parts."""

STROBE = (
    Item("1", "Title and abstract", "the design in a common term; a balanced summary", "answer"),
    Item("2", "Background", "scientific background and rationale"),
    Item("3", "Objectives", "objectives and hypotheses fixed beforehand", "question"),
    Item("4", "Study design", "its key elements", "emulation"),
    Item("5", "Setting", "places and dates of recruitment, treatment, follow-up, data collection", "sources"),
    Item("6", "Participants", "eligibility, sources and selection; how they were followed", "data eligibility"),
    Item("7", "Variables", "outcome, exposure, confounders, effect modifiers, with criteria", "covariates"),
    Item("8", "Measurement", "source and method of each variable; whether alike in both groups", "coding"),
    Item("9", "Bias", "what was done about it", "checks"),
    Item("10", "Study size", "how it was arrived at"),
    Item("11", "Quantitative variables", "how they were handled, cut and why", "ranges"),
    Item("12", "Statistical methods", "confounding, subgroups, missing data, follow-up, sensitivity", "analysis"),
    Item("13", "Participants", "numbers at each stage, and reasons", "people"),
    Item("14", "Descriptive data", "characteristics, missing data, follow-up time", "table 1"),
    Item("15", "Outcome data", "events or summaries", "crude"),
    Item("16", "Main results", "unadjusted and adjusted estimates with precision", "both"),
    Item("17", "Other analyses", "subgroups, interactions, sensitivity", "checks"),
    Item("18", "Key results", "by the objectives", "answer"),
    Item("19", "Limitations", "bias and imprecision, their direction and size", "limits"),
    Item("20", "Interpretation", "cautious, with other evidence"),
    Item("21", "Generalisability", "to whom else it applies"),
    Item("22", "Funding", "who paid, and their role"),
)
LISTS: Mapping[str, tuple[Item, ...]] = {"TARGET": TARGET, "STROBE": STROBE}


def sections(result: Result, alpha: float) -> list[Section]:
    """Each list as a table."""
    facts = facts_of(result, alpha)
    return [Section(name.lower(), f"The {name} checklist", [
        Table(["item", "topic", "asks to", "in this study"],
              [[item.number, item.topic, item.asks, filled(item, facts)] for item in items]),
        f"Numbers of the items as published, words ours. “{FOR_AUTHORS}”: only people can say it."])
        for name, items in LISTS.items()]


def filled(item: Item, facts: Mapping[str, str]) -> str:
    return facts.get(item.fact) or FOR_AUTHORS


def facts_of(result: Result, alpha: float) -> dict[str, str]:
    """Whatever of the items a result and its study know, by key."""
    study, asked = result.study, result.study.estimand or Estimand()
    target = elements(study, asked)
    keys = ("eligibility", "strategies", "assignment", "time_zero", "follow_up", "outcome", "contrast", "analysis")
    rows = dict(zip(keys, target, strict=True))
    rows["follow_up"] = [rows["follow_up"][0], *(f"time zero: {zero}\nend: {end}" for zero, end in zip(
        rows["time_zero"][1:], rows["follow_up"][1:], strict=True))]
    return {**{f"trial {key}": _unless_bare(row[1]) for key, row in rows.items()},
            **{f"data {key}": row[2] for key, row in rows.items()}, **dict(_facts(result, asked, alpha))}


def _unless_bare(text: str) -> str:
    """'' where no part of it was said."""
    return "" if all(line.endswith(FOR_AUTHORS) for line in text.split("\n")) else text


def _facts(result: Result, asked: Estimand, alpha: float) -> Iterator[tuple[str, str]]:
    study, found = result.study, result.diagnostics
    sites, rows = result.sites, result.outcome.layout.rows
    named = attributes(study, asked)
    yield "emulation", ("randomised at the sites: the effect needs no emulation; federated data" if
                        study.design.randomised else "observational, with federated data: rows stayed at their sites")
    yield "sources", (f"{len(sites)} sites ({', '.join(sites)}), {rows:,} people; "
                      f"{'linked by keyed tokens of ' + ', '.join(study.ids) if study.links else 'not linked'}. "
                      f"Dates and registers: {FOR_AUTHORS}")
    yield "question", "\n".join(f"{name}: {words}" for name, words in named)
    told = not result.blinded and result.degenerate is None
    if told and result.many:
        yield "answer", "every arm against every other; sections The answer and Site by site, effects.csv"
    if told and not result.many:
        ate = result.ate()
        low, high = ate.interval(alpha)
        yield "answer", (of_people(result, alpha) if not result.of_numbers else
                         f"average effect {number(ate.mean)} ({100 * (1 - alpha):g}% interval {number(low)} to "
                         f"{number(high)}), a {MEASURES.get(study.outcome_type, OWN_MEASURE)}; sections The answer and "
                         f"Site by site, effects.csv")
    yield "assumptions", "section What is assumed, and what was checked"
    yield "covariates", ", ".join(study.said(covariate.name) for covariate in study.covariates)
    yield "analysis", (f"{MODELS.get(result.outcome.options.model.family, 'see docs/model.md')}. {gaps(study)} "
                       f"{_groups(study)}fedci {result.versions.get('fedci', '')}, preset {study.preset}, seed "
                       f"{result.outcome.seed}")
    arms = zip(study.arm_names, zip(*(at.by_arm for at in result.outcome.layout.people.values()), strict=True),
               strict=True)
    yield "people", (f"{rows:,} in the study ({', '.join(f'{sum(n):,} {arm}' for arm, n in arms)}); left out by "
                     f"linkage {sum(result.outcome.excluded.values()):,}; section Who was studied. Looked at and not "
                     f"eligible: {FOR_AUTHORS}")
    described = found.described if found is not None else None
    if described is not None and described.columns:
        yield "table 1", "table 1, in section Who was studied"
    if found is not None and found.missingness is not None or not study.may_lack:
        yield "missing", "section Who was studied"
    if study.outcome_type == "survival":
        yield "follow-up", f"{study.time}, to {study.horizons[-1]:g} at most. Why it ended: {FOR_AUTHORS}"
    if described is not None and described.outcome is not None and not result.blinded:
        crude = described.outcome
        yield "crude", f"{number(crude.untreated)} without and {number(crude.treated)} with treatment"
        yield "both", (f"unadjusted difference {number(crude.difference)}; adjusted: section The answer")
    if found is not None:
        yield "checks", f"{found.headline()} {_others(study)}"
        yield "limits", (("problems named by the diagnostics: " + ", ".join(row.name for row in found.problems) if
                          found.problems else "no problem was named by the diagnostics")
                         + ("" if study.design.randomised else
                            "; unmeasured confounding: section What if an assumption is wrong")
                         + f". The rest: {FOR_AUTHORS}")
    yield "hash", f"study hash {study.hash()}; plan: `fedci protocol`. Where it is registered: {FOR_AUTHORS}"
    yield "code", (f"fedci {result.versions.get('fedci', '')} is open source; rows stay at the sites. Who may ask "
                   f"them: {FOR_AUTHORS}")
    coded = [f"{study.label(name)} ({words})" for name, coding in study.coding.items()
             if (words := coding.in_words(name))]
    if coded:
        yield "coding", f"columns recoded by the study file: {'; '.join(coded)}. How they were measured: {FOR_AUTHORS}"
    limits = [f"{study.label(c.name)} {c.range[0]:g} to {c.range[1]:g}" for c in study.covariates if c.range]
    yield "ranges", ("as numbers, not cut" + (f"; values accepted: {', '.join(limits)}" if limits else ""))


def _groups(study: Study) -> str:
    """Those that the study named, before anything was seen."""
    return f"Subgroups named beforehand: {', '.join(study.subgroups)}. " if study.subgroups else ""


def _others(study: Study) -> str:
    """Where the other analyses stand."""
    told = ["Could everybody have been treated?", "Do sites disagree?", "What if an assumption is wrong?"]
    told += ["In whom"] if study.subgroups else []
    told += ["Whom to treat"] if study.decisions is not None else []
    told += ["Attempts to refute it"] if study.diagnostics.refute or study.diagnostics.negative_control else []
    told += ["What do negative controls say?"] if study.diagnostics.negative_controls else []
    return f"Sections: {'; '.join(told)}"
