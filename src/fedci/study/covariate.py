"""A covariate of a study: its type, levels and range; and the forms in which a list of them may be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedci.errors import StudyError
from fedci.study.coding import Name
from fedci.study.stated import Stated as _Stated

Limit = Annotated[float, Field(strict=True)]
Missing = Literal["refuse", "impute", "model"]
"""'impute': the mean of all people, and an indicator; 'model': draws of what is missing given what is seen."""


class Covariate(_Stated):
    """One column that may explain treatment and outcome."""

    name: Name
    type: Literal["numeric", "binary", "categorical"] = "numeric"
    levels: tuple[Name, ...] | None = None
    """Of a categorical, in order; the first is the reference that the other levels are compared with."""
    range: tuple[Limit, Limit] | None = None
    """Of a numeric: smallest and largest value that can be true. It catches codes for 'unknown'."""
    missing: Missing | None = None
    """What to do about missing values; none: as the study says."""

    @staticmethod
    def _place(data: Any) -> str:
        return f"covariates.{data['name']}" if isinstance(data, Mapping) and "name" in data else "covariates"

    @field_validator("levels", mode="before")
    @classmethod
    def _codes_are_words(cls, levels: Any) -> Any:
        """Levels coded 1, 2, 3 may be written without quotes."""
        if not isinstance(levels, list | tuple):
            return levels
        return tuple(str(level) if _is_integer(level) else level for level in levels)

    @field_validator("range")
    @classmethod
    def _range_is_ordered(cls, limits: tuple[float, float] | None) -> tuple[float, float] | None:
        if limits and not limits[0] < limits[1]:
            raise ValueError("needs [smallest, largest], the first below the second")
        return limits

    @model_validator(mode="after")
    def _keys_fit_the_type(self) -> Self:
        if problem := self._misfit():
            raise StudyError(f"covariates.{self.name}: {problem}")
        return self

    def _misfit(self) -> str | None:
        """What does not go with the type, and the remedy; none: all does."""
        levels, categorical = self.levels or (), self.type == "categorical"
        if categorical and len(levels) < 2:
            return 'a categorical needs two levels or more. Write levels = ["A", "B"], the reference first'
        if categorical and len(set(levels)) < len(levels):
            return "levels holds the same level twice; each stands once"
        if self.levels is not None and not categorical:
            return f'a {self.type} covariate has no levels. Set type = "categorical", or remove levels'
        if self.range and self.type != "numeric":
            return f"a {self.type} covariate has no range. Remove it"
        return None

    def design_columns(self) -> tuple[str, ...]:
        """Its columns in the design: itself, or one indicator for each level but the reference."""
        if self.type != "categorical":
            return (self.name,)
        return tuple(f"{self.name}={level}" for level in (self.levels or ())[1:])


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def covariates_of(value: Any) -> tuple[Covariate, ...]:
    if isinstance(value, Mapping):
        return tuple(_described(name, options) for name, options in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(_covariate(item) for item in value)
    raise StudyError(f"covariates: got {type(value).__name__}, needs a list of columns or a table of them")


def _covariate(item: Any) -> Covariate:
    if isinstance(item, str):
        return Covariate(name=item)
    if isinstance(item, Covariate | Mapping):
        return Covariate.model_validate(item)
    raise StudyError(f"covariates: got {type(item).__name__} in the list, needs column names or tables")


def _described(name: Any, options: Any) -> Covariate:
    """From one entry of a table: name = "type", or name = {type = …, …}."""
    if isinstance(options, str):
        return Covariate.model_validate({"name": name, "type": options})
    if not isinstance(options, Mapping):
        raise StudyError(f"covariates.{name}: got {type(options).__name__}, needs a type or a table")
    if "name" in options:
        raise StudyError(f"covariates.{name}: unknown key 'name'; the table's own name is the column's")
    return Covariate.model_validate({**options, "name": name})
