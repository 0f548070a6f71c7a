"""Parties that stop and start again, at every exchange of a run: the result is that of the run never interrupted.

Each site is a `SiteParty` on its own kit, as in its job process; a restart is a new one on the same kit. The engine is
replaced by a call: what a real engine does when processes die is tested in test_network.py.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from fedci.coordinator.coordinator import run_study
from fedci.errors import AwayError
from fedci.network import kit, party
from fedci.network.rehearsal import SITES
from fedci.protocol.codec import decode, encode
from fedci.protocol.requests import asked
from fedci.site import ledger
from fedci.study.sections import Diagnosing, Linkage
from tests_support import PLANTED, SMALL


class Engine:
    """Sites of a folder. `breaks` are requests, in the order of the protocol, that nobody answers: a name, or (name,
    other, count) for the first after `count` requests of the name `other`. With `half`, lyon has answered by then."""

    def __init__(self, folder, breaks=(), half=False):
        self.folder, self.half = folder, half
        self.breaks = [at if isinstance(at, tuple) else (at, at, 0) for at in breaks]
        self.sites, self.parties, self.seen, self.names = SITES, {}, [], []

    def start(self, site):
        own = kit.read(self.folder / "kits" / site, "site")
        party.write_run(own, {"data": str(self.folder / site / "cohort.csv"), "approve": False, "patience": 1.0})
        self.parties[site] = party.SiteParty(own)

    def kill(self):
        """What the system does for a dead process: its locks go."""
        for one in self.parties.values():
            one.ended()
        self.parties = {}

    def exchange(self, requests):
        name = asked(next(iter(requests.values())))
        breaking = self._breaks_at(name)
        self.names.append(name)
        replies = {}
        for site, request in sorted(requests.items()):
            if breaking and (site == "oslo" or not self.half):
                raise AwayError(f"site '{site}' did not answer")
            if site not in self.parties:
                self.start(site)
            replies[site] = decode(self.parties[site].answer(encode(request)))
            self.seen.append(name)
        return replies

    def _breaks_at(self, name: str) -> bool:
        """Once for each of `breaks`."""
        if not self.breaks or name != self.breaks[0][0] or self.names.count(self.breaks[0][1]) < self.breaks[0][2]:
            return False
        self.breaks.pop(0)
        return True


def conducted(folder, study, breaks=(), half=False):
    """The study with a checkpoint; after each break everything starts anew, as after a crash of all."""
    engine = Engine(folder, breaks, half)
    while True:
        try:
            return engine, run_study(engine, study, checkpoint=folder / "checkpoint.npz",
                                     link_secret=b"s" * 32)
        except AwayError:
            engine.kill()
            engine.names.clear()


@pytest.fixture
def keyed(kits, monkeypatch):
    """Linkage with a key given out of band: then also a run that begins anew excludes the same people."""
    from fedci.privacy.agreement import Credentials

    monkeypatch.setattr(party, "credentials", lambda own, run_facts: Credentials(key=bytes(range(32))))
    return kits


def numbers(outcome):
    """All of it but the clock, which stands in the trace of the fit."""
    told = outcome.diagnostics.model_copy(update={"fit": outcome.diagnostics.fit.model_copy(update={"trace": ()})})
    return {"diagnostics": np.array(told.to_json()), "theta": outcome.fit.theta,
            "objectives": np.array([r.objective for r in outcome.fit.rounds]),
            **{f"{site}/{name}": value for site, sums in outcome.effects.sums.items() for name, value in sums.items()}}


@pytest.fixture(scope="module")
def whole(made, study, tmp_path_factory):
    """The uninterrupted run, and how many exchanges it takes."""
    import shutil

    from fedci.privacy.agreement import Credentials

    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(made[0], folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(party, "credentials", lambda own, run_facts: Credentials(key=bytes(range(32))))
        engine, outcome = conducted(folder, study)
    return engine, numbers(outcome), outcome


def test_the_run_has_linkage_and_all_phases(whole):
    engine, _, outcome = whole
    assert sum(outcome.excluded.values()) == 3 * PLANTED["twice"]
    assert {"Hello", "AskLinkKey", "AskTokens", "Exclude", "AskColumns", "AskMeans", "AskSpreads", "Prepare", "Begin",
            "AskDiagnostic.propensity", "AskStatistics", "PullBack", "AskSharedEffects"} <= set(engine.seen)
    assert engine.seen[-1] == "AskDiagnostic.outcome"


STATES = ("AskLinkKey", "AskTokens", "Exclude", "AskMeans", "Prepare", "AskDiagnostic.propensity", "Begin",
          "AskStatistics", "PullBack", ("AskStatistics", "PullBack", 7), ("PullBack", "PullBack", 2),
          "AskSharedEffects", "AskDiagnostic.outcome")
"""In the 8th round a checkpoint lies behind; the last is asked after the effects."""


@pytest.mark.parametrize("half", [False, True])
def test_killed_anywhere_and_started_again_the_result_is_the_same_to_the_bit(whole, keyed, study, half):
    """One run that breaks in every state, and each time all parties start anew. `half`: the sites before the lost one
    had answered already, and must answer the same again."""
    _, expected, _ = whole
    again, outcome = conducted(keyed, study, STATES, half)
    assert again.breaks == []
    for name, value in numbers(outcome).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    again.kill()
    for site in SITES:
        assert ledger.verify(keyed / "kits" / site).ok


def test_effects_of_people_are_written_at_the_site_only(whole, keyed, study):
    conducted(keyed, study)[0].kill()
    found = list((keyed / "kits" / "lyon" / "out").glob("people-*.csv"))
    assert len(found) == 1
    assert found[0].stat().st_mode & 0o077 == 0


def test_a_replayed_or_changed_request_is_refused(keyed, study):
    from dataclasses import replace

    from fedci.protocol.messages import Hello, Refusal, Step

    engine, outcome = conducted(keyed, study)
    door = engine.parties["lyon"].door
    run = outcome.run
    again = Step(run, 2, "lyon", "AskColumns")
    for request in (again, replace(again, run="another"), replace(again, site="oslo", round=999),
                    replace(again, round=999), Step(run, 999, "lyon", "AskMeans"), Step(run, 999, "lyon", "AskRows"),
                    Hello(run, 1, "lyon", "0.0", "x", {})):
        assert isinstance(decode(door.answer(encode(request))), Refusal), request


def test_a_filter_that_takes_a_sum_out_is_named_with_its_site(keyed, study):
    from fedci.errors import MessageError
    from fedci.network import leaving

    class Filtered(Engine):
        def exchange(self, requests):
            return {site: leaving.checked(reply, ("gram",) if site == "oslo" else ())
                    for site, reply in super().exchange(requests).items()}

    with pytest.raises(MessageError, match="site 'oslo' answered a AskStatistics without 'gram': a filter at the site"):
        run_study(Filtered(keyed), study)


def test_each_phase_waits_for_a_persons_word(kits, study):
    """`--approve`: the question reaches the screen as an event, and the answer comes back as a file."""
    import threading
    import time

    from fedci.errors import DisclosureError

    class Asking(Engine):
        def start(self, site):
            own = kit.read(self.folder / "kits" / site, "site")
            party.write_run(own, {"data": str(self.folder / site / "cohort.csv"), "approve": site == "oslo",
                                  "patience": 20.0})
            self.parties[site] = party.SiteParty(own)

    asked, run = [], kit.read(kits / "kits" / "oslo", "site").run

    def person():
        at = 0
        while len(asked) < 3:
            seen, at = kit.events(run, at)
            for event in [event for event in seen if event["event"] == "ask"]:
                asked.append(event["phase"])
                (run / f"answer-{event['number']}").write_text("no" if event["phase"] == "moments" else "yes")
            time.sleep(0.05)

    thread = threading.Thread(target=person, daemon=True)
    thread.start()
    with pytest.raises(DisclosureError, match="did not approve the phase 'moments' at site 'oslo'"):
        run_study(Asking(kits), study)
    thread.join(10)
    assert asked == ["handshake", "linkage", "moments"]


# --- masked, and with sites that follow the fit


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """(folder with kits of a masked study, the study)."""
    from fedci.network.provision import new_network
    from fedci.network.rehearsal import make_people, make_study

    out = tmp_path_factory.mktemp("masked")
    plan = make_study("classic", options={"optimiser": {"rounds": 12}, "prediction": {"draws": 16}},
                      policy={"name": "simulation", "secure_sum": True},
                      linkage={"enabled": False})
    make_people(out, plan, people=40, twice=0)
    new_network(plan, (), "localhost", out / "kits", port=8443)
    return out, plan


@pytest.fixture(scope="module")
def uninterrupted(masked, tmp_path_factory):
    made, plan = masked
    engine, outcome = conducted(copied(made, tmp_path_factory.mktemp("uninterrupted")), plan)
    engine.kill()
    return numbers(outcome)


def copied(made, place):
    import shutil

    for part in ("kits", *SITES):
        shutil.copytree(made / part, place / part)
    return place


MASKED_STATES = ("TakeMaskKeys", "AskDescription", "AskDiagnostic.propensity", "Evaluate", ("OpenSum", "Evaluate", 3),
                 ("Evaluate", "Evaluate", 7), ("OpenSum", "Evaluate", 2), "AskEffects")


@pytest.mark.parametrize("half", [False, True])
def test_masked_and_killed_anywhere_the_result_is_the_same_to_the_bit(masked, uninterrupted, tmp_path, half):
    """Every party starts anew on its own disk alone: keys follow from identities, the course of the fit from its
    places, and what was answered before is answered to the same bytes."""
    made, plan = masked
    folder = copied(made, tmp_path)
    again, outcome = conducted(folder, plan, MASKED_STATES, half)
    assert again.breaks == []
    for name, value in numbers(outcome).items():
        np.testing.assert_array_equal(value, uninterrupted[name], err_msg=name)
    again.kill()
    assert all(ledger.verify(folder / "kits" / site).ok for site in SITES)


class Whole(Engine):
    """An engine as the coordinator's job process has it; `breaks_in`: the run in whose 8th round a site goes away."""

    def __init__(self, folder, breaks_in=None, sites=SITES):
        super().__init__(folder, half=True)
        self.breaks_in, self.sites, self.traffic = breaks_in, sites, {}

    def exchange(self, requests):
        request = next(iter(requests.values()))
        if self.breaks_in is not None and request.run.endswith(self.breaks_in) and asked(request) == "Evaluate":
            self.breaks, self.breaks_in = [("Evaluate", "Evaluate", self.names.count("Evaluate") + 7)], None
        return super().exchange(requests)

    def wait_ready(self): ...

    def finish(self):
        self.kill()


def coordinated(folder, breaks_in=None):
    """(the engine, the last event) of the coordinator's job process."""
    own, engine = kit.read(folder / "kits" / "coordinator", "coordinator"), Whole(folder, breaks_in)
    party.coordinate(own, engine, {"out": str(folder / "result")})
    if breaks_in:
        engine.kill()
    return engine, kit.events(own.run)[0][-1]


def test_killed_among_the_refuters_they_go_on_and_what_was_fitted_stays(masked, tmp_path):
    """Masked, linked, followed by the sites, and broken in the second refuter: equal to the study in one process, where
    the same sites change the same rows."""
    from fedci import Source
    from fedci.estimator import FedCI
    from fedci.network.provision import new_network
    from fedci.network.rehearsal import kept_rows, make_people
    from fedci.result.result import Result

    plan = masked[1].model_copy(update={"linkage": Linkage(), "diagnostics": Diagnosing(
        refute=("placebo",), negative_control="falls")})
    tables = make_people(tmp_path, plan, **PLANTED)
    for number, (site, table) in enumerate(tables.items()):
        table["falls"] = np.random.default_rng(number).normal(size=len(table))
        table.to_csv(tmp_path / site / "cohort.csv", index=False)
    new_network(plan, (), "localhost", tmp_path / "kits", port=8443)
    engine, event = coordinated(tmp_path, breaks_in="-negative-control")
    assert event["event"] == "paused", event
    assert engine.names[-1] == "Evaluate"
    again, event = coordinated(tmp_path)
    assert event["event"] == "result", event
    assert "AskDiagnostic.outcome" not in again.names  # the study's own fit, and the first refuter, are not asked again
    assert again.names.count("AskEffects") == 1
    found = Result.load(tmp_path / "result")
    assert [row.name for row in found.diagnostics.refuters] == ["placebo", "negative-control"]
    alone = [Source(site, table.iloc[kept_rows(tmp_path, site, found.outcome.run)].reset_index(drop=True))
             for site, table in tables.items()]
    here = FedCI(plan.model_copy(update={"ids": ()})).fit(alone)
    for one, other in zip(found.diagnostics.refuters, here.diagnostics.refuters, strict=True):
        assert one.z == pytest.approx(other.z, rel=1e-6)  # masks are taken in fixed point
        assert one.estimate.mean == pytest.approx(other.estimate.mean, rel=1e-6)
    for site in SITES:
        own = kit.read(tmp_path / "kits" / site, "site")
        assert ledger.verify(own.folder).ok
        assert [path.name for path in own.out.iterdir()] == [f"people-{found.outcome.run}.csv"]
    left = [path.name for path in kit.read(tmp_path / "kits" / "coordinator", "coordinator").run.iterdir()]
    assert not [name for name in left if name.startswith(("checkpoint", party.FITTED))]


class Console:
    """The engine's console, whose jobs run at once and in this process; oslo leaves in the first one."""

    def __init__(self, own, folder):
        self.own, self.folder, self.connected = own, folder, SITES

    def get_connected_client_list(self):
        return [SimpleNamespace(name=name) for name in self.connected]

    def submit_job(self, folder):
        run_facts = party.read_run(self.own)
        engine = Whole(self.folder, sites=tuple(run_facts["sites"]))
        engine.breaks = [("AskStatistics", "PullBack", 7)] if "oslo" in engine.sites else []
        party.coordinate(self.own, engine, run_facts)
        engine.kill()
        self.connected = tuple(site for site in SITES if site != "oslo")
        return "1"

    def abort_job(self, number): ...


def test_with_a_quorum_the_study_goes_on_without_a_site_that_left_and_names_who_contributed(tmp_path, monkeypatch):
    """As over the network (test_network.py), but for its processes: oslo goes away in the 8th round, and stays away."""
    from fedci.network import operations, rehearsal
    from fedci.network.provision import new_network
    from fedci.result.result import Result

    monkeypatch.setattr(operations, "PAUSE", 0.0)
    monkeypatch.setattr(operations, "LOOK", 0.01)
    plan = rehearsal.make_study(options=SMALL, quorum=2, diagnostics={"enabled": False})
    tables = rehearsal.make_people(tmp_path, plan, **PLANTED)
    new_network(plan, (), "localhost", tmp_path / "kits", port=8443)
    own, said = kit.read(tmp_path / "kits" / "coordinator", "coordinator"), []
    party.write_run(own, {"out": str(tmp_path / "result")})
    running = SimpleNamespace(poll=lambda: None)
    operations._conduct(own, Console(own, tmp_path), running, said.append, 1.0, operations.Absence(plan.quorum, 0.05))
    assert "paused     site 'oslo' did not answer" in said
    assert "started    the study with lyon, turin alone" in said
    found = Result.load(tmp_path / "result")
    assert found.outcome.layout.sites == ("lyon", "turin")
    rehearsal.compare(tmp_path, plan, {site: tables[site] for site in ("lyon", "turin")}, found)
