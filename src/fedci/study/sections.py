"""Sections of a study beside its columns: linkage, diagnostics, and the query that all sites may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedci.errors import StudyError
from fedci.study.coding import Name
from fedci.study.identity import check_format
from fedci.study.omop import Omop
from fedci.study.stated import Stated as _Stated


class Linkage(_Stated):
    """How people who stand at several sites are found and left out (docs/linkage.md)."""

    enabled: Annotated[bool, Field(strict=True)] = True
    """False: the ids are not used, and a person at two sites counts twice."""
    keep: Annotated[int, Field(strict=True, ge=1)] = 1
    """Sites at which a person stays."""
    dates: dict[str, str] = {}
    """Id column → how its dates are written, such as "%d.%m.%Y"; other ids are text."""

    @staticmethod
    def _place(data: Any) -> str:
        return "linkage"

    @field_validator("dates")
    @classmethod
    def _formats(cls, dates: dict[str, str]) -> dict[str, str]:
        return {name: check_format(form) for name, form in dates.items()}


REFUTERS = ("placebo", "random-cause", "subset")
FEWEST_CONTROLS = 5
"""Negative controls from which a spread of errors is learnt at all."""


class Diagnosing(_Stated):
    """Which diagnostics a study runs, and whether its effects wait for them (docs/diagnostics.md)."""

    enabled: Annotated[bool, Field(strict=True)] = True
    blinded: Annotated[bool, Field(strict=True)] = False
    """Whether effects stay sealed until a person has seen the diagnostics and opens them."""
    refute: tuple[Literal["placebo", "random-cause", "subset"], ...] = ()
    """Each a fit of its own, of rows that the sites change; true: all of them."""
    negative_control: Name | None = None
    """A column of an outcome that treatment cannot change; the study is fitted to it as well."""
    negative_controls: Annotated[tuple[Name, ...], Field(max_length=200)] = ()
    """Many such columns: what their effects come to tells how wrong such studies are, and intervals are widened by it.
    """

    @staticmethod
    def _place(data: Any) -> str:
        return "diagnostics"

    @field_validator("refute", mode="before")
    @classmethod
    def _all_or_some(cls, value: Any) -> Any:
        return {True: REFUTERS, False: ()}[value] if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _nothing_without_diagnostics(self) -> Self:
        for key in ("blinded", "refute", "negative_control", "negative_controls"):
            if not self.enabled and getattr(self, key):
                raise StudyError(f"diagnostics.{key} needs the diagnostics. Set enabled = true, or remove {key}")
        if len(set(self.refute)) < len(self.refute):
            raise StudyError("diagnostics.refute holds the same refuter twice; each stands once")
        if 0 < len(self.negative_controls) < FEWEST_CONTROLS:
            raise StudyError(f"diagnostics.negative_controls: {len(self.negative_controls)} are too few to tell how "
                             "wrong "
                             f"studies are: name {FEWEST_CONTROLS} or more, better 30; of one, write negative_control")
        return self

    @property
    def controls(self) -> tuple[str, ...]:
        """All columns of negative controls."""
        return (*((self.negative_control,) if self.negative_control else ()), *self.negative_controls)


class SharedQuery(_Stated):
    """`[source]`: the query that gives a site's table where all sites keep their data alike. Each site chooses whether
    it uses it (`--data sql:`), and says itself where its database is (docs/study.md)."""

    query: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    omop: Omop | None = None
    """In place of a query: cohorts, windows and concepts of an OMOP common data model."""

    @staticmethod
    def _place(data: Any) -> str:
        return "source"

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.query is None) == (self.omop is None):
            raise StudyError("source: give a query, or [source.omop], one of the two")
        return self

    @model_validator(mode="before")
    @classmethod
    def _no_address(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and (others := sorted(set(data) - {"query", "omop"})):
            raise StudyError(f"source: the study goes to every party, so it holds a query (or omop) and nothing else; "
                             f"got {', '.join(map(str, others))}. A site names its database in FEDCI_DATABASE_URL")
        return data
