"""BART, ps-BART and BCF by stochtree: posterior draws, so every output has an interval.

Nothing is tuned: priors and numbers of trees are the package's (200; BCF 250 + 100). Several chains from the root,
because one chain on an arm of 20 rows now and then runs into noise variance 0 (stochtree's prior of it is improper)
and stays there; long burn-in, because few proposals split on the treatment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedci.benchmark.learners.common import propensity
from fedci.benchmark.learners.estimate import Estimate, Predictor, of_draws

SAMPLER = {"num_gfr": 0, "num_burnin": 500, "num_mcmc": 250}
BART_CHAINS, BCF_CHAINS = 4, 2
LEAF = 5
"""The package's least rows of a leaf; it refuses data with no room for two leaves and one row."""


def bart(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """One BART of the outcome on (x, w), asked twice (S-learner): as Hill (2011) and the paper's baseline."""
    model = _sampled(np.column_stack([x, w]), y, seed)
    return lambda new: of_draws(*(model(np.column_stack([new, np.full(len(new), j)])) for j in (0, 1)))


def bart_t(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """One BART in each arm (T-learner); their posteriors are independent, so any pairing of draws will do."""
    arms = [_sampled(x[w == j], y[w == j], seed + j) for j in (0, 1)]
    return lambda new: of_draws(*(arm(new) for arm in arms))


def ps_bart(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """One BART of the outcome on (x, π̂(x), w), asked twice: effect = f(x, π̂, 1) − f(x, π̂, 0).

    With π̂ among the covariates the prior of the trees does not shrink confounding away (Hahn, Murray, Carvalho 2020).
    """
    treated = propensity(x, w, seed)

    def scored(people: np.ndarray) -> np.ndarray:
        return np.column_stack([people, treated(people)])

    predict = bart(scored(x), w, y, seed)
    return lambda new: predict(scored(new))


def bcf(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """Bayesian causal forest; the prognostic forest also sees the estimated treatment probability."""
    from stochtree import BCFModel

    treated = propensity(x, w, seed)
    model = BCFModel()
    model.sample(X_train=x, Z_train=w.astype(float), y_train=y, propensity_train=treated(x), **SAMPLER,
                 general_params=_general(seed, BCF_CHAINS))

    def predict(new: np.ndarray) -> Estimate:
        asked = {"X": new, "propensity": treated(new), "terms": "y_hat"}
        return of_draws(*(model.predict(Z=np.full(len(new), float(j)), **asked) for j in (0, 1)))

    return predict


def _sampled(x: np.ndarray, y: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Draws [p, draws] of E[y | x] for new x."""
    from stochtree import BARTModel

    model = BARTModel()
    leaf = max(1, min(LEAF, (len(y) - 1) // 2))
    model.sample(X_train=x, y_train=y, **SAMPLER, general_params=_general(seed, BART_CHAINS),
                 mean_forest_params={"min_samples_leaf": leaf})
    return lambda new: model.predict(X=new, terms="y_hat")


def _general(seed: int, chains: int) -> dict[str, Any]:
    return {"random_seed": seed, "num_chains": chains, "num_threads": 1}
