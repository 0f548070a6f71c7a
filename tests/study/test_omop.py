"""What a study may say of a common data model, in its file and its hash; and what it may not."""

from __future__ import annotations

import pytest

from fedci.errors import StudyError
from fedci.study.study import Study
from support.studies import small

FEATURES = {"a": {"table": "person", "take": "age"},
            "b": {"table": "measurement", "concepts": [3004249], "take": "last", "window": [-30, 0]}}
OMOP = {"target": 1, "comparator": 2, "outcome": 3, "window": [1, 90], "features": FEATURES}


def test_the_file_says_all_of_it_and_the_hash_is_of_it():
    study = small(source={"omop": OMOP})
    assert Study.from_toml(study.to_toml()) == study
    assert study.hash() == Study.from_toml(study.to_toml()).hash() != small().hash()
    assert small(source={"omop": OMOP | {"window": [1, 91]}}).hash() != study.hash()


@pytest.mark.parametrize(("changes", "told"), [
    ({"target": 2}, "same cohort"), ({"target": "1"}, "target"), ({"window": [5, 1]}, "first day, last day"),
    ({"features": {"a": FEATURES["a"]}}, "the study reads 'b'"),
    ({"features": FEATURES | {"a": {"table": "person", "take": "last", "concepts": [1]}}}, "cannot take"),
    ({"features": FEATURES | {"a": {"table": "drug", "take": "mean", "concepts": [1]}}}, "holds no numbers"),
    ({"features": FEATURES | {"a": {"table": "drug"}}}, "concepts is empty"),
    ({"features": FEATURES | {"a": {"table": "notes", "concepts": [1]}}}, "table"),
    ({"features": FEATURES | {"a": {"table": "person", "tkae": "age"}}}, "did you mean 'take'"),
    ({"outcomes": 3}, "'omop.outcomes', did you mean 'outcome'"), ({"outcome": "3"}, "omop.outcome"),
    ({"outcome": FEATURES["b"] | {"window": [9, 1]}}, "'omop.outcome': 'window': needs .first day, last day"),
    ({"outcome": FEATURES["b"] | {"takes": "last"}}, "unknown key 'takes', did you mean 'take'"),
    ({"cdm": "cdm; DROP TABLE person"}, "cdm")])
def test_what_does_not_fit_is_told(changes, told):
    with pytest.raises(StudyError, match=told):
        small(source={"omop": OMOP | changes})


def test_a_query_or_a_model_not_both():
    for source in ({}, {"omop": OMOP, "query": "SELECT 1"}):
        with pytest.raises(StudyError, match="one of the two"):
            small(source=source)
