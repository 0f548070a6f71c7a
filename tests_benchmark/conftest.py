"""Data with a known effect, and each baseline fitted once on them for all tests."""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any package starts its threads

import numpy as np
import pytest

from fedci.benchmark.run.baselines import LEARNERS, Estimate, Learner, check_installed
from fedci.errors import UsageError

SEED = 3


class Rows(NamedTuple):
    x: np.ndarray
    w: np.ndarray
    y: np.ndarray
    effect: np.ndarray


def linear_rows(n: int, seed: int) -> Rows:
    """Five covariates, linear outcome, effect 3 + x₁, mild confounding by x₂, noise 0.5."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    w = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-0.5 * x[:, 1]))).astype(int)
    effect = 3.0 + x[:, 0]
    return Rows(x, w, 1.0 + x[:, 1] - 0.5 * x[:, 2] + w * effect + 0.5 * rng.normal(size=n), effect)


def hard_rows(n: int = 50, treated: int = 8, seed: int = 5) -> Rows:
    """What a small source has: 20 covariates, one constant, one binary and rare, and 8 people treated."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 20))
    x[:, 3], x[:, 4] = 1.0, x[:, 4] > 1.2
    w = rng.permutation(np.arange(n) < treated).astype(int)
    effect = 2.0 + x[:, 1]
    return Rows(x, w, x[:, 0] + w * effect + rng.normal(size=n), effect)


NEW = linear_rows(100, 1)
NEW_HARD = hard_rows(30, 4, 6)


@cache
def known(name: str) -> Estimate:
    """300 rows with a strong known effect, asked about 100 new people."""
    return LEARNERS[name].learn(*linear_rows(300, 0)[:3], SEED)(NEW.x)


@cache
def hard(name: str) -> tuple:
    """(predictor, its estimate for 30 new people) from 50 rows of which 8 are treated."""
    predict = LEARNERS[name].learn(*hard_rows()[:3], SEED)
    return predict, predict(NEW_HARD.x)


@pytest.fixture(params=list(LEARNERS))
def method(request) -> Learner:
    """Each baseline; skipped, with the line that brings it, where its package is missing."""
    found = LEARNERS[request.param]
    try:
        check_installed(found)
    except UsageError as missing:
        pytest.skip(missing.message)
    return found


@pytest.fixture(scope="session")
def fitted() -> dict:
    return {"known": known, "hard": hard, "rows": hard_rows()[:3], "new": NEW, "new_hard": NEW_HARD, "seed": SEED}
