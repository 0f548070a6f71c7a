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
    from fedci.effect import Effect
    from fedci.estimator import FedCI
    from fedci.result.result import Result
    from fedci.study.study import Covariate, Study
    from fedci.table.table import Source

_HOMES = {"Study": "study.study", "Covariate": "study.study", "Source": "table.table", "FedCI": "estimator",
          "Result": "result.result", "Effect": "effect"}

__all__ = ["Covariate", "Effect", "FedCI", "Result", "Source", "Study", "__version__"]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'fedci' has no attribute {name!r}")
    return getattr(import_module(f"fedci.{_HOMES[name]}"), name)


def __dir__():
    return __all__
