"""Subgroups that a study names before anything is seen: of whom effects are told beside everybody's.

    [subgroups]
    sex = "sex"                                              each level of a covariate
    [subgroups.age]
    by = "age"
    cuts = [60, 75]                                          below 60, from 60 to below 75, 75 and above
    [subgroups.frail]
    where = { age = { from = 75 }, stage = ["III", "IV"] }   all of it holds; against all others

A definition gives the groups that are compared with each other. Nobody is in a group of a definition whose columns lack
a value of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import ConfigDict, Field, field_validator, model_validator

from fedci.errors import StudyError
from fedci.study.coding import Name
from fedci.study.options import nearest
from fedci.study.stated import Stated

if TYPE_CHECKING:
    from fedci.study.covariate import Covariate

MOST = 24
"""Groups of all definitions together."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Condition(Stated):
    """On one covariate: one of some levels, or a range of numbers."""

    model_config = ConfigDict(populate_by_name=True)

    levels: tuple[str, ...] = ()
    """Of a categorical; of a binary '0' or '1'."""
    low: Annotated[Finite | None, Field(alias="from")] = None
    """This or more."""
    below: Finite | None = None

    @staticmethod
    def _place(data: Any) -> str:
        return "subgroups"

    def plain(self) -> Any:
        """As a study file has it."""
        if self.levels:
            return list(self.levels)
        return {name: value for name, value in (("from", self.low), ("below", self.below)) if value is not None}


class Subgroup(Stated):
    """A definition."""

    by: Name | None = None
    """A covariate whose levels, or ranges between cuts, are the groups."""
    cuts: tuple[Finite, ...] = ()
    """Of a numeric covariate; a value at a cut is above it."""
    where: dict[Name, Condition] = {}
    """In place of `by`: the group for whom all of it holds, against all others."""

    @staticmethod
    def _place(data: Any) -> str:
        return "subgroups"

    @field_validator("where", mode="before")
    @classmethod
    def _any_form(cls, value: Any) -> Any:
        return {key: _condition(one) for key, one in value.items()} if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.by is None) == (not self.where):
            raise StudyError("subgroups: a subgroup is said by = \"COLUMN\" (its levels, or with cuts), or where = "
                             "{ COLUMN = … }, one of the two")
        if list(self.cuts) != sorted(set(self.cuts)) or (self.cuts and self.by is None):
            raise StudyError("subgroups: cuts belong to `by`, and rise")
        return self

    def plain(self) -> dict[str, Any]:
        """As a study file has it."""
        if self.by is not None:
            return {"by": self.by} | ({"cuts": list(self.cuts)} if self.cuts else {})
        return {"where": {name: one.plain() for name, one in self.where.items()}}


def read(value: Any) -> Any:
    """A column's name alone is `by`."""
    if not isinstance(value, Mapping):
        return value
    return {name: {"by": one} if isinstance(one, str) else one for name, one in value.items()}


def _condition(value: Any) -> Any:
    if isinstance(value, Mapping | Condition):
        return value
    listed = value if isinstance(value, list | tuple) else (value,)
    return {"levels": tuple(str(int(one)) if isinstance(one, int | bool) else one for one in listed)}


class Part(NamedTuple):
    """What a group asks of columns of the design: [n, columns] → who, and of whom it is known."""

    columns: tuple[int, ...]
    low: float
    below: float
    """Of a numeric column."""
    levels: tuple[int, ...] = ()
    """Of 0/1 columns: which level, 0 being none of them."""

    def holds(self, x: np.ndarray) -> np.ndarray:
        at = x[:, self.columns]
        if not self.levels:
            return (at[:, 0] >= self.low) & (at[:, 0] < self.below)
        level = np.where((at > 0.5).any(1), (at > 0.5).argmax(1) + 1, 0)
        return np.isin(level, self.levels)


class Group(NamedTuple):
    """One group of a definition."""

    of: str
    """The definition's name."""
    name: str
    """In words."""
    parts: tuple[Part, ...]
    others: bool = False
    """Whether it is those for whom it does not hold."""

    def holds(self, x: np.ndarray) -> np.ndarray:
        """[n] bool of rows x [n, d] of the design, NaN where missing."""
        known = ~np.isnan(x[:, [c for part in self.parts for c in part.columns]]).any(1)
        inside = np.all([part.holds(x) for part in self.parts], axis=0)
        return known & (inside != self.others)


def groups_of(subgroups: Mapping[str, Subgroup], covariates: Sequence[Covariate]) -> tuple[Group, ...]:
    """All of them; StudyError where a definition does not fit the covariates."""
    found = tuple(group for name, one in subgroups.items() for group in _groups(name, one, covariates))
    if len(found) > MOST:
        raise StudyError(f"subgroups: {len(found)} groups, of at most {MOST}. The more there are, the less can be said "
                         f"of each: leave some out")
    return found


def cuts_of(groups: Iterable[Group]) -> dict[int, list[float]]:
    """Column of the design → where some group begins or ends."""
    found: dict[int, set[float]] = {}
    for part in (part for group in groups for part in group.parts if not part.levels):
        found.setdefault(part.columns[0], set()).update(end for end in (part.low, part.below) if math.isfinite(end))
    return {column: sorted(ends) for column, ends in found.items()}


def names_of(groups: Iterable[Group]) -> list[str]:
    return [group.name for group in groups]


def _groups(name: str, one: Subgroup, covariates: Sequence[Covariate]) -> Iterator[Group]:
    if one.by is None:
        parts = tuple(_part(name, column, condition, covariates) for column, condition in one.where.items())
        yield Group(name, name, parts)
        yield Group(name, f"all others than {name}", parts, others=True)
        return
    covariate, columns = _covariate(name, one.by, covariates)
    if covariate.type == "numeric":
        if not one.cuts:
            raise StudyError(f"subgroups.{name}: '{one.by}' is numeric. Say where it is cut: cuts = [60]")
        ends = (-math.inf, *one.cuts, math.inf)
        for low, below in zip(ends, ends[1:], strict=False):
            yield Group(name, _range(one.by, low, below), (Part(columns, low, below),))
        return
    if one.cuts:
        raise StudyError(f"subgroups.{name}: '{one.by}' is {covariate.type}, and has levels: remove cuts")
    for k, level in enumerate(levels_of(covariate)):
        yield Group(name, f"{one.by} = {level}", (Part(columns, -math.inf, math.inf, (k,)),))


def levels_of(covariate: Covariate) -> tuple[str, ...]:
    """Of a binary or categorical one."""
    return (covariate.levels or ()) if covariate.type == "categorical" else ("0", "1")


def _range(name: str, low: float, below: float) -> str:
    if not math.isfinite(low):
        return f"{name} below {below:g}"
    return f"{name} {low:g} and above" if not math.isfinite(below) else f"{name} {low:g} to below {below:g}"


def _covariate(name: str, column: str, covariates: Sequence[Covariate]) -> tuple[Covariate, tuple[int, ...]]:
    """(the covariate, its columns in the design)."""
    at = 0
    for covariate in covariates:
        width = len(covariate.design_columns())
        if covariate.name == column:
            return covariate, tuple(range(at, at + width))
        at += width
    known = [covariate.name for covariate in covariates]
    raise StudyError(f"subgroups.{name}: {column!r} is no covariate of the study{nearest(column, known)}; they are "
                     f"{', '.join(known)}")


def _part(name: str, column: str, condition: Condition, covariates: Sequence[Covariate]) -> Part:
    covariate, columns = _covariate(name, column, covariates)
    if covariate.type == "numeric":
        low, below = condition.low, condition.below
        if condition.levels or (low is None and below is None):
            raise StudyError(f"subgroups.{name}: '{column}' is numeric. Write {column} = {{ from = 60 }}, or below, or "
                             f"both")
        return Part(columns, -math.inf if low is None else low, math.inf if below is None else below)
    known = levels_of(covariate)
    for level in condition.levels:
        if level not in known:
            raise StudyError(f"subgroups.{name}: '{column}' has no level {level!r}{nearest(level, known)}; it has "
                             f"{', '.join(known)}")
    if not condition.levels:
        raise StudyError(f"subgroups.{name}: '{column}' is {covariate.type}. Write {column} = [\"{known[-1]}\"]")
    return Part(columns, -math.inf, math.inf, tuple(known.index(level) for level in condition.levels))
