"""A site's table: the same arrays from every form of it, and mistakes told without a cell.

tests/across/test_bad_inputs.py holds the table of mistakes; here stands what should work, and properties.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedci.cli import commands
from fedci.table.design import design_columns
from support.tables import COVARIATES, ROWS, as_csv, read, study, told


# ── what should work ────────────────────────────────────────────────────────────────────────────────────────
def test_the_table_of_a_frame(frame):
    table = read(frame)
    assert table.columns == ("age", "sex", "bmi", "stage=II", "stage=III")
    assert table.kinds == ("numeric", "binary", "numeric", "level", "level")
    assert (table.columns, table.kinds) == design_columns(study())
    assert (table.site, table.rows, table.treated) == ("lyon", ROWS, ROWS // 2)
    assert (table.ids, table.warnings) == (None, ())
    np.testing.assert_array_equal(table.x[:, 0], frame["age"])
    np.testing.assert_array_equal(table.x[:, 3], frame["stage"] == "II")
    np.testing.assert_array_equal(table.x[:, 4], frame["stage"] == "III")
    np.testing.assert_array_equal(table.w, frame["w"])
    np.testing.assert_array_equal(table.y, frame["y"])
    assert {array.dtype for array in (table.x, table.w, table.y)} == {np.dtype(float)}
    assert table.missing.dtype == bool
    assert not table.missing.any()


def test_levels_coded_as_numbers(frame, tmp_path):
    covariates = {"stage": {"type": "categorical", "levels": [1, 2, 3]}}
    coded = frame.assign(stage=frame["stage"].map({"I": 1, "II": 2, "III": 3}))
    for data in (coded, coded.astype({"stage": float}), as_csv(coded, tmp_path / "a.csv")):
        np.testing.assert_array_equal(read(data, covariates=covariates).x, read(frame).x[:, 3:])


def test_a_level_may_be_a_word_for_missing(frame):
    levels = {"stage": {"type": "categorical", "levels": ["none", "I", "II", "III"]}}
    table = read(frame.assign(stage=["none", *frame["stage"][1:]]), covariates=levels)
    assert not table.missing.any()
    assert table.x[0].sum() == 0


@pytest.mark.parametrize("word", ["", ".", "NA", "n/a", "NaN", "NULL", None, np.nan, pd.NA], ids=repr)
@pytest.mark.parametrize("column, designed", [("age", [0]), ("sex", [1]), ("stage", [3, 4])])
def test_missing_values_are_kept_where_the_study_imputes(frame, tmp_path, word, column, designed):
    frame = frame.astype(object)
    frame.loc[[2, 5], column] = word
    for data in (frame, as_csv(frame, tmp_path / "lyon.csv")):
        table = read(data, missing="impute")
        expected = [[row, d] for row in (2, 5) for d in designed]
        np.testing.assert_array_equal(np.argwhere(table.missing), expected)
        np.testing.assert_array_equal(np.isnan(table.x), table.missing)
        assert told(data) == (f"site 'lyon': column '{column}' has 2 missing values; the study requires it. "
                              f"Drop the rows, or set missing = \"impute\" for '{column}'.")


def test_a_covariate_may_differ_from_the_study_about_missing_values(frame):
    frame.loc[3, "bmi"] = np.nan
    assert read(frame, covariates={**COVARIATES, "bmi": {"missing": "impute"}}).missing.sum() == 1
    assert "'bmi'" in told(frame, covariates={**COVARIATES, "bmi": {"missing": "refuse"}}, missing="impute")


# ── fedci check ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def check(frame, tmp_path, capsys):
    study(missing="impute").write(tmp_path / "study.toml")
    frame.loc[0, "age"] = np.nan
    as_csv(frame.assign(sex=1), tmp_path / "Lyon.csv")

    def run(*more: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            commands.main(["check", f"{tmp_path}/study.toml", f"{tmp_path}/Lyon.csv", *more])
        said = capsys.readouterr()
        return left.value.code, said.out, said.err
    return run


def test_check_counts_and_warns(check):
    code, out, err = check()
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == [
        "ok: site 'lyon': rows 60, treated 30, untreated 30, design columns 5, values to impute 1; one of 3 sites",
        "warning: site 'lyon': column 'sex' is constant here"]
    assert "site 'oslo'" in check("--site", "oslo")[1]


def test_check_tells_a_mistake(check):
    code, out, err = check("--site", "Os lo")
    assert (code, out, err.count("\n")) == (2, "", 1)
