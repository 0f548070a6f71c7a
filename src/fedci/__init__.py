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

from fedci.errors import (
    AwayError,
    DataError,
    DisclosureError,
    FedciError,
    FederationError,
    FloorError,
    HandshakeError,
    InputError,
    MessageError,
    NumericalError,
    OutputError,
    SiteError,
    SizeError,
    SourceError,
    StudyError,
    UsageError,
)
from fedci.version import __version__

_HOMES = {
    "Study": "study.study", "Covariate": "study.covariate", "Coding": "study.coding", "Omop": "study.omop",
    "Linkage": "study.sections", "Diagnosing": "study.sections",
    "SharedQuery": "study.sections", "Policy": "study.policy", "FitOptions": "study.options",
    "Source": "table.source", "Query": "table.database",
    "FedCI": "estimator", "Result": "result.result", "Effect": "effect", "Risks": "effect", "Rates": "effect",
    "Survival": "result.curves",
    "Diagnostics": "diagnostics.findings",
    "predict_file": "result.prediction", "compare": "result.comparison", "Comparison": "result.comparison",
    "release": "site.release", "Release": "site.release", "write_report": "report.page",
}
"""Where the other public names stand."""

__all__ = [
    "AwayError",
    "Coding",
    "Comparison",
    "Covariate",
    "DataError",
    "Diagnosing",
    "Diagnostics",
    "DisclosureError",
    "Effect",
    "FedCI",
    "FedciError",
    "FederationError",
    "FitOptions",
    "FloorError",
    "HandshakeError",
    "InputError",
    "Linkage",
    "MessageError",
    "NumericalError",
    "Omop",
    "OutputError",
    "Policy",
    "Query",
    "Rates",
    "Release",
    "Result",
    "Risks",
    "SharedQuery",
    "SiteError",
    "SizeError",
    "Source",
    "SourceError",
    "Study",
    "StudyError",
    "Survival",
    "UsageError",
    "__version__",
    "compare",
    "predict_file",
    "release",
    "write_report",
]

if TYPE_CHECKING:
    from fedci.diagnostics.findings import Diagnostics
    from fedci.effect import Effect, Rates, Risks
    from fedci.estimator import FedCI
    from fedci.report.page import write_report
    from fedci.result.comparison import Comparison, compare
    from fedci.result.curves import Survival
    from fedci.result.prediction import predict_file
    from fedci.result.result import Result
    from fedci.site.release import Release, release
    from fedci.study.coding import Coding
    from fedci.study.covariate import Covariate
    from fedci.study.omop import Omop
    from fedci.study.options import FitOptions
    from fedci.study.policy import Policy
    from fedci.study.sections import Diagnosing, Linkage, SharedQuery
    from fedci.study.study import Study
    from fedci.table.database import Query
    from fedci.table.source import Source
else:  # a checker that saw this would take any name for one of ours

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'fedci' has no attribute {name!r}")
        return getattr(import_module(f"fedci.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
