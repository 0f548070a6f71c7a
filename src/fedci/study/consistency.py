"""Whether the parts of a study agree with each other: roles, arms, coding, linkage, what is drawn, noise, subgroups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedci.errors import StudyError
from fedci.study import outcomes
from fedci.study.coding import TREATMENT_KEYS
from fedci.study.options import nearest
from fedci.study.sections import Linkage

if TYPE_CHECKING:
    from fedci.study.study import Study


def check(study: Study) -> None:
    """The first that does not agree, as StudyError."""
    if not study.covariates:
        raise StudyError("covariates: the list is empty; name at least one column")
    if study.quorum is not None and study.sites and study.quorum > len(study.sites):
        raise StudyError(f"quorum = {study.quorum} is more than the {len(study.sites)} sites of the study")
    outcomes.check(study.outcome_type, study.time, study.horizons, study.cuts, study.exposure,
                   next(iter(study.diagnostics.controls), None))
    for one in (_check_roles, _check_coding, _check_arms, _check_cluster, _check_omop, _check_level_counts,
                _check_linkage, _check_completed, _check_noise, _check_subgroups):
        one(study)


def _check_roles(study: Study) -> None:
    """One role for each column, and no indicator with the name of another column."""
    role_of: dict[str, str] = {}
    for role, column in _roles(study):
        if column in role_of:
            raise StudyError(f"{role}: column {column!r} is already in {role_of[column]}; "
                             "a column has one role and stands once. Remove it from one of them")
        role_of[column] = role


def _roles(study: Study) -> Iterator[tuple[str, str]]:
    yield "treatment", study.treatment
    yield from (("outcome", column) for column in study.outcome_columns)
    yield from (("ids", column) for column in study.ids)
    if study.cluster is not None:
        yield "cluster", study.cluster
    for column in study.diagnostics.controls:
        yield f"diagnostics.negative_control{'s' * (column in study.diagnostics.negative_controls)}", column
    for covariate in study.covariates:
        yield from (("covariates", column) for column in {covariate.name, *covariate.design_columns()})


def _check_arms(study: Study) -> None:
    """Of more than two: what is made of two alone is told in words."""
    if not study.arms:
        return
    place, count = f"treatment.{study.treatment}.arms", len(study.arms)
    if len(set(study.arms)) < count:
        raise StudyError(f"{place} holds the same arm twice; each stands once")
    if count < 3:
        raise StudyError(f"{place}: got {count}, needs three or more, the reference first. Two are written "
                         f"treated = …, untreated = …")
    if count > study.policy.max_levels:
        raise StudyError(f"{place}: got {count} arms, policy.max_levels is {study.policy.max_levels}. Merge arms")
    if any(getattr(study.coding.get(study.treatment), key, ()) for key in TREATMENT_KEYS):
        raise StudyError(f"{place}: treated and untreated are of two arms. Keep arms, or these")
    if study.source is not None and study.source.omop is not None:
        raise StudyError(f"{place}: a study from an OMOP common data model has the arms of its two cohorts. Leave "
                         f"arms out, or make the table by a query of your own")
    if study.policy.epsilon is not None:
        raise StudyError(f"{place}: there is no differential privacy of more than two arms yet. Leave epsilon out")
    if study.completes:
        raise StudyError(f"{place}: missing = \"model\" is of two arms yet. Write missing = \"impute\"")
    if study.subgroups or study.design.randomised or study.decisions:
        key = "subgroups" if study.subgroups else "decisions" if study.decisions else "design"
        raise StudyError(f"{place}: {key} is of two arms yet. Leave it out, or run a study of two of the arms")
    if study.diagnostics.refute or study.diagnostics.controls:
        raise StudyError(f"{place}: refuters and negative controls are of two arms yet. Leave them out, or run a "
                         f"study of two of the arms")


def _check_cluster(study: Study) -> None:
    if study.cluster is not None and study.outcome_type == "survival":
        raise StudyError(f"cluster = {study.cluster!r}: clusters are not known yet of a time to an event. Leave "
                         f"cluster out, or take another outcome, such as 0 and 1 at a horizon")


def _check_coding(study: Study) -> None:
    """Of columns that the study has; and what makes 0 and 1 of words, of the treatment alone."""
    columns = study.columns
    for name, coding in study.coding.items():
        if name not in columns:
            raise StudyError(f"coding.{name}: the study has no such column{nearest(name, columns)}; it has "
                             f"{', '.join(columns)}")
        if name != study.treatment and any(getattr(coding, key) for key in TREATMENT_KEYS):
            raise StudyError(f"coding of {name!r}: treated is a key of the treatment. Write values = "
                             f"{{ Y = 1, N = 0 }}")
        if name in study.ids and coding.model_dump(exclude={"column", "label"}, exclude_defaults=True):
            raise StudyError(f"coding of {name!r}: an id is read as it stands; only column and label may be said")


def _check_omop(study: Study) -> None:
    """What the study reads comes from the common data model, each column from its feature."""
    if study.source is None or study.source.omop is None:
        return
    made = {study.treatment, study.outcome, "person_id", *study.source.omop.features}
    for name in study.reads():
        if name not in made:
            raise StudyError(f"source.omop: the study reads {name!r}, and no feature says where it comes from"
                             f"{nearest(name, study.source.omop.features)}. Write [source.omop.features.{name}]")


def _check_subgroups(study: Study) -> None:
    """Subgroups and decisions are of covariates, and told with the diagnostics: sums without noise."""
    if study.decisions is not None:
        study.decisions.columns(study.covariates)
    named = [key for key, asks in (("subgroups", study.groups), ("decisions", study.decisions)) if asks]
    if named and not study.diagnostics.enabled:
        raise StudyError(f"{named[0]}: they are told with the diagnostics. Set enabled = true under [diagnostics]")
    if named and (study.policy.epsilon is not None or study.noises_sums):
        raise StudyError(f"{named[0]}: they are told without noise, and this study's sums have noise "
                         f"(policy.{'epsilon' if study.policy.epsilon is not None else 'sum_noise'}). Leave them "
                         f"out; or, where every site allows exact sums, take preset = \"default\" and a policy of "
                         f"name = \"custom\" (docs/decisions.md)")


def _check_level_counts(study: Study) -> None:
    for covariate in study.covariates:
        count, most = len(covariate.levels or ()), study.policy.max_levels
        if count > most:
            raise StudyError(f"covariates.{covariate.name}.levels: got {count} levels, "
                             f"policy.max_levels is {most}. Merge levels")


def _check_linkage(study: Study) -> None:
    if study.links and not study.policy.allow_linkage:
        raise StudyError("policy.allow_linkage = false, and the study names ids for linkage. Set enabled = false "
                         "under [linkage], or leave allow_linkage out")
    if study.linkage != Linkage() and not study.ids:
        raise StudyError("linkage: the study names no ids. Name the columns that identify a person in ids")
    for column in study.linkage.dates:
        if column not in study.ids:
            raise StudyError(f"linkage.dates: column {column!r} is not among the ids{nearest(column, study.ids)}; "
                             f"ids = {', '.join(study.ids)}")


def _check_completed(study: Study) -> None:
    """What is drawn is drawn from one law of all covariates and of a numeric outcome, without noise in its sums."""
    if not study.completes:
        return
    for covariate in study.covariates:
        if (covariate.missing or study.missing) == "impute":
            raise StudyError(f'covariates.{covariate.name}: missing = "impute" and missing = "model" in one study: '
                             f'what is missing is drawn given all other covariates. Choose one of them for all; '
                             f'"refuse" may stand beside it')
    if study.outcome_type != "numeric":
        raise StudyError(f'missing = "model": what is missing is drawn given the outcome, and of a '
                         f'{study.outcome_type} outcome no law is known yet. Write missing = "impute" (the mean, and a '
                         f'mark of where), or "refuse" and drop the column that lacks values from the covariates')
    if study.policy.epsilon is not None:
        raise StudyError('missing = "model": the sums that what is missing is learnt from would have to have '
                         'noise, and none is known. Write missing = "refuse", or leave policy.epsilon out')


def _check_noise(study: Study) -> None:
    """Differential privacy needs bounds that are declared, and no answer that the noise does not cover."""
    options = study.fit_options()
    if study.policy.epsilon is not None and study.outcome_type != "numeric":
        raise StudyError(f"policy.epsilon: there is no differential privacy of a {study.outcome_type} outcome yet. "
                         f"Leave epsilon out; outcome_noise flips outcomes at the sites")
    if study.policy.noises("moments"):
        for covariate in study.covariates:
            if covariate.type == "numeric" and not (covariate.range and all(map(math.isfinite, covariate.range))):
                raise StudyError(f"covariates.{covariate.name}.range is missing: the noise of the moments is "
                                 f"measured by it. Give [smallest, largest]")
            if study.fills(covariate):
                raise StudyError(f"covariates.{covariate.name}: where values are missing is told without noise. "
                                 f'Set missing = "refuse" under differential privacy of the moments')
    optimiser = options.optimiser
    blind = options.model.noises_gradients and optimiser.name != "lbfgs" and optimiser.tolerance == 0
    if study.policy.noises("gradients") and not blind:
        raise StudyError("policy.noised has 'gradients': they need the model of the presets 'classic' or 'paper', "
                         "an optimiser other than lbfgs, and optimiser.tolerance = 0 (the objective is not told)")
