"""A verdict: one number, the limit it is held against, what follows, and all of it in words."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

Word = Literal["fine", "look", "problem", "unknown"]
FINE: Final = "fine"
LOOK: Final = "look"
PROBLEM: Final = "problem"
UNKNOWN: Final = "unknown"


class Plain(BaseModel):
    """Plain data: numbers, names and words, fixed once made; no NaN or infinity, an unknown number is None."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Verdict(Plain):
    """What one diagnostic says."""

    name: str
    """Such as 'balance after adjustment'."""
    value: float | None
    """None where it could not be computed."""
    threshold: float
    """The limit between 'fine' and the rest."""
    verdict: Word
    """'fine'; 'look': read the words before using the effects; 'problem': do not rest a claim on them; 'unknown'."""
    words: str
    """One to three sentences: what was found, and what to do."""


def graded(value: float | None, fine: float, problem: float) -> Word:
    """By two limits; which way is worse follows from their order (fine = 0.1, problem = 0.25: more is worse)."""
    if value is None:
        return UNKNOWN
    sign = 1.0 if problem > fine else -1.0
    if sign * value <= sign * fine:
        return FINE
    return LOOK if sign * value <= sign * problem else PROBLEM
