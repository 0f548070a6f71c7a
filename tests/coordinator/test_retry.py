"""Asking again: the same answers as of an engine that fails at nothing, after waits that double, or the last error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedci.coordinator.retry import PAUSE, TRIES, Retrying
from fedci.errors import AwayError, MessageError, OutputError
from fedci.protocol.messages import Reply, Step


class Failing:
    """Answers, but for each site's first `failures[site]` requests."""

    def __init__(self, failures, error=AwayError):
        self.sites, self.left, self.error, self.asked = tuple(failures), dict(failures), error, []

    def exchange(self, requests):
        self.asked.append(tuple(requests))
        failing = [site for site in requests if self.left[site]]
        for site in failing:
            self.left[site] -= 1
        if failing:
            raise self.error(f"site '{failing[0]}' did not answer, {self.left[failing[0]]} to go")
        return {site: Reply(request.run, request.round, site) for site, request in requests.items()}


def requests_to(sites):
    return {site: Step("run", 7, site, "AskMeans") for site in sites}


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, TRIES), min_size=1))
def test_as_many_failures_as_there_are_tries_change_no_answer(failures):
    """The wait before a site's k-th further try is 2^(k−1) pauses; where nothing fails there is none."""
    patient, waits = Failing(failures), []
    asked = requests_to(failures)
    assert Retrying(patient, sleep=waits.append).exchange(asked) == Failing(dict.fromkeys(failures, 0)).exchange(asked)
    tries = [max(failures[site], 1) for site in sorted(failures)] if any(failures.values()) else []
    assert waits == [PAUSE * 2.0**number for count in tries for number in range(count)]


def test_after_a_failure_each_site_is_asked_alone_in_the_order_of_their_names():
    engine = Failing({"b": 1, "a": 0})
    Retrying(engine, sleep=lambda seconds: None).exchange(requests_to("ba"))
    assert engine.asked == [("b", "a"), ("a",), ("b",)]


@given(st.integers(1, 5), st.floats(0.0, 10.0))
def test_one_failure_more_than_tries_is_the_last_error_after_all_waits(tries, pause):
    waits = []
    engine = Failing({"a": 99})
    with pytest.raises(AwayError, match=f"{98 - tries} to go"):
        Retrying(engine, tries, pause, sleep=waits.append).exchange(requests_to("a"))
    assert waits == [pause * 2.0**number for number in range(tries)]
    assert len(engine.asked) == 1 + tries


@pytest.mark.parametrize("error, of", [(OutputError, (AwayError, MessageError)), (MessageError, (AwayError,))])
def test_an_error_that_is_none_of_those_is_not_asked_after_again(error, of):
    engine = Failing({"a": 1}, error)
    with pytest.raises(error):
        Retrying(engine, of=of, sleep=lambda seconds: pytest.fail("asked again")).exchange(requests_to("a"))
    assert engine.asked == [("a",)]


def test_its_sites_are_the_engines():
    assert Retrying(Failing({"b": 0, "a": 0})).sites == ("b", "a")
