"""The effect in other people: the average of theirs, wider where they are far, and a verdict on extrapolation."""

import numpy as np
import pytest

from fedci.errors import UsageError
from fedci.result import transport
from tests_support import frame, made_result, study


@pytest.fixture(scope="module")
def result():
    return made_result(study(preset="default"), {"a": frame(60, 0), "b": frame(60, 1)}, draws=4)


@pytest.fixture(scope="module")
def people():
    return frame(120, 5)[["age", "bmi", "sex"]]


def test_it_is_the_average_of_the_peoples_effects(result, people):
    found = transport.of_people(result, people)
    each = result.effect_posterior(people)
    assert found.effect.mean == pytest.approx(float(np.mean(each.mean)), rel=1e-9)
    assert found.effect.sd <= np.mean(each.sd) + 1e-12, "an average is no less certain than its people"
    assert (found.people, found.verdict.verdict) == (120, "fine")


def test_intervals_widen_with_the_shift_and_far_away_is_extrapolation(result, people):
    found = [transport.of_people(result, people.assign(age=people.age + by)) for by in (0.0, 12.0, 60.0)]
    sds = [one.effect.sd for one in found]
    assert sds[0] < sds[2]
    assert [one.verdict.verdict for one in found] == ["fine", "look", "problem"]
    assert found[2].table().column[0] == "age"
    assert "extrapolation" in found[2].plain()["verdict"]["words"]


def test_published_moments_are_those_of_nobody(result):
    found = transport.of_moments(result, {"age": {"mean": 75.0, "sd": 5.0}, "sex": 0.9})
    columns = result.outcome.layout.columns
    sd = np.sqrt(columns.values[1])
    expected = (np.array([75.0, columns.values[0, 1], 0.9]) - columns.values[0]) / sd
    np.testing.assert_allclose(found.shift, expected, atol=4 / np.sqrt(1024))


@pytest.mark.parametrize(("given", "words"), [({"height": 1}, "no covariate"), ({"sex": 2}, "from 0 to 1"),
                                              ({"age": {"median": 1}}, "are a mean")])
def test_moments_that_fit_no_covariate_are_refused(result, given, words):
    with pytest.raises(UsageError, match=words):
        transport.of_moments(result, given)
