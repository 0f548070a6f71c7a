"""The whole study over real processes on loopback, with mutual TLS: equal to one process, whatever is killed.

Every wait is bounded, and every process started here is ended here.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from fedci import FedCI, Result, Source
from fedci.errors import AwayError
from fedci.network import kit, processes, rehearsal
from fedci.network.provision import new_network
from fedci.site import ledger
from tests_support import PLANTED, SMALL

LONGEST = 240.0
MASKED = {"name": "simulation", "secure_sum": True}


QUIET = 2.0
"""Seconds in which a study that goes on would have answered a dozen times."""


@dataclass(frozen=True)
class Ended:
    """What was seen of a party whose command was ended."""

    code: int
    lines: int
    """Of its ledger, added after its command had ended."""
    living: list[int]
    """Processes that name its kit, `QUIET` seconds later."""


@contextmanager
def background_shell():
    """What is started in it ignores SIGINT until it says otherwise, as what a shell starts in its background."""
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
              signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class Network:
    """Kits, data and commands of one study below a folder."""

    def __init__(self, out: Path, host: str = "localhost", elsewhere: dict[str, list[str]] | None = None, **changes):
        """`elsewhere`: party → words before its command, which run it on another machine."""
        self.out, self.elsewhere = out, elsewhere or {}
        self.study = rehearsal.make_study(options=SMALL, **changes)
        self.tables = rehearsal.make_people(out, self.study, **PLANTED)
        new_network(self.study, (), host, out / "kits", rehearsal.free_port())
        self.running: dict[str, subprocess.Popen] = {}
        self.deadline = 120
        self._compile()

    def _compile(self):
        """The study once in this process: three sites that start at once would each compile the same programs."""
        alone = self.study.model_copy(update={"ids": (), "sites": ()})
        FedCI(alone).fit([Source(site, table.iloc[:37]) for site, table in self.tables.items()])

    def kit(self, party):
        return kit.read(self.out / "kits" / party)

    def start(self, party: str):
        with background_shell():
            self.running[party] = self._coordinator() if party == "coordinator" else rehearsal.start_site(
                self.out, party, rehearsal.SITES.index(party), self.elsewhere.get(party, ()))

    def start_all(self):
        for party in (*rehearsal.SITES, "coordinator"):
            self.start(party)

    def _coordinator(self):
        with (self.out / "coordinator.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "fedci", "coordinator", "run", "--kit",
                                     str(self.out / "kits" / "coordinator"), str(self.out / "study.toml"), "--out",
                                     str(self.out / "result"), "--force", "--deadline", str(self.deadline),
                                     "--wait", "200"],
                                    stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, party: str):
        """As a power cut would: the command and all of its engine's processes, at once."""
        for number in (self.running[party].pid, *processes.workers(self.kit(party))):
            os.kill(number, signal.SIGKILL)
        self.running[party].wait(20)

    def end(self, **signs: signal.Signals) -> dict[str, Ended]:
        """A signal to the command of each party named, and to nothing else."""
        for party, sign in signs.items():
            self.running[party].send_signal(sign)
        return self.ended(*signs)

    def ended(self, *parties: str) -> dict[str, Ended]:
        lines = {}
        for party in parties:
            self.running[party].wait(20)
            lines[party] = self.lines(party)
        time.sleep(QUIET)
        return {party: Ended(self.running[party].returncode, self.lines(party) - lines[party],
                             naming(self.kit(party).folder)) for party in parties}

    def lines(self, party: str) -> int:
        """Of its ledger, as it stands on disk."""
        path = self.kit(party).folder / ledger.LEDGER
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def rounds(self) -> int:
        return sum(event["event"] == "round" for event in kit.events(self.kit("coordinator").run)[0])

    def working(self, site: str) -> int:
        """The process that answers for a site now."""
        return [event["process"] for event in kit.events(self.kit(site).run)[0] if event["event"] == "started"][-1]

    def wait_round(self, number: int):
        self._until(lambda: any(event["event"] == "round" and event["number"] >= number
                                for event in kit.events(self.kit("coordinator").run)[0]), f"round {number}")

    def wait_said(self, words: str):
        self._until(lambda: words in (self.out / "coordinator.log").read_text(), f"'{words}'")

    def wait_end(self):
        self._until(lambda: self.running["coordinator"].poll() is not None, "the coordinator's end")
        assert self.running["coordinator"].returncode == 0, self.logs()

    def wait_sites(self):
        """Until every site's command has ended well."""
        for site in rehearsal.SITES:
            self.running[site].wait(60)
            assert self.running[site].returncode == 0, self.logs()

    def _until(self, there, what: str):
        end = time.monotonic() + LONGEST
        while not there():
            assert time.monotonic() < end, f"{what} did not come within {LONGEST:g} s\n{self.logs()}"
            time.sleep(0.1)

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.out.glob("*.log")))

    def close(self):
        for process in self.running.values():
            rehearsal.stop(process)
        for party in ("coordinator", *rehearsal.SITES):
            processes.end_leftover(self.kit(party))


def naming(folder: Path) -> list[int]:
    """Living processes whose command line names a folder."""
    if Path("/proc/self").exists():
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                found[int(path.parent.name)] = path.read_text(errors="replace")
    else:
        listed = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        found = {int(number): line for number, line in (line.split(None, 1) for line in listed.stdout.splitlines())}
    return [number for number, line in found.items() if f"{folder}" in line]


@contextmanager
def network(folder: Path, **changes):
    made = Network(folder, **changes)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """A run with linkage, under secure sums, with sites that follow the fit and all diagnostics, to which everything
    happens: a site slower than the deadline; each site's command ended, each in another way; later one of them again,
    the coordinator's, and a site's engine. (Network, its result, what was seen of the ended, twice)"""
    with network(tmp_path_factory.mktemp("troubled"), policy=MASKED) as made:
        made.deadline = 10
        made.start_all()
        made.wait_round(2)
        slow = made.working("oslo")
        os.kill(slow, signal.SIGSTOP)
        made.wait_said("paused     ")
        os.kill(slow, signal.SIGCONT)
        made.wait_round(5)
        rounds = made.rounds()
        first = made.end(turin=signal.SIGKILL, lyon=signal.SIGTERM, oslo=signal.SIGHUP)
        assert made.rounds() <= rounds + 2  # what was on its way
        for site in first:
            made.start(site)
        made.wait_round(8)
        engine, *_ = processes.workers(made.kit("oslo"))
        os.kill(engine, signal.SIGKILL)
        later = made.end(coordinator=signal.SIGKILL, lyon=signal.SIGINT) | made.ended("oslo")
        for party in later:
            made.start(party)
        made.wait_end()
        made.wait_sites()
        yield made, Result.load(made.out / "result"), first, later


def test_networked_with_linkage_is_the_study_in_one_process(troubled):
    """All diagnostics are compared too. (With refuters: test_faults.py, and below under `slow`.)"""
    network, found, *_ = troubled
    rehearsal.compare(network.out, network.study, network.tables, found)
    assert sum(found.outcome.excluded.values()) == 3 * PLANTED["twice"]
    for site in rehearsal.SITES:
        own = network.kit(site).folder
        assert ledger.verify(own).ok
        entries = ledger.read(own)
        assert {e["phase"] for e in entries} == {"policy", "handshake", "linkage", "keys", "moments", "design", "fit",
                                                 "effects", "checks"}
        assert any("masked" in entry["sums"] for entry in entries)
        people = pd.read_csv(next((own / "out").glob("people-*.csv")))
        assert list(people["row"]) == list(rehearsal.kept_rows(network.out, site, found.outcome.run))


def test_however_a_sites_command_ends_nothing_leaves_after_it(troubled):
    """Asked to end, by SIGTERM, by a closed terminal (SIGHUP), by Ctrl-C though a shell had it ignored: its ledger has
    not one line more. Killed by SIGKILL, when nobody is left to tidy up, at most the line that was being written. No
    process that names its kit lives on; and the study's result is that of a run to which nothing happened (above)."""
    _, _, first, later = troubled
    assert {site: seen.code for site, seen in first.items()} == {"turin": -9, "lyon": 128 + 15, "oslo": 128 + 1}
    assert (first["lyon"].lines, first["oslo"].lines, later["lyon"].lines) == (0, 0, 0)
    assert first["turin"].lines <= 1
    assert [seen.living for seen in first.values()] == [[], [], []]
    assert (later["lyon"].code, later["lyon"].living) == (130, [])


def test_when_its_engine_is_killed_a_sites_command_ends_and_its_job_too(troubled):
    _, _, _, later = troubled
    assert (later["oslo"].code, later["oslo"].lines, later["oslo"].living) == (AwayError.exit_code, 0, [])


def test_a_killed_coordinators_server_and_job_end_with_it(troubled):
    _, _, _, later = troubled
    assert (later["coordinator"].code, later["coordinator"].living) == (-9, [])


def test_ended_sites_and_a_killed_coordinator_cost_nothing(troubled):
    """Rounds were run once or again, and each counts once; the numbers are those of the test above."""
    network, found, *_ = troubled
    assert [step.number for step in found.outcome.fit.rounds] == list(range(1, len(found.outcome.fit.rounds) + 1))
    assert len(found.outcome.fit.rounds) >= 8
    assert (network.out / "coordinator.log").read_text().count("listening") == 2
    assert {site: (network.out / f"{site}.log").read_text().count("waiting    for the coordinator")
            for site in rehearsal.SITES} == {"lyon": 3, "oslo": 3, "turin": 2}


def test_a_site_slower_than_the_deadline_pauses_the_run_and_its_late_answer_changes_nothing(troubled):
    network, *_ = troubled
    said = (network.out / "coordinator.log").read_text()
    reasons = "site 'oslo' did not answer within 10 s", "2 of 3 sites are there to open a sum, 3 are needed"
    assert any(f"paused     {reason}" in said for reason in reasons)  # as it was asked for a sum, or to open one


class Cable:
    """A machine of its own (a network namespace of Linux), and a cable to it that can be pulled out."""

    HERE, THERE, NAME, ENDS = "10.231.7.1", "10.231.7.2", "fedci-elsewhere", ("fedci-here", "fedci-there")

    def __init__(self):
        here, there = self.ENDS
        self.close()
        for words in (["netns", "add", self.NAME], ["link", "add", here, "type", "veth", "peer", "name", there],
                      ["link", "set", there, "netns", self.NAME], ["addr", "add", f"{self.HERE}/24", "dev", here],
                      ["-n", self.NAME, "addr", "add", f"{self.THERE}/24", "dev", there],
                      ["link", "set", here, "up"], ["-n", self.NAME, "link", "set", "lo", "up"]):
            self._ip(*words)
        self.plugged(True)

    def plugged(self, is_in: bool) -> None:
        self._ip("-n", self.NAME, "link", "set", self.ENDS[1], "up" if is_in else "down")

    def close(self) -> None:
        """With the namespace its end of the cable goes, and with that the other."""
        subprocess.run(["ip", "netns", "del", self.NAME], capture_output=True, check=False)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], capture_output=True, check=True)


@pytest.fixture
def cable():
    try:
        made = Cable()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("network namespaces need root, and Debian's iproute2")
    yield made
    made.close()


@pytest.mark.slow
def test_a_network_that_is_cut_pauses_the_run_and_costs_nothing(cable, tmp_path):
    """One site is on a machine of its own; its cable is out for longer than the deadline, and no command is started
    again."""
    there = ["ip", "netns", "exec", cable.NAME]
    with network(tmp_path, host=cable.HERE, elsewhere={"turin": there}, policy=MASKED) as made:
        made.deadline = 6
        made.start_all()
        made.wait_round(3)
        cable.plugged(False)
        made.wait_said("paused     ")
        rounds = made.rounds()
        time.sleep(QUIET)
        assert made.rounds() == rounds
        cable.plugged(True)
        made.wait_end()
        made.wait_sites()
        found = Result.load(made.out / "result")
        assert all(ledger.verify(made.kit(site).folder).ok for site in rehearsal.SITES)
    rehearsal.compare(made.out, made.study, made.tables, found)


@pytest.mark.slow
def test_with_a_quorum_the_study_goes_on_without_a_site_that_left_and_names_who_contributed(tmp_path):
    """And with a refuter, whose numbers are compared too. (The same without the engine's processes: test_faults.py.)"""
    with network(tmp_path, quorum=2, diagnostics={"refute": ["placebo"]}) as made:
        made.deadline = 6
        made.start_all()
        made.wait_round(3)
        made.kill("oslo")
        made.wait_end()
        found = Result.load(made.out / "result")
    assert found.outcome.layout.sites == ("lyon", "turin")
    assert "oslo" not in found.traffic
    assert [row.name for row in found.diagnostics.refuters] == ["placebo"]
    rehearsal.compare(made.out, made.study, {site: made.tables[site] for site in ("lyon", "turin")}, found)


@pytest.mark.slow
def test_a_study_of_few_exchanges_is_that_of_one_process(tmp_path):
    """No point travels: coordinator and sites work each out in processes of their own, and come to the same. Without
    linkage's and the diagnostics' exchanges eight are left, each of which opens a sum."""
    with network(tmp_path, preset="few", policy=MASKED, diagnostics={"enabled": False}) as made:
        made.start_all()
        made.wait_end()
        made.wait_sites()
        found = Result.load(made.out / "result")
        entries = ledger.read(made.kit("lyon").folder)
    rehearsal.compare(made.out, made.study, made.tables, found)
    rounds = made.study.fit_options().optimiser.rounds
    steps = [entry["request"] for entry in entries if "masked" in entry["sums"]]
    assert steps == ["AskColumns", "AskMoments", *["AskProducts"] * rounds, "AskSharedEffects"]
