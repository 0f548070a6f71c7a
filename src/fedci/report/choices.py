"""What a reader decides by: the answer at a glance, in whom the effect differs, and whom to treat."""

from __future__ import annotations

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedci.diagnostics.findings import TITLES
from fedci.diagnostics.sameness import ALARM
from fedci.diagnostics.verdict import LOOK, PROBLEM
from fedci.report.forest import Row, forest
from fedci.report.from_diagnostics import WITH
from fedci.report.parts import Figure, Part, Section, Table
from fedci.report.plots import tip
from fedci.report.svg import Plot, number, spread
from fedci.result.deciding import differs, without_values
from fedci.result.result import Result
from fedci.result.subgroup_effects import said
from fedci.result.words import by_when


def glance(result: Result, alpha: float) -> Table:
    """One screen: what is the effect, how sure is it, in whom, can it be trusted."""
    ate, level = result.ate(), f"{100 * (1 - alpha):g}%"
    low, high = ate.interval(alpha)
    sure = f"{level} interval {_between(result, low, high)}: {_direction(low, high)}"
    if result.study.cluster is not None:
        sure += f"; people who share {result.study.label(result.study.cluster)} at a site count as alike, not as apart"
    rows = [["What is the effect?", _effect(result, ate.mean)], *_arms(result), ["How sure is it?", sure],
            ["In whom?", _in_whom(result, alpha)], *_whom(result), ["Can it be trusted?", _trust(result)]]
    return Table(["", "at a glance"], rows)


def _direction(low: float, high: float) -> str:
    """What an interval says of it."""
    if low > 0 or high < 0:
        return f"all values in it are {'increases' if low > 0 else 'decreases'}: that it has no effect is implausible"
    return "it holds 0, so the data do not settle whether treatment raises or lowers it"


def glance_of_arms(result: Result, alpha: float) -> Table:
    """The same of more than two arms: each beside the reference."""
    names, level = result.study.arms, f"{100 * (1 - alpha):g}%"
    rows = []
    for name in names[1:]:
        pair = result.between(name)
        ate = pair.ate()
        low, high = ate.interval(alpha)
        rows.append([f"{name} beside {names[0]}", f"{_effect(pair, ate.mean, name)} ({level} interval "
                                                  f"{_between(pair, low, high)})"])
    arms = result.arm_table(alpha)
    arms = arms[(arms.over == "all") & (arms.site == "all")]
    each = "; ".join(f"{row.arm} {_level(result, row.mean)}" for row in arms.itertuples())
    return Table(["", "at a glance"], [
        *rows, ["If everybody got the arm", each],
        ["In whom?", "Whether people differ is told of two arms: it takes a study of two of these."],
        ["Can it be trusted?", _trust(result)]])


def _points(result: Result, value: float) -> str:
    return number(100.0 * value if result.of_risks else value)


def _unit(result: Result) -> str:
    """Of effects."""
    study = result.study
    if result.of_risks:
        return "percentage points"
    if result.of_rates and study.exposure:
        return f"per unit of {study.label(study.exposure)}"
    return study.unit(study.outcome)


def _between(result: Result, low: float, high: float) -> str:
    return f"{_points(result, low)} to {_points(result, high)} {_unit(result)}".strip()


def _effect(result: Result, value: float, arm: str = "") -> str:
    """'Risk of death by days = 180: 3.1 percentage points lower with aspirin'"""
    study = result.study
    what = study.label(study.outcome)
    what = f"Risk of {what}{by_when(result)}" if result.of_risks else f"Rate of {what}" if result.of_rates else what
    much = f"{_points(result, abs(value))} {_unit(result)}".strip()
    return f"{what}: {much} {'higher' if value > 0 else 'lower'} with {arm or study.label(study.treatment)}"


def _level(result: Result, value: float) -> str:
    """What is expected in an arm."""
    return f"{value:.1%}" if result.of_risks else f"{number(value)} {_unit(result)}".strip()


def _arms(result: Result) -> list[list[str]]:
    """Risks, rates or means, without and with treatment, over everybody."""
    levels = _levels(result)
    if levels is None:
        return []
    without, treated = (_level(result, value) for value in levels)
    return [["If nobody, and if everybody were treated", f"{without} and {treated}"]]


def _levels(result: Result) -> tuple[float, float] | None:
    """Of a number the arms' own means, each with what the other people's would be, by the effects over the treated and
    the untreated: their difference is the average effect."""
    if not result.of_numbers:
        levels = result.rates() if result.of_rates else result.risks()
        return levels.of_untreated.mean, levels.of_treated.mean
    known = None if result.diagnostics is None else result.diagnostics.described
    if known is None or known.outcome is None:
        return None
    n0, n1 = known.people
    without, treated = known.outcome.untreated, known.outcome.treated
    return ((n0 * without + n1 * (treated - result.att().mean)) / (n0 + n1),
            (n1 * treated + n0 * (without + result.atc().mean)) / (n0 + n1))


def _in_whom(result: Result, alpha: float) -> str:
    known = result.diagnostics
    same = known.sameness if known is not None else None
    words = [same.verdicts[0].words.partition(":")[0] + "."] if same is not None else []
    if result.outcome.effects.subgroups:
        words += _clear(result, alpha)
    return " ".join(words) or "Whether people differ was not tested."


def _clear(result: Result, alpha: float) -> list[str]:
    """Which differences between subgroups are clear, allowing for how many were looked at."""
    against = result.groups.contrasts(alpha)
    if not len(against):
        return []
    rows = [f"{row.group} against {row.against} ({_points(result, row.mean)}, "
            f"{_between(result, row.all_low, row.all_high)})"
            for row in against.itertuples() if row.all_low > 0 or row.all_high < 0]
    if not rows:
        return [f"None of the {len(against)} differences between the study's subgroups is clear." if len(against) > 1
                else "The difference between the study's subgroups is not clear."]
    return [f"It clearly differs between subgroups: {'; '.join(rows)}."]


def _whom(result: Result) -> list[list[str]]:
    """The rule, where there is ground for one."""
    if not result.outcome.effects.decisions:
        return []
    found = result.decisions
    grounds = found.same is not None and found.same < ALARM
    return [["Whom to treat?", " ".join(found.rule()) if grounds else
             "No ground to treat people differently: see the average effect."]]


def _trust(result: Result) -> str:
    """In words, each with a link to the section that says what to do."""
    known = result.diagnostics
    if known is None:
        return "Not checked: the study ran without diagnostics."
    problems, look = (Markup(", ").join(
        Markup('<a href="#{}">{}</a>').format(_place(name), verdict.name)
        for name in TITLES for verdict in known.section(name) if verdict.verdict == word) for word in (PROBLEM, LOOK))
    if problems:
        return Markup("Not before this is explained: {}.").format(problems)
    checked = Markup('<a href="#assumptions">what was checked</a>')
    return (Markup("No problem was found ({}). To look at: {}.").format(checked, look) if look else
            Markup("No problem was found: {}.").format(checked))


def _place(name: str) -> str:
    """The report's section of a section of the diagnostics."""
    return next((place for place, parts in WITH.items() if name in parts), "people" if name == "sameness" else name)


def subgroups(result: Result, effect_on: str, alpha: float) -> list[Section]:
    """Of a study that names some and was told of them."""
    if not result.outcome.effects.subgroups:
        return []
    found, level, ate = result.groups, f"{100 * (1 - alpha):g}%", result.ate()
    if not found.groups:
        return [Section("subgroups", "In whom", ["No subgroup of the study is told of: too few people are in each."])]
    table, against = found.table(alpha), found.contrasts(alpha)
    two, odds = "untreated" in table, "odds_ratio" in table
    rows: list[Row] = []
    for name, part in table.groupby("subgroup", sort=False):
        own = against[against.subgroup == name]
        rows.append(Row(str(name), p=float(own.p.min()) if len(own) else None))
        rows += [Row(row.group, row.people, row.mean, row.low, row.high,
                     f"{number(row.untreated)} / {number(row.treated)}" if two else "") for row in part.itertuples()]
    overall = Row("everybody", result.outcome.layout.rows, ate.mean, *ate.interval(alpha))
    kind = "rates" if result.of_rates else "risks"
    figure = Figure(forest(rows, overall, effect_on.capitalize(), f"{kind} without / with" if two else "", level),
                    f"The effect in each subgroup that the study named beforehand, with {level} intervals; the dashed "
                    f"line marks the effect over everybody. p is of the largest difference within a definition, "
                    f"adjusted for how many were looked at.",
                    Table(["group", "people", "sites", *([f"{kind} without", "with"] if two else []), "effect",
                           f"{level} interval", "interval that holds for all",
                           *([f"{kind[:-1]} ratio"] if two else []),
                           *(["odds ratio", "number needed to treat"] if odds else [])],
                          [[row.group, f"{row.people:,}", str(row.sites),
                            *([number(row.untreated), number(row.treated)] if two else []), number(row.mean),
                            _interval(row.low, row.high), _interval(row.all_low, row.all_high),
                            *([_with(row, "ratio")] if two else []),
                            *([_with(row, "odds_ratio"), _with(row, "needed")] if odds else [])]
                           for row in table.itertuples()]))
    differences = Table(["group", "against", "difference of effects", f"{level} interval",
                         "interval that holds for all", "p, adjusted",
                         *([f"ratio of {kind[:-1]} ratios"] if two else [])],
                        [[row.group, row.against, number(row.mean), _interval(row.low, row.high),
                          _interval(row.all_low, row.all_high), f"{row.p:.2g}",
                          *([_with(row, "ratio")] if two else [])]
                         for row in against.itertuples()], "How the effect differs between subgroups")
    untold = ([f"Not told, for too few people: {', '.join(group.name for group in found.untold)}."]
              if found.untold else [])
    return [Section("subgroups", "In whom", [*said(found, alpha), figure, differences, *untold])]


def whom_to_treat(result: Result, alpha: float) -> list[Section]:
    """Of a study that asks for decisions and was told."""
    if not result.outcome.effects.decisions:
        return []
    found, level = result.decisions, f"{100 * (1 - alpha):g}%"
    leaves = found.leaves(alpha)
    parts: list[Part] = [differs(found), *found.rule(), Table(
        ["group", "people", "effect", f"{level} interval", "treated by the rule"],
        [[row.group, f"{row.people:,}", number(row.mean), _interval(row.low, row.high), "yes" if row.treat else "no"]
         for row in leaves.itertuples()], "The rule's groups: learnt from the model, measured on the study's people")]
    if found.has_scores:
        parts.append(Table(
            ["policy", "treated", "average outcome", "net benefit beside treating nobody", "beside treating everybody"],
            [[row.policy, f"{row.treated:.0%}", f"{number(row.value)} {_of(row, 'value')}",
              f"{number(row.over_nobody)} {_of(row, 'over_nobody')}",
              f"{number(row.over_everybody)} {_of(row, 'over_everybody')}"]
             for row in found.values(alpha).itertuples()],
            f"What policies are worth, per person of the study, with {level} intervals; the cost is taken off"))
    else:
        parts.append(without_values(result.study.outcome_type))
    targeting = found.targeting(alpha)
    if targeting is not None:
        parts.append(Figure(_toc(targeting), f"How much more those benefit who are expected to benefit most, by the "
                            f"share that would be treated first, with {level} intervals. Nobody's own outcome was used "
                            f"to choose them.", Table(
            ["treated first", "benefit above the average", "times the share"],
            [[str(row.first), f"{number(row.toc)} {_of(row, 'toc')}", f"{number(row.qini)} {_of(row, 'qini')}"]
             for row in targeting.itertuples()])))
    parts.append(Table(["along", "rise of the effect", f"{level} interval", "interval that holds for all"],
                       [[row.along, number(row.mean), _interval(row.low, row.high),
                         _interval(row.all_low, row.all_high)] for row in found.projection(alpha).itertuples()],
                       "The straight line nearest to the effect, for one unit of each covariate"))
    return [Section("whom", "Whom to treat", parts)]


def _interval(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"


def _with(row: object, name: str) -> str:
    """'0.81 (0.7 to 0.93)'; a dash where there is no such number."""
    value = getattr(row, name)
    return f"{number(value)} {_of(row, name)}" if np.isfinite(value) else "–"


def _of(row: object, name: str) -> str:
    return f"({_interval(getattr(row, f'{name}_low'), getattr(row, f'{name}_high'))})"


def _toc(table: pd.DataFrame) -> Markup:
    """Points with their intervals over the share that is treated first."""
    rows = table[table["first"] != "area"]
    shares = [float(str(one).rstrip("%")) for one in rows["first"]]
    low, high = spread(rows.toc_low.tolist(), rows.toc_high.tolist(), zero=True)
    plot = Plot("Benefit of those treated first", (0.0, 100.0), (low, high), height=240,
                x_label="share that is treated first, in %", y_label="benefit above the average")
    plot.y_axis()
    plot.x_axis()
    plot.rule_y(0.0)
    plot.line([*shares, 100.0], [*rows.toc.tolist(), 0.0])
    for x, row in zip(shares, rows.itertuples(), strict=True):
        words = tip(f"first {row.first}", row.toc, row.toc_low, row.toc_high)
        plot.upright(x, row.toc_low, row.toc_high, words)
        plot.dot(x, row.toc, words)
    return plot.svg()
