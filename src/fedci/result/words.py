"""A result in words: its summary, what carries the effects, abrupt changes, whom linkage left out, and warnings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedci.coordinator.coordinator import Outcome
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.trial import Trial
from fedci.effect import Effect
from fedci.protocol import optimise
from fedci.result import account, deciding
from fedci.result import subgroup_effects as grouped
from fedci.result.subgroup_effects import subgroups_of
from fedci.study.study import Study

if TYPE_CHECKING:
    import pandas as pd

    from fedci.result.result import Result

FEW_EVENTS = 10
"""In an arm, of all sites, below which a reader is told."""
CARRIES = 0.05
"""Share from which on a part is said to carry something."""
COUNTS = ("No direction carries", "One direction carries", "Two directions carry", "Three directions carry",
          "Four directions carry")

SUBJECTS = {"outcome": "The outcome without treatment", "effect": "The effect"}


def summary(result: Result, alpha: float) -> str:
    """The result in words and one table; where the fit is degenerate, that in their place."""
    study, outcome, degenerate = result.study, result.outcome, result.degenerate
    told = (_effects(result, alpha) if degenerate is None else
            (f"{degenerate} The numbers stand in result.table().", []))
    lines = [
        f"Study '{study.name}': effect of '{study.label(study.treatment)}' on "
        f"'{study.label(study.outcome)}', {_people_at_sites(outcome)}.",
        *linkage(outcome.excluded, study.linkage.keep),
        told[0],
        *clustered(study),
        f"The fit {outcome.fit.verdict}: {len(outcome.fit.rounds)} rounds, objective {outcome.fit.objective:.3f}, "
        f"{sum(outcome.seconds.values()):.1f} s, seed {outcome.seed}.",
        "",
        *told[1],
        *((*trial(result), *subgroups(result, alpha), *decisions(result, alpha)) if degenerate is None else ()),
        *account.in_words(study, outcome),
        *(_sensitivity(result, alpha) if degenerate is None else ()),
    ]
    warned = [f"warning: {text}" for text in result.warnings()]
    return "\n".join(lines + (["", *warned] if warned else []))


def _effects(result: Result, alpha: float) -> tuple[str, list[str]]:
    """(the average effect in words, the table and what carries it)."""
    if result.many and result.pair is None:
        return _of_arms(result, alpha)
    ate = result.ate()
    low, high = ate.interval(alpha)
    if not result.of_numbers:
        what = "Rates" if result.of_rates else f"Risks{by_when(result)}"
        table = _short_rates(result.rate_table(alpha)) if result.of_rates else _short(result.risk_table(alpha))
        return of_people(result, alpha), [
            _aligned(result.table(alpha)), "", f"{what} without and with treatment, and what is made of them:",
            _aligned(table), "", *_at_horizons(result, alpha),
            *drivers(result.outcome.layout.model.driver_parts, result.drivers())]
    unit = f" {unit}" if (unit := result.study.unit(result.study.outcome)) else ""
    return (f"On average treatment changes the outcome by {ate.mean:.4g}{unit} ({100 * (1 - alpha):g}% interval "
            f"{low:.4g} to {high:.4g}).",
            [_aligned(result.table(alpha)), "",
             *drivers(result.outcome.layout.model.driver_parts, result.drivers()), *_abrupt(result, alpha)])


def _of_arms(result: Result, alpha: float) -> tuple[str, list[str]]:
    """Of more than two arms: each against the reference in words, and every contrast in a table."""
    lines = [f"{name} compared with {result.study.arms[0]}: {average(result.between(name), alpha)}"
             for name in result.study.arms[1:]]
    table, arms = result.contrasts(alpha), result.arm_table(alpha)
    names = ["arm", "against", "mean", "sd", "low", "high"]
    everybody = arms[(arms.over == "all") & (arms.site == "all")]
    return "\n".join(lines), [
        "Every arm against every other, over everybody:",
        _aligned(table[(table.estimand == "ATE") & (table.site == "all")][names]), "",
        "What is expected if everybody got the arm:", _aligned(everybody[["arm", "mean", "sd", "low", "high"]]), "",
        *drivers(result.outcome.layout.model.driver_parts, result.drivers()), *_abrupt(result, alpha)]


def clustered(study: Study) -> list[str]:
    """Of a study with clusters, what its intervals know of them."""
    if study.cluster is None:
        return []
    return [f"People of a site who share '{study.label(study.cluster)}' count as a cluster, alike in what nobody "
            f"measured: the intervals take account of it."]


def average(result: Result, alpha: float) -> str:
    """Of two arms, in a sentence."""
    if not result.of_numbers:
        return of_people(result, alpha)
    effect, unit = result.ate(), result.study.unit(result.study.outcome)
    low, high = effect.interval(alpha)
    return (f"On average the outcome changes by {effect.mean:.4g}{f' {unit}' if unit else ''} "
            f"({100 * (1 - alpha):g}% interval {low:.4g} to {high:.4g}).")


def trial(result: Result) -> list[str]:
    """'Without a model, treated and untreated differ by …', of a randomised study."""
    found = result.diagnostics.trial if result.diagnostics is not None else None
    if found is None:
        return []
    return [plain_difference(found, result.of_risks), ""]


def plain_difference(found: Trial, of_risks: bool) -> str:
    """In one or two sentences, without the model; of risks in percentage points."""
    def said(value: float) -> str:
        return f"{100 * value:.3g}" if of_risks else f"{value:.4g}"

    plain, within, unit = found.plain, found.within_sites, "%" if of_risks else ""
    more = (f" Compared within sites: {said(within.mean)} ({said(within.low)} to {said(within.high)})."
            if within is not None else "")
    return (f"Treatment was drawn by lot. Without any model the arms differ by {said(plain.mean)}"
            f"{' percentage points' if of_risks else ''} (95% interval {said(plain.low)} to {said(plain.high)}): "
            f"{said(found.means[1])}{unit} with treatment, {said(found.means[0])}{unit} without.{more}")


def subgroups(result: Result, alpha: float) -> list[str]:
    """Of a study that names some."""
    if not result.study.subgroups:
        return []
    found = subgroups_of(result.study.groups, result.outcome.effects.subgroups, result.of_rates)
    return grouped.in_words(found, len(result.sites), alpha)


def decisions(result: Result, alpha: float) -> list[str]:
    """Of a study that asks for them."""
    if result.study.decisions is None:
        return []
    return deciding.in_words(result.decisions if result.outcome.effects.decisions else None, alpha)


def of_people(result: Result, alpha: float) -> str:
    """The average effect of what is no number, in people, times or rates."""
    if result.of_rates:
        return of_a_rate(result, alpha)
    return of_hundred(result, alpha) + (f" {of_mean_times(result, alpha)}" if result.of_times else "")


def by_when(result: Result) -> str:
    """' by 180', of a time to an event."""
    return f" by {result.study.time} = {result.study.horizons[-1]:g}" if result.of_times else ""


def of_mean_times(result: Result, alpha: float) -> str:
    """'Up to days = 180 they live 3.1 longer without it …'"""
    means = result.survival().rmst()
    low, high = means.difference.interval(alpha)
    return (f"Up to {result.study.time} = {result.study.horizons[-1]:g} the mean time without the event is "
            f"{means.of_treated.mean:.4g} instead of {means.of_untreated.mean:.4g}, {_longer(means.difference.mean)} "
            f"({100 * (1 - alpha):g}% interval: {_longer(low)} to {_longer(high)}).")


def _longer(difference: float) -> str:
    return f"{abs(difference):.3g} {'longer' if difference > 0 else 'shorter'}"


def of_a_rate(result: Result, alpha: float) -> str:
    """'Treatment changes the rate of 'falls' from 1.2 to 0.9 per unit of 'years' …'"""
    rates, per = result.rates(), f" per unit of '{result.study.exposure}'" if result.study.exposure else " per person"
    low, high = rates.difference.interval(alpha)
    return (f"On average treatment changes '{result.study.outcome}'{per} from {rates.of_untreated.mean:.3g} to "
            f"{rates.of_treated.mean:.3g}, by {rates.difference.mean:.3g} ({100 * (1 - alpha):g}% interval {low:.3g} "
            f"to {high:.3g}). The rate ratio is {_ratio(rates.ratio, alpha)}.")


def _at_horizons(result: Result, alpha: float) -> list[str]:
    """Of a time to an event, over everybody at all sites: survival and mean times at the study's horizons."""
    if not result.of_times:
        return []
    table = result.survival_table(alpha)
    shown = table[(table.over == "all") & (table.site == "all") & table.time.isin(result.study.horizons)]
    names = ["time", "survival_untreated", "survival_treated", "difference", "difference_low", "difference_high",
             "rmst_difference", "rmst_difference_low", "rmst_difference_high"]
    return ["Survival, and the mean time without the event, at the study's horizons:", _aligned(shown[names]), ""]


def of_hundred(result: Result, alpha: float) -> str:
    """'Of 100 such people, 6.1 fewer have 'died' = 1 with 'drug' than without …'"""
    risks, who = result.risks(), f"'{result.study.label(result.study.outcome)}' = 1{by_when(result)}"
    low, high = risks.difference.interval(alpha)
    level = f"{100 * (1 - alpha):g}%"
    r0, r1 = 100 * risks.of_untreated.mean, 100 * risks.of_treated.mean
    needed = risks.number_needed(alpha)
    clear = ("the interval holds no difference" if needed is None else
             f"one in {needed[0]:.0f} treated ({level} interval {needed[1]:.0f} to {needed[2]:.0f})")
    return (f"Of 100 such people, {_fewer(risks.difference.mean)} have {who} when treated: {r1:.3g} instead of "
            f"{r0:.3g} ({level} interval of the difference: {_fewer(low)} to {_fewer(high)}); {clear}. The risk ratio "
            f"is {_ratio(risks.ratio, alpha)}, the odds ratio {_ratio(risks.odds_ratio, alpha)}.")


def _fewer(difference: float) -> str:
    return f"{abs(100 * difference):.3g} {'more' if difference > 0 else 'fewer'}"


def _ratio(effect: Effect, alpha: float) -> str:
    low, high = effect.interval(alpha)
    return f"{effect.quantile(0.5):.3g} ({low:.3g} to {high:.3g})"


def _short(table: pd.DataFrame) -> pd.DataFrame:
    """Of the risk table what fits a screen: of single sites everybody only."""
    names = ["risk_untreated", "risk_treated", "ratio", "ratio_low", "ratio_high", "odds_ratio", "needed"]
    shown = table[(table.site == "all") | (table.over == "all")][["over", "site", *names]]
    return shown.astype({"needed": object}).where(shown.notna(), "–")


def _short_rates(table: pd.DataFrame) -> pd.DataFrame:
    names = ["rate_untreated", "rate_treated", "ratio", "ratio_low", "ratio_high"]
    return table[(table.site == "all") | (table.over == "all")][["over", "site", *names]]


def sealed_summary(result: Result) -> str:
    """Of a blinded study: all but its effects."""
    fit = result.outcome.fit
    return "\n".join([
        f"Study '{result.study.name}': {_people_at_sites(result.outcome)}.",
        f"The fit {fit.verdict}: {len(fit.rounds)} rounds. Its effects are sealed (the study is blinded): read the "
        f"diagnostics, then open them with result.unblind(by=…), or `fedci unblind RESULT --by NAME`.",
        *([result.degenerate] if result.degenerate else ()),
        *(f"warning: {text}" for text in result.warnings())])


def _people_at_sites(outcome: Outcome) -> str:
    return f"{outcome.layout.rows:,} people at {_sites(len(outcome.layout.sites))}"


def _sites(count: int) -> str:
    return f"{count} site{'s' if count > 1 else ''}"


def _aligned(table: pd.DataFrame) -> str:
    return table.to_string(index=False, float_format=lambda value: f"{value:.4g}")


def linkage(excluded: Mapping[str, int], keep: int) -> list[str]:
    """Whom linkage left out, and where; nothing where there was none."""
    if not excluded:
        return []
    each = ", ".join(f"{left:,} at {site}" for site, left in excluded.items() if left)
    return [f"Linkage keeps a person at {_sites(keep)}; left out: {each}." if each else
            f"Linkage found nobody at more than {_sites(keep)}."]


def drivers(parts: Sequence[Any], table: pd.DataFrame | None) -> list[str]:
    """'Two directions carry the outcome: …', with their shares."""
    if table is None:
        return []
    rows = list(zip(parts, table.itertuples(), strict=True))
    bent = [row for part, row in rows if part.along and max(row.outcome, row.effect) >= CARRIES]
    count = COUNTS[len(bent)] if len(bent) < len(COUNTS) else f"{len(bent)} directions carry"
    shares = "; ".join(f"{row.outcome:.0%} of it and {row.effect:.0%} of the effect along {row.covariates}"
                       for row in bent)
    (first, line), *others = [(part.words, row) for part, row in rows if not part.along]
    carry = [f"{first.capitalize()} carry {line.outcome:.0%} and {line.effect:.0%}",
             *(f"{words} {row.outcome:.0%} and {row.effect:.0%}" + (f" (of {row.covariates})" if row.covariates else "")
               for words, row in others)]
    return [f"{count} the outcome{': ' + shares if shares else ''}. {', '.join(carry)}.", ""]


def _abrupt(result: Result, alpha: float) -> list[str]:
    table = result.thresholds(alpha)
    return [] if table is None else [*thresholds(table.to_dict("records"), alpha), ""]


def thresholds(rows: Sequence[Mapping[str, Any]], alpha: float) -> list[str]:
    """'The effect rises by 1.9 [1.1, 2.7] where x4 passes 0.0 [−0.2, 0.1]', from the rows of `Result.thresholds`."""
    if not rows:
        return ["Neither the outcome without treatment nor the effect is seen to change abruptly along one covariate."]
    return [f"Abrupt changes along one covariate, averaged over the others ({100 * (1 - alpha):g}% intervals):",
            *(_threshold(row) for row in rows)]


def _threshold(row: Mapping[str, Any]) -> str:
    way = 1 if row["change"] > 0 else -1
    change = _with_interval(way * row["change"], *sorted((way * row["change_low"], way * row["change_high"])))
    place = _with_interval(row["place"], row["place_low"], row["place_high"])
    sure = "above 99%" if row["probability"] > 0.99 else f"{row['probability']:.0%}"
    return (f"{SUBJECTS[row['of']]} {'rises' if way > 0 else 'falls'} by {change} where {row['covariate']} passes "
            f"{place} (probability {sure}).")


def _with_interval(mean: float, low: float, high: float) -> str:
    """As many decimals as show the interval's width to two digits."""
    decimals = max(1 - math.floor(math.log10(high - low)), 0) if high > low else 3
    told = [f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", "−") for value in (mean, low, high)]
    return f"{told[0]} [{told[1]}, {told[2]}]"


def _sensitivity(result: Result, alpha: float) -> list[str]:
    if not result.of_numbers or result.many:
        return []
    if not result.study.tells_realised:
        return ["Realised effects are not told where effects have noise for privacy."]
    return ["Realised effects depend on the correlation of the two outcomes' noise, which no data inform "
            "(its posterior is its prior):", _aligned(result.sensitivity(alpha))]


def warnings(study: Study, outcome: Outcome, diagnostics: Diagnostics | None) -> tuple[str, ...]:
    """Everything a reader of the effects should know before trusting them."""
    return (*outcome.warnings, *_of_events(study, diagnostics), *_of_diagnostics(diagnostics),
            *_of_the_fit(study, outcome), *_of_straightness(study), *_of_linkage(outcome), *_of_jitters(outcome),
            *_of_sizes(study, outcome))


def _of_events(study: Study, diagnostics: Diagnostics | None) -> Iterator[str]:
    """Where an arm has few, or, of 0 and 1, few without: its risk or rate is then next to the prior's."""
    known = None if diagnostics is None else diagnostics.described
    if known is None or known.outcome is None or known.outcome.events is None:
        return
    counts = {"events": known.outcome.events}
    if study.outcome_type == "binary":
        counts["people without the event"] = (known.people[0] - counts["events"][0],
                                              known.people[1] - counts["events"][1])
    for what, (untreated, treated) in counts.items():
        if min(untreated, treated) < FEW_EVENTS:
            yield (f"all sites together have {untreated} {what} among the untreated and {treated} among the treated: "
                   f"with fewer than {FEW_EVENTS} in an arm, what is said of it is the model's expectation more than "
                   f"the data's. Read the interval of the difference; ratios, odds ratios and people's own effects are "
                   f"next to unknown.")


def _of_diagnostics(diagnostics: Diagnostics | None) -> Iterator[str]:
    if diagnostics is not None and diagnostics.problems:
        named = ", ".join(problem.name for problem in diagnostics.problems)
        yield f"the diagnostics name problems: {named}. What to do stands beside each of them."


def _of_the_fit(study: Study, outcome: Outcome) -> Iterator[str]:
    absent, verdict = sorted(set(study.sites) - set(outcome.layout.sites)), outcome.fit.verdict
    if absent:
        yield f"sites of the study that took no part: {', '.join(absent)}."
    if verdict != optimise.CONVERGED:
        yield (f"the fit {'has ' if verdict == optimise.DIVERGED else 'was '}{verdict} after "
               f"{len(outcome.fit.rounds)} rounds: effects may still move. Raise optimiser.rounds or lower the rate.")


def _of_straightness(study: Study) -> Iterator[str]:
    if study.noises_sums:
        yield ("sums have noise (policy.sum_noise), so outcome and effect were fitted as straight in every covariate: "
               "people whose true effects bend away from it are not told apart, and intervals of people's effects are "
               "as wide as such bends may be. Averages over everybody do not rest on it as much.")


def _of_linkage(outcome: Outcome) -> Iterator[str]:
    for site, left in outcome.excluded.items():
        rows = outcome.layout.people[site].rows
        if left > rows:
            yield (f"site '{site}': linkage left out {left} of {left + rows} people, who stay at other sites: those "
                   f"left may not be typical of it.")


def _of_jitters(outcome: Outcome) -> Iterator[str]:
    for site, jitter in outcome.fit.jitters.items():
        who = f"site '{site}': needed" if site else "one site or more (their own screens say which) needed up to"
        yield f"{who} jitter {jitter:g} on its covariance; look for repeated rows."


def _of_sizes(study: Study, outcome: Outcome) -> Iterator[str]:
    limit, parameters = study.policy.parameters_per_row_warn, outcome.layout.model.size
    small = [site for site, people in outcome.layout.people.items() if parameters > limit * people.rows]
    if small:
        yield (f"the model has {parameters} parameters, more than {limit} per row at {', '.join(small)}: what leaves "
               f"them may tell much about single rows. Use secure sums, a smaller model, or more rows.")
