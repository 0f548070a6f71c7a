"""Outcomes of 0 and 1, measured: `python -m fedci.benchmark.run.binary` prints a table of docs/outcomes.md.

Risk differences of 750 new people of five sites with 100 people each, ten covariates of which treatment and log odds
depend on directions drawn anew; beside a ridge logistic regression of each arm on the combined rows (a T-learner), and
with `--trees` stochtree's probit BART and BCF on these rows (extra `benchmark`):

    index          ½ have an event       log odds 1.5 bᵀx, effect on them 0.7 + tanh(1.5 cᵀx)
    rare           15 %                  log odds 1.5 bᵀx − 3, effect 0.9 for everybody
    null           40 %                  no effect
    interactions   ½                     log odds x₀x₁ + |x₂| − 1, effect 0.5 + x₁x₃
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from fedci import FedCI, Result, Source, Study

SITES, PEOPLE, NEW, COVARIATES = 5, 100, 150, 10
RIDGE, LEVEL = 5.0, 0.1
"""Of the slopes and of the level of the logistic regressions."""
NEWTON = 30


class Drawn(NamedTuple):
    """People of all sites, one row each."""

    x: np.ndarray
    w: np.ndarray
    y: np.ndarray
    site: np.ndarray
    effect: np.ndarray
    """The true risk difference."""

    def take(self, rows: np.ndarray) -> Drawn:
        return Drawn(*(part[rows] for part in self))


class Row(NamedTuple):
    """Of one replication, in the order of HEAD."""

    events: float
    pehe: float
    ridge: float
    covered: float
    width: float
    average_covered: float
    seconds: float
    bart: float = float("nan")
    bart_covered: float = float("nan")
    bcf: float = float("nan")
    bcf_covered: float = float("nan")


HEAD = ("events", "√PEHE", "T-learner's √PEHE", "coverage", "width", "average covered", "seconds",
        "BART's √PEHE", "its coverage", "BCF's √PEHE", "its coverage")
SECONDS = HEAD.index("seconds")
Index = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
LOG_ODDS: dict[str, Index] = {
    "index": lambda x, b, c: (1.5 * x @ b - 0.3, 0.7 + np.tanh(1.5 * x @ c)),
    "rare": lambda x, b, c: (1.5 * x @ b - 3.0, np.full(len(x), 0.9)),
    "null": lambda x, b, c: (1.5 * x @ b - 0.5, np.zeros(len(x))),
    "interactions": lambda x, b, c: (x[:, 0] * x[:, 1] + np.abs(x[:, 2]) - 1.0, 0.5 + x[:, 1] * x[:, 3]),
}
"""(log odds without treatment, the effect on them) at x, with two directions."""


def people(name: str, replication: int) -> tuple[Drawn, Drawn]:
    """(those of the study, new ones of the same sites)."""
    rng = np.random.default_rng([77, replication, sum(map(ord, name))])
    x = rng.normal(size=(SITES * (PEOPLE + NEW), COVARIATES))
    b, c, a = (v / np.linalg.norm(v) for v in rng.normal(size=(3, COVARIATES)))
    without, effect = LOG_ODDS[name](x, b, c)
    risks = expit(np.stack([without, without + effect]))
    w = (rng.random(len(x)) < expit(0.8 * x @ (a + b) / 1.4)).astype(int)
    y = (rng.random(len(x)) < np.where(w, risks[1], risks[0])).astype(int)
    every = Drawn(x, w, y, np.repeat(np.arange(SITES), PEOPLE + NEW), risks[1] - risks[0])
    within = np.tile(np.arange(PEOPLE + NEW) < PEOPLE, SITES)
    return every.take(within), every.take(~within)


def fitted(drawn: Drawn) -> Result:
    names = [f"x{c}" for c in range(COVARIATES)]
    study = Study(treatment="w", outcome={"name": "y", "type": "binary"}, covariates=names, policy="simulation",
                  diagnostics={"enabled": False})
    frame = pd.DataFrame(drawn.x, columns=names).assign(w=drawn.w, y=drawn.y)
    return FedCI(study).fit([Source(f"site-{s}", frame[drawn.site == s]) for s in range(SITES)])


def t_learner(drawn: Drawn, x: np.ndarray) -> np.ndarray:
    """Risk differences at x by a ridge logistic regression of each arm, on standardised covariates."""
    centre, spread = drawn.x.mean(0), drawn.x.std(0)
    penalty = np.diag([LEVEL, *np.full(x.shape[1], RIDGE)])
    risks = []
    for arm in (0, 1):
        rows, y = _with_level((drawn.x[drawn.w == arm] - centre) / spread), drawn.y[drawn.w == arm]
        beta = np.zeros(rows.shape[1])
        for _ in range(NEWTON):
            p = expit(rows @ beta)
            curvature = (rows * (p * (1.0 - p))[:, None]).T @ rows + penalty
            beta = beta + np.linalg.solve(curvature, rows.T @ (y - p) - penalty @ beta)
        risks.append(expit(_with_level((x - centre) / spread) @ beta))
    return risks[1] - risks[0]


def _with_level(x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(x)), x])


def by_trees(drawn: Drawn, new: Drawn, seed: int) -> tuple[float, float, float, float]:
    """(√PEHE, coverage) of probit BART and of BCF."""
    from fedci.benchmark.learners.probit_trees import probit_bart, probit_bcf

    figures = []
    for learner in (probit_bart, probit_bcf):
        found = learner(drawn.x, drawn.w, drawn.y, seed)(new.x)
        if found.low is None or found.high is None:
            raise AssertionError("draws have intervals")
        inside = (found.low <= new.effect) & (new.effect <= found.high)
        figures += [_error(found.cate, new), float(np.mean(inside))]
    return figures[0], figures[1], figures[2], figures[3]


def measured(name: str, replication: int, trees: bool = False) -> Row:
    study, new = people(name, replication)
    start = time.perf_counter()
    result = fitted(study)
    mean, low, high = np.empty((3, len(new.y)))
    for s in range(SITES):
        effect, here = result.effects_at(new.x[new.site == s], f"site-{s}"), new.site == s
        mean[here], (low[here], high[here]) = effect.mean, effect.interval()
    seconds = time.perf_counter() - start
    ends, truth = result.ate().interval(), study.effect.mean()
    return Row(study.y.mean(), _error(mean, new), _error(t_learner(study, new.x), new),
               float(np.mean((low <= new.effect) & (new.effect <= high))), float(np.mean(high - low)),
               float(ends[0] <= truth <= ends[1]), seconds, *(by_trees(study, new, replication) if trees else ()))


def _error(found: np.ndarray, new: Drawn) -> float:
    return float(np.sqrt(np.mean((found - new.effect) ** 2)))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Outcomes of 0 and 1: risk differences beside a logistic T-learner.")
    parser.add_argument("--sets", nargs="+", choices=list(LOG_ODDS), default=list(LOG_ODDS))
    parser.add_argument("--replications", type=int, default=12)
    parser.add_argument("--trees", action="store_true", help="stochtree's probit BART and BCF beside it")
    asked = parser.parse_args(arguments)
    head = HEAD if asked.trees else HEAD[:SECONDS + 1]
    print("\n".join([f"| | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]), flush=True)
    for name in asked.sets:
        rows = [measured(name, replication, asked.trees) for replication in range(asked.replications)]
        means = np.mean(rows, 0)[:len(head)]
        print(f"| {name} | " + " | ".join(f"{value:.0f}" if k == SECONDS else f"{value:.3f}"
                                          for k, value in enumerate(means)) + " |", flush=True)


if __name__ == "__main__":
    main()
