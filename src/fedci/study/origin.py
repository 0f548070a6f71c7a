"""Where a column of the study comes from: columns of the site's own table, and what is done to them on the way.

A study's author names columns and writes codings, so a name says little: `old = { column = "age", factor = 1.01 }` is
age once more. What a site remembers of what it told (`site.accountant`), and its noise, go by origins.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from fedci.errors import DisclosureError
from fedci.study.coding import Coding, Codings
from fedci.study.study import Study

QUERY = "the study's query"
"""Stands for all columns of a table that a query of the study's author made: he called them what he liked."""


class Origin(NamedTuple):
    """Of one column of the study."""

    columns: tuple[str, ...]
    """Of the site's table."""
    how: str = ""
    """The codings on the way, and the query, if one of the study's made the table; '': it is read as it stands."""

    @property
    def name(self) -> str:
        """What it is called whatever a study calls it."""
        return ", ".join(column for column in self.columns if column != QUERY)


Origins = Mapping[str, Origin]
"""Column of the study → where it comes from; one that is not there is read as it stands."""


def of_study(study: Study, own: Codings, query: str | None) -> dict[str, Origin]:
    """Of every column that has another origin than its own name. `query`: of the study, if it made the table."""
    found = {name: _origin(name, study.coding, own, query) for name in study.columns}
    return {name: origin for name, origin in found.items() if origin != Origin((name,))}


def at(origins: Origins, name: str) -> Origin:
    return origins.get(name, Origin((name,)))


def _origin(name: str, codings: Codings, own: Codings, query: str | None) -> Origin:
    first = codings[name].sources(name) if name in codings else (name,)
    made = tuple(dict.fromkeys(column for source in first
                               for column in (own[source].sources(source) if source in own else (source,))))
    steps = [_steps(codings.get(name)), *(_steps(own.get(source)) for source in first)]
    said = json.dumps([first if len(first) > 1 else "", *steps], sort_keys=True) if any(steps) else ""
    if query is None:
        return Origin(made, said)
    return Origin((*made, QUERY), f"{said} {hashlib.sha256(query.encode()).hexdigest()}")


def _steps(coding: Coding | None) -> dict[str, object]:
    """What it does to cells, beside reading them from a column of another name."""
    return {} if coding is None else coding.model_dump(mode="json", exclude={"label", "unit", "column"},
                                                       exclude_defaults=True)


# --- what may not be


def check(study: Study, origins: Origins) -> None:
    """DisclosureError where a column of the table would be told twice, and what hides it would hide less."""
    roles: dict[str, str | None] = {"outcome": study.outcome, "negative control": study.diagnostics.negative_control}
    roles |= {f"negative control {name}": name for name in study.diagnostics.negative_controls}
    told = [study.treatment, *(covariate.name for covariate in study.covariates)]
    noised = study.noises_sums
    for role, name in roles.items():
        others = {column for other in (*told, *roles.values()) if other not in (None, name)
                  for column in at(origins, str(other)).columns}
        if name and (study.policy.outcome_noise or noised) and others.issuperset(at(origins, name).columns):
            raise DisclosureError(f"the {role} '{name}' is made of columns that other columns of the study are made "
                                  f"of too, which are told without its noise (policy.outcome_noise). Leave those out")
    if not noised:
        return
    read = Counter(column for name in (*told, study.outcome) for column in at(origins, name).columns
                   if column != QUERY)
    twice = sorted(column for column, count in read.items() if count > 1)
    if twice:
        raise DisclosureError(f"column '{twice[0]}' of the table is read for several columns of the study, each of "
                              f"which would be told with noise of its own (policy.sum_noise), which hides less of it. "
                              f"Keep one of them")
