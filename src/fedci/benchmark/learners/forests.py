"""OrthoRF and CausalForestDML by econml, with the package's bootstrap-of-little-bags intervals.

The interval of the ATE is econml's: the root mean square of the people's standard errors, an upper bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedci.benchmark.learners.common import folds, standardiser, treatment_model
from fedci.benchmark.learners.estimate import Estimate, Predictor

ORTHO_TREES, CAUSAL_TREES = 200, 500
JOBS = 1
"""Cores for each forest: the grid runs its cells side by side."""
LEAF = 5
"""Half econml's default for OrthoRF: of 50 rows a tree sees 8, which leaves of 10 would never split."""


def ortho_forest(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int, once: bool = False) -> Predictor:
    """DMLOrthoForest: residuals by lasso and logistic regression, weighted anew for each person asked about.

    Both penalties are chosen once, by cross-validation on the training rows; econml's default chooses them again for
    every person, at three times the cost and no better. `once`: residuals taken once for all people
    (`global_residualization`). Not tuned: depth, subsample ratio, the local ridge.
    """
    from econml.orf import DMLOrthoForest
    from econml.sklearn_extensions.linear_model import WeightedLasso
    from sklearn.linear_model import LassoCV, LogisticRegression

    units = standardiser(x)
    penalty = LassoCV(cv=5, random_state=seed).fit(units(x), y).alpha_
    strength = float(np.ravel(treatment_model(units(x), w, seed).C_)[0])
    forest = DMLOrthoForest(n_trees=ORTHO_TREES, min_leaf_size=LEAF, discrete_treatment=True,
                            model_T=LogisticRegression(C=strength, max_iter=1000), model_Y=WeightedLasso(alpha=penalty),
                            global_residualization=once, n_jobs=JOBS,
                            backend="sequential" if JOBS == 1 else "loky", verbose=0, random_state=seed)
    forest.fit(y, w, X=units(x), inference="blb")
    return lambda new: _inferred(forest, units(new))


def ortho_forest_global(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """OrthoRF with residuals taken once: better on 250 rows of DATA-2, worse on 50 of either set."""
    return ortho_forest(x, w, y, seed, once=True)


def causal_forest(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """CausalForestDML with the package's 'auto' nuisances: the better of a linear and a forest model, cross-validated.

    Five folds for the cross-fitting instead of two, so that nuisances of 50 rows see 40. Not tuned: the forest itself.
    """
    return _causal_forest(x, w, y, n_estimators=CAUSAL_TREES, cv=folds(w), random_state=seed)


def causal_forest_as_it_is(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """CausalForestDML as the package has it, 100 trees and two folds: of many rows, in a third of the seconds."""
    return _causal_forest(x, w, y, random_state=seed)


def _causal_forest(x: np.ndarray, w: np.ndarray, y: np.ndarray, **settings: Any) -> Predictor:
    from econml.dml import CausalForestDML

    forest = CausalForestDML(discrete_treatment=True, n_jobs=JOBS, **settings)
    forest.fit(y, w, X=x, inference="blb")
    return lambda new: _inferred(forest, new)


def _inferred(forest: Any, x: np.ndarray) -> Estimate:
    inference = forest.effect_inference(x)
    low, high = inference.conf_int(alpha=0.05)
    average = inference.population_summary(alpha=0.05)
    first, last = average.conf_int_mean(alpha=0.05)
    ate = (float(average.mean_point), float(first), float(last))
    return Estimate(cate=inference.point_estimate, low=low, high=high, ate=ate)
