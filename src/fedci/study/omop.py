"""`[source.omop]`: which people, outcome and covariates a study takes from an OMOP common data model (CDM 5.4).

    cohort ids of target and comparator ─► people, each from the day of the first entry (day 0)
    outcome: another cohort, or a value, in a window of days after it; features: concepts in windows before it

It is data, like the rest of the study: `table.cdm` makes the one SELECT of it that a site's database is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from fedci.study.coding import Name
from fedci.study.options import Options, first_problem

Id = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Day = Annotated[int, Field(strict=True, ge=-36525, le=36525)]
Window = tuple[Day, Day]
MOST_CONCEPTS = 10_000
MOST_FEATURES = 200
VALUES = ("last", "mean", "minimum", "maximum")
"""Ways to take a number from a table that holds them."""
OF_PERSON = ("age", "gender", "race", "ethnicity")


def _ordered(window: Window) -> Window:
    if window[0] > window[1]:
        raise ValueError("needs [first day, last day], day 0 being that of the entry into the cohort")
    return window


class Feature(Options):
    """One number of each person from the tables of a CDM."""

    table: Literal["condition", "drug", "procedure", "measurement", "observation", "visit", "person"]
    concepts: Annotated[tuple[Id, ...], Field(max_length=MOST_CONCEPTS)] = ()
    """Concept ids; of a person those of the gender, race or ethnicity that is 1."""
    descendants: Annotated[bool, Field(strict=True)] = False
    """Whether what stands below these concepts (concept_ancestor) counts too."""
    window: Window = (-365, 0)
    """Days from the entry into the cohort, both ends included."""
    take: Literal["any", "count", "last", "mean", "minimum", "maximum", "age", "gender", "race", "ethnicity"] = "any"
    """any: 1 where there is a record; count: of them; the others of value_as_number, or of the person."""

    @field_validator("window")
    @classmethod
    def _window(cls, window: Window) -> Window:
        return _ordered(window)

    @model_validator(mode="after")
    def _fits_the_table(self) -> Self:
        if (self.table == "person") != (self.take in OF_PERSON):
            raise ValueError(f'of the table "{self.table}" one cannot take "{self.take}"; of a person: '
                             f"{', '.join(OF_PERSON)}")
        if self.take in VALUES and self.table not in ("measurement", "observation"):
            raise ValueError(f'the table "{self.table}" holds no numbers: take any or count')
        if self.take != "age" and not self.concepts:
            raise ValueError("concepts is empty: name at least one concept id")
        return self


class Omop(Options):
    """Who is compared, over which days, by what."""

    target: Id
    """cohort_definition_id of the treated."""
    comparator: Id
    outcome: Id | Feature
    """cohort_definition_id: 1 for people who enter it within the window, else 0; or a feature."""
    window: Window = (1, 365)
    """Days in which an entry into the outcome's cohort counts."""
    features: Annotated[dict[Name, Feature], Field(max_length=MOST_FEATURES)] = {}
    """Column of the study's table → where it comes from."""
    cdm: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")] | None = None
    """Schema of the tables."""
    results: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")] | None = None
    """Schema of the table `cohort`, where it is another."""

    @field_validator("outcome", mode="before")
    @classmethod
    def _one_reading(cls, outcome: Any) -> Any:
        """What is wrong with a table is told of the table, not of an id."""
        if not isinstance(outcome, Mapping):
            return outcome
        try:
            return Feature.model_validate(outcome)
        except ValidationError as problem:
            raise ValueError(first_problem(Feature, problem)) from None

    @field_validator("window")
    @classmethod
    def _window(cls, window: Window) -> Window:
        return _ordered(window)

    @model_validator(mode="after")
    def _two_cohorts(self) -> Self:
        if self.target == self.comparator:
            raise ValueError("target and comparator are the same cohort")
        return self
