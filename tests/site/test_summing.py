"""Steps of the course, answered from a run: the next one, once worked out here, and nothing else."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fedci import Source
from fedci.errors import DisclosureError, MessageError, SiteError
from fedci.protocol.messages import AskMaskKey, Reply, Step
from fedci.site import summing
from fedci.site.site import Site
from support.asked import asked_alone, asked_until, greeting
from tests_support import frame, small, study


def greeted(rows=40, **changes) -> Site:
    agreed = study(**{"preset": "default", "options": small(3)} | changes)
    site = Site(agreed, Source("a", frame(rows, 0)).read(agreed))
    assert isinstance(site.answer(greeting(agreed)), Reply)
    return site


@pytest.fixture(scope="module")
def begun():
    """(party, the run before the first question of the fit, that question), of one site in the clear."""
    site = greeted()
    asked_until(site, "Begin")
    before = site.run
    question = asked_until(site, "AskStatistics")[-1]
    return site.party, before, question


def test_a_question_is_answered_from_the_run_and_leads_to_the_next(begun):
    party, run, question = begun
    after, reply = summing.step(party, run, question)
    assert set(after.course.places) - set(run.course.places) == {question.round}
    assert after.memory is not None
    assert run.memory is None
    again = summing.step(party, run, question)[1]
    for name, part in reply.sums.items():
        np.testing.assert_array_equal(part, again.sums[name])


def test_a_step_carries_no_number_but_sums():
    assert [field.name for field in fields(Step)] == ["run", "round", "site", "name", "previous"]


@pytest.mark.parametrize("name", ["Evaluate", "AskSharedEffects", "AskMeans", "AskDiagnostic.balance", "Begin", "no"])
def test_any_step_but_the_next_is_refused(begun, name):
    party, run, question = begun
    with pytest.raises(SiteError, match=rf"\(a {name} instead of a AskStatistics\).*Nothing was answered"):
        summing.step(party, run, replace(question, name=name))


def test_the_course_ends_and_then_nothing_is_answered():
    site = greeted()
    requests, replies = zip(*asked_alone(site), strict=True)
    said = [request.name for request in requests]
    assert said[-1] == "AskSharedEffects"
    assert 3 <= said.count("AskStatistics") <= 2 * site.run.contract.options.optimiser.rounds
    for name in ("AskStatistics", "AskSharedEffects", "AskColumns", "AskDiagnostic.outcome"):
        refused = site.answer(Step("run", len(said) + 2, "a", name, replies[-1].sums))
        assert "instead of nothing more" in refused.reason


def test_without_the_sum_before_it_no_step_is_answered():
    """In the clear the site takes the coordinator's word for the sum, but not for its shape."""
    site = greeted()
    means = asked_until(site, "AskMeans")[-1]
    fresh = replace(site.run, course=replace(site.run.course, places={2: site.run.course.places[2]}))
    cut = {name: part for name, part in means.previous.items() if name != "varies"}
    for previous in ({}, cut, means.previous | {"varies": np.zeros(7)}):
        with pytest.raises(MessageError, match=f"the sum of round {means.round - 1} is not told"):
            summing.step(site.party, fresh, replace(means, previous=previous))


def test_without_units_or_secure_sums_nothing_is_summed(begun):
    party, run, question = begun
    with pytest.raises(SiteError, match="waits for the common units"):
        summing.step(party, replace(run, prepared=None), question)
    with pytest.raises(SiteError, match="no secure sums"):
        summing.keys(party, run, AskMaskKey("run", 3, "a"))


def test_a_site_whose_policy_asks_for_masks_sums_nothing_without_keys():
    agreed = study(policy={"name": "simulation", "secure_sum": "auto"})
    site = Site(agreed, Source("a", frame(40, 0)).read(agreed))
    site.answer(greeting(agreed, sites=("a", "b", "c")))
    with pytest.raises(DisclosureError, match="no keys were agreed"):
        summing.step(site.party, site.run, Step("run", 2, "a", "AskColumns"))


def test_rows_are_in_the_common_units_once_the_site_is_ready(begun):
    party, run, _ = begun
    y = party.whole.y
    np.testing.assert_allclose(run.prepared.rows.y[:40], (y - y.mean()) / y.std(), rtol=1e-12)
    assert run.described


def test_no_diagnostic_is_asked_under_differential_privacy():
    covariates = {"age": {"range": [0, 120]}, "bmi": {"range": [10, 60]}, "sex": {"type": "binary"}}
    noisy = {"name": "simulation", "epsilon": 4.0, "delta": 1e-5, "outcome_range": [0.0, 10.0], "effect_bound": 5.0}
    site = greeted(policy=noisy, diagnostics={}, covariates=covariates)
    assert not site.run.contract.diagnoses
    last = asked_until(site, "Prepare")[-1]
    refused = site.answer(Step("run", last.round + 1, "a", "AskDiagnostic.propensity"))
    assert "a AskDiagnostic.propensity instead of a Begin" in refused.reason
