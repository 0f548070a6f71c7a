"""How a coordinator asks: late answers, refusals, and what is no sum."""

from dataclasses import replace

import pytest

from fedci.coordinator.coordinator import run_study
from fedci.errors import MessageError, SizeError
from fedci.model import padding
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Evaluate
from fedci.site.site import Site
from tests_support import fit, hospitals, study


class _Lying:
    """An engine whose second site answers for an earlier round."""

    def __init__(self, engine):
        self.engine, self.sites = engine, engine.sites

    def exchange(self, requests):
        replies = dict(self.engine.exchange(requests))
        name = self.sites[1]
        if isinstance(requests[name], Evaluate):
            replies[name] = replace(replies[name], round=replies[name].round - 1)
        return replies


def test_a_late_answer_is_refused_by_name():
    plan = study()
    sites = {s.name: Site(plan, s.read(plan)) for s in hospitals(40, 37)}
    with pytest.raises(MessageError, match="site-1"):
        run_study(_Lying(InProcessEngine(sites)), plan, plan.fit_options(), 0)


def test_a_refusal_keeps_its_error(monkeypatch):
    monkeypatch.setattr(padding, "bytes_available", lambda: 10_000)
    with pytest.raises(SizeError, match=r"site 'site-0'.*GiB") as problem:
        fit(hospitals(40))
    assert problem.value.exit_code == 2
