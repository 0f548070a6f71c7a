"""Fit: did the optimiser arrive, and does the model predict people it has not seen?

Each person's outcome is predicted from all other people (leave one out, given Θ): mean μ_i, sd s_i. From them:

    residuals     (y_i − μ_i)/s_i in each arm: mean 0, sd 1
    places        P(y ≤ y_i) under the prediction, in 20 bins: even if the predictive law is right; the share in the
                  middle 50, 80 and 90% are the intervals' coverage
    calibration   mean outcome against mean prediction in ten bins of the prediction, and the line y = a + b μ: b = 1

Of an outcome of 0 and 1 μ_i is the risk and s_i² = μ_i(1 − μ_i); it has no places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import expit, logit, ndtri

from fedci.diagnostics.verdict import Plain, Verdict, Word, graded

PLACES = 20
LEVELS = (0.5, 0.8, 0.9)
CALIBRATION_BINS = 10
RESIDUAL_THRESHOLD, RESIDUAL_PROBLEM = 0.1, 0.25
COVERAGE_THRESHOLD, COVERAGE_PROBLEM = 0.05, 0.15
SLOPE_THRESHOLD, SLOPE_PROBLEM = 0.2, 0.5


Number = TypeVar("Number", float, np.ndarray)


class Pooled(NamedTuple):
    """What is made of all sites together: sums over the sites that tell."""

    sites: float
    places: np.ndarray
    places_hidden: np.ndarray
    """[20] how many sites hide each."""
    places_whole: np.ndarray
    """[20] over the sites that hide none of them."""
    bins: np.ndarray
    line: np.ndarray


class Step(Plain):
    """A round of the fit."""

    round: int
    objective: float
    gradient_norm: float
    seconds: float


class Residuals(Plain):
    site: str
    arm: str
    """'untreated' or 'treated'."""
    people: int
    mean: float
    sd: float


class Coverage(Plain):
    level: float
    share: float
    """Of people whose outcome lies in the central interval of that level."""


class CalibrationBin(Plain):
    people: int
    predicted: float
    observed: float
    low: float
    high: float
    """95% interval of the observed mean."""


class Fitting(Plain):
    trace: tuple[Step, ...]
    ended: str
    """'converged', 'stopped at the cap' or 'diverged'."""
    residuals: tuple[Residuals, ...]
    places: tuple[int | None, ...]
    """People in each of 20 bins of the predictive probability; None where no site may tell."""
    coverage: tuple[Coverage, ...]
    calibration: tuple[CalibrationBin, ...]
    slope: float | None
    intercept: float | None
    explained: float | None
    """1 − mean squared prediction error / variance of the outcome."""
    verdicts: tuple[Verdict, ...]


def calibration_edges(mean: float, sd: float) -> np.ndarray:
    """[9] inner edges: deciles of a normal with the outcome's mean and spread, known to all from the moments."""
    return mean + sd * ndtri(np.arange(1, CALIBRATION_BINS) / CALIBRATION_BINS)


def risk_edges(mean: float) -> np.ndarray:
    """[9] inner edges of risks: deciles of log odds about the outcome's, with sd 1."""
    return np.asarray(expit(logit(np.clip(mean, 1e-6, 1.0 - 1e-6)) + ndtri(np.arange(1, CALIBRATION_BINS)
                                                                           / CALIBRATION_BINS)))


def few_events(bins: np.ndarray, least: int) -> np.ndarray:
    """[10] bins in which so few people have an outcome of 1, or of 0, that their number may not be told."""
    cells = np.stack([bins[:, 2], bins[:, 0] - bins[:, 2]])
    return np.any((cells > 0) & (cells < least), axis=0)


def few_people(mean: np.ndarray, person: np.ndarray, edges: np.ndarray, least: int) -> np.ndarray:
    """[10] bins of predictions that hold rows of so few people: of a time to an event a person has several."""
    place = np.searchsorted(np.sort(edges), mean, side="right")
    people = np.array([len(np.unique(person[place == k])) for k in range(CALIBRATION_BINS)])
    return (people > 0) & (people < least)


def site_fit_sums(y: np.ndarray, w: np.ndarray, mean: np.ndarray, sd: np.ndarray,
                  edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(residuals [2, 3], bins [10, 4], line [6]) before anything is hidden."""
    z = (y - mean) / sd
    residuals = np.array([[np.sum(w == arm), np.sum(z[w == arm]), np.sum(z[w == arm] ** 2)] for arm in (0, 1)])
    place = np.searchsorted(edges, mean, side="right")
    bins = np.stack([np.bincount(place, values, CALIBRATION_BINS)
                     for values in (np.ones_like(y), mean, y, y**2)], axis=1)
    line = np.array([len(y), mean.sum(), mean @ mean, mean @ y, y.sum(), y @ y])
    return residuals, bins, line


def place_counts(places: np.ndarray) -> np.ndarray:
    """[20] people by their predictive probability."""
    return np.bincount(np.minimum((places * PLACES).astype(int), PLACES - 1), minlength=PLACES)


def site_part(places: np.ndarray, places_hidden: np.ndarray, bins: np.ndarray, line: np.ndarray) -> Pooled:
    """What a site adds; small counts and bins are hidden."""
    whole = np.zeros(PLACES) if places_hidden.any() else places.astype(float)
    return Pooled(1.0, places.astype(float), places_hidden.astype(float), whole, bins, line)


def in_units(sums: Pooled, mean: float, sd: float) -> Pooled:
    """The sums of y = mean + sd · u and its prediction, from those of u."""
    def lifted(n: Number, first: Number, second: Number, product: Number) -> Number:
        """Σ (mean + sd u)(mean + sd v) from n, Σu, Σv, Σuv."""
        return n * mean**2 + mean * sd * (first + second) + sd**2 * product

    n, p, pp, py, y, yy = sums.line
    line = np.array([n, n * mean + sd * p, lifted(n, p, p, pp), lifted(n, p, y, py), n * mean + sd * y,
                     lifted(n, y, y, yy)])
    n, p, y, yy = sums.bins.T
    bins = np.stack([n, n * mean + sd * p, n * mean + sd * y, lifted(n, y, y, yy)], axis=1)
    return sums._replace(line=line, bins=bins)


def summary(trace: Sequence[Step], cap: int, ended: str, residual_sums: Mapping[str, np.ndarray],
            everyone: Pooled | None) -> Fitting:
    """`residual_sums`: each site's [2, 3]; `everyone`: none where no site tells."""
    residuals = tuple(Residuals(site=site, arm=arm, people=int(n), mean=float(s / n),
                                sd=float(np.sqrt(max(square / n - (s / n) ** 2, 0.0))))
                      for site, sums in residual_sums.items()
                      for arm, (n, s, square) in zip(("untreated", "treated"), sums, strict=True) if n > 0)
    places, coverage = _places(everyone)
    slope, intercept, explained = line(everyone.line) if everyone else (None, None, None)
    return Fitting(trace=tuple(trace), ended=ended, residuals=residuals, places=places, coverage=coverage,
                   calibration=_calibration(everyone), slope=slope, intercept=intercept, explained=explained,
                   verdicts=(_ended_verdict(trace, cap, ended), *_residual_verdicts(residuals),
                             *_coverage_verdict(coverage, everyone), *_slope_verdict(slope, explained)))


def line(sums: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """(slope, intercept, explained share) of y on its prediction, from [n, Σμ, Σμ², Σμy, Σy, Σy²]."""
    n, p, pp, py, y, yy = sums
    spread, total = pp - p * p / n, yy - y * y / n
    if spread <= 0 or total <= 0:
        return None, None, None
    slope = (py - p * y / n) / spread
    return float(slope), float((y - slope * p) / n), float(1.0 - (yy - 2 * py + pp) / total)


def _places(everyone: Pooled | None) -> tuple[tuple[int | None, ...], tuple[Coverage, ...]]:
    """Bins and coverage over the sites that hide none of them."""
    if everyone is None:
        return (None,) * PLACES, ()
    hidden = everyone.places_hidden >= everyone.sites
    places = tuple(None if away else int(count) for count, away in zip(everyone.places, hidden, strict=True))
    whole = everyone.places_whole
    if not whole.any():
        return places, ()
    shares = []
    for level in LEVELS:
        out = round(PLACES * (1 - level) / 2)
        shares.append(Coverage(level=level, share=float(whole[out:PLACES - out].sum() / whole.sum())))
    return places, tuple(shares)


def _calibration(everyone: Pooled | None) -> tuple[CalibrationBin, ...]:
    if everyone is None:
        return ()
    rows = []
    for n, p, y, yy in everyone.bins:
        if n > 1:
            mean = y / n
            half = 1.96 * np.sqrt(max(yy / n - mean**2, 0.0) / n)
            rows.append(CalibrationBin(people=int(n), predicted=float(p / n), observed=float(mean),
                                       low=float(mean - half), high=float(mean + half)))
    return tuple(rows)


def _ended_verdict(trace: Sequence[Step], cap: int, ended: str) -> Verdict:
    endings: dict[str, Word] = {"converged": "fine", "stopped at the cap": "look"}
    word = endings.get(ended, "problem")
    remedy = "" if word == "fine" else " Effects may still move: raise optimiser.rounds, or lower the learning rate."
    last = f", objective {trace[-1].objective:.3f}" if trace else ""
    return Verdict(name="convergence", value=float(len(trace)), threshold=float(cap), verdict=word,
                   words=f"The fit {'was ' if word == 'look' else 'has ' if word == 'problem' else ''}{ended} after "
                         f"{len(trace)} rounds{last}.{remedy}")


def _residual_verdicts(residuals: Sequence[Residuals]) -> tuple[Verdict, ...]:
    """The largest mean of standardised residuals in an arm over all sites, beyond what chance makes."""
    if not residuals:
        return ()
    arms = {}
    for arm in ("untreated", "treated"):
        rows = [row for row in residuals if row.arm == arm]
        people = sum(row.people for row in rows)
        if people:
            arms[arm] = sum(row.people * row.mean for row in rows) / people, 2.0 / math.sqrt(people)
    worst = max(arms, key=lambda arm: abs(arms[arm][0]))
    value, chance = abs(arms[worst][0]), arms[worst][1]
    limits = max(RESIDUAL_THRESHOLD, chance), max(RESIDUAL_PROBLEM, 2 * chance)
    word = graded(value, *limits)
    words = (f"The {worst} people's outcomes lie on average {arms[worst][0]:+.2f} predictive standard deviations from "
             f"what the model predicts without them."
             + ("" if word == "fine" else " The model misses something in this arm: add covariates, or knots."))
    return (Verdict(name="residuals", value=value, threshold=float(limits[0]), verdict=word, words=words),)


def _coverage_verdict(coverage: Sequence[Coverage], everyone: Pooled | None) -> tuple[Verdict, ...]:
    """None where there are no places, as of 0 and 1."""
    if everyone is not None and not (everyone.places.any() or everyone.places_hidden.any()):
        return ()
    if not coverage or everyone is None:
        return (Verdict(name="posterior predictive", value=None, threshold=COVERAGE_THRESHOLD, verdict="unknown",
                        words="The predictive probabilities are withheld: bins with too few people at every site."),)
    people = everyone.places_whole.sum()
    worst = max(coverage, key=lambda row: abs(row.share - row.level))
    value = abs(worst.share - worst.level)
    chance = 2.0 * np.sqrt(worst.level * (1 - worst.level) / people)
    limits = max(COVERAGE_THRESHOLD, chance), max(COVERAGE_PROBLEM, 2 * chance)
    word = graded(value, *limits)
    side = "too wide" if worst.share > worst.level else "too narrow"
    words = ("Predictive intervals of people who were left out hold "
             + ", ".join(f"{100 * row.share:.0f}% (of {100 * row.level:.0f})" for row in coverage)
             + " of their outcomes."
             + ("" if word == "fine" else f" They are {side}: the noise is not what the model takes it for. Look for "
                                          "heavy tails, or transform the outcome."))
    return (Verdict(name="posterior predictive", value=float(value), threshold=float(limits[0]), verdict=word,
                    words=words),)


def _slope_verdict(slope: float | None, explained: float | None) -> tuple[Verdict, ...]:
    if slope is None or explained is None:
        return ()
    value = abs(slope - 1.0)
    word = graded(value, SLOPE_THRESHOLD, SLOPE_PROBLEM)
    far = "" if word == "fine" else (
        " Predictions are too extreme: the model follows noise." if slope < 1 else " Predictions are too timid.")
    return (Verdict(name="calibration", value=value, threshold=SLOPE_THRESHOLD, verdict=word,
                    words=f"Outcomes rise by {slope:.2f} for each unit of their prediction (1 is right); predictions "
                          f"explain {100 * explained:.0f}% of the outcome's variance.{far}"),)
