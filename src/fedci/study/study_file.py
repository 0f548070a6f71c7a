"""A study file as tables: what each says of a study, and a study as tables again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fedci.errors import StudyError
from fedci.study import outcomes
from fedci.study.options import FitOptions, nearest
from fedci.study.outcomes import OF_TYPES
from fedci.study.toml import lines, toml_key

if TYPE_CHECKING:
    from fedci.study.study import Study

OPTION_TABLES = tuple(FitOptions.model_fields)
"""The tables of a study file that change the preset."""


def fields_of(file: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The fields (`known`) of Study from the tables of a file; [model], [optimiser], [prediction] are its options."""
    known = [key for key in known if key not in ("options", "arms", *OF_TYPES)] + list(OPTION_TABLES)
    for key in file:
        if key not in known:
            raise StudyError(f"study: unknown key {key!r}{nearest(key, known)}")
    fields = {key: value for key, value in file.items() if key not in OPTION_TABLES}
    return {**fields, "options": {key: file[key] for key in OPTION_TABLES if key in file}}


def written(study: Study) -> str:
    """The text of a file, of which `Study.read` gives the same study."""
    changes = study.policy.changes()
    top = study.model_dump(exclude={"covariates", "linkage", "diagnostics", "policy", "options", "source",
                                   "estimand", *OF_TYPES, "coding", "subgroups", "design", "decisions"})
    top = {key: value for key, value in top.items() if value is not None}
    if study.rows_without == "refuse":
        del top["rows_without"]
    if arms := top.pop("arms"):
        top["treatment"] = {"name": study.treatment, "arms": list(arms)}
    if study.design.randomised:
        top["design"] = study.design.plain()
    coded = {name: coding.plain() for name, coding in study.coding.items()}
    if study.outcome_type != "numeric":
        top["outcome"] = outcomes.written(study.outcome, study.outcome_type, study.time, study.horizons, study.cuts,
                                          study.exposure)
    for role, name in (("treatment", study.treatment), ("outcome", study.outcome)):
        if name in coded:
            top[role] = (top[role] if isinstance(top[role], dict) else {"name": name}) | coded.pop(name)
    tables = {f"covariates.{toml_key(covariate.name)}": covariate.model_dump(exclude={"name"}, exclude_none=True)
              | coded.pop(covariate.name, {}) for covariate in study.covariates}
    tables |= {f"coding.{toml_key(name)}": coding for name, coding in coded.items()}
    if linkage := study.linkage.model_dump(exclude_defaults=True):
        tables["linkage"] = linkage
    if diagnostics := study.diagnostics.model_dump(exclude_defaults=True):
        tables["diagnostics"] = diagnostics
    if study.decisions is not None:
        tables["decisions"] = study.decisions.model_dump(exclude_defaults=True)
    tables |= {f"subgroups.{toml_key(name)}": one.plain() for name, one in study.subgroups.items()}
    if study.source:
        tables["source"] = study.source.model_dump(exclude_none=True)
    if study.estimand:
        tables |= study.estimand.tables()
    if changes:
        tables["policy"] = {"name": study.policy.name, **changes}
    else:
        top["policy"] = study.policy.name
    sections = [f"[{head}]\n{lines(rows)}" for head, rows in (tables | study.options).items()]
    return "\n".join([lines(top), *sections])


def without_none_words(value: Any) -> Any:
    """Dicts, lists and numbers as TOML holds them; the word "none" is Python's None, which TOML lacks."""
    if isinstance(value, Mapping):
        return {str(key): without_none_words(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_none_words(item) for item in value]
    return None if isinstance(value, str) and value == "none" else value
