"""How treatment came about, as a study says it: bound by the hash, absent where nothing is said."""

import pytest

from fedci import Study
from fedci.errors import StudyError
from fedci.study.assignment import Design
from tests_support import study


def test_an_observational_study_has_the_hash_it_had():
    assert study(design="observational").hash() == study().hash()
    assert study(design="randomised").hash() != study().hash()
    assert "design" not in study().to_toml()


@pytest.mark.parametrize(("design", "share"), [("randomised", 0.5), ({"kind": "randomised", "treated": 0.75}, 0.75)])
def test_a_file_holds_what_python_says(design, share):
    plan = study(design=design)
    again = Study.from_toml(plan.to_toml())
    assert again == plan
    assert again.hash() == plan.hash()
    assert (plan.design.randomised, plan.design.share) == (True, share)


@pytest.mark.parametrize("design", ["random", {"treated": 1.5}, {"ratio": 2}])
def test_what_is_no_design_is_refused(design):
    with pytest.raises(StudyError, match="design"):
        study(design=design)
    assert not Design().randomised
