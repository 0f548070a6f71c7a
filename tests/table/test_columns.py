"""Columns from every form of a table are the same cells; what is no table is told without one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedci.errors import FedciError, SourceError
from fedci.study.study import Study
from fedci.table.columns import read_columns
from fedci.table.source import Source
from fedci.table.table import Table
from support.tables import ROWS, SMALL, as_csv, read, study, told


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


@pytest.mark.parametrize(("change", "fragment"), [
    (lambda text: text.upper(), "it writes 'W', and the study 'w'"),
    (lambda text: "Report of the ward\n" + text, "Is there a header in the first line"),
    (lambda text: text.replace("age,bmi", "Age,BMI", 1), "columns 'age', 'bmi' are missing, did you mean 'Age'?")])
def test_a_header_of_other_names_is_told_with_its_remedy(frame, tmp_path, change, fragment):
    path = as_csv(frame[["w", "y", "age", "bmi"]], tmp_path / "lyon.csv")
    path.write_text(change(path.read_text()))
    message = told(path, covariates=["age", "bmi"])
    assert fragment in message
    assert "columns.toml" in message


@pytest.mark.parametrize(("change", "fragment"), [
    (lambda text: text.replace(",", ";"), "semicolons"), (lambda text: text.replace(",", "\t"), "tabs"),
    (lambda text: "Report of the ward\n" + text, "line 2 has 4 cells, the header has 1. Remove what stands above"),
    (lambda text: "sep=,\n" + text, "line 2 has 4 cells, the header has 2. Remove what stands above")])
def test_all_columns_of_a_file_that_is_no_table(frame, tmp_path, change, fragment):
    """As `fedci init` reads it, which knows no names yet."""
    path = as_csv(frame[["w", "y", "age", "bmi"]], tmp_path / "lyon.csv")
    assert list(read_columns(path, None, 10**9)) == ["w", "y", "age", "bmi"]
    path.write_text(change(path.read_text()))
    with pytest.raises(SourceError, match=fragment):
        read_columns(path, None, 10**9)


# ── properties ──────────────────────────────────────────────────────────────────────────────────────────────
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
