"""Where columns come from: through the study's codings and the site's own; and what may not be told twice."""

import pytest

from fedci import Source
from fedci.errors import DataError, DisclosureError, FedciError
from fedci.study import origin
from fedci.study.coding import Coding
from fedci.study.origin import QUERY, Origin
from fedci.table.problems import problems
from tests_support import STANDARD_OTHERWISE, frame, study

NOISED = {"policy": {**STANDARD_OTHERWISE, "sum_noise": 0.5}, "preset": "few"}


def origins(own=None, query=None, **changes):
    return origin.of_study(study(**changes), own or {}, query)


def test_a_name_is_no_origin_and_a_coding_is():
    assert origins() == {}
    found = origins(covariates={"age": {"label": "Age", "unit": "years"}, "mass": {"column": "bmi"},
                                "twice": {"column": "sex", "factor": 2}, "one": {"columns": ["a", "b"],
                                                                                 "combine": "sum"}})
    assert found["mass"] == Origin(("bmi",))
    assert found["twice"].columns == ("sex",)
    assert found["one"].columns == ("a", "b")
    assert found["one"].name == "a, b"
    assert found["twice"].how
    assert found["one"].how
    assert "age" not in found
    other = origins(covariates={"one": {"columns": ["b", "a"], "combine": "sum"}})["one"]
    assert other.how != found["one"].how


def test_the_sites_own_names_are_followed_to_its_table():
    found = origins({"bmi": Coding(column="BMI_V2"), "sex": Coding(column="S", values={"F": 1, "M": 0})},
                    covariates={"mass": {"column": "bmi"}, "sex": {"type": "binary"}})
    assert found["mass"] == Origin(("BMI_V2",))
    assert found["sex"].columns == ("S",)
    assert found["sex"].how


def test_a_query_of_the_study_makes_all_columns_of_one_kind():
    one, other = (origins(query=text) for text in ("SELECT 1", "SELECT 2"))
    assert QUERY in one["age"].columns
    assert one["age"].name == "age"
    assert one["age"].how != other["age"].how


def read(**changes):
    """The table; or what `fedci check` says of it first."""
    agreed, source = study(**changes), Source("a", frame(60, 0))
    if told := problems(agreed, source):
        with pytest.raises(FedciError) as refused:
            source.read(agreed)
        assert str(refused.value) in map(str, told)
        raise refused.value
    source.read(agreed)


def test_with_noise_on_sums_a_column_is_read_once():
    """Twenty copies of one column would be told with twenty noises."""
    twice = {"age": {}, "bmi": {}, "old": {"column": "age", "cuts": [60.0], "type": "categorical"}}
    read(covariates=twice)
    read(**NOISED)
    with pytest.raises(DisclosureError, match="column 'age' of the table is read for several columns"):
        read(**NOISED, covariates=twice)
    with pytest.raises(DisclosureError, match="'sex' of the table is read for several"):
        read(**NOISED, covariates={"age": {}, "x": {"columns": ["bmi", "sex"], "combine": "sum"},
                                   "sex": {"type": "binary"}})


def test_with_noise_on_sums_two_values_are_called_binary():
    with pytest.raises(DataError, match="'sex' holds two values and is called numeric"):
        read(**NOISED, covariates=["age", "sex"])
    read(covariates=["age", "sex"])


@pytest.mark.parametrize("more", [
    {"covariates": {"age": {}, "z": {"column": "y", "factor": 2}}},
    {"covariates": {"age": {}, "bmi": {}, "sex": {"type": "binary"}}, "coding": {"z": {"column": "y"}},
     "diagnostics": {"negative_control": "z"}}])
def test_an_outcome_that_noise_hides_is_read_for_nothing_else(more):
    with pytest.raises(DisclosureError, match=r"the (outcome|negative control) '.' is made of columns that other"):
        read(policy=STANDARD_OTHERWISE, **more)
    read(policy="simulation", **more)  # nothing hides it
    change = {"name": "change", "columns": ["y", "bmi"], "combine": "difference"}
    read(policy=STANDARD_OTHERWISE, outcome=change)  # of a change the baseline may be known
