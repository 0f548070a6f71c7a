"""How an estimate is scored. P2, the headline: expected effects μ₁(x) − μ₀(x) of new people, from x only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedci.data import Source
from fedci.datasets import Split, combined
from fedci.estimands import Effect
from fedci.estimator import FedCI
from fedci.result import Result
from fedci.study import Study


@dataclass(frozen=True)
class Score:
    """One fit under P2; NaN where a method has no intervals."""

    pehe: float
    """√ mean (τ̂(x) − τ(x))² over the test people of all sources."""
    ate_error: float
    """|mean τ̂ − mean τ| over the same people."""
    coverage: float = np.nan
    """Share of test people whose 95% interval holds τ(x)."""
    width: float = np.nan
    ate_covered: float = np.nan
    """Whether the 95% interval of the ATE holds the true mean effect of the people fitted on."""
    rounds: float = np.nan
    seconds: float = np.nan


def score_points(estimates: Sequence[np.ndarray], splits: Sequence[Split]) -> Score:
    """A method without intervals."""
    truth = np.concatenate([split.test.cate for split in splits])
    error = np.concatenate(list(estimates)) - truth
    return Score(float(np.sqrt(np.mean(error**2))), float(abs(error.mean())))


def score_posterior(effects: Sequence[Effect], splits: Sequence[Split], ate: Effect) -> Score:
    """A method with a posterior for each test person and for the ATE of the people it was fitted on."""
    truth = np.concatenate([split.test.cate for split in splits])
    low, high = (np.concatenate(ends) for ends in zip(*(e.interval(0.05) for e in effects), strict=True))
    fitted = np.concatenate([split.train.cate for split in splits]).mean()
    point = score_points([e.mean for e in effects], splits)
    return Score(point.pehe, point.ate_error, float(np.mean((low <= truth) & (truth <= high))),
                 float(np.mean(high - low)), float(ate.interval(0.05)[0] <= fitted <= ate.interval(0.05)[1]))


def study_of(splits: Sequence[Split], options: Mapping | None = None, preset: str = "default") -> Study:
    return Study(treatment="w", outcome="y", covariates=splits[0].train.names, policy="simulation", preset=preset,
                 options=dict(options or {}))


def federated(splits: Sequence[Split], study: Study, seed: int = 0) -> Score:
    """All sources in one federated fit; each predicts for its own test people."""
    result = FedCI(study, seed=seed).fit([Source(f"s{s}", split.train.frame()) for s, split in enumerate(splits)])
    effects = [result.effect_posterior(split.test.frame(), f"s{s}") for s, split in enumerate(splits)]
    return _with_cost(score_posterior(effects, splits, result.ate()), result)


def pooled(splits: Sequence[Split], study: Study, seed: int = 0) -> Score:
    """All rows at one site: what privacy forbids."""
    rows = combined([split.train for split in splits]).frame()
    result = FedCI(study, seed=seed).fit([Source("all", rows)])
    effects = [result.effect_posterior(split.test.frame(), "all") for split in splits]
    return _with_cost(score_posterior(effects, splits, result.ate()), result)


def local(splits: Sequence[Split], study: Study, seed: int = 0) -> Score:
    """Each source alone; errors pooled over sources, other figures averaged."""
    alone = [federated([split], study, seed) for split in splits]
    means = {name: float(np.mean([getattr(s, name) for s in alone])) for name in Score.__dataclass_fields__}
    return Score(**{**means, "pehe": float(np.sqrt(np.mean([s.pehe**2 for s in alone])))})


def _with_cost(score: Score, result: Result) -> Score:
    seconds = sum(result.outcome.seconds.values())
    return Score(**{**vars(score), "rounds": len(result.outcome.fit.rounds), "seconds": seconds})


def ridge_t_learner(splits: Sequence[Split]) -> Score:
    """Two ridge regressions on the combined rows, penalty by leave-one-out: the least any method must beat."""
    rows = combined([split.train for split in splits])
    arms = [_ridge(rows.x[rows.w == j], rows.y[rows.w == j]) for j in (0, 1)]
    return score_points([arms[1](split.test.x) - arms[0](split.test.x) for split in splits], splits)


def _ridge(x: np.ndarray, y: np.ndarray):
    """Ridge on centred, scaled columns; the penalty with the least leave-one-out error of a grid."""
    centre, scale, level = x.mean(0), x.std(0) + 1e-12, y.mean()
    u, s, vt = np.linalg.svd((x - centre) / scale, full_matrices=False)
    shares = [s**2 / (s**2 + penalty) for penalty in np.logspace(-2, 4, 25)]
    coefficients = u.T @ (y - level)

    def left_out(share):
        leverage = np.sum(u**2 * share, 1) + 1.0 / len(y)
        return np.mean(((y - level - u @ (share * coefficients)) / (1.0 - np.minimum(leverage, 0.999))) ** 2)

    best = min(shares, key=left_out)
    beta = vt.T @ (best * coefficients / s)
    return lambda new: level + (new - centre) / scale @ beta
