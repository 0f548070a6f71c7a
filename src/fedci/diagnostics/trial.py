"""A randomised study: the plain difference of its arms, and what the other sections say where a lot drew the treatment.

    plain        ȳ₁ − ȳ₀                            se² = s₁²/n₁ + s₀²/n₀
    within sites Σ_s w_s(ȳ₁ − ȳ₀)_s / Σ_s w_s       w_s = n₁n₀/(n₁ + n₀),  se² = Σ_s w_s² se_s² / (Σ_s w_s)²

Within sites is the one to read where sites drew at different ratios. Of a count they are of rates Σy/Σe, with the
residuals y − (rate) e in the place of y − ȳ; of a time to an event of risks by the last horizon, from the product of
what the intervals leave, with Greenwood's variance.

The treatment depends on nothing but the lot, so the arms differ by chance alone: by more than FAR standard errors in a
covariate, or from the stated ratio, and the lot is to be looked at. E-values, robustness and Λ ask what an unmeasured
confounder could do; there is none, and they are not held against the study.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from fedci.diagnostics.balance import Balance
from fedci.diagnostics.verdict import FINE, LOOK, Plain, Verdict, Word
from fedci.study.assignment import Design

if TYPE_CHECKING:
    from fedci.diagnostics.findings import Diagnostics

FAR = 4.0
"""Standard errors: of 50 covariates one is as far by chance in three studies of a thousand."""
MOMENTS = 6
"""n, Σy, Σy², Σe, Σe², Σye of an arm; e is the exposure of a count, else 1."""
CONFOUNDING = ("E-value", "robustness value", "marginal sensitivity")
"""Verdicts about what nobody measured."""
LEVEL = 0.95


class Difference(Plain):
    """Of the arms, without a model."""

    mean: float
    se: float
    low: float
    high: float


class Trial(Plain):
    people: tuple[int, int]
    """Untreated, treated."""
    means: tuple[float, float]
    """Of the outcome in each arm; of a count rates, of a time risks by the last horizon."""
    plain: Difference
    within_sites: Difference | None
    """None of a time to an event."""
    model: Difference
    """The model's average effect, over everybody."""
    verdicts: tuple[Verdict, ...]


# --- at a site


def arm_moments(w: np.ndarray, y: np.ndarray, e: np.ndarray) -> np.ndarray:
    """[2, MOMENTS]."""
    each = np.column_stack([np.ones_like(y), y, y**2, e, e**2, y * e])
    return np.stack([each[w == arm].sum(0) for arm in (0, 1)])


def stratum(moments: np.ndarray) -> np.ndarray:
    """[3] w, w d, w² v of a site's own difference; zeros where an arm has fewer than two people."""
    n = moments[:, 0]
    if (n < 2).any():
        return np.zeros(3)
    _, difference, variance = _difference(moments)
    weight = n[0] * n[1] / n.sum()
    return np.array([weight, weight * difference, weight**2 * variance])


def _difference(moments: np.ndarray) -> tuple[np.ndarray, float, float]:
    """(the arms' means or rates [2], their difference, its variance)."""
    n, y, yy, e, ee, ye = moments.T
    mean = y / e
    residual = np.maximum(yy - 2.0 * mean * ye + mean**2 * ee, 0.0)
    variance = residual / np.maximum(n - 1.0, 1.0) * n / e**2
    return mean, float(mean[1] - mean[0]), float(variance.sum())


# --- of all sites


def summary(arms: np.ndarray, strata: np.ndarray, unit: float, centre: float, model: tuple[float, float, float],
            sd: float, design: Design) -> Trial:
    """From the sums over sites; `unit`, `centre`: of the outcome's model units; `model`: mean and interval of the
    model's effect, `sd` its spread."""
    mean, difference, variance = _difference(arms)
    people = int(round(arms[0, 0])), int(round(arms[1, 0]))
    within = (_interval(unit * strata[1] / strata[0], unit * float(np.sqrt(strata[2])) / strata[0])
              if strata[0] > 0 else None)
    return Trial(people=people, means=(centre + unit * mean[0], centre + unit * mean[1]),
                 plain=_interval(unit * difference, unit * float(np.sqrt(variance))), within_sites=within,
                 model=Difference(mean=model[0], se=sd, low=model[1], high=model[2]),
                 verdicts=(_ratio(people, design),))


def of_times(events: np.ndarray, censored: np.ndarray, people: np.ndarray, model: tuple[float, float, float], sd: float,
             design: Design) -> Trial:
    """From counts [2, parts] of events and of people followed no longer, by arm; `people` [2]."""
    gone = np.cumsum(events + censored, 1)
    at_risk = people[:, None] - gone + events + 0.5 * censored
    left = np.maximum(at_risk - events, 0.0)
    survival = np.prod(np.where(at_risk > 0, left / np.maximum(at_risk, 1e-300), 1.0), 1)
    hazard = events / np.maximum(at_risk * left, 1e-300)
    variance = survival**2 * np.where(left > 0, hazard, 0.0).sum(1)
    risks = 1.0 - survival
    counts = int(round(people[0])), int(round(people[1]))
    return Trial(people=counts, means=(float(risks[0]), float(risks[1])),
                 plain=_interval(float(risks[1] - risks[0]), float(np.sqrt(variance.sum()))), within_sites=None,
                 model=Difference(mean=model[0], se=sd, low=model[1], high=model[2]),
                 verdicts=(_ratio(counts, design),))


def _interval(mean: float, se: float) -> Difference:
    half = float(ndtri(0.5 + 0.5 * LEVEL)) * se
    return Difference(mean=float(mean), se=se, low=float(mean) - half, high=float(mean) + half)


def _ratio(people: tuple[int, int], design: Design) -> Verdict:
    n, share = sum(people), people[1] / max(sum(people), 1)
    away = abs(share - design.share) / np.sqrt(design.share * (1.0 - design.share) / max(n, 1))
    said = f"{100 * share:.1f}% of {n:,} people are treated; the lot gives {100 * design.share:.1f}%"
    word: Word = LOOK if away > FAR else FINE
    more = (f", {away:.1f} standard errors away: is the ratio of the design the one that was drawn with?"
            if word == LOOK else ".")
    return Verdict(name="ratio of the lot", value=float(away), threshold=FAR, verdict=word, words=f"{said}{more}")


# --- what the other sections say


def of_lot(found: Diagnostics, design: Design, people: Mapping[str, np.ndarray]) -> Diagnostics:
    """The diagnostics as they speak of a randomised study; as they are of any other."""
    if not design.randomised:
        return found
    changes: dict[str, object] = {}
    if found.balance is not None:
        sizes = np.sum(list(people.values()), axis=0)
        changes["balance"] = found.balance.model_copy(update={"verdicts": (_chance(found.balance, sizes),)})
    if found.overlap is not None:
        changes["overlap"] = found.overlap.model_copy(update={"verdicts": tuple(
            verdict for verdict in found.overlap.verdicts if verdict.name == "people across sites")})
    if found.sensitivity is not None:
        changes["sensitivity"] = found.sensitivity.model_copy(update={"verdicts": tuple(
            verdict for verdict in found.sensitivity.verdicts if verdict.name not in CONFOUNDING)})
    return found.model_copy(update=changes)


def _chance(balance: Balance, sizes: np.ndarray) -> Verdict:
    """Differences of arms that a lot drew are chance: of standard deviation √(1/n₁ + 1/n₀) each."""
    chance = float(np.sqrt(np.sum(1.0 / np.maximum(sizes, 1.0))))
    known = [(abs(row.before), row.column) for row in balance.columns if row.before is not None]
    if not known:
        return Verdict(name="arms alike", value=None, threshold=FAR, verdict="unknown",
                       words="No covariate could be compared: the sites' policies withhold all of them.")
    largest, column = max(known)
    far = largest / chance
    words = (f"The largest difference of the arms is {largest:.3f} standard deviations, of {column}: {far:.1f} times "
             f"what chance alone makes of one covariate. ")
    words += ("More than a lot makes: look at how treatment was drawn, and at who was left out after it."
              if far > FAR else "A lot makes no other.")
    return Verdict(name="arms alike", value=far, threshold=FAR, verdict=LOOK if far > FAR else FINE, words=words)
