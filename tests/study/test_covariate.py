"""Covariates of a study in every form in which they may be written."""

from __future__ import annotations

import pytest

from fedci.errors import StudyError
from fedci.study.covariate import Covariate
from support.studies import small


@pytest.mark.parametrize("covariates", [
    ("a", "b"), iter(["a", "b"]), {"a": "numeric", "b": {}}, [{"name": "a"}, Covariate(name="b")]])
def test_forms_of_covariates(covariates):
    assert small(covariates=covariates) == small()


def test_levels_may_be_numbers():
    assert Covariate(name="s", type="categorical", levels=[0, 1, 2]).levels == ("0", "1", "2")


def test_design_columns_leave_out_the_reference():
    stage = Covariate(name="stage", type="categorical", levels=("A", "B", "C"))
    assert stage.design_columns() == ("stage=B", "stage=C")
    assert Covariate(name="age").design_columns() == ("age",)


def test_a_covariate_alone_tells_as_plainly():
    with pytest.raises(StudyError, match=r"covariates.age: unknown key 'rnge', did you mean 'range'"):
        Covariate(name="age", rnge=(0, 1))
