"""What is scored. The three protocols differ in the truth and in what a method may see of a test person.

    P1  imputation   truth y(1) − y(0), realised; the person's own outcome is used        noise floor 1
    P2  CATE         truth μ₁(x) − μ₀(x); x only. What a user means: the headline
    P3  blind ITE    truth y(1) − y(0), realised; x only                                  noise floor √2

The paper's FedCI rows are P1 and its baseline rows P3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedci.benchmark.learners.estimate import Estimate
from fedci.synthetic.datasets import Records, Split, combined

Ends = tuple[np.ndarray, np.ndarray]
"""Lower and upper ends of 95% intervals, [p] each."""


@dataclass(frozen=True)
class Answer:
    """What a method says of the p test people of one source; None where it has no such output."""

    cate: np.ndarray
    """[p] expected effect from x."""
    cate_ends: Ends | None = None
    realised_ends: Ends | None = None
    """Of y(1) − y(0), from x only: with the noise of both outcomes."""
    imputed: np.ndarray | None = None
    """[p] realised effect, the person's own outcome being known."""
    imputed_ends: Ends | None = None


@dataclass(frozen=True)
class Average:
    """The 95% interval of the average expected effect of the people fitted on, and the truth."""

    low: float
    high: float
    truth: float


def of_estimate(estimate: Estimate, people: Records) -> Answer:
    """A baseline's answer. With outcome models, it imputes the outcome nobody saw: w̃ (y − μ̂_{1−w}(x))."""
    ends = None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
    if estimate.mu0 is None or estimate.mu1 is None:
        return Answer(estimate.cate, ends)
    imputed = np.where(people.w == 1, people.y - estimate.mu0, estimate.mu1 - people.y)
    return Answer(estimate.cate, ends, imputed=imputed)


def scores(answers: Sequence[Answer], splits: Sequence[Split],
           averages: Sequence[Average]) -> dict[str, dict[str, Any]]:
    """{protocol: figures of a Cell}, over the test people of all sources; P1 only where a method imputes."""
    people = combined([split.test for split in splits])
    realised = people.y1 - people.y0
    figures = {"P2": _figures(answers, "cate", "cate_ends", people.cate) | _averages(averages),
               "P3": _figures(answers, "cate", "realised_ends", realised)}
    if all(answer.imputed is not None for answer in answers):
        figures["P1"] = _figures(answers, "imputed", "imputed_ends", realised)
    return figures


def _figures(answers: Sequence[Answer], point: str, ends: str, truth: np.ndarray) -> dict[str, float]:
    error = np.concatenate([getattr(answer, point) for answer in answers]) - truth
    figures = {"pehe": float(np.sqrt(np.mean(error**2))), "ate_error": float(abs(error.mean()))}
    intervals = [getattr(answer, ends) for answer in answers]
    if any(interval is None for interval in intervals):
        return figures
    low, high = (np.concatenate(side) for side in zip(*intervals, strict=True))
    return figures | {"coverage": float(np.mean((low <= truth) & (truth <= high))),
                      "width": float(np.mean(high - low))}


def _averages(averages: Sequence[Average]) -> dict[str, float]:
    if not averages:
        return {}
    return {"ate_covered": float(np.mean([a.low <= a.truth <= a.high for a in averages])),
            "ate_width": float(np.mean([a.high - a.low for a in averages])),
            "ate_rejects": float(np.mean([not a.low <= 0.0 <= a.high for a in averages]))}
