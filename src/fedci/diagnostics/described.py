"""The two arms as they are: people, mean and sd of each covariate (table 1), and the outcome before any adjustment.

    difference = ȳ₁ − ȳ₀          sd² = s²(1/n₁ + 1/n₀), s² = (Σ(y − ȳ)² − n₁n₀/n difference²)/(n − 2);
                                  of 0 and 1: Σ_a p_a(1 − p_a)/n_a

All of it is made of sums that the study tells anyway: the opening's of the outcome, the balance's of the covariates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtri

from fedci.diagnostics.balance import ArmMoments
from fedci.diagnostics.verdict import Plain

ARMS = 2


class Arm(Plain):
    """Of the people of one arm whose value is known; None where no site may tell."""

    mean: float | None
    sd: float | None


class Column(Plain):
    column: str
    untreated: Arm
    treated: Arm


class Crude(Plain):
    """The outcome by arm, in its units; of a count over its exposure, of a time to an event the share that had it."""

    untreated: float
    treated: float
    sd: float | None
    """Of the difference; None where these sums do not tell it."""
    events: tuple[int, int] | None = None
    """Of what is no number: how many in each arm."""

    @property
    def difference(self) -> float:
        return self.treated - self.untreated

    def interval(self, alpha: float = 0.05) -> tuple[float, float] | None:
        if self.sd is None:
            return None
        half = float(-ndtri(alpha / 2)) * self.sd
        return self.difference - half, self.difference + half


class Described(Plain):
    """Table 1, and the outcome unadjusted."""

    people: tuple[int, int]
    """Untreated and treated."""
    columns: tuple[Column, ...]
    outcome: Crude | None
    """None: blinded, or the outcomes were flipped for privacy."""

    def sealed(self) -> Described:
        return self.model_copy(update={"outcome": None})


def columns_of(arms: ArmMoments, names: Sequence[str], centre: np.ndarray, spread: np.ndarray) -> tuple[Column, ...]:
    """In the data's units, from moments [S, 2, p] in pooled sds about the pooled mean, unweighted ones first."""
    mean = centre + spread * arms.mean[0]
    sd = spread * np.sqrt(arms.variance[0])
    known = arms.told[0] & (arms.size[0] > 0).all(0)
    return tuple(Column(column=name, **{who: Arm(mean=float(mean[a, c]) if known[c] else None,
                                                 sd=float(sd[a, c]) if known[c] else None)
                                        for a, who in enumerate(("untreated", "treated"))})
                 for c, name in enumerate(names))


def crude(kind: str, people: np.ndarray, total: np.ndarray, square: float,
          exposure: np.ndarray | None = None) -> Crude | None:
    """From people and Σ y of the arms [2], Σ (y − ȳ)² over all, and of a count with exposure Σ of it [2]. None where
    these are not two arms with people."""
    if len(people) != ARMS or not (people > 0).all():
        return None
    over = people if exposure is None else exposure
    mean = total / over
    sd = None
    if kind == "binary":
        sd = float(np.sqrt(np.sum(mean * (1.0 - mean) / people)))
    elif kind == "numeric" and people.sum() > ARMS:
        between = people.prod() / people.sum() * float(mean[1] - mean[0]) ** 2
        within = max(square - between, 0.0) / (people.sum() - ARMS)
        sd = float(np.sqrt(within * np.sum(1.0 / people)))
    events = None if kind == "numeric" else (round(float(total[0])), round(float(total[1])))
    return Crude(untreated=float(mean[0]), treated=float(mean[1]), sd=sd, events=events)


def summary(kind: str, means: Mapping[str, np.ndarray], square: float, exposure: np.ndarray | None, noise: bool,
            columns: tuple[Column, ...]) -> Described | None:
    """`means`: the sums that AskMeans tells; `noise`: outcomes of 0 and 1 were flipped at their sites."""
    people = means["y_count"]
    if len(people) != ARMS:
        return None
    return Described(people=(round(float(people[0])), round(float(people[1]))), columns=columns,
                     outcome=None if noise and kind == "binary" else
                     crude(kind, people, means["y_total"], square, exposure))
