"""The effect in other people: the average of theirs, wider where they are far, and a verdict on extrapolation."""

import dataclasses

import numpy as np
import pytest

from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.sameness import Line, Sameness
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
                                              ({"age": {"median": 1}}, "are a mean"),
                                              ({"agee": 60}, "did you mean 'age'"),
                                              ({"age": "60"}, "no number"), ({"age": True}, "no number"),
                                              ({"age": {"mean": 60, "sd": -1}}, "0 or more"),
                                              ({"age": {"mean": float("nan")}}, "no number")])
def test_moments_that_fit_no_covariate_are_refused(result, given, words):
    with pytest.raises(UsageError, match=words):
        transport.of_moments(result, given)


def test_moments_outside_the_studys_range_are_of_another_unit():
    plan = study(preset="default", covariates={"age": {"range": [0, 120]}, "bmi": {}, "sex": "binary"})
    made = made_result(plan, {"a": frame(60, 0), "b": frame(60, 1)}, draws=4)
    with pytest.raises(UsageError, match="in the study's unit"):
        transport.of_moments(made, {"age": 700})


def test_a_registry_is_averaged_a_part_at_a_time(result, people, monkeypatch):
    whole = transport.of_people(result, people).effect
    monkeypatch.setattr(transport, "AT_ONCE", 50)
    parts = transport.of_people(result, people).effect
    np.testing.assert_allclose(parts.means, whole.means, rtol=1e-12)
    np.testing.assert_allclose(parts.variances, whole.variances, rtol=1e-9)


def test_weights_and_model_together_stand_beside_the_model(result, people):
    """Without the diagnostics' line they are not told; with it they are the line at the model's average there."""
    assert transport.of_people(result, people).weighted is None
    line = Line(people=120, robust=1.0, robust_se=0.2, expected=0.5, spread=0.4, together=0.0)
    same = Sameness(probability=0.1, slope=0.8, se=0.3, verdicts=(), line=line)
    known = dataclasses.replace(result, outcome=dataclasses.replace(
        result.outcome, diagnostics=Diagnostics(sameness=same)))
    found = transport.of_people(known, people)
    away = found.effect.mean - 0.5
    assert found.weighted.mean == pytest.approx(1.0 + 0.8 * away, rel=1e-9)
    assert found.weighted.sd == pytest.approx(np.hypot(0.2, 0.3 * away), rel=1e-9)
    assert found.worth == pytest.approx(120 / (1 + (away / 0.4) ** 2), rel=1e-9)
    assert found.plain()["weighted"]["worth"] == found.worth
    assert "By weights and model together" in "\n".join(found.in_words())
