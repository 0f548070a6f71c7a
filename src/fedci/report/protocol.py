"""The analysis plan of a study, from its file alone: what is asked, of whom, how, and what may leave a site.

Written before any data are read: nothing here knows a result. What the study file does not say, and only people can, is
marked FOR_AUTHORS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedci.diagnostics import balance, missingness, overlap, refuters, trial
from fedci.report.parts import Document, Section, Table
from fedci.study.estimand import ATTRIBUTES, ELEMENTS, STRATEGIES, Estimand
from fedci.study.strictness import RULES
from fedci.study.study import Study
from fedci.study.subgroups import groups_of
from fedci.version import __version__

FOR_AUTHORS = "for the authors"
MEASURES = {
    "numeric": "difference of mean outcomes",
    "binary": "difference of risks; beside it the risk ratio, the odds ratio and the number needed to treat",
    "survival": "difference of the risks of the event by the last horizon; beside it both survival curves, their "
                "differences and differences of restricted mean times at each horizon",
    "count": "difference of rates; beside it the rate ratio"}
"""What is compared, by the type of the outcome."""
OWN_MEASURE = "difference between the arms, on the outcome's own scale (docs/outcomes.md)"
MODELS = {
    "shared": "one Bayesian regression of the outcome and of the treatment's effect on the covariates (lines, bends, "
              "products, "
              "thresholds and a few directions), with priors that shrink what the data do not need, and a function of "
              "each site's own",
    "paper": "Gaussian processes for the two potential outcomes with kernels that the sites share, as in the paper"}
FILES = {"shared": "docs/model.md", "paper": "docs/notation.md"}
SCALES = {"numeric": "the outcome itself, with Gaussian noise", "binary": "the log odds of the outcome",
          "survival": "the log odds of the event in each interval of time, with a baseline of each arm",
          "count": "the log of the rate, with negative binomial counts"}
"""What the regression is of, by the type of the outcome."""
FILLED = {"refuse": "the table is refused", "impute": "set to the mean over all sites, with a column that marks it",
          "model": "drawn given what is seen"}
"""What becomes of a missing covariate, by `missing`."""


def plan(study: Study) -> Document:
    """The plan as a document; the same study, the same words."""
    return Document(
        kicker=f"Analysis plan of the study “{study.name}”",
        title=f"What does {study.label(study.treatment)} do to {study.label(study.outcome)}?",
        facts=f"Written from the study file before any data are read. Study hash {study.hash()}; fedci {__version__}. "
              f"A report that shows another hash is of another study.",
        sections=list(_sections(study)))


def _sections(study: Study) -> Iterator[Section]:
    asked = study.estimand or Estimand()
    yield Section("estimand", "Estimand", [
        Table(["attribute", "in this study"], attributes(study, asked), "The attributes of ICH E9(R1)"),
        f"Where the study file says nothing, the words are fedci's; “{FOR_AUTHORS}” marks what only people can say, "
        f"under [estimand] in the study file."])
    yield Section("trial", "The target trial and its emulation", [
        Table(["element", "target trial", "in these data"], elements(study, asked))])
    yield Section("columns", "Variables", [Table(["column", "role", "values", "from a site's cells", "if missing"],
                                                 list(_columns(study)))])
    yield Section("sites", "Sites and people", list(_sites(study)))
    yield Section("analysis", "Statistical analysis", list(_analysis(study)))
    yield from _in_whom(study)
    yield Section("diagnostics", "Diagnostics and sensitivity analyses", list(_diagnostics(study)))
    yield Section("policy", "What may leave a site", [
        f"Rows stay at their sites. Sums leave under the policy '{study.policy.name}'; what each request asks for "
        f"stands in docs/security.md, and each site's ledger lists what left it.",
        Table(["value", "in this study", "what it says"],
              [[name, _said(getattr(study.agreed_policy, name)), rule.words] for name, rule in RULES.items()])])
    yield Section("assumptions", "Assumptions that no data can check", [
        f"{_unconfounded(study)}; there is one version of the treatment, and nobody's treatment changes another's "
        f"outcome; everybody could have been treated or not; sites measure the same columns alike.",
        *(["What is missing is missing at random given all that is seen of a person: arm, site and outcome too."]
          if study.completes else []), f"Why these are believed here: {FOR_AUTHORS}."])
    yield Section("people", "Approvals and deviations", [
        Table(["", ""], [["Ethics approval and data agreements of each site", FOR_AUTHORS],
                         ["Registration of this plan (where, number, date)", FOR_AUTHORS],
                         ["Funding and interests", FOR_AUTHORS],
                         ["Signed (name, date)", FOR_AUTHORS],
                         ["Deviations from this plan, with reasons (after the study)", FOR_AUTHORS]])])
    yield Section("file", "The study file", [Table(["study.toml"], [[study.to_toml()]])])


def _unconfounded(study: Study) -> str:
    return ("Treatment was drawn by lot, so it does not depend on the potential outcomes" if study.design.randomised
            else "Given the covariates, treatment does not depend on the potential outcomes")


# ── estimand and target trial ───────────────────────────────────────────────────────────────────────────────


def attributes(study: Study, asked: Estimand) -> list[list[str]]:
    """[name, words] of each attribute: the study's own, or what its other keys say."""
    of_itself = {
        "population": "People in the sites' tables who have the covariates below; effects are averaged over all of "
                      f"them, and beside it over {_arms_alone(study)}. Who was eligible: {FOR_AUTHORS}",
        "treatment": f"{study.label(study.treatment)}{_arms(study)}. What each means in practice: {FOR_AUTHORS}",
        "variable": f"{study.said(study.outcome)}, {_outcome(study)}",
        "intercurrent": _events(asked) or FOR_AUTHORS,
        "summary": MEASURES.get(study.outcome_type, OWN_MEASURE)}
    return [[name, str((key != "intercurrent" and getattr(asked, key)) or of_itself[key])]
            for key, name in ATTRIBUTES.items()]


def _arms(study: Study) -> str:
    if not study.arms:
        return ": 1, compared with 0"
    return f": {', '.join(study.arms)}; every two are compared, '{study.arms[0]}' is the reference"


def _arms_alone(study: Study) -> str:
    return "those of each arm" if study.arms else "the treated and the untreated"


def _events(asked: Estimand) -> str:
    return "\n".join(f"{one.event}: {one.strategy} ({STRATEGIES[one.strategy]}){f'. {one.how}' if one.how else ''}"
                     for one in asked.intercurrent)


def elements(study: Study, asked: Estimand) -> list[list[str]]:
    """[element, target trial, in these data]."""
    omop = study.source.omop if study.source else None
    names = ", ".join(study.label(covariate.name) for covariate in study.covariates)
    cohort = (f"cohorts {omop.target} and {omop.comparator} of the common data model" if omop else
              "the rows of each site's table; how they were chosen: " + FOR_AUTHORS)
    emulated = {
        "eligibility": f"{cohort}; rows without treatment or outcome are {_without(study)}",
        "strategies": f"column {study.treatment}{_arms(study)}{_coded(study, study.treatment)}",
        "assignment": (f"randomised at the sites, {study.design.share:.0%} to the treatment" if study.design.randomised
                       else f"not randomised: taken as if at random among people alike in {names}"),
        "time_zero": (f"day 0, of the first entry into the cohort {omop.target} or {omop.comparator}" if omop else
                      f"covariates must be known by then, and follow-up begin there: {FOR_AUTHORS}"),
        "follow_up": _follow_up(study),
        "outcome": f"{study.said(study.outcome)}, {_outcome(study)}{_coded(study, study.outcome)}",
        "contrast": f"{MEASURES.get(study.outcome_type, OWN_MEASURE)}, over all people; by treatment as it stands in "
                    f"the table, whatever came later",
        "analysis": f"the same model for {'all' if study.arms else 'both'} arms with adjustment for the covariates; "
                    f"see Statistical analysis"}
    return [[name, getattr(asked.trial, key) or FOR_AUTHORS, emulated[key]] for key, name in ELEMENTS.items()]


def _outcome(study: Study) -> str:
    if study.outcome_type == "survival":
        times = ", ".join(f"{value:g}" for value in study.horizons)
        return f"a time to an event ({study.time}), looked at by {times}"
    if study.outcome_type == "count":
        return f"a count{f' over {study.exposure}' if study.exposure else ''}"
    return {"numeric": "a number", "binary": "1 where it happened, 0 where not"}.get(study.outcome_type,
                                                                                    study.outcome_type)


def _follow_up(study: Study) -> str:
    if study.outcome_type == "survival":
        return (f"from time zero for {study.time}, to {study.horizons[-1]:g} at most; whoever is followed no longer "
                f"counts until then, as if at random given covariates and treatment")
    return (f"over {study.exposure}, which may differ" if study.exposure else
            f"as the outcome's column says: {FOR_AUTHORS}")


def _coded(study: Study, column: str) -> str:
    words = study.coding[column].in_words(column) if column in study.coding else ""
    return f"; a site's cells: {words}" if words else ""


def _without(study: Study) -> str:
    return "left out and counted" if study.rows_without == "drop" else "not accepted"


# ── variables, sites, analysis ──────────────────────────────────────────────────────────────────────────────


def _columns(study: Study) -> Iterator[list[str]]:
    without = "row is dropped" if study.rows_without == "drop" else "the table is refused"
    for role, names in (("treatment", (study.treatment,)), ("outcome", study.outcome_columns)):
        for name in names:
            arms = ", ".join(study.arms) or "0 or 1"
            values = (arms if role == "treatment" else _outcome(study) if name == study.outcome else
                      "how long a person was followed" if name == study.time else "over how long it was counted")
            yield [study.said(name), role, values, _cells(study, name), without]
    for covariate in study.covariates:
        values = (", ".join(covariate.levels or ()) if covariate.type == "categorical" else
                  "0 or 1" if covariate.type == "binary" else
                  f"{covariate.range[0]:g} to {covariate.range[1]:g}" if covariate.range else "any number")
        yield [study.said(covariate.name), "covariate", values, _cells(study, covariate.name),
               FILLED[covariate.missing or study.missing]]
    for name in study.diagnostics.controls:
        yield [study.said(name), "negative control", _outcome(study), _cells(study, name), without]
    for name in study.ids:
        yield [name, "id, for linkage", "text, which stays at the site", _cells(study, name), "–"]
    if study.cluster is not None:
        yield [study.cluster, "cluster within a site", "stays at the site", _cells(study, study.cluster), "–"]


def _cells(study: Study, name: str) -> str:
    words = study.coding[name].in_words(name) if name in study.coding else ""
    return words or "as they stand"


def _sites(study: Study) -> Iterator[str | Table]:
    named = ", ".join(study.sites) if study.sites else "any that hold the same study file"
    yield f"Sites that may take part: {named}. " + (
        f"The study goes on without some of them from {study.quorum} sites on." if study.quorum else
        "All that begin must stay to the end, unless the study is begun anew without them.")
    yield f"Each site needs {study.policy.min_rows} rows and {study.policy.min_arm_rows} in each arm. A study of " \
          f"other sites, or of more people, is a run of its own: at most {study.runs} runs at a site."
    if study.links:
        yield f"People at several sites are found by keyed tokens of {', '.join(study.ids)} and kept at " \
              f"{study.linkage.keep} of them (docs/linkage.md)."
    else:
        yield "People at several sites are not looked for: a person at two sites counts twice."
    yield f"How many people are needed, and why: {FOR_AUTHORS} (`fedci plan` tells the smallest effect that would be " \
          f"found, before outcomes are looked at; `fedci simulate` makes tables to rehearse on)."


def _analysis(study: Study) -> Iterator[str | Table]:
    options = study.fit_options()
    family = options.model.family
    yield f"The model: {MODELS.get(family, family)} ({FILES.get(family, 'docs/model.md')}). It is of " \
          f"{SCALES.get(study.outcome_type, 'the outcome')}. " + (
        "Sums carry noise, and outcome and effect are fitted as straight in every covariate." if study.noises_sums else
        "It is fitted to sums over sites, as if all rows were in one place.")
    yield f"Estimates are posterior means with 95% intervals (2.5% and 97.5% quantiles of the posterior). The " \
          f"primary answer is the average over all people at all sites; averages over {_arms_alone(study)}, each " \
          f"site, and the effect along covariates are secondary. No p-value decides anything."
    if study.design.randomised:
        yield "The plain difference of the arms, overall and within sites, is reported beside the model's effect."
    if study.cluster is not None:
        yield f"People who share {study.label(study.cluster)} are alike in what nobody measured: a part of each " \
              f"site's own function is each cluster's own."
    yield gaps(study)
    yield Table(["setting", "value"], [["seed", str(study.seed)], ["preset", study.preset],
                                       *([name, _said(value)] for name, value in _flat(options.model_dump()))],
                "Every setting of the fit; the same study, seed and versions give the same bits")


def gaps(study: Study) -> str:
    """What is done about what is missing; of which covariates, the table of variables says."""
    rows = f"Rows without treatment or outcome are {_without(study)}."
    ways = {covariate.missing or study.missing for covariate in study.covariates} - {"refuse"}
    if not ways:
        return f"No covariate may be missing: a site's table with gaps is refused. {rows}"
    return ("Missing covariates are drawn given all that is seen of the person, outcome too, from a law that the sites "
            "learn together; every draw of the fit sees a completed copy of its own. " if "model" in ways else
            "Missing covariates are set to the mean over all sites, and a column marks where. ") + rows


def _in_whom(study: Study) -> Iterator[Section]:
    """What was asked beforehand of groups, and of whom to treat."""
    if study.subgroups:
        groups = groups_of(study.subgroups, study.covariates)
        yield Section("subgroups", "Subgroups, named beforehand", [
            Table(["definition", "groups"], [[name, "; ".join(group.name for group in groups if group.of == name)]
                                             for name in study.subgroups]),
            "Of each group the effect, and of every two groups of a definition the difference of effects, is reported "
            "with its 95% interval and with one that holds for all of them at once; p-values of differences are "
            "adjusted for all that are looked at. Groups come from the one fit. Of which groups a site tells, it "
            "decides by its policy; nothing else is looked at in subgroups."])
    if study.decisions is not None:
        asked, cost = study.decisions, study.decisions.cost
        yield Section("decisions", "Whom to treat", [
            f"A {asked.better} outcome is better; who is treated must be expected to benefit by more than {cost:g}. "
            f"The effect may differ along {', '.join(map(study.label, asked.along))}: the straight line nearest to it, "
            f"a rule of at most three lines learnt on people of nobody, and what policies are worth are reported "
            f"(docs/decisions.md), after the probability that the effect is the same for all."])


def _flat(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _diagnostics(study: Study) -> Iterator[str | Table]:
    asked, noised = study.diagnostics, study.noises_sums or study.policy.epsilon is not None
    if not asked.enabled or noised or study.arms:
        yield "No diagnostics are run." + (
            " Sums of people's values have noise, and none without may leave." if noised else
            " They are of two arms (docs/arms.md): studies of two of the arms each have them."
            if asked.enabled else "")
        return
    yield Table(["diagnostic", "to look at", "a problem"], [
        *(_of_lot() if study.design.randomised else _of_choice()),
        ["share of an arm's values of a covariate that is missing", f"above {missingness.SHARE:.0%}",
         f"above {missingness.LARGE_SHARE:.0%}"],
        ["fit, calibration, plausibility, heterogeneity of sites", "docs/diagnostics.md", "docs/diagnostics.md"],
        *([f"refuter {name}", f"beyond {refuters.Z_THRESHOLD:g} sd", f"beyond {refuters.Z_PROBLEM:g} sd"]
          for name in asked.refute)], "Thresholds, fixed beforehand")
    hidden = "" if study.design.randomised else "to a confounder that nobody measured, "
    yield f"Sensitivity {hidden}to the correlation of the two outcomes' noise, and to leaving each site out is " \
          f"reported with the effects (docs/diagnostics.md)."
    if asked.negative_control:
        yield f"Negative control: the study is fitted to {study.label(asked.negative_control)} as well, which " \
              f"treatment cannot change."
    if asked.negative_controls:
        yield f"{len(asked.negative_controls)} negative controls " \
              f"({', '.join(map(study.label, asked.negative_controls))}): " \
              "the study is fitted to each; the mean and spread of their effects beyond chance calibrate the " \
              "interval of the study's own effect, which is reported beside the plain one. They are believed to " \
              f"share the outcome's sources of bias because: {FOR_AUTHORS}."
    yield ("Blinded: effects stay sealed until somebody has read the diagnostics and opens them, by name (fedci "
           "unblind)." if asked.blinded else "Not blinded: effects are seen together with the diagnostics.")


def _of_choice() -> list[list[str]]:
    """Where somebody chose the treatment."""
    return [["standardised mean difference of a covariate after weighting", f"above {balance.THRESHOLD:g}",
             f"above {balance.PROBLEM:g}"],
            [f"people with preference scores between {overlap.LIMITS[1]:g} and {overlap.LIMITS[2]:g}",
             f"below {overlap.EQUIPOISE_THRESHOLD:.0%}", f"below {overlap.EQUIPOISE_PROBLEM:.0%}"],
            [f"people with scores below {overlap.LIMITS[0]:g} or above {overlap.LIMITS[-1]:g}",
             f"above {overlap.OUTSIDE_THRESHOLD:.0%}", f"above {overlap.OUTSIDE_PROBLEM:.0%}"]]


def _of_lot() -> list[list[str]]:
    return [["difference of the arms in a covariate, over what chance makes of it", f"above {trial.FAR:g}", "–"],
            ["share of the treated, from that of the lot", f"beyond {trial.FAR:g} standard errors", "–"]]


def _said(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_said(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
