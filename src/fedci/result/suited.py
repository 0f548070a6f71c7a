"""What may be asked of an outcome of some type: risks, rates, survival, realised effects; else what to ask instead."""

from __future__ import annotations

from fedci.errors import UsageError
from fedci.study.study import Study

KINDS = {"numeric": "a number", "binary": "an outcome of 0 and 1", "survival": "a time to an event", "count": "a count"}
"""Types of outcomes in words."""


def check_realised(study: Study) -> None:
    if study.outcome_type != "numeric":
        raise UsageError(f"realised effects of {KINDS[study.outcome_type]} are not told: nobody is seen both "
                         "treated and untreated, and for few values no model of it is less arbitrary than another. "
                         "Ask for expected ones: differences of risks, or of rates")
    if study.arms:
        raise UsageError("realised effects are of two arms: who got one of more lacks several outcomes. Ask for "
                         "expected ones, of='cate'")


def check_of_risks(study: Study) -> None:
    if study.outcome_type not in ("binary", "survival"):
        raise _lacking(study, "risks")


def check_of_times(study: Study) -> None:
    if study.outcome_type != "survival":
        raise _lacking(study, "survival")


def check_of_rates(study: Study) -> None:
    if study.outcome_type != "count":
        raise _lacking(study, "rates")


def _lacking(study: Study, what: str) -> UsageError:
    return UsageError(f"the outcome '{study.outcome}' is {KINDS[study.outcome_type]}, and has no {what}: ask for ate() "
                      f"or effect(X)")


def check_bounds(study: Study, strength: float) -> None:
    if not strength >= 1.0:
        raise UsageError(f"strength = {strength} is no Λ: give 1 (no confounding) or more, such as 1.5")
    if study.outcome_type != "numeric":
        raise UsageError("the bounds of one person's effect are of numeric outcomes: of others the report has "
                         "those of the average")
