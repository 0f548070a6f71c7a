"""A part of a study whose problems are told as StudyError, whether it comes from a file or from Python."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator

from fedci.errors import StudyError
from fedci.study.options import Options, first_problem


class Stated(Options):
    """Options whose problems are told as StudyError, whether they come from a file or from Python."""

    @model_validator(mode="wrap")
    @classmethod
    def _told_plainly(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as problem:
            raise StudyError(f"{cls._place(data)}: {first_problem(cls, problem)}") from None

    @staticmethod
    def _place(data: Any) -> str:
        """Where in the study `data` stands, for the message."""
        return "study"
