"""The outcome as a study names it: written and read again, a mistake named, the numbers' hash as it was."""

import pytest

from fedci.errors import StudyError
from fedci.study import outcomes
from fedci.study.study import Study

TIMED = {"time": "days", "event": "died", "type": "survival", "horizons": [2.0, 6.0]}
COUNTED = {"name": "falls", "type": "count", "exposure": "years"}


def plan(outcome) -> Study:
    return Study(treatment="drug", outcome=outcome, covariates=["age"], policy="simulation")


@pytest.mark.parametrize("outcome", [TIMED, TIMED | {"cuts": [1.0, 3.0, 6.0]}, COUNTED,
                                     {"name": "falls", "type": "count"}])
def test_the_outcome_is_written_and_read(outcome):
    study = plan(outcome)
    again = Study.from_toml(study.to_toml())
    assert again == study
    assert again.hash() == study.hash()
    assert study.hash() != plan("falls").hash()


@pytest.mark.parametrize(("outcome", "told"), [
    ({"event": "died", "type": "survival", "horizons": [1]}, "'time' is missing"),
    ({"time": "days", "event": "died", "type": "survival"}, "'horizons' is missing"),
    (TIMED | {"horizons": [6.0, 2.0]}, "each later"), (TIMED | {"cuts": [1.0, 3.0]}, "the last horizon is 6"),
    (TIMED | {"exposure": "years"}, "unknown key 'exposure'"), ({"name": "falls", "type": "counts"}, "did you mean"),
    ({"name": "falls", "type": "count", "horizons": [1]}, "unknown key 'horizons'")])
def test_a_mistake_in_the_outcome_is_named(outcome, told):
    with pytest.raises(StudyError, match=told):
        plan(outcome)


def test_intervals_are_as_many_as_cuts_or_eight():
    assert plan(TIMED).most_intervals == outcomes.INTERVALS
    assert plan(TIMED | {"cuts": [1.0, 6.0]}).most_intervals == 2
    assert plan(COUNTED).most_intervals == 0
    assert plan(TIMED).outcome_columns == ("died", "days")
