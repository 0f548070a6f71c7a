"""A site's table: the same arrays from every form of it, and mistakes told without a cell.

tests/across/test_bad_inputs.py holds the table of mistakes; here stands what should work, and properties.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedci.cli import commands
from fedci.errors import DataError, FedciError, SizeError, SourceError, StudyError, UsageError
from fedci.study.study import Study
from fedci.table.table import Source, Table, design_columns, design_from, design_matrix

ROWS = 60
COVARIATES = {"age": {"range": [0, 120]}, "sex": "binary", "bmi": "numeric",
              "stage": {"type": "categorical", "levels": ["I", "II", "III"]}}


def study(**changes) -> Study:
    good = {"treatment": "w", "outcome": "y", "covariates": COVARIATES, "policy": "simulation"}
    return Study(**good | changes)


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({
        "pid": [f"{i:07d}" for i in range(ROWS)], "w": np.arange(ROWS) % 2, "y": rng.normal(size=ROWS),
        "stage": rng.choice(["I", "II", "III"], ROWS), "age": rng.uniform(20, 90, ROWS),
        "bmi": rng.normal(25, 3, ROWS), "sex": rng.integers(0, 2, ROWS), "not in the study": "anything"})


def read(data, **changes):
    return Source("lyon", data).read(study(**changes))


def told(data, kind=DataError, **changes) -> str:
    with pytest.raises(kind) as problem:
        read(data, **changes)
    assert type(problem.value) is kind
    return problem.value.message


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


def as_csv(frame, path, **options):
    frame.to_csv(path, index=False, **options)
    return path


def as_parquet(frame, path):
    frame.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


FORMS = {
    "CSV": as_csv,
    "CSV by its path's text": lambda frame, path: str(as_csv(frame, path)),
    "CSV with a byte-order mark": lambda frame, path: as_csv(frame, path, encoding="utf-8-sig"),
    "CSV with Windows lines": lambda frame, path: as_csv(frame, path, lineterminator="\r\n"),
    "CSV all quoted": lambda frame, path: as_csv(frame, path, quoting=1),
    "CSV with lines within cells": lambda frame, path: as_csv(frame.assign(note='two\n"lines", said'), path),
    "CSV with blanks": lambda frame, path: as_csv(frame.assign(age=" " + frame["age"].map(repr)), path),
    "CSV with an upper-case ending": lambda frame, path: as_csv(frame, path.with_suffix(".CSV")),
    "Parquet": as_parquet,
    "Parquet with categories": lambda frame, path: as_parquet(frame.astype({"stage": "category"}), path),
    "other column order": lambda frame, path: frame[frame.columns[::-1]],
    "truth values": lambda frame, path: frame.astype({"w": bool, "sex": bool}),
    "CSV of truth values": lambda frame, path: as_csv(frame.astype({"w": bool, "sex": bool}), path),
    "nullable types": lambda frame, path: frame.convert_dtypes(),
    "objects": lambda frame, path: frame.astype(object),
    "text": lambda frame, path: frame.astype({"age": str, "w": str}),
    "another index": lambda frame, path: frame.set_index("pid", drop=False),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_every_form_gives_the_same_table(frame, tmp_path, form):
    table, other = read(frame, ids="pid"), read(form(frame, tmp_path / "lyon.csv"), ids="pid")
    for name in ("x", "w", "y"):
        np.testing.assert_array_equal(getattr(table, name), getattr(other, name))
    assert (other.columns, other.kinds, other.warnings) == (table.columns, table.kinds, table.warnings)
    assert list(other.ids["pid"]) == list(frame["pid"]), "leading zeros are part of an id"


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


def test_what_is_no_table(frame):
    assert "list" in told([1, 2], SourceError)
    assert "dates" in told(frame.assign(age=pd.Timestamp("2020-02-02")))
    assert "list" in told(frame.assign(stage=[[1]] * ROWS))
    assert "SECRETCELL" not in told(frame.assign(age=[{"SECRETCELL": 1}] * ROWS))
    assert "dictionary" in told(frame.assign(age=pd.cut(frame["age"], 3)))
    assert "more than once" in told(pd.concat([frame, frame["age"]], axis=1), SourceError)


def test_a_first_line_that_is_no_header_is_not_shown(frame, tmp_path):
    """Names near to the study's are suggested only from a header that has some of the study's names."""
    path = tmp_path / "lyon.csv"
    path.write_text("ages,stages\n1,2\n")
    message = told(path, covariates=["age"])
    assert "ages" not in message
    assert "header" in message


# ── new patients ────────────────────────────────────────────────────────────────────────────────────────────


def test_new_patients_are_coded_as_the_table_was(frame):
    x, missing = design_matrix(study(), frame.drop(columns=["w", "y"]), "lyon")
    np.testing.assert_array_equal(x, read(frame).x)
    np.testing.assert_array_equal(missing, read(frame).missing)
    assert design_from(study(), frame.iloc[:1], "lyon")[0].shape == (1, 5)
    assert design_from(study(), frame.iloc[:0], "lyon")[0].shape == (0, 5)


def test_new_patients_may_be_an_array_in_the_studys_order(frame):
    numeric = study(covariates=["age", "bmi"])
    X = frame[["age", "bmi"]].to_numpy()
    np.testing.assert_array_equal(design_from(numeric, X, "lyon")[0], X)
    np.testing.assert_array_equal(design_from(numeric, frame[["bmi", "age"]], "lyon")[0], X)


@pytest.mark.parametrize("X, fragment", [
    (np.ones(2), "(2,)"), (np.ones((2, 3)), "(2, 3)"), ([["a", "b"]], "numbers"), (None, "shape ()")])
def test_an_array_that_does_not_fit(X, fragment):
    with pytest.raises(UsageError) as problem:
        design_from(study(covariates=["age", "bmi"]), X, "lyon")
    assert fragment in problem.value.message


def test_an_array_cannot_say_levels():
    with pytest.raises(UsageError, match="'stage'"):
        design_from(study(), np.ones((2, 4)), "lyon")


def test_new_patients_meet_the_same_checks(frame):
    with pytest.raises(DataError, match=r"site 'new': column 'age' .* range \[0, 120\]"):
        design_from(study(), frame.assign(age=121), "new")
    with pytest.raises(DataError, match="'stage' has 60 missing values"):
        design_from(study(), frame.assign(stage=None), "new")


# ── properties ──────────────────────────────────────────────────────────────────────────────────────────────

SMALL = Study(treatment="w", outcome="y", ids="i", policy="simulation", missing="impute",
              covariates={"a": "numeric", "s": {"type": "categorical", "levels": ["A", "B"]}})
HEADER = b"w,y,a,s,i\n"
GOOD = HEADER + b"1,0.5,3,A,01\n0,1.5,4,B,02\n1,2,5,A,03\n"
cells = st.sampled_from(
    [b"0", b"1", b"1.5", b"A", b"B", b"", b"NA", b'"A"', b'"', b"1,5", b"\xe9", b"inf", b"-1e9", b"\r"])
lines = st.lists(cells, min_size=4, max_size=6).map(b",".join)
likely = st.lists(lines, max_size=8).map(lambda rows: HEADER + b"\n".join(rows))
spliced = st.builds(lambda place, junk: GOOD[:place] + junk + GOOD[place:],
                    st.integers(0, len(GOOD)), st.binary(max_size=6))


def outcome(path, asked: Study) -> Table | FedciError:
    """Anything else that is raised fails the test."""
    try:
        return Source("lyon", path).read(asked)
    except FedciError as error:
        return error


def is_sound(outcome: Table | FedciError) -> bool:
    if isinstance(outcome, FedciError):
        return outcome.exit_code == 2 and "\n" not in outcome.message
    known = outcome.x[~outcome.missing]
    return set(outcome.w) == {0, 1} and bool(np.isfinite(known).all() and np.isfinite(outcome.y).all())


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=80) | likely | spliced, suffix=st.sampled_from([".csv", ".csv", ".parquet"]))
def test_any_bytes_are_a_table_or_one_of_our_errors(data, suffix, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"fuzz{suffix}"
    path.write_bytes(data)
    assert is_sound(outcome(path, SMALL))


def test_flipped_bytes_of_a_parquet_file(frame, tmp_path):
    path = as_parquet(frame, tmp_path / "lyon.csv")
    whole = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1:])
        assert is_sound(outcome(path, study()))


@settings(max_examples=200, deadline=None)
@given(value=st.floats(-1e70, 1e70), form=st.sampled_from(["{!r}", "{:e}", "{:.3f}", " {!r} ", "+{:.17g}"]))
def test_a_number_is_read_as_python_reads_it(value, form):
    text = form.format(abs(value) if form.startswith("+") else value)
    frame = pd.DataFrame({"w": [0, 1], "y": ["0", text], "a": [text, "."], "s": "A", "i": "0"})
    if float(text) == 0:
        frame["y"] = ["1", text]
    table = Source("lyon", frame).read(SMALL)
    assert table.x[0, 0] == float(text)
    assert table.y[1] == float(text)


@settings(max_examples=200, deadline=None)
@given(text=st.text(min_size=1, max_size=8))
def test_text_is_a_number_missing_or_an_error_that_does_not_show_it(text):
    frame = pd.DataFrame({"w": [0, 1], "y": [0.0, 1.0], "a": ["1", f"§{text}§"], "s": "A", "i": "0"})
    with pytest.raises(DataError) as problem:
        Source("lyon", frame).read(SMALL)
    assert "§" not in problem.value.message
    assert "row 2" in problem.value.message


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
        "ok: site 'lyon': rows 60, treated 30, untreated 30, design columns 5, values to impute 1",
        "warning: site 'lyon': column 'sex' is constant here"]
    assert "site 'oslo'" in check("--site", "oslo")[1]


def test_check_tells_a_mistake(check):
    code, out, err = check("--site", "Os lo")
    assert (code, out, err.count("\n")) == (2, "", 1)
