"""SIGKILL, to real processes: of a site in every state of the protocol, of the coordinator in each of twenty rounds."""

import numpy as np
import pytest

import parties
from fedci.coordinator.checkpoint import EVERY
from fedci.coordinator.coordinator import run_study
from fedci.errors import AwayError
from fedci.network import kit, party
from fedci.network.provision import new_network
from fedci.network.rehearsal import SITES, make_people, make_study
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.requests import asked
from fedci.site import ledger
from fedci.site.site import Site
from tests_support import PLANTED, hospitals, study

LONGEST = 120.0
SECURE = {"name": "simulation", "secure_sum": True}
STATES = ("Hello", "AskLinkKey", "AskTokens", "Exclude", "AskMaskKey", "TakeMaskKeys", "TakeCheckKey", "AskColumns",
          "AskMeans", "AskSpreads", "AskDescription", "Prepare", "AskDiagnostic.propensity", "OpenSum",
          "AskDiagnostic.overlap", "Begin", "Evaluate", "AskEffects", "AskDiagnostic.outcome")


class Killing:
    """Two sites in this process, oslo in one of its own, which dies once in each state: as it is asked, or, every
    second time, when its answer is on its way."""

    sites = SITES

    def __init__(self, folder, states):
        self.folder, self.states, self.killed, self.here, self.oslo = folder, list(states), [], {}, None
        for site in SITES:
            own = kit.read(folder / "kits" / site, "site")
            party.write_run(own, {"data": str(folder / site / "cohort.csv"), "approve": False, "patience": 1.0,
                                  "linkage_key": str(folder / "linkage.key")})
            if site != "oslo":
                self.here[site] = party.SiteParty(own)

    def exchange(self, requests):
        return {name: self._killing(request) if name == "oslo" else decode(self.here[name].answer(encode(request)))
                for name, request in sorted(requests.items())}

    def _killing(self, request):
        if self.oslo is None:
            self.oslo = parties.start(parties.site, str(self.folder / "kits" / "oslo"))
        process, pipe = self.oslo
        pipe.send_bytes(encode(request))
        if asked(request) in self.states:
            self.states.remove(asked(request))
            if len(self.killed) % 2:
                assert pipe.poll(LONGEST)
            self.killed.append(asked(request))
            parties.kill(process)
            self.oslo = None
            raise AwayError("site 'oslo' did not answer")
        assert pipe.poll(LONGEST)
        return decode(pipe.recv_bytes())

    def close(self):
        for one in self.here.values():
            one.ended()
        if self.oslo is not None:
            self.oslo[1].close()
            self.oslo[0].join(20)


def conducted(folder, plan, states=()):
    engine = Killing(folder, states)
    try:
        while True:
            try:
                return engine, run_study(engine, plan, link_secret=b"s" * 32,
                                         checkpoint=folder / "checkpoint.npz")
            except AwayError:
                continue
    finally:
        engine.close()


def place(folder, plan):
    make_people(folder, plan, **PLANTED)
    new_network(plan, (), "localhost", folder / "kits", port=8443)
    (folder / "linkage.key").write_text(bytes(range(32)).hex())
    (folder / "linkage.key").chmod(0o600)


FEW = ("AskTokens", "TakeMaskKeys", "Prepare", "OpenSum", "Evaluate", "AskDiagnostic.outcome")
"""One of each phase; parties that start anew in all others, in one process: test_faults.py."""


@pytest.mark.parametrize("states", [FEW, pytest.param(STATES, marks=pytest.mark.slow)], ids=["few", "all"])
def test_a_site_killed_in_every_state_costs_time_and_nothing_else(tmp_path, states):
    plan = make_study("classic", policy=SECURE,
                      options={"optimiser": {"rounds": 4}, "prediction": {"draws": 16}, "model": {}})
    for name in ("whole", "killed"):
        place(tmp_path / name, plan)
    _, expected = conducted(tmp_path / "whole", plan)
    engine, found = conducted(tmp_path / "killed", plan, states)
    assert sorted(engine.killed) == sorted(states)
    assert found.excluded == expected.excluded
    assert sum(found.excluded.values()) == 3 * PLANTED["twice"]
    assert found.fit.theta.tobytes() == expected.fit.theta.tobytes()
    assert [r.objective for r in found.fit.rounds] == [r.objective for r in expected.fit.rounds]
    assert found.effects.total["cate_mean"].tobytes() == expected.effects.total["cate_mean"].tobytes()
    assert found.layout.sites == SITES
    for site in SITES:
        assert ledger.verify(tmp_path / "killed" / "kits" / site).ok


def answered(folder, sites, dies_in):
    """One life of a coordinator: its process, asked and answered until it ends or dies; its exit code."""
    process, pipe = parties.start(parties.coordinator, str(folder / "study.toml"), tuple(sites),
                                  str(folder / "checkpoint.npz"), str(folder / "found.npz"), dies_in)
    try:
        while True:
            assert pipe.poll(LONGEST)
            name = pipe.recv_bytes().decode()
            pipe.send_bytes(encode(sites[name].answer(decode(pipe.recv_bytes()))))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        process.join(20)
        return process.exitcode


def check_coordinator_killed(folder, rounds: int, deaths):
    """Masked, and with sites that follow the fit: each life goes on from the checkpoint of the one before, to the bits
    of a run that nobody killed."""
    plan = study(policy=SECURE, options={"optimiser": {"rounds": rounds, "tolerance": 0.0},
                                         "prediction": {"draws": 16}})
    plan.write(folder / "study.toml")

    def local():
        return {source.name: Site(plan, source.read(plan)) for source in hospitals(40, 37, 39)}

    expected = run_study(InProcessEngine(local()), plan)
    sites = local()
    assert [answered(folder, sites, number) for number in deaths] == [-9] * len(deaths)
    assert answered(folder, sites, None) == 0
    with np.load(folder / "found.npz") as found:
        assert found["theta"].tobytes() == expected.fit.theta.tobytes()
        assert found["objectives"].tolist() == [r.objective for r in expected.fit.rounds]
        assert found["effects"].tobytes() == expected.effects.total["cate_mean"].tobytes()
    assert len(expected.fit.rounds) == rounds


def test_a_coordinator_killed_before_and_after_its_checkpoint_comes_to_the_same_bits(tmp_path):
    """Before anything is kept, in the round that writes a checkpoint, in the next, and in the last; before a sum is
    opened (odd) and after."""
    check_coordinator_killed(tmp_path, EVERY + 3, (2, EVERY, EVERY + 1, EVERY + 3))


@pytest.mark.slow
def test_a_coordinator_killed_in_every_round_of_twenty_comes_to_the_same_bits(tmp_path):
    check_coordinator_killed(tmp_path, 20, range(1, 21))
