"""The baselines, each through its own maintained package.

    learner("BART").learn(x, w, y, seed)  ─►  predict  ─►  predict(x_new)  ─►  Estimate

A learner sees the rows of one place: a source, all of them combined, or each in turn; modes are the runner's business.
The same seed gives the same numbers. A method that cannot fit raises.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedci.benchmark.learners.bayesian_trees import bart, bart_t, bcf, ps_bart
from fedci.benchmark.learners.boosting import r_learner, x_learner
from fedci.benchmark.learners.cevae import cevae
from fedci.benchmark.learners.common import contained, filler
from fedci.benchmark.learners.estimate import Estimate, Predictor
from fedci.benchmark.learners.forests import causal_forest, ortho_forest, ortho_forest_global
from fedci.benchmark.learners.regression import gp, gp_ard, ridge
from fedci.errors import UsageError
from fedci.study.options import nearest

__all__ = ["LEARNERS", "Estimate", "Learner", "Predictor", "check_installed", "learner"]

EXTRA = "pip install 'fedci[benchmark]'"
TORCH = "pip install torch pyro-ppl"
SEEDS = 2**31
"""Packages take 31-bit seeds."""

Learn = Callable[[np.ndarray, np.ndarray, np.ndarray, int], Predictor]


@dataclass(frozen=True)
class Learner:
    """One method and where it comes from."""

    name: str
    """As in the paper's tables."""
    packages: tuple[str, ...]
    """Import names, looked for before use."""
    install: str
    """The line that brings them."""
    slow: bool
    """Minutes rather than seconds on a few hundred rows: fewer replications."""
    learn: Learn
    """(x [n, d], w [n] of 0 and 1, y [n], seed) → predictor for new people."""


def _contained(learn: Learn) -> Learn:
    """`learn`, with plain arrays in, missing values filled, and no trace left: no output, no change of a global random
    state."""

    def learn_alone(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        seed, x = int(seed) % SEEDS, np.array(x, float)
        filled = filler(x)
        with contained(seed):
            predict = learn(filled(x), np.array(w, int), np.array(y, float), seed)

        def predict_alone(new: np.ndarray) -> Estimate:
            with contained(seed):
                return predict(filled(np.array(new, float)))

        return predict_alone

    return learn_alone


def _learner(name: str, packages: tuple[str, ...], learn: Learn, install: str = EXTRA, slow: bool = False) -> Learner:
    return Learner(name, packages, install, slow, _contained(learn))


LEARNERS: dict[str, Learner] = {learner.name: learner for learner in (
    _learner("BART", ("stochtree",), bart),
    _learner("X-Learner", ("causalml", "xgboost"), x_learner),
    _learner("R-Learner", ("causalml", "xgboost"), r_learner),
    _learner("OrthoRF", ("econml",), ortho_forest, slow=True),
    _learner("OrthoRF (global residuals)", ("econml",), ortho_forest_global, slow=True),
    _learner("CEVAE", ("torch", "pyro"), cevae, install=TORCH, slow=True),
    _learner("BART-T", ("stochtree",), bart_t),
    _learner("ps-BART", ("stochtree", "sklearn"), ps_bart),
    _learner("BCF", ("stochtree", "sklearn"), bcf),
    _learner("CausalForestDML", ("econml",), causal_forest),
    _learner("GP T-learner", ("sklearn",), gp),
    _learner("GP T-learner (ARD)", ("sklearn",), gp_ard),
    _learner("ridge T-learner", ("sklearn",), ridge),
)}
"""The paper's five first, then what a user would pick today."""


def learner(name: str) -> Learner:
    """By name."""
    if name not in LEARNERS:
        raise UsageError(f"no method {name!r}{nearest(name, LEARNERS)} Known: {', '.join(LEARNERS)}.")
    return LEARNERS[name]


def check_installed(learner: Learner) -> None:
    """Refuse a method whose package is missing, with the line that brings it."""
    missing = [name for name in learner.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{learner.name} needs {' and '.join(missing)}, not installed here: {learner.install}")
