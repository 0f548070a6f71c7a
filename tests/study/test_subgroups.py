"""Subgroups as a study names them: the same however written, bound by the hash, and who is in them."""

import numpy as np
import pytest

from fedci import Study
from fedci.errors import StudyError
from fedci.study.subgroups import names_of
from tests_support import study

TOLD = {"enabled": True}
STAGED = {"age": {}, "sex": "binary", "stage": {"type": "categorical", "levels": ["I", "II", "III"]}}
ALL = {"sex": "sex", "age": {"by": "age", "cuts": [60, 75]}, "stage": {"by": "stage"},
       "frail": {"where": {"age": {"from": 75}, "stage": ["II", "III"], "sex": 1}}}


def named(**subgroups) -> Study:
    return study(covariates=STAGED, diagnostics=TOLD, subgroups=subgroups)


def test_a_study_without_subgroups_has_the_hash_it_had():
    assert study(subgroups={}).hash() == study().hash() == (
        "378c16ece19e" + study().hash()[12:])
    assert named(sex="sex").hash() != named().hash() != named(sex="sex", age=ALL["age"]).hash()


def test_a_file_holds_what_python_says():
    plan = named(**ALL)
    again = Study.from_toml(plan.to_toml())
    assert again == plan
    assert again.hash() == plan.hash()
    assert Study.model_validate(plan.model_dump()).hash() == plan.hash()


def test_groups_partition_who_is_known():
    """Rows: age, sex, stage=II, stage=III. Somebody of unknown age is in no group of a definition that asks for it."""
    x = np.array([[59.9, 0, 0, 0], [60.0, 1, 1, 0], [80.0, 1, 0, 1], [80.0, 0, 0, 1], [np.nan, 1, 0, 1]])
    groups = named(**ALL).groups
    holds = np.stack([group.holds(x) for group in groups]).astype(int)
    assert names_of(groups) == ["sex = 0", "sex = 1", "age below 60", "age 60 to below 75", "age 75 and above",
                                "stage = I", "stage = II", "stage = III", "frail", "all others than frail"]
    np.testing.assert_array_equal(holds, [[1, 0, 0, 1, 0], [0, 1, 1, 0, 1],
                                          [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 0],
                                          [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1],
                                          [0, 0, 1, 0, 0], [1, 1, 0, 1, 0]])


@pytest.mark.parametrize(("one", "words"), [
    ("agee", "is no covariate of the study (did you mean 'age'?)"),
    ("age", "'age' is numeric. Say where it is cut"),
    ({"by": "sex", "cuts": [1]}, "has levels: remove cuts"),
    ({"by": "age", "cuts": [75, 60]}, "cuts belong to `by`, and rise"),
    ({}, "a subgroup is said by"),
    ({"by": "sex", "where": {"sex": 1}}, "one of the two"),
    ({"where": {"age": 60}}, "'age' is numeric. Write age = { from = 60 }"),
    ({"where": {"stage": "IV"}}, "has no level 'IV'"),
    ({"where": {"stage": {"from": 1}}}, "'stage' is categorical. Write stage ="),
    ({"whom": "sex"}, "unknown key 'whom'"),
    ({"by": "age", "cuts": list(range(30))}, "31 groups, of at most 24"),
])
def test_what_fits_no_column_is_refused_in_words(one, words):
    with pytest.raises(StudyError) as problem:
        named(it=one)
    assert words.split(" (did")[0] in str(problem.value)


def test_they_are_told_with_the_diagnostics_and_without_noise():
    with pytest.raises(StudyError, match="enabled = true"):
        study(subgroups={"sex": "sex"})
    with pytest.raises(StudyError, match="sums have noise"):
        study(subgroups={"sex": "sex"}, diagnostics=TOLD, policy="standard", preset="few")
