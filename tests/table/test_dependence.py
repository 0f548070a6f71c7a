"""Columns that say the same as others are named; those that vary little or coincide by chance are warned of."""

import numpy as np
import pandas as pd

from support.tables import ROWS, read, told


def test_a_constant_covariate_is_a_warning_at_one_site(frame):
    table = read(frame.assign(bmi=0.1 + 0.2, stage="II"))
    assert table.warnings[0] == "site 'lyon': column 'bmi' is constant here"
    lacking = read(frame.assign(bmi=np.nan), missing="impute")
    assert lacking.warnings[0] == "site 'lyon': column 'bmi' has no value here"


def test_coinciding_indicators_are_a_warning(frame):
    """Also when the study calls them numeric: at a small site it happens by chance."""
    table = read(frame.assign(bmi=1 - frame["sex"]))
    assert table.warnings == ("site 'lyon': columns 'sex' and 'bmi' coincide here",)


def test_columns_that_others_determine_are_named(frame):
    covariates = ["age", "bmi", "a", "b"]
    rng = np.random.default_rng(0)
    frame["a"], frame["b"] = rng.normal(size=ROWS), 3.0 * frame["age"] - frame["bmi"] / 7
    assert "'age', 'bmi', 'b' depend" in told(frame, covariates=covariates)
    assert "'age' and 'b' say the same" in told(frame.assign(b=-5 * frame["age"]), covariates=covariates)
    near = frame["b"] + 1e-4 * rng.normal(size=ROWS)
    assert read(frame.assign(b=near), covariates=covariates).warnings == ()


def test_more_columns_than_rows_is_no_dependence(frame):
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 8)), columns=[f"x{i}" for i in range(8)])
    table = read(wide.assign(w=[0, 1] * 3, y=range(6)), covariates=list(wide))
    assert table.x.shape == (6, 8)
