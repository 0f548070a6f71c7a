"""The design of new people: coded as the table was, from a frame or an array, and held against the same checks."""

import numpy as np
import pytest

from fedci.errors import DataError, UsageError
from fedci.table.design import design_from, design_matrix
from support.tables import read, study


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


def test_one_person_is_a_table_of_one_row(frame):
    for person, way in ((frame.iloc[0], "to_frame"), (frame.iloc[0].to_dict(), r"pd.DataFrame\(\[X\]\)")):
        with pytest.raises(UsageError, match=way):
            design_from(study(), person, "lyon")


def test_new_patients_meet_the_same_checks(frame):
    with pytest.raises(DataError, match=r"site 'new': column 'age' .* range \[0, 120\]"):
        design_from(study(), frame.assign(age=121), "new")
    with pytest.raises(DataError, match="'stage' has 60 missing values"):
        design_from(study(), frame.assign(stage=None), "new")
