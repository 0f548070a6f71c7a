"""How the study was conducted: what left each site, what is assumed and was checked, and how the result was made."""

from __future__ import annotations

from typing import Any

from fedci.report.parts import Part, Section, Table
from fedci.report.slots import Slots
from fedci.result.result import Result
from fedci.site import ledger
from fedci.site.release import numbers_told

SCALES = {"numeric": "Gaussian noise", "binary": "log odds", "survival": "log odds of hazards by interval",
          "count": "logs of rates"}
"""What the model's function is on, by the type of the outcome."""


def left(result: Result, ledgers: dict[str, list[dict[str, Any]]]) -> Section:
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


def assumptions(result: Result, slots: Slots) -> Section:
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


def made(result: Result) -> Section:
    o = result.outcome
    facts = [["study", result.study.name], ["study hash", result.study.hash()], ["run", o.run], ["made", result.made],
             ["seed", str(o.seed)], ["preset", result.study.preset], ["model", o.options.model.family],
             ["posterior draws", f"{o.options.prediction.draws}"], ["policy", result.study.policy.name],
             *[[name, version] for name, version in result.versions.items()]]
    return Section("made", "How it was made", [
        Table(["", ""], facts, "The same study, seed and versions give the same bits"),
        Table(["study.toml"], [[result.study.to_toml()]])])
