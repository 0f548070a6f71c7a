"""How a coordinator asks: late answers, refusals, and what is no sum."""

from dataclasses import replace

import numpy as np
import pytest

from fedci.coordinator.coordinator import run_study
from fedci.coordinator.talk import GIVEN_UP, Talk, note_jitters, summed
from fedci.errors import DisclosureError, MessageError, SizeError
from fedci.model import padding
from fedci.model.family import Ask
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskMaskKey, Refusal, Reply
from fedci.protocol.requests import asked
from fedci.site.site import Site
from tests_support import fit, hospitals, study


class _Lying:
    """An engine whose second site answers for an earlier round."""

    def __init__(self, engine):
        self.engine, self.sites = engine, engine.sites

    def exchange(self, requests):
        replies = dict(self.engine.exchange(requests))
        name = self.sites[1]
        if asked(requests[name]) == "Evaluate":
            replies[name] = replace(replies[name], round=replies[name].round - 1)
        return replies


def test_a_late_answer_is_refused_by_name():
    plan = study()
    sites = {s.name: Site(plan, s.read(plan)) for s in hospitals(40, 37)}
    with pytest.raises(MessageError, match="site-1"):
        run_study(_Lying(InProcessEngine(sites)), plan)


def test_a_refusal_keeps_its_error(monkeypatch):
    monkeypatch.setattr(padding, "bytes_available", lambda: 10_000)
    with pytest.raises(SizeError, match=r"site 'site-0'.*GiB") as problem:
        fit(hospitals(40))
    assert problem.value.exit_code == 2


class Scripted:
    """Sites that answer from a list of what each says."""

    def __init__(self, **answers):
        self.sites, self.answers = tuple(answers), answers

    def exchange(self, requests):
        return {name: self.answers[name](request) for name, request in requests.items()}


def test_sums_are_added_in_the_order_of_the_sites_names():
    replies = {name: Reply("r", 1, name, {"g": np.array(value)})
               for name, value in (("b", 1e-16), ("c", 1e-16), ("a", 1.0))}
    assert summed(replies)["g"] == (1.0 + 1e-16) + 1e-16


def refusing(code):
    return lambda request: Refusal(request.run, request.round, request.site, code, "not this")


def test_each_exchange_has_the_next_number():
    def ask(base):
        seen.append(base)
        return AskMaskKey(*base)

    def reply(request):
        return Reply(request.run, request.round, request.site)

    talk, seen = Talk(Scripted(a=reply, b=reply), "run"), []
    for _ in range(2):
        assert talk.ask_all(ask).keys() == {"a", "b"}
    assert seen == [("run", 1, "a"), ("run", 1, "b"), ("run", 2, "a"), ("run", 2, "b")]


OPTIONAL = Ask("AskDiagnostic.overlap", {"centre": np.zeros(2)})


@pytest.mark.parametrize("code", ["disclosure", "numerical"])
def test_a_diagnostic_that_a_site_may_not_tell_is_given_up_and_noted(code):
    talk = Talk(Scripted(a=refusing(code)), "run", previous={"told": np.ones(1)})
    assert talk.total(OPTIONAL) == GIVEN_UP
    assert talk.notes == ("the diagnostic 'overlap' was given up: site 'a': not this",)
    assert talk.previous == {}  # with the next step the sites are told no sum: so they know


@pytest.mark.parametrize(("ask", "code", "kind"), [
    (Ask("AskColumns", {"columns": np.array(2)}), "disclosure", DisclosureError), (OPTIONAL, "size", SizeError)])
def test_any_other_refusal_is_an_error(ask, code, kind):
    with pytest.raises(kind, match="not this"):
        Talk(Scripted(a=refusing(code)), "run").total(ask)


def test_the_largest_jitter_of_each_site_is_remembered():
    jitters = {"a": 1e-8}
    for size in (1e-10, 1e-6):
        note_jitters(jitters, {"a": Reply("r", 1, "a", {}, {"jitter": size}), "b": Reply("r", 1, "b")})
    assert jitters == {"a": 1e-6}
