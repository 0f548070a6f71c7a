"""A site follows a fit: what its seed and sums lead to is answered, all else is refused."""

from dataclasses import replace

import numpy as np
import pytest

from fedci.errors import SiteError
from fedci.model.family import Rules
from fedci.protocol import trajectory
from fedci.protocol.ask import request_of
from fedci.site.course import PLACES, Course
from fedci.study.options import preset


@pytest.fixture(scope="module")
def course(make):
    options = preset("classic")
    options = options.model_copy(update={"optimiser": options.optimiser.model_copy(update={"rounds": 40, "draws": 2})})
    model = make.model(sites=2)
    return Course("lyon", Rules(model, options, 0, np.zeros((2, model.u_dim)), 80), 0)


def sums(ask, number: int) -> dict:
    rng = np.random.default_rng(number)
    roots = np.zeros(ask.arrays["phi_roots"].shape)
    return {"objective": np.array(-100.0 + number), "gradient": rng.normal(size=ask.arrays["theta"].shape),
            "phi_roots": roots, "sigma_roots": roots, "failed": np.array(0.0)}


def told(request, ask, number):
    return sums(ask, number)


def walked(course, count: int):
    """(the course after so many requests of an honest coordinator, the requests)."""
    place, ask = trajectory.now(course.rules, trajectory.begin())
    requests = []
    for number in range(1, count + 1):
        requests.append(request_of(ask, ("run", number, "lyon"), 0, {}))
        course = course.followed(requests[-1], told)
        place, ask = trajectory.after(course.rules, place, sums(ask, number))
    return course, requests


def test_what_the_fit_leads_to_is_followed_and_only_the_last_places_are_kept(course):
    after, _ = walked(course, PLACES + 3)
    assert sorted(after.places) == list(range(4, PLACES + 4))
    assert course.places == {}  # replaced, never changed


def test_another_theta_is_refused_with_the_round_and_what_is_wrong(course):
    after, requests = walked(course, 2)
    crafted = replace(requests[1], round=3, theta=requests[1].theta + 1.0)
    with pytest.raises(SiteError, match=r"site 'lyon'.*in round 3 \(theta\).*Nothing was answered"):
        after.followed(crafted, told)


def test_a_coordinator_may_go_back_to_a_round_and_ask_the_same(course):
    after, requests = walked(course, 4)
    assert after.followed(requests[1], told).places == after.places
    with pytest.raises(SiteError, match="left the agreed course"):
        after.followed(replace(requests[1], theta=-requests[1].theta), told)


def test_a_site_that_starts_again_goes_on_from_its_places(course):
    after, requests = walked(course, 3)
    again = course.restored({number: after.packed(number) for number in after.places})
    expected = trajectory.now(course.rules, after.places[3])[1]
    found = trajectory.now(course.rules, again.places[3])[1]
    assert all(found.arrays[name].tobytes() == expected.arrays[name].tobytes() for name in expected.arrays)
    with pytest.raises(SiteError):
        again.followed(replace(requests[2], theta=requests[2].theta * 2 + 1), told)
