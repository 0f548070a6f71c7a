"""Times to an event, drawn and fitted: the data and the methods of docs/benchmarks/outcomes.md.

Differences of restricted mean times until 10, five sites, five covariates on which treatment, hazard and censoring
depend; everybody is followed until 13 at most:

    proportional   hazard e^{0.8 bᵀx}, of the treated 0.6 times that    crossing      1.8 times until 3, then 0.4 times
    null           no effect                                           censored      proportional, early
    informative    proportional; who is ill is censored sooner
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedci import FedCI, Result, Source, Study
from fedci.benchmark.run.drawn import Drawn, Found, Method, split, without_intervals

SITES, NEW, COVARIATES = 5, 50, 5
HORIZON, CHANGE, HAZARD = 10.0, 3.0, 0.12
TRUTH = 400
"""Draws of a time with which a person's restricted mean is known: quantiles."""
TREES, LEAF = 300, 10
"""Of the survival forests, and a leaf's least people."""

SETS = {"proportional": (0.6, 0.6, 30.0, 0.3), "crossing": (1.8, 0.4, 30.0, 0.3), "null": (1.0, 1.0, 18.0, 0.3),
        "censored": (0.6, 0.6, 5.0, 0.3), "informative": (0.6, 0.6, 12.0, -0.9)}
"""By which factor treatment changes the hazard, before CHANGE and after it; the mean time to censoring, and by how much
its logarithm grows with the direction of the hazard (informative) or of treatment."""


def times(unit: np.ndarray, hazard: np.ndarray, early: float, late: float) -> np.ndarray:
    """When the cumulative hazard reaches `unit`."""
    first = early * hazard * CHANGE
    return np.where(unit < first, unit / (early * hazard), CHANGE + (unit - first) / (late * hazard))


def people(name: str, replication: int, each: int = 200) -> tuple[Drawn, Drawn]:
    """(those of the study, new ones of the same sites)."""
    rng = np.random.default_rng([78, replication, sum(map(ord, name))])
    early, late, censoring, along = SETS[name]
    n = SITES * (each + NEW)
    x = rng.normal(size=(n, COVARIATES))
    b, a = (v / np.linalg.norm(v) for v in rng.normal(size=(2, COVARIATES)))
    hazard = HAZARD * np.exp(0.8 * x @ b)
    w = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.8 * x @ (a + b) / 1.4))).astype(int)
    quantiles = -np.log((np.arange(TRUTH) + 0.5) / TRUTH)[None]
    treated, untreated = (np.minimum(times(quantiles, hazard[:, None], *factors), HORIZON).mean(1)
                          for factors in ((early, late), (1.0, 1.0)))
    unit = rng.exponential(size=n)
    event = np.where(w == 1, times(unit, hazard, early, late), times(unit, hazard, 1.0, 1.0))
    toward = b if along < 0 else a
    censored = np.minimum(rng.exponential(censoring * np.exp(along * x @ toward)), 1.3 * HORIZON)
    site = np.repeat(np.arange(SITES), each + NEW)
    return split(Drawn(x, w, (event <= censored).astype(int), np.minimum(event, censored), site, treated - untreated),
                 each, NEW)


# --- methods


def fitted(study: Drawn) -> Result:
    plan = Study(treatment="w", covariates=study.names, policy="simulation", diagnostics={"enabled": False},
                 outcome={"time": "time", "event": "y", "type": "survival", "horizons": [HORIZON]})
    rows = study.frame()
    return FedCI(plan).fit([Source(f"site-{s}", rows[study.site == s]) for s in range(SITES)])


def fedci(study: Drawn, new: Drawn, seed: int) -> Found:
    result, asked = fitted(study), new.frame()
    mean, low, high = np.empty((3, len(new.w)))
    for s in range(SITES):
        here = new.site == s
        effect = result.survival_posterior(asked[here], f"site-{s}").rmst().difference
        mean[here], (low[here], high[here]) = effect.mean, effect.interval()
    average = result.survival().rmst().difference
    return Found(mean, low, high, (average.mean, *average.interval()))


def cox(study: Drawn, new: Drawn, seed: int) -> Found:
    """Cox regression (lifelines) of each arm on the combined rows, averaged over everybody (g-computation)."""
    from lifelines import CoxPHFitter

    rows, grid = study.frame(), np.linspace(0.0, HORIZON, 201)
    arms = [CoxPHFitter(penalizer=0.01).fit(rows[rows.w == arm].drop(columns="w"), "time", "y") for arm in (0, 1)]

    def difference(x: pd.DataFrame) -> np.ndarray:
        means = [np.trapezoid(arm.predict_survival_function(x, times=grid).to_numpy(), grid, axis=0) for arm in arms]
        return np.asarray(means[1] - means[0])

    return without_intervals(difference(new.frame()[study.names]), float(difference(rows[study.names]).mean()))


def forest(study: Drawn, new: Drawn, seed: int) -> Found:
    """A random survival forest (scikit-survival) in each arm: a T-learner."""
    from sksurv.ensemble import RandomSurvivalForest

    arms = []
    for arm in (0, 1):
        here = study.w == arm
        y = np.zeros(int(here.sum()), dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = study.y[here] == 1, study.time[here]
        arms.append(RandomSurvivalForest(n_estimators=TREES, min_samples_leaf=LEAF, random_state=seed, n_jobs=1)
                    .fit(study.x[here], y))

    def difference(x: np.ndarray) -> np.ndarray:
        means = [_restricted(arm.predict_survival_function(x, return_array=True), arm.unique_times_) for arm in arms]
        return means[1] - means[0]

    return without_intervals(difference(new.x), float(difference(study.x).mean()))


def _restricted(curves: np.ndarray, at: np.ndarray) -> np.ndarray:
    """∫ of steps: 1 before the first time, then each value until the next."""
    ends = np.minimum(np.concatenate([[0.0], at, [HORIZON]]), HORIZON)
    values = np.column_stack([np.ones(len(curves)), curves])
    return np.asarray(values @ np.maximum(np.diff(ends), 0.0))


METHODS: dict[str, Method] = {"FedCI": fedci, "Cox, each arm": cox, "survival forest, each arm": forest}
