"""BART and BCF of outcomes that are 0 and 1, by stochtree with a probit link: effects are differences of risks."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedci.benchmark.learners.bayesian_trees import BCF_CHAINS, SAMPLER
from fedci.benchmark.learners.common import propensity
from fedci.benchmark.learners.estimate import Estimate, Predictor, of_draws


def probit_bart(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """One BART of the outcome on (x, w), asked twice (S-learner)."""
    from stochtree import BARTModel

    model = BARTModel()
    model.sample(X_train=np.column_stack([x, w]), y_train=y.astype(float), **SAMPLER, general_params=_probit(seed))

    def predict(new: np.ndarray) -> Estimate:
        return of_draws(*(model.predict(X=np.column_stack([new, np.full(len(new), j)]), terms="y_hat",
                                        scale="probability") for j in (0, 1)))

    return predict


def probit_bcf(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """Bayesian causal forest; the prognostic forest also sees the estimated treatment probability."""
    from stochtree import BCFModel

    treated = propensity(x, w, seed)
    model = BCFModel()
    model.sample(X_train=x, Z_train=w.astype(float), y_train=y.astype(float), propensity_train=treated(x), **SAMPLER,
                 general_params=_probit(seed))

    def predict(new: np.ndarray) -> Estimate:
        asked = {"X": new, "propensity": treated(new), "terms": "y_hat", "scale": "probability"}
        return of_draws(*(model.predict(Z=np.full(len(new), float(j)), **asked) for j in (0, 1)))

    return predict


def _probit(seed: int) -> dict[str, Any]:
    from stochtree import OutcomeModel

    return {"random_seed": seed, "num_chains": BCF_CHAINS, "num_threads": 1,
            "outcome_model": OutcomeModel(outcome="binary", link="probit")}
