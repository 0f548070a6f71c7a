"""The whole study over real processes on loopback, with mutual TLS: equal to one process, whatever is killed.

Every wait is bounded, and every process started here is ended here.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from fedci import FedCI, Result, Source
from fedci.network import kit, processes, rehearsal
from fedci.network.provision import new_network
from fedci.site import ledger
from tests_support import SMALL

LONGEST = 240.0
MASKED = {"name": "simulation", "secure_sum": True, "check_trajectory": True}


class Network:
    """Kits, data and commands of one study below a folder."""

    def __init__(self, out: Path, **changes):
        self.out = out
        self.study = rehearsal.make_study(options=SMALL, **changes)
        self.tables = rehearsal.make_people(out, self.study, people=40, twice=6)
        new_network(self.study, (), "localhost", out / "kits", rehearsal.free_port())
        self.running: dict[str, subprocess.Popen] = {}
        self.deadline = 120
        self._compile()

    def _compile(self):
        """The study once in this process: three sites that start at once would each compile the same programs."""
        alone = self.study.model_copy(update={"ids": (), "sites": ()})
        FedCI(alone).fit([Source(site, table.iloc[:40]) for site, table in self.tables.items()])

    def kit(self, party):
        return kit.read(self.out / "kits" / party)

    def start(self, party: str):
        self.running[party] = self._coordinator() if party == "coordinator" else rehearsal.start_site(
            self.out, party, rehearsal.SITES.index(party))

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
        group = int((self.kit(party).run / processes.PID).read_text())
        self.running[party].kill()
        os.killpg(group, signal.SIGKILL)
        self.running[party].wait(20)

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


@contextmanager
def network(folder: Path, **changes):
    made = Network(folder, **changes)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """A run with linkage, under secure sums, with sites that follow the fit, all diagnostics and a refuter, to which
    everything happens: a site slower than the deadline, a site killed, the coordinator killed. (Network, its result)"""
    with network(tmp_path_factory.mktemp("troubled"), policy=MASKED, diagnostics={"refute": ["placebo"]}) as made:
        made.deadline = 10
        made.start_all()
        made.wait_round(2)
        slow = made.working("oslo")
        os.kill(slow, signal.SIGSTOP)
        made.wait_said("paused     site 'oslo' did not answer within 10 s")
        os.kill(slow, signal.SIGCONT)
        made.wait_round(5)
        made.kill("turin")
        made.start("turin")
        made.wait_round(8)
        made.kill("coordinator")
        made.start("coordinator")
        made.wait_end()
        made.wait_sites()
        yield made, Result.load(made.out / "result")


def test_networked_with_linkage_is_the_study_in_one_process(troubled):
    """All diagnostics, a refuter among them, are compared too."""
    network, found = troubled
    rehearsal.compare(network.out, network.study, network.tables, found)
    assert sum(found.outcome.excluded.values()) == 18
    assert [row.name for row in found.diagnostics.refuters] == list(network.study.diagnostics.refute)
    for site in rehearsal.SITES:
        own = network.kit(site).folder
        assert ledger.verify(own).ok
        entries = ledger.read(own)
        assert {e["phase"] for e in entries} == {"handshake", "linkage", "keys", "moments", "design", "fit", "effects",
                                                 "checks"}
        assert any("masked" in entry["sums"] for entry in entries)
        people = pd.read_csv(next((own / "out").glob("people-*.csv")))
        assert list(people["row"]) == list(rehearsal.kept_rows(network.out, site, found.outcome.run))


def test_a_killed_site_and_a_killed_coordinator_cost_nothing(troubled):
    """Rounds were run once or again, and each counts once; the numbers are those of the test above."""
    network, found = troubled
    assert [step.number for step in found.outcome.fit.rounds] == list(range(1, len(found.outcome.fit.rounds) + 1))
    assert len(found.outcome.fit.rounds) >= 8
    assert (network.out / "coordinator.log").read_text().count("listening") == 2
    assert (network.out / "turin.log").read_text().count("waiting    for the coordinator") == 2


def test_a_site_slower_than_the_deadline_pauses_the_run_and_its_late_answer_changes_nothing(troubled):
    network, _ = troubled
    assert "paused     site 'oslo' did not answer within 10 s" in (network.out / "coordinator.log").read_text()
    assert (network.out / "oslo.log").read_text().count("waiting    for the coordinator") == 1


def test_with_a_quorum_the_study_goes_on_without_a_site_that_left_and_names_who_contributed(tmp_path):
    with network(tmp_path, quorum=2, diagnostics={"enabled": False}) as made:
        made.deadline = 6
        made.start_all()
        made.wait_round(3)
        made.kill("oslo")
        made.wait_end()
        found = Result.load(made.out / "result")
    assert found.outcome.layout.sites == ("lyon", "turin")
    assert "oslo" not in found.traffic
    rehearsal.compare(made.out, made.study, {site: made.tables[site] for site in ("lyon", "turin")}, found)
