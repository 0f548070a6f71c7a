"""What a manuscript needs beside the effects: who was studied (table 1), who was left out, what was missing, and the
effect before and after adjustment; each from sums that the study told, under its policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedci.diagnostics.described import Arm, Described
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.systematic import Calibration
from fedci.report.parts import Part, Section, Table
from fedci.report.protocol import attributes, elements
from fedci.report.svg import number
from fedci.result.result import Result
from fedci.study.estimand import Estimand
from fedci.study.study import Study

NONE = "–"
NO_DIAGNOSTICS = ("This result holds no {what}: it needs a study of two arms with diagnostics, whose sums have no "
                  "noise for privacy.")


def sections(result: Result, alpha: float) -> list[Section]:
    found = result.diagnostics
    controls = found.systematic if found is not None else None
    return [question(result.study), people(result, alpha), *([calibration(controls)] if controls is not None else [])]


def calibration(found: Calibration) -> Section:
    """Effects on negative controls, what they tell of systematic error, and calibrated intervals beside plain ones."""
    errors = [[row.over, str(row.controls), f"{number(row.mean)} ({number(row.mean_low)} to {number(row.mean_high)})",
               f"{number(row.sd)} ({number(row.sd_low)} to {number(row.sd_high)})",
               f"{number(row.plain.mean)} ({number(row.plain.low)} to {number(row.plain.high)})",
               f"{number(row.calibrated.mean)} ({number(row.calibrated.low)} to {number(row.calibrated.high)})"]
              for row in found.systematic]
    rows = [[one.column, number(one.mean), number(one.sd), one.ended] for one in found.controls]
    return Section("controls", "What do negative controls say?", [
        *(row.words for row in found.verdicts),
        Table(["over", "controls", "mean error μ", "spread of errors σ", "plain, 95%", "calibrated, 95%"], errors,
              "Systematic error as the controls show it, and the study's own effect with and without it"),
        Table(["negative control", "effect", "sd", "the fit"], rows, "Effects that should be zero")])


def question(study: Study) -> Section:
    """Estimand and target trial, in the words of the study file and, where it has none, in ours."""
    asked = study.estimand or Estimand()
    rows = elements(study, asked)
    parts: list[Part] = [Table(["attribute", "in this study"], attributes(study, asked),
                               "The estimand, by the attributes of ICH E9(R1)"),
                         Table(["element", "target trial", "in these data"], rows, "The target trial and its "
                                                                                   "emulation")]
    if study.estimand is None:
        parts.append("The study file has no [estimand]: these are its columns in words.")
    return Section("question", "What exactly was asked?", parts)


def people(result: Result, alpha: float) -> Section:
    """Table 1, attrition, missingness, unadjusted beside adjusted."""
    found = result.diagnostics
    parts: list[Part] = [attrition(result)]
    described = found.described if found is not None else None
    if described is not None and described.columns:
        parts.insert(0, table_one(described, result.study))
    else:
        parts.append(NO_DIAGNOSTICS.format(what="description of the two arms (table 1)"))
    parts += missing(found, result.study)
    if result.degenerate is None and not result.blinded:
        beside = adjusted(result, described, alpha)
        parts += [beside] if beside is not None else [NO_DIAGNOSTICS.format(what="effect before adjustment")]
    return Section("studied", "Who was studied?", parts)


def table_one(described: Described, study: Study) -> Table:
    """Numbers as mean (sd), 0/1 columns and levels as shares; pooled over all sites."""
    kinds = {name: covariate.type for covariate in study.covariates for name in covariate.design_columns()}
    rows = [["people", f"{described.people[0]:,}", f"{described.people[1]:,}"]]
    for column in described.columns:
        numeric = kinds.get(column.column) == "numeric"
        rows.append([study.said(column.column), *(_cell(arm, numeric) for arm in (column.untreated, column.treated))])
    label = study.label(study.treatment)
    return Table(["", f"without {label}", f"with {label}"], rows,
                 "Table 1. Mean (sd) of numbers, share of 0/1 columns and of levels, over all sites together; the "
                 "first level of a column is the rest. “–”: at some site too few people stand apart for it to be told.")


def _cell(arm: Arm, numeric: bool) -> str:
    if arm.mean is None or arm.sd is None:
        return NONE
    return f"{number(arm.mean)} ({number(arm.sd)})" if numeric else f"{100 * arm.mean:.1f}%"


def attrition(result: Result) -> Table:
    """Who was left out, site by site as far as the sites tell it."""
    found = result.diagnostics.missingness if result.diagnostics is not None else None
    out, layout = result.outcome.excluded, result.outcome.layout
    counts = {site: at.by_arm for site, at in layout.people.items()}
    each = {**{site: out.get(site, 0) for site in counts}, "all": sum(out.values())}
    counts["all"] = tuple(sum(arm) for arm in zip(*counts.values(), strict=True))
    rows = [[site, f"{each[site]:,}" if result.study.links else NONE, f"{sum(arms):,}", *(f"{n:,}" for n in arms)]
            for site, arms in counts.items()]
    dropped = ("Rows without treatment or outcome were refused." if result.study.rows_without == "refuse" else
               next((row.words for row in found.verdicts if row.name == "rows left out"), "No site tells of rows left "
                    "out for want of treatment or outcome.") if found is not None else
               "Rows without treatment or outcome were left out; how many, this result does not hold.")
    return Table(["site", "left out by linkage", "in the study", *result.study.arm_names], rows,
                 f"Attrition. {dropped} Who was not eligible, the sites know: fedci sees the tables only.")


def missing(found: Diagnostics | None, study: Study) -> list[Part]:
    if not study.may_lack:
        return ["Missing values: none; a table with gaps is refused in this study."]
    gaps = found.missingness if found is not None else None
    if gaps is None:
        return [NO_DIAGNOSTICS.format(what="shares of missing values")]
    filled = "drawn given what is seen" if study.completes else "imputed"
    rows = [[study.label(row.column), _share(row.untreated), _share(row.treated),
             filled if any(c.name == row.column and study.fills(c) for c in study.covariates) else "row left out"]
            for row in (*gaps.columns, *((gaps.without_outcome,) if gaps.without_outcome else ()))]
    if not rows:
        return ["Missing values: of covariates none; a table with gaps is refused in this study."]
    return [Table(["column", "missing, untreated", "missing, treated", "what was done"], rows,
                  "Missing values, over the sites that tell them")]


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.1%}"


def adjusted(result: Result, described: Described | None, alpha: float) -> Table | None:
    """The difference of the arms as they are, beside the effect over all people."""
    if described is None or described.outcome is None:
        return None
    crude, ate, study = described.outcome, result.ate(), result.study
    low, high = ate.interval(alpha)
    bounds = crude.interval(alpha)
    what = {"numeric": "mean", "count": "rate", "binary": "risk"}.get(study.outcome_type, "share with the event")
    label = study.label(study.treatment)
    rows = [["unadjusted", number(crude.untreated), number(crude.treated), number(crude.difference),
             NONE if bounds is None else f"{number(bounds[0])} to {number(bounds[1])}"],
            ["adjusted", *_arms(result), number(ate.mean), f"{number(low)} to {number(high)}"]]
    over = (" Unadjusted: whoever had the event at any time, however long they were followed; it is not compared at a "
            "horizon." if study.outcome_type == "survival" else "")
    return Table(["", f"{what} without {label}", f"{what} with {label}", "difference",
                  f"{100 * (1 - alpha):g}% interval"], rows,
                 f"{study.said(study.outcome)}, before and after adjustment for the covariates.{over}")


def _arms(result: Result) -> Iterator[str]:
    """What either arm would have come to over everybody, where the model tells it."""
    found = result.risks() if result.of_risks else result.rates() if result.of_rates else None
    yield from (NONE, NONE) if found is None else (number(found.of_untreated.mean), number(found.of_treated.mean))
