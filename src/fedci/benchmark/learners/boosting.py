"""X-Learner and R-Learner by causalml, every stage an xgboost regression that tunes itself on the rows it is given.

Tuned by 5-fold cross-validation of the stage's own (weighted) squared error on its training rows: the number of rounds
(early stopping, at most 500), tree depth (1, 3) and λ (1, 10). So the outcome stages go by outcome error, and the
R-Learner's effect stage by the R-loss (Nie and Wager 2021). The learning rate stays at 0.1: it trades against the
rounds, and smaller rates measured no better. Not tuned: sampling of rows and columns, γ, α, least child weight.
Neither method has intervals for new people: causalml bootstraps only the rows it was fitted on.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np

from fedci.benchmark.learners.common import folds, propensity
from fedci.benchmark.learners.estimate import Estimate, Predictor

RATE, ROUNDS, PATIENCE, FOLDS = 0.1, 500, 20, 5
GRID = [{"learning_rate": RATE, "max_depth": depth, "reg_lambda": weight} for depth, weight in product((1, 3), (1, 10))]


def x_learner(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """Effects imputed in each arm with the other's outcome model, mixed by the treatment probability (Künzel 2019)."""
    from causalml.inference.meta import BaseXRegressor

    treated = propensity(x, w, seed)
    model = BaseXRegressor(learner=_regressor(seed))
    model.fit(x, w, y, p=treated(x))

    def predict(new: np.ndarray) -> Estimate:
        mu0, mu1 = model.models_mu_c[1].predict(new), model.models_mu_t[1].predict(new)
        return Estimate(cate=model.predict(new, p=treated(new))[:, 0], mu0=_double(mu0), mu1=_double(mu1))

    return predict


def r_learner(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """Cross-fitted residual on residual; outcomes from E[y|x] and e(x): μ₀ = m − eτ, μ₁ = m + (1 − e)τ.

    Sequential joblib: causalml otherwise starts a process per core for regressions of a few milliseconds.
    """
    import joblib
    from causalml.inference.meta import BaseRRegressor

    treated = propensity(x, w, seed)
    model = BaseRRegressor(outcome_learner=_regressor(seed), effect_learner=_regressor(seed), n_fold=folds(w),
                           random_state=seed)
    with joblib.parallel_config(backend="sequential"):
        model.fit(x, w, y, p=treated(x), verbose=False)

    def predict(new: np.ndarray) -> Estimate:
        share = treated(new)
        effect, outcome, _ = model.predict(new, p=share, return_components=True)
        mu0 = outcome - share * effect[:, 0]
        return Estimate(cate=effect[:, 0], mu0=mu0, mu1=mu0 + effect[:, 0])

    return predict


def _regressor(seed: int) -> Any:
    return _tuned_class()(n_jobs=1, random_state=seed)


@cache
def _tuned_class() -> type:
    """An XGBRegressor that looks for its own options whenever it is fitted; a class, because causalml copies it."""
    import xgboost

    class TunedRegressor(xgboost.XGBRegressor):
        def fit(self, X: np.ndarray, y: np.ndarray, *, sample_weight: np.ndarray | None = None) -> Any:
            rows = xgboost.DMatrix(X, label=y, weight=sample_weight, nthread=1)
            self.set_params(**_best(rows, self.random_state))
            return super().fit(X, y, sample_weight=sample_weight)

    return TunedRegressor


def _best(rows: Any, seed: int) -> dict[str, Any]:
    """The options of least cross-validated error; ties go to the simpler trees, which come first."""
    import xgboost
    from sklearn.model_selection import KFold

    n = rows.num_row()
    split = list(KFold(min(FOLDS, n), shuffle=True, random_state=seed).split(np.empty(n)))

    def error(options: dict[str, Any]) -> tuple[float, int]:
        fixed = {"objective": "reg:squarederror", "nthread": 1, "seed": seed}
        curve = xgboost.cv(options | fixed, rows, num_boost_round=ROUNDS, folds=split, metrics="rmse",
                           early_stopping_rounds=PATIENCE, as_pandas=False, seed=seed)["test-rmse-mean"]
        return curve[-1], len(curve)

    tried = [(*error(options), options) for options in GRID]
    _, rounds, options = min(tried, key=lambda trial: trial[0])
    return options | {"n_estimators": rounds}


def _double(values: np.ndarray) -> np.ndarray:
    return values.astype(float)
