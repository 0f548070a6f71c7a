"""What a study asks of its effects for a decision, said before anything is seen.

    [decisions]
    along = ["age", "stage"]        along what the effect may differ: its best linear summary, and a rule of few lines
    better = "lower"                of the outcome; "higher" if absent
    cost = 2.0                      who is treated must be expected to benefit by more, in the outcome's units
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedci.errors import StudyError
from fedci.study.coding import Name
from fedci.study.options import nearest
from fedci.study.stated import Stated

if TYPE_CHECKING:
    from fedci.study.covariate import Covariate

MOST_ALONG = 12
"""Columns: products of more would tell more than the answer is worth."""


class Decisions(Stated):
    along: Annotated[tuple[Name, ...], Field(min_length=1)]
    better: Literal["higher", "lower"] = "higher"
    cost: Annotated[float, Field(allow_inf_nan=False)] = 0.0

    @staticmethod
    def _place(data: Any) -> str:
        return "decisions"

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.along)) < len(self.along):
            raise StudyError("decisions.along holds the same covariate twice; each stands once")
        return self

    @property
    def sign(self) -> float:
        """By which an effect is a benefit."""
        return 1.0 if self.better == "higher" else -1.0

    def columns(self, covariates: Sequence[Covariate]) -> tuple[int, ...]:
        """Of the design."""
        known, at = [covariate.name for covariate in covariates], 0
        found: list[int] = []
        for name in self.along:
            if name not in known:
                raise StudyError(f"decisions.along: {name!r} is no covariate of the study{nearest(name, known)}")
        for covariate in covariates:
            width = len(covariate.design_columns())
            found += range(at, at + width) if covariate.name in self.along else []
            at += width
        if len(found) > MOST_ALONG:
            raise StudyError(f"decisions.along: {len(found)} columns, a level being one; at most {MOST_ALONG}")
        return tuple(found)
