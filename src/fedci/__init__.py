"""Causal effects from data that may not move.

    from fedci import FedCI, Source, Study

    study = Study(treatment="w", outcome="y", covariates=["age", "sex"], policy="simulation")
    result = FedCI(study, seed=0).fit([Source("lyon", "lyon.csv"), Source("oslo", "oslo.csv")])
    print(result.ate().mean, result.ate().interval(0.05))

Names are loaded when first used: reading a study does not wait for JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fedci.version import __version__

if TYPE_CHECKING:
    from fedci.data import Source
    from fedci.estimands import Effect
    from fedci.estimator import FedCI
    from fedci.result import Result
    from fedci.study import Covariate, Study

_HOMES = {"Study": "study", "Covariate": "study", "Source": "data", "FedCI": "estimator", "Result": "result",
          "Effect": "estimands"}

__all__ = ["Covariate", "Effect", "FedCI", "Result", "Source", "Study", "__version__"]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'fedci' has no attribute {name!r}")
    return getattr(import_module(f"fedci.{_HOMES[name]}"), name)


def __dir__():
    return __all__
