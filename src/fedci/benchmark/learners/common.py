"""What several baselines need: calls without a trace, filled and standardised covariates, treatment probabilities."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

CLIP = (0.05, 0.95)
"""Bounds of an estimated treatment probability: a logistic fit to 50 rows is never surer than that."""


@contextmanager
def contained(seed: int) -> Iterator[None]:
    """Run a package without its warnings and log lines, and give NumPy's global random state back untouched.

    The state is seeded inside, because `xgboost.cv` seeds and uses it whatever it is told.
    """
    state, disabled = np.random.get_state(), logging.root.manager.disable  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        np.random.set_state(state)  # noqa: NPY002


def standardiser(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Centre and scale as in `x`; a column that is constant in `x` is only centred."""
    centre, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 1e-12, scale, 1.0)
    return lambda new: (new - centre) / scale


def filler(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Missing values (NaN) become the column's mean in `x`, 0 if nobody there has a value, and a column more marks them
    where `x` has some: what FedCI does in a study that imputes, so that all methods see the same."""
    holes = np.isnan(x)
    means, marked = np.where(holes, 0.0, x).sum(0) / np.maximum((~holes).sum(0), 1), holes.any(0)

    def filled(new: np.ndarray) -> np.ndarray:
        missing = np.isnan(new)
        return np.column_stack([np.where(missing, means, new), missing[:, marked]])

    return filled


def folds(w: np.ndarray, most: int = 5) -> int:
    """How many folds leave people of both arms in each."""
    return max(2, min(most, int(np.bincount(w, minlength=2).min())))


def treatment_model(x: np.ndarray, w: np.ndarray, seed: int) -> Any:
    """Logistic regression of w on standardised x, its ridge penalty chosen by stratified cross-validation."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    split = StratifiedKFold(folds(w), shuffle=True, random_state=seed)
    return LogisticRegressionCV(Cs=np.logspace(-3, 1, 9), cv=split, scoring="neg_log_loss", max_iter=1000).fit(x, w)


def propensity(x: np.ndarray, w: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """P(w = 1 | x), clipped to `CLIP`."""
    units = standardiser(x)
    model = treatment_model(units(x), w, seed)
    return lambda new: np.clip(model.predict_proba(units(new))[:, 1], *CLIP)
