"""Handshake, moments and units, answered from a run: pure steps, each with what it needs."""

from dataclasses import replace

import numpy as np
import pytest

from fedci import Source
from fedci.errors import HandshakeError, MessageError, SiteError
from fedci.protocol.messages import AskLinkKey, AskMoments, Hello, Prepare
from fedci.site import opening
from fedci.site.site import Site
from fedci.version import __version__
from tests_support import frame, study

UNITS = {"x_mean": np.array([60.0, 26.0, 0.5]), "x_sd": np.array([17.0, 4.0, 0.5]), "y_mean": 3.0, "y_sd": 1.2,
         "u": np.zeros(24), "index": 0, "sites": 2, "indicators": np.zeros(0, int), "people": 80}


@pytest.fixture
def site():
    return Site(study(), Source("a", frame(40, 0)).read(study()))


def hello(**changes):
    facts = {"version": __version__, "study_hash": study().hash(),
             "options": study().fit_options().model_dump(mode="json")} | changes
    return Hello("run", 1, "a", **facts)


def greeted(site):
    return opening.hello(site.party, site.run, hello())[0]


@pytest.mark.parametrize("changes, what", [({"version": "0.0.1"}, "version of fedci"), ({"study_hash": "ab"}, "study")])
def test_parties_that_differ_do_not_begin(site, changes, what):
    with pytest.raises(HandshakeError, match=f"the {what} differs"):
        opening.hello(site.party, site.run, hello(**changes))


def test_another_run_begins_without_what_was_agreed_for_the_fit_before(site):
    run = replace(greeted(site), evaluations=frozenset({4}), silent_from=3)
    again = opening.hello(site.party, run, hello())[0]
    assert (again.evaluations, again.silent_from) == (frozenset({4}), 3)
    other = opening.hello(site.party, run, replace(hello(), run="other"))[0]
    assert (other.name, other.evaluations, other.silent_from) == ("other", frozenset(), None)


def test_moments_are_those_of_the_rows_and_leave_a_mark(site):
    run, reply = opening.moments(site.party, greeted(site), AskMoments("run", 2, "a"))
    table = site.run.table
    np.testing.assert_allclose(reply.sums["x"][0], table.x.mean(0))
    np.testing.assert_array_equal(run.counts, [40, table.w.sum(), 40 - table.w.sum()])
    assert run.described


@pytest.mark.parametrize("step, request_of", [(opening.moments, AskMoments("run", 2, "a")),
                                              (opening.prepare, Prepare("run", 2, "a", **UNITS)),
                                              (opening.link, AskLinkKey("run", 2, "a"))])
def test_nothing_comes_before_the_handshake(site, step, request_of):
    with pytest.raises(SiteError, match="waits for a handshake"):
        step(site.party, site.run, request_of)


def test_prepared_rows_are_in_the_common_units(site):
    run, reply = opening.prepare(site.party, greeted(site), Prepare("run", 2, "a", **UNITS))
    assert reply.sums == {}
    np.testing.assert_allclose(run.prepared.rows.y[:40], (site.run.table.y - 3.0) / 1.2)
    assert run.course is None  # this policy does not ask sites to follow the fit


def test_a_site_that_follows_needs_every_sites_moments():
    agreed = study(policy={"name": "simulation", "check_trajectory": True})
    site = Site(agreed, Source("a", frame(40, 0)).read(agreed))
    units = UNITS | {"x_mean": site.run.table.x.mean(0), "x_sd": site.run.table.x.std(0),
                     "y_mean": float(site.run.table.y.mean()), "y_sd": float(site.run.table.y.std())}
    run = opening.hello(site.party, site.run, hello(
        study_hash=agreed.hash(), options=agreed.fit_options().model_dump(mode="json")))[0]
    with pytest.raises(MessageError, match="moments of all sites are missing"):
        opening.prepare(site.party, run, Prepare("run", 2, "a", **units))
    run = opening.prepare(site.party, run, Prepare("run", 2, "a", **units, all_u=np.zeros((2, 24))))[0]
    assert run.course.rules.people == 80
