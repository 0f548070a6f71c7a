"""Counts, drawn and fitted: the data and the methods of docs/benchmarks/outcomes.md.

Differences of rates a year, five sites, five covariates on which treatment and rate depend, followed for ½ to 2 years:

    index            negative binomial of size 2      log rate 0.3 + 0.7 bᵀx, effect on it −0.5 + 0.4 tanh(1.5 cᵀx)
    Poisson          the same without overdispersion
    few              as index, a fifth of the rate
    null             no effect
"""

from __future__ import annotations

import numpy as np

from fedci import FedCI, Source, Study
from fedci.benchmark.run.binary import learnt
from fedci.benchmark.run.drawn import Drawn, Found, Method, split, without_intervals

SITES, NEW, COVARIATES = 5, 100, 5
RIDGE, NEWTON = 5.0, 50

SETS = {"index": (0.3, 1.0, 2.0), "Poisson": (0.3, 1.0, np.inf), "few": (0.3 - np.log(5.0), 1.0, 2.0),
        "null": (0.3, 0.0, 2.0)}
"""The log rate at x = 0, by how much the effect counts, and the size of the negative binomial."""


def people(name: str, replication: int, each: int = 100) -> tuple[Drawn, Drawn]:
    """(those of the study, new ones of the same sites)."""
    rng = np.random.default_rng([79, replication, sum(map(ord, name))])
    level, size_of_effect, size = SETS[name]
    n = SITES * (each + NEW)
    x = rng.normal(size=(n, COVARIATES))
    b, c, a = (v / np.linalg.norm(v) for v in rng.normal(size=(3, COVARIATES)))
    without = level + 0.7 * x @ b
    rates = np.exp(np.stack([without, without + size_of_effect * (-0.5 + 0.4 * np.tanh(1.5 * x @ c))]))
    w = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.8 * x @ (a + b) / 1.4))).astype(int)
    years = rng.uniform(0.5, 2.0, n)
    mean = years * np.where(w == 1, rates[1], rates[0])
    more = 1.0 if np.isinf(size) else rng.gamma(size, 1.0 / size, n)
    return split(Drawn(x, w, rng.poisson(mean * more), years, np.repeat(np.arange(SITES), each + NEW),
                       rates[1] - rates[0]), each, NEW)


# --- methods


def fedci(study: Drawn, new: Drawn, seed: int) -> Found:
    plan = Study(treatment="w", covariates=study.names, policy="simulation", diagnostics={"enabled": False},
                 outcome={"name": "y", "type": "count", "exposure": "time"})
    rows, asked = study.frame(), new.frame()
    result = FedCI(plan).fit([Source(f"site-{s}", rows[study.site == s]) for s in range(SITES)])
    mean, low, high = np.empty((3, len(new.w)))
    for s in range(SITES):
        here = new.site == s
        effect = result.rate_posterior(asked[here], f"site-{s}").difference
        mean[here], (low[here], high[here]) = effect.mean, effect.interval()
    average = result.ate()
    return Found(mean, low, high, (average.mean, *average.interval()))


def as_numbers(study: Drawn, new: Drawn, seed: int) -> Found:
    """FedCI's model of numbers, of counts a year."""
    plan = Study(treatment="w", outcome="y", covariates=study.names, policy="simulation",
                 diagnostics={"enabled": False})
    rows = study.frame().assign(y=study.y / study.time)
    result = FedCI(plan).fit([Source(f"site-{s}", rows[study.site == s]) for s in range(SITES)])
    mean, low, high = np.empty((3, len(new.w)))
    for s in range(SITES):
        effect, here = result.effects_at(new.x[new.site == s], f"site-{s}"), new.site == s
        mean[here], (low[here], high[here]) = effect.mean, effect.interval()
    average = result.ate()
    return Found(mean, low, high, (average.mean, *average.interval()))


def t_learner(study: Drawn, new: Drawn, seed: int) -> Found:
    """Ridge Poisson regressions of each arm on the combined rows, with the exposure's logarithm as offset."""
    arms = [_poisson(study.take(study.w == arm)) for arm in (0, 1)]

    def difference(x: np.ndarray) -> np.ndarray:
        rates = [np.exp(_with_level(x) @ beta) for beta in arms]
        return np.asarray(rates[1] - rates[0])

    return without_intervals(difference(new.x), float(difference(study.x).mean()))


def _poisson(drawn: Drawn) -> np.ndarray:
    rows, penalty = _with_level(drawn.x), np.diag([0.0, *np.full(drawn.x.shape[1], RIDGE)])
    beta = np.zeros(rows.shape[1])
    beta[0] = np.log((drawn.y.sum() + 0.5) / drawn.time.sum())
    for _ in range(NEWTON):
        mean = drawn.time * np.exp(rows @ beta)
        step = np.linalg.solve((rows * mean[:, None]).T @ rows + penalty, rows.T @ (drawn.y - mean) - penalty @ beta)
        beta = beta + step / max(1.0, float(np.abs(step).max()))
    return beta


def _with_level(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x])


def causal_forest(study: Drawn, new: Drawn, seed: int) -> Found:
    """Of counts a year."""
    from fedci.benchmark.learners import forests

    return learnt(forests.causal_forest, study, new, study.y / study.time, seed)


METHODS: dict[str, Method] = {"FedCI": fedci, "FedCI, as numbers": as_numbers, "Poisson T-learner": t_learner,
                              "causal forest": causal_forest}
