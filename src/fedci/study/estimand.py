"""What a study wants to know, in words: the five attributes of an estimand (ICH E9(R1)), and its target trial.

    [estimand]          population, treatment, variable, summary; [[estimand.intercurrent]]: event, strategy, how
    [estimand.trial]    eligibility, strategies, assignment, time_zero, follow_up, outcome, contrast, analysis

Words for people: nothing is computed from them. They are part of the study's hash, so that a question cannot change
after the answer was seen; a study without them has the hash it had.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from fedci.study.options import Options

MAX_WORDS = 4000
MOST_EVENTS = 30
Strategy = Literal["treatment-policy", "hypothetical", "composite", "while-on-treatment", "principal-stratum"]
STRATEGIES: dict[str, str] = {
    "treatment-policy": "the outcome counts whether or not the event happened",
    "hypothetical": "the outcome as it would have been had the event not happened",
    "composite": "the event is part of the outcome",
    "while-on-treatment": "the outcome up to the event",
    "principal-stratum": "only people in whom the event would not happen (or would), whatever their treatment"}
"""The strategies of ICH E9(R1) for what happens after treatment began and touches the outcome or its meaning."""


def _words(text: str) -> str:
    """What stands in documents: lines of letters that people see."""
    if not text.strip():
        raise ValueError("is empty: say it, or leave the key out")
    if any(not (letter.isprintable() or letter == "\n") for letter in text):
        raise ValueError("must not hold control characters")
    return text


Words = Annotated[str, Field(max_length=MAX_WORDS), AfterValidator(_words)]


class Intercurrent(Options):
    """What may happen after treatment began, and how it counts."""

    event: Words
    strategy: Strategy
    how: Words | None = None
    """How the strategy is carried out in these data."""


class Trial(Options):
    """The trial that would answer the question; what these data do in its place stands in the plan."""

    eligibility: Words | None = None
    strategies: Words | None = None
    assignment: Words | None = None
    time_zero: Words | None = None
    follow_up: Words | None = None
    outcome: Words | None = None
    contrast: Words | None = None
    analysis: Words | None = None


class Estimand(Options):
    """The question, attribute by attribute."""

    population: Words | None = None
    treatment: Words | None = None
    """The treatment conditions that are compared."""
    variable: Words | None = None
    """What is measured of each person, and when."""
    intercurrent: Annotated[tuple[Intercurrent, ...], Field(max_length=MOST_EVENTS)] = ()
    summary: Words | None = None
    """What is compared between the conditions: a difference of means, of risks, …"""
    trial: Trial = Trial()

    def tables(self) -> dict[str, Any]:
        """As tables of a study file: `{"estimand": …, "estimand.trial": …}`."""
        own = self.model_dump(exclude={"trial"}, exclude_defaults=True)
        trial = self.trial.model_dump(exclude_defaults=True)
        return {"estimand": own} | ({"estimand.trial": trial} if trial else {})


ATTRIBUTES = {"population": "Population", "treatment": "Treatment conditions", "variable": "Variable (endpoint)",
              "intercurrent": "Intercurrent events", "summary": "Population-level summary"}
ELEMENTS = {"eligibility": "Eligibility", "strategies": "Treatment strategies", "assignment": "Assignment",
            "time_zero": "Time zero", "follow_up": "Follow-up", "outcome": "Outcome",
            "contrast": "Causal contrast", "analysis": "Analysis"}
