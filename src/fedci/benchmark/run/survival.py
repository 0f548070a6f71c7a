"""Times to an event, measured: `python -m fedci.benchmark.run.survival` prints a table of docs/outcomes.md.

Differences of restricted mean times over all people and of 250 new ones, five sites, five covariates on which
treatment, hazard and censoring depend; beside Cox regression (lifelines, extra `benchmark`) of each arm on the combined
rows, averaged over everybody (g-computation):

    proportional   hazard e^{bᵀx}, of the treated 0.6 times that       crossing   1.8 times until 3, then 0.4 times
    null           no effect                                          censored   proportional, 60 % censored
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedci import FedCI, Result, Source, Study

SITES, PEOPLE, NEW, COVARIATES = 5, 200, 50, 5
HORIZON, CHANGE = 10.0, 3.0
TRUTH = 400
"""Draws of a time with which a person's restricted mean is known: quantiles."""


class Drawn(NamedTuple):
    """People of all sites, one row each."""

    x: np.ndarray
    w: np.ndarray
    time: np.ndarray
    event: np.ndarray
    site: np.ndarray
    effect: np.ndarray
    """The true difference of restricted mean times."""

    def take(self, rows: np.ndarray) -> Drawn:
        return Drawn(*(part[rows] for part in self))


SETS = {"proportional": (0.6, 0.6, 18.0), "crossing": (1.8, 0.4, 18.0), "null": (1.0, 1.0, 18.0),
        "censored": (0.6, 0.6, 5.0)}
"""By which factor treatment changes the hazard, before CHANGE and after it; the mean time to censoring."""


def times(unit: np.ndarray, hazard: np.ndarray, early: float, late: float) -> np.ndarray:
    """When the cumulative hazard reaches `unit`."""
    first = early * hazard * CHANGE
    return np.where(unit < first, unit / (early * hazard), CHANGE + (unit - first) / (late * hazard))


def people(name: str, replication: int, each: int) -> tuple[Drawn, Drawn]:
    """(those of the study, new ones of the same sites)."""
    rng = np.random.default_rng([78, replication, sum(map(ord, name))])
    early, late, censoring = SETS[name]
    n = SITES * (each + NEW)
    x = rng.normal(size=(n, COVARIATES))
    b, a = (v / np.linalg.norm(v) for v in rng.normal(size=(2, COVARIATES)))
    hazard = 0.09 * np.exp(0.8 * x @ b)
    w = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.8 * x @ (a + b) / 1.4))).astype(int)
    quantiles = -np.log((np.arange(TRUTH) + 0.5) / TRUTH)[None]
    treated, untreated = (np.minimum(times(quantiles, hazard[:, None], *factors), HORIZON).mean(1)
                          for factors in ((early, late), (1.0, 1.0)))
    unit = rng.exponential(size=n)
    event = np.where(w == 1, times(unit, hazard, early, late), times(unit, hazard, 1.0, 1.0))
    censored = np.minimum(rng.exponential(censoring * np.exp(0.3 * x @ a)), 1.3 * HORIZON)
    every = Drawn(x, w, np.minimum(event, censored), (event <= censored).astype(int),
                  np.repeat(np.arange(SITES), each + NEW), treated - untreated)
    within = np.tile(np.arange(each + NEW) < each, SITES)
    return every.take(within), every.take(~within)


def frame(drawn: Drawn) -> pd.DataFrame:
    names = [f"x{c}" for c in range(COVARIATES)]
    return pd.DataFrame(drawn.x, columns=names).assign(w=drawn.w, time=drawn.time, event=drawn.event)


def fitted(drawn: Drawn) -> Result:
    study = Study(treatment="w", outcome={"time": "time", "event": "event", "type": "survival", "horizons": [HORIZON]},
                  covariates=[f"x{c}" for c in range(COVARIATES)], policy="simulation", diagnostics={"enabled": False})
    rows = frame(drawn)
    return FedCI(study).fit([Source(f"site-{s}", rows[drawn.site == s]) for s in range(SITES)])


def cox(drawn: Drawn) -> float:
    """The average difference by Cox regression of each arm on the combined rows; NaN without lifelines."""
    try:
        from lifelines import CoxPHFitter
    except ImportError:
        return float("nan")
    rows, means = frame(drawn), []
    everybody = rows.drop(columns=["w", "time", "event"])
    grid = np.linspace(0.0, HORIZON, 201)
    for arm in (0, 1):
        model = CoxPHFitter(penalizer=0.01).fit(rows[rows.w == arm].drop(columns="w"), "time", "event")
        curves = model.predict_survival_function(everybody, times=grid).to_numpy()
        means.append(float(np.trapezoid(curves.mean(1), grid)))
    return means[1] - means[0]


class Row(NamedTuple):
    """Of one replication, in the order of HEAD."""

    events: float
    error: float
    covered: float
    width: float
    cox_error: float
    pehe: float
    people_covered: float
    seconds: float


HEAD = ("events", "error of the average", "covered", "width", "Cox: error", "√PEHE", "people covered", "seconds")


def measured(name: str, replication: int, each: int) -> tuple[Row, float]:
    """(figures, the true average difference)."""
    study, new = people(name, replication, each)
    start = time.perf_counter()
    result = fitted(study)
    average, truth = result.survival().rmst().difference, float(study.effect.mean())
    mean, low, high = np.empty((3, len(new.w)))
    for s in range(SITES):
        here = new.site == s
        effect = result.survival_posterior(frame(new)[here], f"site-{s}").rmst().difference
        mean[here], (low[here], high[here]) = effect.mean, effect.interval()
    seconds = time.perf_counter() - start
    ends = average.interval()
    return Row(study.event.mean(), average.mean - truth, float(ends[0] <= truth <= ends[1]), ends[1] - ends[0],
               cox(study) - truth, float(np.sqrt(np.mean((mean - new.effect) ** 2))),
               float(np.mean((low <= new.effect) & (new.effect <= high))), seconds), truth


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Times to an event: restricted mean times beside Cox regression.")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--replications", type=int, default=4)
    parser.add_argument("--people", type=int, default=PEOPLE)
    asked = parser.parse_args(arguments)
    print("\n".join([f"| | true average | {' | '.join(HEAD)} |", f"|---|{'---:|' * (len(HEAD) + 1)}"]), flush=True)
    for name in asked.sets:
        rows, truths = zip(*(measured(name, replication, asked.people) for replication in range(asked.replications)),
                           strict=True)
        means = np.mean(rows, 0)
        shown = [f"{value:.3f}" if k < len(HEAD) - 1 else f"{value:.0f}" for k, value in enumerate(means)]
        print(f"| {name} | {np.mean(truths):.3f} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
