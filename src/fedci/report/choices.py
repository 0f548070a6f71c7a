"""What a reader decides by: the answer at a glance, in whom the effect differs, and whom to treat."""

from __future__ import annotations

import pandas as pd
from markupsafe import Markup

from fedci.diagnostics.verdict import LOOK, PROBLEM
from fedci.report.forest import Row, forest
from fedci.report.parts import Figure, Part, Section, Table
from fedci.report.plots import tip
from fedci.report.svg import Plot, number, spread
from fedci.result.deciding import differs
from fedci.result.result import Result
from fedci.result.subgroup_effects import said


def glance(result: Result, alpha: float) -> Table:
    """One screen: what is the effect, how sure is it, in whom, can it be trusted."""
    ate, level = result.ate(), f"{100 * (1 - alpha):g}%"
    low, high = ate.interval(alpha)
    rows = [["What is the effect?", _effect(result, ate.mean)], *_arms(result),
            ["How sure is it?", f"{level} interval {_effect(result, low)} to {_effect(result, high)}; it "
                                f"{'excludes' if low > 0 or high < 0 else 'holds'} no effect"],
            ["In whom?", _in_whom(result, alpha)], ["Can it be trusted?", _trust(result)]]
    return Table(["", "at a glance"], rows)


def _effect(result: Result, value: float) -> str:
    """In percentage points of a risk, else in the outcome's unit."""
    if result.of_risks:
        return f"{number(100.0 * value)} percentage points"
    unit = result.study.unit(result.study.outcome)
    return f"{number(value)} {unit}".strip()


def _arms(result: Result) -> list[list[str]]:
    """Risks, rates, or of a randomised study means, without and with treatment."""
    if result.of_risks:
        risks = result.risks()
        return [["Without and with treatment", f"{risks.of_untreated.mean:.1%} and {risks.of_treated.mean:.1%}"]]
    if result.of_rates:
        rates = result.rates()
        return [["Without and with treatment", f"{number(rates.of_untreated.mean)} and "
                                               f"{number(rates.of_treated.mean)}"]]
    lot = result.diagnostics.trial if result.diagnostics is not None else None
    if lot is None:
        return []
    return [["Without and with treatment", f"{number(lot.means[0])} and {number(lot.means[1])}"]]


def _in_whom(result: Result, alpha: float) -> str:
    known = result.diagnostics
    same = known.sameness if known is not None else None
    words = [same.verdicts[0].words.partition(":")[0] + "."] if same is not None else []
    if result.outcome.effects.subgroups:
        words += said(result.groups, alpha)
    return " ".join(words) or "Whether people differ was not tested."


def _trust(result: Result) -> str:
    known = result.diagnostics
    if known is None:
        return "Not checked: the study ran without diagnostics."
    problems = [row.name for row in known.verdicts if row.verdict == PROBLEM]
    look = [row.name for row in known.verdicts if row.verdict == LOOK]
    if problems:
        return f"Not before this is explained: {', '.join(problems)}. The sections below say what to do."
    return (f"No problem was found; to look at: {', '.join(look)}. The sections below say why." if look else
            "No problem was found: the sections below say what was checked.")


def subgroups(result: Result, effect_on: str, alpha: float) -> list[Section]:
    """Of a study that names some and was told of them."""
    if not result.outcome.effects.subgroups:
        return []
    found, level, ate = result.groups, f"{100 * (1 - alpha):g}%", result.ate()
    if not found.groups:
        return [Section("subgroups", "In whom", ["No subgroup of the study is told of: too few people are in each."])]
    table, against = found.table(alpha), found.contrasts(alpha)
    two = "untreated" in table
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
                           f"{level} interval", "interval that holds for all"],
                          [[row.group, f"{row.people:,}", str(row.sites),
                            *([number(row.untreated), number(row.treated)] if two else []), number(row.mean),
                            f"{number(row.low)} to {number(row.high)}",
                            f"{number(row.all_low)} to {number(row.all_high)}"] for row in table.itertuples()]))
    differences = Table(["group", "against", "difference of effects", f"{level} interval",
                         "interval that holds for all", "p, adjusted"],
                        [[row.group, row.against, number(row.mean), f"{number(row.low)} to {number(row.high)}",
                          f"{number(row.all_low)} to {number(row.all_high)}", f"{row.p:.2g}"]
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
