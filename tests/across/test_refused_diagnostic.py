"""A site that cannot, or may not, answer a diagnostic: the study goes on to its end, there and everywhere else."""

import numpy as np
import pytest

from fedci.coordinator.coordinator import run_study
from fedci.errors import NumericalError
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Refusal, Step
from fedci.protocol.requests import diagnostic
from fedci.site import replay, summing
from fedci.site.ledger import NOTE, REFUSAL
from support.doors import NAMES, Doors, people, plan
from support.masked import SECURE

SUBGROUPS = {"sex": "sex"}


@pytest.fixture(params=[{"name": "simulation"}, SECURE], ids=["clear", "masked"])
def agreed(request):
    return plan(policy=request.param, subgroups=SUBGROUPS, diagnostics={"enabled": True})


def tables():
    return {name: people(70 + k, k) for k, name in enumerate(NAMES)}


def failing(monkeypatch, site, *diagnostics):
    """`site` cannot reckon these."""
    answer = summing._answer

    def fails(party, run, place, ask):
        if party.name == site and ask.name in map(diagnostic, diagnostics):
            raise NumericalError(f"site '{site}': not to be solved")
        return answer(party, run, place, ask)

    monkeypatch.setattr(summing, "_answer", fails)


@pytest.mark.parametrize("diagnostics", [("outcome",), ("propensity", "outcome")], ids=" ".join)
def test_what_comes_after_a_refused_diagnostic_is_told_as_without_it(agreed, diagnostics, tmp_path, monkeypatch):
    """Subgroups are a sum over all sites, the one that refused too; masks of a step hide another step's no less."""
    whole = Doors(agreed, tables(), tmp_path / "whole")
    expected = run_study(whole, agreed).effects.subgroups
    failing(monkeypatch, "oslo", *diagnostics)
    engine = Doors(agreed, tables(), tmp_path / "refused")
    found = run_study(engine, agreed)
    assert found.effects.subgroups.keys() == expected.keys()
    for name, part in expected.items():
        np.testing.assert_array_equal(found.effects.subgroups[name], part)
    refused = [entry["request"] for entry in engine.doors["oslo"].ledger.entries if entry["reply"] == REFUSAL]
    assert refused == [*map(diagnostic, diagnostics)]
    for parties in (whole, engine):
        parties.close()


def test_an_auditor_and_a_restart_go_past_it(agreed, tmp_path, monkeypatch):
    with monkeypatch.context() as here:
        failing(here, "oslo", "outcome")
        engine = Doors(agreed, tables(), tmp_path)
        run_study(engine, agreed)
    door = engine.doors["oslo"]
    said = [entry for entry in door.ledger.entries if entry["reply"] not in (NOTE, REFUSAL)]
    found = list(replay.replayed(door.folder, door.ledger.entries, engine.site("oslo", tables()["oslo"]), _none))
    assert [line.verdict for line in found] == ["same"] * len(said)
    again = engine.site("oslo", tables()["oslo"])
    assert replay.resumed(door.folder, door.ledger.entries, again, _none, {}) is None
    assert again.run.course.places.keys() == door.site.run.course.places.keys()
    engine.close()


def test_a_request_that_is_none_of_the_course_moves_nothing(agreed, tmp_path):
    """A diagnostic out of its place, of another run, or of a round that is over, is refused and not gone past."""
    engine = Doors(agreed, tables(), tmp_path)
    run_study(engine, agreed)
    door = engine.doors["oslo"]
    before = door.site.run
    last = max(door.memory.answered)
    for run, number in ((before.name, last + 1), (before.name, 1), ("another", last + 1)):
        told = decode(door.answer(encode(Step(run=run, round=number, site="oslo", name=diagnostic("outcome"),
                                              previous={}))))
        assert isinstance(told, Refusal)
        assert door.site.run is before
    engine.close()


def _none(run):
    return None
