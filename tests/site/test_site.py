"""A site answers its own study, in turn, with sums that do not grow with its rows."""

from dataclasses import replace

import pytest

from fedci import Source
from fedci.coordinator.coordinator import run_study
from fedci.errors import HandshakeError, SizeError
from fedci.model import padding
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Refusal, Reply, Step
from fedci.site.site import Site
from support.asked import greeting
from tests_support import frame, study


def test_what_a_site_sends_does_not_grow_with_its_rows():
    """Sums only: a site of 97 people sends exactly as many bytes per round as one of 53."""
    sent = []
    for n in (53, 97):
        plan = study(options={"optimiser": {"rounds": 2}})
        engine = _Recorder(InProcessEngine({"a": Site(plan, Source("a", frame(n, 0)).read(plan))}))
        run_study(engine, plan)
        sent.append([{name: array.shape for name, array in reply.sums.items()} for reply in engine.replies])
        assert all(n not in shape for reply in sent[-1] for shape in reply.values())
    assert sent[0] == sent[1]


class _Recorder:
    def __init__(self, engine):
        self.engine, self.sites, self.replies = engine, engine.sites, []

    def exchange(self, requests):
        replies = self.engine.exchange(requests)
        self.replies += replies.values()
        return replies


def _site():
    plan = study()
    return Site(plan, Source("a", frame(30, 0)).read(plan))


def test_a_site_refuses_another_study_or_version():
    site = _site()
    good = greeting(site.run.study)
    assert isinstance(site.answer(good), Reply)
    for wrong in (replace(good, version="9.9"), replace(good, study_hash="0" * 64)):
        refusal = site.answer(wrong)
        assert isinstance(refusal, Refusal)
        assert refusal.code == HandshakeError.code
        assert "here" in refusal.reason
        assert "at the coordinator" in refusal.reason


def test_a_site_answers_in_turn_and_for_itself_only():
    site = _site()
    assert "out of turn" in site.answer(Step("run", 1, "a", "AskColumns")).reason
    assert "out of turn" in site.answer(Step("run", 1, "a", "Evaluate")).reason
    assert "another site" in site.answer(Step("run", 1, "b", "AskColumns")).reason
    assert "does not answer" in site.answer(Refusal("run", 1, "a", "x", "y")).reason


def test_memory_is_predicted_before_it_is_taken():
    assert padding.bytes_needed(100_000, 8) > 8 * 100_000**2
    with pytest.raises(SizeError, match="rows need about"):
        padding.check_memory("a", 10**7, padding.bytes_needed(10**7, 8), "Take fewer.")
