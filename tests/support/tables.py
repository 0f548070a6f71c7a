"""A study of one site and its table, read in every form."""

from __future__ import annotations

import pytest

from fedci.errors import DataError
from fedci.study.study import Study
from fedci.table.source import Source

ROWS = 60
COVARIATES = {"age": {"range": [0, 120]}, "sex": "binary", "bmi": "numeric",
              "stage": {"type": "categorical", "levels": ["I", "II", "III"]}}
SMALL = Study(treatment="w", outcome="y", ids="i", policy="simulation", missing="impute",
              covariates={"a": "numeric", "s": {"type": "categorical", "levels": ["A", "B"]}})


def study(**changes) -> Study:
    good = {"treatment": "w", "outcome": "y", "covariates": COVARIATES, "policy": "simulation"}
    return Study(**good | changes)


def read(data, **changes):
    return Source("lyon", data).read(study(**changes))


def told(data, kind=DataError, **changes) -> str:
    with pytest.raises(kind) as problem:
        read(data, **changes)
    assert type(problem.value) is kind
    return problem.value.message


def as_csv(frame, path, **options):
    frame.to_csv(path, index=False, **options)
    return path
