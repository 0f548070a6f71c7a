"""A site's table: the same arrays from every form of it, and mistakes told without a cell.

tests/across/test_bad_inputs.py holds the table of mistakes; here stands what should work, and properties.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tests_support
from fedci.cli import commands
from fedci.errors import SizeError, StudyError
from fedci.table.design import design_columns
from fedci.table.table import Source, problems
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


def test_a_single_arm_is_a_warning_where_it_is_allowed(frame):
    allowed = {"name": "simulation", "allow_single_arm": True}
    assert read(frame.assign(w=1), policy=allowed).warnings == (
        "site 'lyon': all rows are treated; effects here rest on the other sites",)
    assert "only untreated" in told(frame.assign(w=0))
    assert "needs 20" in told(frame.assign(w=[1] * 3 + [0] * (ROWS - 3)), SizeError, policy={"min_rows": 60})


def test_a_constant_covariate_is_a_warning_at_one_site(frame):
    table = read(frame.assign(bmi=0.1 + 0.2, stage="II"))
    assert table.warnings[0] == "site 'lyon': column 'bmi' is constant here"


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


def test_a_site_must_be_the_studys(frame):
    told(frame, StudyError, sites=["oslo"])
    with pytest.raises(StudyError, match="a-z"):
        Source("Lyon", frame)


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


@pytest.mark.parametrize("seed", range(4))
def test_no_problems_is_the_same_as_a_table_that_can_be_read(seed):
    """On tables damaged at random, `problems` is empty exactly where `Source.read` works."""
    rng = np.random.default_rng(seed)
    table = tests_support.frame(60, seed).astype(object)
    for _ in range(rng.integers(0, 3)):
        table.iloc[rng.integers(60), rng.integers(5)] = rng.choice(np.array([None, "x", 7], object))
    source = Source("a", table)
    try:
        source.read(tests_support.study())
        readable = True
    except Exception:
        readable = False
    assert (problems(tests_support.study(), source) == []) is readable
