"""What a study asks for decisions: bound by the hash, absent where nothing is asked."""

import pytest

from fedci import Study
from fedci.errors import StudyError
from tests_support import study

TOLD = {"enabled": True}


def test_a_file_holds_what_python_says():
    plan = study(diagnostics=TOLD, decisions={"along": ["age", "sex"], "better": "lower", "cost": 2})
    again = Study.from_toml(plan.to_toml())
    assert again == plan
    assert again.hash() == plan.hash() != study(diagnostics=TOLD).hash()
    assert plan.decisions.sign == -1.0
    assert plan.decisions.columns(plan.covariates) == (0, 2)
    assert "decisions" not in study().to_toml()


@pytest.mark.parametrize(("decisions", "words"), [
    ({"along": ["agee"]}, "is no covariate"), ({"along": []}, "along"), ({"along": ["age", "age"]}, "twice"),
    ({"along": ["age"], "better": "more"}, "better"), ({"along": ["age"], "costs": 1}, "unknown key"),
    ({"along": ["stage"]}, "at most 12")])
def test_what_cannot_be_asked_is_refused_in_words(decisions, words):
    covariates = {"age": {}, "bmi": {}, "sex": "binary",
                  "stage": {"type": "categorical", "levels": [str(k) for k in range(20)]}}
    with pytest.raises(StudyError, match=words):
        study(covariates=covariates, diagnostics=TOLD, decisions=decisions)


def test_they_are_told_with_the_diagnostics():
    with pytest.raises(StudyError, match="enabled = true"):
        study(decisions={"along": ["age"]})
