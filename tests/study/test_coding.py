"""Codings as data: the forms they may be written in, the study's file and hash, and what does not go together."""

from __future__ import annotations

import pytest

from fedci.errors import StudyError
from fedci.study.coding import Coding, coding_of, read_own, sources
from fedci.study.study import Study
from support.studies import small

FULL = {
    "treatment": {"name": "RXASP", "treated": "Y", "untreated": "N"},
    "outcome": {"name": "OCCODE", "type": "binary", "values": {1: 1, 2: 1, 3: 0, 4: 0}, "missing_codes": [0, 8, 9]},
    "covariates": {
        "AGE": {"range": [0, 120], "label": "age", "unit": "years"},
        "SEX": {"type": "binary", "values": {"M": 1, "F": 0}, "missing_codes": ["U", "9", 99]},
        "alert": {"type": "categorical", "column": "RCONSC", "values": {"F": "alert", "D": "drowsy", "U": "drowsy"}},
        "pressure": {"type": "categorical", "column": "RSBP", "cuts": [120, 160]},
        "deficits": {"columns": ["RDEF1", "RDEF2"], "combine": "sum", "values": {"Y": 1, "N": 0},
                     "missing_codes": "C"},
        "waited": {"date": "%d.%m.%Y", "since": "onset", "column": "admitted"},
        "temperature": {"factor": 0.5556, "offset": -17.78},
    },
    "policy": "simulation",
}


def test_the_file_says_all_of_it_and_the_hash_is_of_it():
    study = Study(**FULL)
    again = Study.from_toml(study.to_toml())
    assert again == study
    assert again.hash() == study.hash()
    for change in ({"values": {"M": 0, "F": 1}}, {"missing_codes": ["U"]}, {"label": "sex"}):
        other = Study(**FULL | {"covariates": FULL["covariates"] | {"SEX": FULL["covariates"]["SEX"] | change}})
        assert other.hash() != study.hash()


def test_a_study_without_codings_has_the_hash_that_it_had():
    """Of 0.1.0: recorded before there were codings."""
    assert small().hash() == small(coding={}).hash() == small(rows_without="refuse").hash()
    assert small(rows_without="drop").hash() != small().hash()


def test_levels_may_be_left_to_values_and_cuts():
    levels = {c.name: c.levels for c in Study(**FULL).covariates}
    assert levels["alert"] == ("alert", "drowsy")
    assert levels["pressure"] == ("<120", "120 to <160", ">=160")


def test_what_is_read_is_what_columns_are_made_from():
    assert Study(**FULL).reads() == ("RXASP", "OCCODE", "AGE", "SEX", "RCONSC", "RSBP", "RDEF1", "RDEF2", "admitted",
                                     "onset", "temperature")
    assert sources({}, ("a", "b", "a")) == ("a", "b")


def test_labels_and_units():
    study = Study(**FULL)
    assert (study.label("AGE"), study.unit("AGE")) == ("age", "years")
    assert (study.label("SEX"), study.unit("SEX")) == ("SEX", "")
    named = Study(**FULL | {"coding": {}, "covariates": {"stage": {
        "type": "categorical", "levels": ["A", "B"], "label": "stage of the tumour"}}})
    assert named.label("stage=B") == "stage of the tumour=B"


def test_codes_are_the_text_of_cells():
    coding = Coding(missing_codes=[99, 99.5, "U ", True])
    assert coding.missing_codes == ("99", "99.5", "U", "true")
    assert Coding(values={1: 1, "N": 0}).values == {"1": 1.0, "N": 0.0}
    assert Coding(merge={"other": [3, "4"]}).merge == {"other": ("3", "4")}


@pytest.mark.parametrize(("given", "told"), [
    ({"values": {"Y": 1}, "merge": {"a": ["b"]}}, "two readings of the same cells"),
    ({"untreated": "N"}, "untreated needs treated"),
    ({"values": {"Y": 1, "N": 0}, "missing_codes": ["N"]}, "the code 'N' stands twice"),
    ({"column": "a", "columns": ["b", "c"], "combine": "sum"}, "column and columns are both given"),
    ({"columns": ["b", "c"]}, "columns and combine go together"),
    ({"columns": ["a", "b", "c"], "combine": "ratio"}, "takes two columns, got 3"),
    ({"columns": ["a", "a"], "combine": "sum"}, "the same column twice"),
    ({"date": "%d.%m.%Y"}, "date and since go together"),
    ({"date": "%H:%M", "since": "x"}, "%Y, %m and %d once each"),
    ({"factor": 0}, "factor = 0"),
    ({"factor": "2"}, "'factor'"),
    ({"cuts": [2, 1]}, "cuts must rise"),
    ({"cuts": [1, 2], "labels": ["a", "b"]}, "make 3 parts, got 2 labels"),
    ({"values": {"a": "b"}, "factor": 2}, "words cannot be computed with"),
    ({"combine": "eval"}, "'combine'"),
    ({"formula": "a + b"}, "unknown key 'formula'"),
    ({"missing_codes": [str(k) for k in range(2000)]}, "at most 1000"),
    ({"columns": [f"c{k}" for k in range(60)], "combine": "sum"}, "at most 50"),
])
def test_what_does_not_go_together_is_told(given, told):
    with pytest.raises(StudyError) as problem:
        coding_of("covariates.x", given)
    assert told in problem.value.message
    assert problem.value.message.startswith("covariates.x: ")


@pytest.mark.parametrize(("changes", "told"), [
    ({"treatment": {"treated": "Y"}}, "treatment: the key 'name' is missing"),
    ({"treatment": {"name": "w", "treatd": "Y"}}, "did you mean 'treated'"),
    ({"coding": {"nobody": {"factor": 2}}}, "the study has no such column"),
    ({"coding": {"a": {"treated": "Y"}}}, "treated is a key of the treatment"),
    ({"coding": ["a"]}, "coding: got list"),
    ({"coding": {"a": "b"}}, "coding.a: got str"),
    ({"ids": "i", "coding": {"i": {"missing_codes": ["0"]}}}, "an id is read as it stands"),
    ({"covariates": {"a": {"factor": 2}}, "coding": {"a": {"factor": 3}}}, "has a coding already"),
    ({"rows_without": "skip"}, "'rows_without'"),
])
def test_the_study_says_where_a_coding_is_wrong(changes, told):
    with pytest.raises(StudyError) as problem:
        small(**changes)
    assert told in problem.value.message


def test_every_step_is_told_in_words():
    study = Study(**FULL)
    words = {name: coding.in_words(name) for name, coding in study.coding.items()}
    assert words["RXASP"] == "treated: Y; untreated: N"
    assert words["OCCODE"] == "missing: 0, 8, 9; 1 → 1, 2 → 1, 3 → 0, 4 → 0"
    assert words["deficits"] == "sum of RDEF1, RDEF2; missing: C; Y → 1, N → 0"
    assert words["waited"] == "from admitted; days since onset, written %d.%m.%Y"
    assert words["temperature"] == "× 0.5556; + -17.78"
    assert words["pressure"] == "from RSBP; cut into <120, 120 to <160, >=160"


def test_a_sites_own_file(tmp_path):
    path = tmp_path / "columns.toml"
    path.write_text('SEX = "geschlecht"\n[chol]\ncolumn = "chol_mg_dl"\nfactor = 0.02586\n')
    assert read_own(path) == {"SEX": Coding(column="geschlecht"), "chol": Coding(column="chol_mg_dl", factor=0.02586)}
    path.write_text("SEX = 3\n")
    with pytest.raises(StudyError, match="columns file .* got int"):
        read_own(path)
    with pytest.raises(StudyError, match="columns file .* cannot be read"):
        read_own(tmp_path / "none.toml")


def test_an_outcome_of_times_keeps_its_cuts_and_is_coded_by_its_event():
    """`cuts` of a time to an event are none of a coding; codes of the event, and of the time, are."""
    outcome = {"type": "survival", "time": "days", "event": "died", "horizons": [100], "cuts": [30, 100],
               "values": {"Y": 1, "N": 0}}
    study = small(outcome=outcome, coding={"days": {"missing_codes": [9999]}})
    assert study.coding["died"].values == {"Y": 1.0, "N": 0.0}
    assert set(study.columns) >= {"days", "died"}
    assert Study.from_toml(study.to_toml()) == study
    with pytest.raises(StudyError, match="clusters are not known yet"):
        small(outcome=outcome, cluster="c")
