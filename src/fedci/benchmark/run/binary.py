"""Outcomes of 0 and 1, drawn and fitted: the data and the methods of docs/benchmarks/outcomes.md.

Five sites, ten covariates of which treatment and log odds depend on directions drawn anew:

    index            ½ have an event       log odds 1.5 bᵀx − 0.3, effect on them 0.7 + tanh(1.5 cᵀx)
    rare             15 %                  log odds 1.5 bᵀx − 3, effect 0.9 for everybody
    interactions     ½                     log odds x₀x₁ + |x₂| − 1, effect 0.5 + x₁x₃
    null             40 %                  no effect
    heterogeneous    ½                     as index; each site its own level (sd 0.7), effect and slope (0.5)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from fedci import FedCI, Source, Study
from fedci.benchmark.run.drawn import Drawn, Found, Method, split, without_intervals

SITES, NEW, COVARIATES = 5, 150, 10
RIDGE, LEVEL = 5.0, 0.1
"""Of the slopes and of the level of the logistic regressions."""
NEWTON = 30
UNSEEN = 1e-9
"""What is added to one outcome of each site, so that 0 and 1 pass for numbers."""

Index = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
LOG_ODDS: dict[str, Index] = {
    "index": lambda x, b, c: (1.5 * x @ b - 0.3, 0.7 + np.tanh(1.5 * x @ c)),
    "rare": lambda x, b, c: (1.5 * x @ b - 3.0, np.full(len(x), 0.9)),
    "interactions": lambda x, b, c: (x[:, 0] * x[:, 1] + np.abs(x[:, 2]) - 1.0, 0.5 + x[:, 1] * x[:, 3]),
    "null": lambda x, b, c: (1.5 * x @ b - 0.5, np.zeros(len(x))),
    "heterogeneous": lambda x, b, c: (1.5 * x @ b - 0.3, 0.7 + np.tanh(1.5 * x @ c)),
}
"""(log odds without treatment, the effect on them) at x, with two directions."""


def people(name: str, replication: int, each: int = 100) -> tuple[Drawn, Drawn]:
    """(those of the study, new ones of the same sites)."""
    rng = np.random.default_rng([77, replication, sum(map(ord, name))])
    x = rng.normal(size=(SITES * (each + NEW), COVARIATES))
    b, c, a = (v / np.linalg.norm(v) for v in rng.normal(size=(3, COVARIATES)))
    without, effect = LOG_ODDS[name](x, b, c)
    site = np.repeat(np.arange(SITES), each + NEW)
    if name == "heterogeneous":
        own = rng.normal(size=(3, SITES)) * np.array([[0.7], [0.5], [0.5]])
        without, effect = without + own[0, site] + own[2, site] * x[:, 0], effect + own[1, site]
    risks = expit(np.stack([without, without + effect]))
    w = (rng.random(len(x)) < expit(0.8 * x @ (a + b) / 1.4)).astype(int)
    y = (rng.random(len(x)) < np.where(w, risks[1], risks[0])).astype(int)
    return split(Drawn(x, w, y, np.ones(len(x)), site, risks[1] - risks[0]), each, NEW)


# --- methods


def fedci(study: Drawn, new: Drawn, seed: int) -> Found:
    return _fedci(study, new, {"name": "y", "type": "binary"}, study.y)


def as_numbers(study: Drawn, new: Drawn, seed: int) -> Found:
    """FedCI's model of numbers: 0 and 1 taken for two of them."""
    y = study.y.astype(float)
    y[[int(np.argmax(study.site == s)) for s in range(SITES)]] += UNSEEN
    return _fedci(study, new, "y", y)


def _fedci(study: Drawn, new: Drawn, outcome: object, y: np.ndarray) -> Found:
    plan = Study(treatment="w", outcome=outcome, covariates=study.names,  # type: ignore[arg-type]  # either form
                 policy="simulation", diagnostics={"enabled": False})
    rows = study.frame().assign(y=y)
    result = FedCI(plan).fit([Source(f"site-{s}", rows[study.site == s]) for s in range(SITES)])
    mean, low, high = np.empty((3, len(new.y)))
    for s in range(SITES):
        effect, here = result.effects_at(new.x[new.site == s], f"site-{s}"), new.site == s
        mean[here], (low[here], high[here]) = effect.mean, effect.interval()
    average = result.ate()
    return Found(mean, low, high, (average.mean, *average.interval()))


def t_learner(study: Drawn, new: Drawn, seed: int) -> Found:
    """Ridge logistic regressions of each arm on the combined rows."""
    risks = logistic_arms(study.x, study.w, study.y)
    return without_intervals(_difference(risks(new.x)), float(_difference(risks(study.x)).mean()))


def _difference(risks: np.ndarray) -> np.ndarray:
    return np.asarray(risks[1] - risks[0])


def logistic_arms(x: np.ndarray, w: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None
                  ) -> Callable[[np.ndarray], np.ndarray]:
    """x → risks [2, n], by a ridge logistic regression of each arm on standardised covariates."""
    centre, spread = x.mean(0), np.maximum(x.std(0), 1e-12)
    weight = np.ones(len(y)) if weight is None else weight
    betas = [logistic((x[w == arm] - centre) / spread, y[w == arm], weight[w == arm]) for arm in (0, 1)]
    return lambda new: np.stack([expit(_with_level((new - centre) / spread) @ beta) for beta in betas])


def logistic(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Coefficients, the level first."""
    rows, penalty = _with_level(x), np.diag([LEVEL, *np.full(x.shape[1], RIDGE)])
    beta = np.zeros(rows.shape[1])
    for _ in range(NEWTON):
        p = expit(rows @ beta)
        curvature = (rows * (weight * p * (1.0 - p))[:, None]).T @ rows + penalty
        beta = beta + np.linalg.solve(curvature, rows.T @ (weight * (y - p)) - penalty @ beta)
    return beta


def _with_level(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x])


def probit_bart(study: Drawn, new: Drawn, seed: int) -> Found:
    from fedci.benchmark.learners import probit_trees

    return _learnt(probit_trees.probit_bart, study, new, seed)


def probit_bcf(study: Drawn, new: Drawn, seed: int) -> Found:
    from fedci.benchmark.learners import probit_trees

    return _learnt(probit_trees.probit_bcf, study, new, seed)


def causal_forest(study: Drawn, new: Drawn, seed: int) -> Found:
    from fedci.benchmark.learners import forests

    return _learnt(forests.causal_forest, study, new, seed)


def _learnt(learner: Callable[..., object], study: Drawn, new: Drawn, seed: int) -> Found:
    return learnt(learner, study, new, study.y.astype(float), seed)


def learnt(learner: Callable[..., object], study: Drawn, new: Drawn, y: np.ndarray, seed: int) -> Found:
    """A learner of the benchmark, on the combined rows."""
    from fedci.benchmark.learners.common import contained

    with contained(seed):
        predict = learner(study.x, study.w, y, seed)
        people, everybody = predict(new.x), predict(study.x)  # type: ignore[operator]  # a Predictor
    none = np.full(len(new.y), np.nan)
    average = everybody.ate or (float(everybody.cate.mean()), np.nan, np.nan)
    return Found(people.cate, none if people.low is None else people.low, none if people.high is None else people.high,
                 average)


METHODS: dict[str, Method] = {"FedCI": fedci, "FedCI, as numbers": as_numbers, "logistic T-learner": t_learner,
                              "probit BART": probit_bart, "probit BCF": probit_bcf, "causal forest": causal_forest}
