"""What speaks against the answer: balance, overlap, sites that disagree, hidden confounders, refuters, the fit."""

from __future__ import annotations

from collections.abc import Iterable

from fedci.report import plots
from fedci.report.parts import TITLES, Figure, Part, Section, Table
from fedci.report.slots import Curve, Interval, Slots
from fedci.report.svg import number
from fedci.result.result import Result
from fedci.study.study import Study

WAITING = "This result holds no {what}. {how}"
DIAGNOSTICS = ("It is shown here when the study, of two arms, asks for it (docs/diagnostics.md) and its diagnostics "
               "lie beside the result (diagnostics.json).")


def labelled(slots: Slots, study: Study) -> Slots:
    """Covariates by what the study calls them."""
    rows = [row.model_copy(update={"covariate": study.label(row.covariate)}) for row in slots.balance or ()]
    return slots.model_copy(update={"balance": rows}) if rows else slots


def with_verdicts(section: Section, slots: Slots, kind: str | None = None) -> Section:
    """What the diagnostics of this section (or of another kind) say in words stands before its plots."""
    said = (slots.verdicts or {}).get(kind or section.id)
    if not said:
        return section
    table = Table(["verdict", "of", "in words"], [[verdict.verdict, verdict.name, verdict.words] for verdict in said])
    return Section(section.id, section.title, [table, *section.parts])


def _absent(slots: Slots, slot: str, what: str) -> str:
    if slot in slots.problems:
        return f"The diagnostics hold {what} in a form that this report cannot show ({slots.problems[slot]})."
    noted = " What was asked for and could not be made is noted under what was checked, below." if slots.notes else ""
    return WAITING.format(what=what, how=DIAGNOSTICS) + noted


def balance(slots: Slots) -> Section:
    rows, title = slots.balance, "Were treated and untreated alike?"
    if not rows:
        return Section("balance", title, [_absent(slots, "balance", "balance of covariates")])
    worst = max(abs(row.after if row.after is not None else row.before) for row in rows)
    table = Table(["covariate", "before", "after"], [
        [row.covariate, number(row.before), "–" if row.after is None else number(row.after)] for row in rows])
    words = f"The largest standardised mean difference is {number(worst)}; 0.1 is the usual bound (dashed)."
    return Section("balance", title, [
        words, Figure(plots.love(rows), "Standardised mean differences of the covariates.", table)])


def overlap(slots: Slots) -> Section:
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


def heterogeneity(slots: Slots, effect_on: str) -> Section:
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


def sensitivity(result: Result, slots: Slots, effect_on: str, alpha: float) -> Section:
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


def refuters(slots: Slots) -> Section:
    if not slots.refuters:
        return Section("refuters", "Attempts to refute it", [_absent(slots, "refuters", "refutation tests")])
    rows = [[r.name, number(r.estimate),
             "–" if r.low is None or r.high is None else f"{number(r.low)} to {number(r.high)}",
             r.expected, r.verdict or "–"] for r in slots.refuters]
    return Section("refuters", "Attempts to refute it", [
        Table(["test", "estimate", "interval", "expected", "verdict"], rows)])


def fit(result: Result, slots: Slots) -> Section:
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
