"""A site follows a study: what the contract and the sums lead to is answered, all else is refused."""

from dataclasses import replace

import numpy as np
import pytest

from fedci.errors import SiteError
from fedci.protocol import course as courses
from fedci.protocol.ask import shapes
from fedci.protocol.course import Contract, Place
from fedci.protocol.messages import Step
from fedci.protocol.requests import REQUESTS, diagnostic
from fedci.site.following import PLACES, Course
from tests_support import study

SITES = ("lyon", "oslo")
OPENING = ("AskColumns", "AskMeans", "AskSpreads", "AskDescription", "Prepare")


def course_of(**changes) -> Course:
    agreed = study(**{"sites": SITES, "options": {"optimiser": {"rounds": 40, "draws": 2}}} | changes)
    return Course("lyon", Contract(agreed, SITES))


@pytest.fixture(scope="module")
def course():
    return course_of()


def sums(place: Place, ask, number: int) -> dict:
    """What the sites came to: numbers of the right shapes, and such that a study goes on."""
    rng = np.random.default_rng(number)
    made = {name: rng.normal(size=shape) for name, shape in shapes(place.opened and place.opened.model, ask).items()}
    given = {"AskColumns": {name: np.zeros(3) for name in made}, "Evaluate": {"failed": np.array(0.0)},
             "AskMeans": {"count": np.full(3, 80.0), "total": np.full(3, 160.0), "y_count": np.array([40.0, 40.0]),
                          "y_total": np.array([80.0, 120.0]), "stages": np.zeros(6)},
             "AskDescription": {name: np.abs(part) for name, part in made.items()},
             "AskSpreads": {"square": np.full(3, 90.0), "y_square": np.array(70.0)}}.get(ask.name, {})
    return made | given


def walked(course, count: int):
    """(the course after so many steps of an honest coordinator, the steps)."""
    place, ask = courses.now(course.contract, Place())
    requests, previous = [], {}
    for number in range(1, count + 1):
        requests.append(Step("run", number, "lyon", ask.name, previous))
        course, found = course.followed(requests[-1], sums)
        assert found.name == ask.name
        previous = sums(place, ask, number) if REQUESTS[ask.name].summed else {}
        place, ask = courses.after(course.contract, place, previous)
    return course, requests


def next_step(course, number):
    """Its name, as the site expects it."""
    place, ask = courses.now(course.contract, course.places[number])
    return courses.after(course.contract, place, sums(place, ask, number) if REQUESTS[ask.name].summed else {})[1].name


def test_what_the_study_leads_to_is_followed_and_all_before_the_rounds_and_the_last_of_them_are_kept(course):
    after, requests = walked(course, len(OPENING) + 1 + PLACES + 3)
    assert tuple(request.name for request in requests[:7]) == (*OPENING, "Begin", "Evaluate")
    kept = sorted(after.places)
    assert kept[:6] == [1, 2, 3, 4, 5, 6]
    assert kept[6:] == list(range(len(requests) - PLACES + 1, len(requests) + 1))
    assert course.places == {}  # replaced, never changed


def test_what_the_last_step_asked_is_remembered_as_it_would_be_worked_out_again(course):
    for count in (1, 3, len(OPENING) + 1, len(OPENING) + 4):
        after, _ = walked(course, count)
        number, ask = after.asked
        place, again = courses.now(after.contract, after.places[number])
        assert (number, ask.name) == (count, again.name)
        assert place is after.places[number]
        assert ask.arrays.keys() == again.arrays.keys()
        for name, part in again.arrays.items():
            np.testing.assert_array_equal(ask.arrays[name], part)


def test_another_step_is_refused_with_the_round_and_what_was_expected(course):
    after, requests = walked(course, 8)
    for name in ("AskEffects", "PullBack", "AskColumns", "x" * 60):
        with pytest.raises(SiteError, match=rf"site 'lyon'.*in round 9 \(a {name[:40]} instead of a Evaluate\).*"
                                            rf"Nothing was answered"):
            after.followed(replace(requests[-1], round=9, name=name), sums)


def test_no_step_is_left_out(course):
    """From each place of the opening there is one way on: the next step."""
    for count in range(len(OPENING)):
        after, _ = walked(course, count)
        for name in {*OPENING, "Begin", "Evaluate", diagnostic("propensity")} - {(*OPENING, "Begin")[count]}:
            with pytest.raises(SiteError, match="left the agreed course"):
                after.followed(Step("run", count + 1, "lyon", name, {}), sums)


def test_a_coordinator_may_go_back_to_a_round_and_ask_the_same(course):
    after, requests = walked(course, 9)
    for request in (requests[1], requests[7]):
        again, ask = after.followed(request, sums)
        assert again.places == after.places
        assert ask.name == request.name
        with pytest.raises(SiteError, match="left the agreed course"):
            after.followed(replace(request, name="AskEffects"), sums)


def test_a_coordinator_that_goes_on_late_in_the_fit_walks_all_before_its_rounds_anew(course):
    after, requests = walked(course, len(OPENING) + 1 + PLACES + 3)
    again = after
    for request in (*requests[:len(OPENING) + 1], *requests[-5:]):
        again, ask = again.followed(request, sums)
        assert ask.name == request.name
        assert again.place(request.round) is not None
    assert again.places.keys() == after.places.keys()


def test_a_question_is_worked_out_from_the_sums_and_a_step_cannot_change_it(course):
    after, requests = walked(course, 9)
    asks = [after.followed(replace(requests[8], previous=told), sums)[1] for told in ({}, {"theta": np.ones(3)})]
    for name, part in asks[0].arrays.items():
        np.testing.assert_array_equal(part, asks[1].arrays[name])
    other = course_of(seed=1)
    theirs = walked(other, 9)[0].followed(requests[8], sums)[1]
    assert any(not np.array_equal(part, theirs.arrays[name]) for name, part in asks[0].arrays.items())


def test_a_site_that_starts_again_walks_the_opening_anew_and_goes_on_from_its_places(course):
    after, requests = walked(course, 11)
    assert after.packed(5) is None  # before the fit
    earlier = {number: after.packed(number) for number in after.places if after.packed(number)}
    again, _ = walked(replace(course, earlier=earlier), 6)
    again, found = again.followed(replace(requests[10], previous={}), lambda *_: pytest.fail("asked for a sum"))
    expected = courses.now(course.contract, after.places[11])[1]
    assert all(found.arrays[name].tobytes() == expected.arrays[name].tobytes() for name in expected.arrays)
    with pytest.raises(SiteError):
        again.followed(replace(requests[10], round=12, name="AskEffects"), sums)


# --- diagnostics


def test_a_diagnostic_may_be_given_up_and_then_all_of_the_design_is():
    """A coordinator can ask for less, and not for another thing."""
    after, _ = walked(course_of(diagnostics={}), len(OPENING) + 1)
    assert next_step(after, 6).startswith("AskDiagnostic.")
    given_up, ask = after.followed(Step("run", 7, "lyon", "Begin", {}), lambda *_: pytest.fail("no sum was made"))
    assert ask.name == "Begin"
    assert given_up.places[7].model is None
    for name in (diagnostic("balance"), diagnostic("overlap"), diagnostic("outcome"), "Evaluate", "AskEffects"):
        with pytest.raises(SiteError, match="left the agreed course"):
            after.followed(Step("run", 7, "lyon", name, {}), sums)
    with pytest.raises(SiteError, match=r"instead of a Evaluate"):  # and it does not come back
        given_up.followed(Step("run", 8, "lyon", diagnostic("propensity"), {}), sums)
