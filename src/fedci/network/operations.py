"""`fedci network new`, `fedci site check | run`, `fedci coordinator run`: what each party's operator types."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedci.errors import AwayError, HandshakeError, OutputError, UsageError, from_code
from fedci.files import rotate
from fedci.network import certificates, hardening, kit, party, processes, reach
from fedci.network.kit import Kit
from fedci.network.provision import place_server
from fedci.protocol.forecast import Clock, rounds_left
from fedci.site import accountant, admission, ledger, store
from fedci.site.floors import FILE, Floors, floors_at, held
from fedci.study.strictness import shown
from fedci.study.study import Study
from fedci.table.table import Source, absolute

POLL, LOOK = 0.1, 0.5
LISTEN_SECONDS = 60.0
STATUS_EVERY = 2.0
"""Seconds between questions to the engine whether a job that says nothing still runs."""
TELL_EVERY = 10.0
"""Seconds between lines on how far a fit is, at a site."""
WINDOW, FEWEST = 20, 4
"""Rounds by which their time is measured at a site, at most and at least."""
PATIENCE = 3600.0
"""Seconds a person has to approve a phase."""
LAST_SECONDS = 2.0
"""Seconds a site's engine has, when the study is complete, to tell the coordinator that it has heard so."""
PAUSE = 3.0
"""Seconds before a job that paused is submitted again."""

Say = Callable[[str], None]


# --- a site

def check_kit(folder: str | Path, role: str) -> Kit:
    """The kit, whole and hardened; OutputError lists all that is not."""
    own = kit.read(folder, role)
    if role == "coordinator" and not own.by_files:
        place_server(own.engine)
    faults = kit.check_seal(own)
    if not own.by_files:
        faults += hardening.problems(own.engine / "local", server=role == "coordinator") + certificates.problems(own)
    if own.folder.stat().st_mode & 0o077:
        faults.append(f"the folder can be read by others: run `chmod 700 {own.folder}`")
    if own.study.hash() != own.study_hash:
        faults.append("study.toml is not the study the kit was made for")
    if faults:
        raise OutputError(f"the kit '{folder}' is not as it was made: {'; '.join(faults)}. Ask for a new kit")
    return own


def check_way(own: Kit, by_files: bool) -> None:
    """UsageError where a command is for kits of the other way that messages travel."""
    if own.by_files == by_files:
        return
    instead = {("site", True): "fedci site answer", ("site", False): "fedci site run",
               ("coordinator", True): "fedci coordinator next", ("coordinator", False): "fedci coordinator run"}
    raise UsageError(f"the kit '{own.folder.name}' is made for {'files' if own.by_files else 'a network'}: use "
                     f"`{instead[own.role, own.by_files]}`, or ask for a kit of the other kind")


def check_site(folder: str | Path, data: str | Path, say: Say, policy: Path | None = None,
               keep: str | Path | None = None) -> tuple[Kit, Floors]:
    """All that can be known before the coordinator is reached, and the same decision that the site makes in the run.

    policy   the site's own; none: that of FEDCI_SITE_POLICY, or beside the kit, or else `standard`
    keep     the folder of the site's store; none: where `store.place` says
    """
    own = check_kit(folder, "site")
    floors = floors_at(own.folder, policy)
    study = own.study.under(floors.policy)
    whole = "whole" if own.by_files else "whole and hardened"
    say(f"kit        {whole}: site '{own.name}' of study '{study.name}' ({own.study_hash[:12]})")
    _say_policy(own.study, floors, say)
    source = Source.at(study, own.name, data)
    if source.query:
        say(f"query      {source.query}")
    table = source.read(study)
    say(f"data       {table.rows} rows, {table.treated} treated, {len(table.columns)} design columns")
    admission.admit(admission.situation(study, table, len(own.sites)))
    _say_store(own, store.place(keep), say)
    say("connects   to nobody: requests come as files, and `fedci site answer` answers them" if own.by_files else
        f"connects   to {own.host}:{own.port} (TCP, outward only)")
    for warning in table.warnings:
        say(f"warning    {warning}")
    return own, floors


def _say_policy(study: Study, floors: Floors, say: Say) -> None:
    """Every value, the study's, the site's, which one holds and who set it."""
    here = (f"floors of {floors.path}" if floors.path else
            f"no {FILE}, so the floors of 'standard' hold; `fedci site policy` makes one")
    say(f"policy     '{study.policy.name}' of the study; {here}")
    rows = [("value", "study", "site", "holds", "set by")]
    rows += [(rule.key, shown(rule.study), "–" if rule.site is None and rule.by == "the study" else shown(rule.site),
              "refused" if rule.by.startswith("refused") else shown(rule.holds), rule.by)
             for rule in held(study, floors) if rule.key not in ("name", "override_reason")]
    wide = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        say("  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, wide, strict=False)), row[4]]))


def _say_store(own: Kit, place: Path, say: Say) -> None:
    """What the site has told so far, in counts; OutputError where its store is lost."""
    entries = ledger.read(own.folder)
    if not store.exists(place) and not accountant.answered(entries):
        say(f"store      none yet: the first run begins it in '{place}'. If this site has taken part in a study "
            f"before, name its store with --store, or bring it back with `fedci site store restore`")
        return
    counts = accountant.opened(place, entries).counts
    say(f"store      '{place}': {counts.cohorts} cohorts of {counts.people} people told of in {counts.runs} runs, "
        f"{counts.numbers} numbers, at most {counts.most} in the runs of one person")


def run_site(folder: str | Path, data: str | Path, say: Say, ask: Callable[[str], bool] | None = None,
             linkage_key: Path | None = None, wait: float = 7 * 86400.0, policy: Path | None = None,
             keep: str | Path | None = None, apart: str = "") -> None:
    """Connect, answer, and stay until the site's effects are made. Ctrl-C and a new start lose nothing;
    however it ends, nothing of the site's leaves after it.

    ask            shows a person what a phase would send, and says whether it may; none: nobody is asked
    linkage_key    a key that the sites shared among themselves; none: they agree on one
    wait           seconds without a word from the coordinator after which the site gives up
    policy, keep   as in `check_site`
    apart          why these people are none of those told of before, where the site itself cannot see it
    """
    check_way(kit.read(folder, "site"), by_files=False)
    own, floors = check_site(folder, data, say, policy, keep)
    with processes.command(own) as held_by:
        party.write_run(own, {"data": absolute(data), "approve": ask is not None, "patience": PATIENCE,
                              "linkage_key": str(linkage_key.resolve()) if linkage_key else None,
                              "policy": str(floors.path.resolve()) if floors.path else None,
                              "store": str(store.place(keep)), "apart": apart, "command": held_by.path.name})
        (own.run / kit.EVENTS).unlink(missing_ok=True)
        with processes.engine(own, held_by) as process:
            say("waiting    for the coordinator; Ctrl-C stops, the same command goes on later")
            _follow_site(own, process, say, ask, wait)


def _follow_site(own: Kit, process: subprocess.Popen[bytes], say: Say, ask: Callable[[str], bool] | None,
                 wait: float) -> None:
    at, phase, heard, done = 0, None, time.monotonic(), False
    answers = Answers(own.study, lambda run: _answered(own, run))
    lookout, broken = reach.Lookout(own.host, own.port, say, heard), None
    while True:
        if broken is not None and time.monotonic() - heard > LAST_SECONDS:  # the coordinator has heard why
            raise from_code(broken["code"], broken["reason"])
        if at == 0:
            lookout.seen(time.monotonic())
        rotate(own.run / "engine.log")
        if done and (process.poll() is not None or time.monotonic() - heard > LAST_SECONDS):
            return
        if process.poll() is not None:
            raise AwayError(f"the engine ended (status {process.returncode}); see {own.run / 'engine.log'}")
        if time.monotonic() - heard > wait:
            raise AwayError(f"no word from the coordinator for {wait:g} s. What was reached is kept: start the same "
                            f"command again when the coordinator is there")
        seen, at = kit.events(own.run, at)
        heard = time.monotonic() if seen else heard
        for event in seen:
            match event["event"]:
                case "started":
                    say(f"connected  {event['rows']} rows read")
                case "answered":
                    if event["phase"] != phase:
                        phase = event["phase"]
                        say(f"{phase:<10} answering")
                    if line := answers.seen(event, time.monotonic()):
                        say(line)
                    if event["reason"]:
                        say(f"refused    {event['reason']}")
                case "ask" if ask is not None:
                    answer = "yes" if ask(event["description"]) else "no"
                    (own.run / f"answer-{event['number']}").write_text(answer, encoding="utf-8")
                case "effects":
                    say(f"effects    of your people: {event['people']}")
                case "finished":
                    say("done       the study is complete")
                    done = True
                case "broken":
                    broken = event
                case "ended" if done:
                    return
                case "ended":
                    say("waiting    the run paused or stopped; it goes on when the coordinator does")
        time.sleep(POLL)


def _answered(own: Kit, run: str) -> set[int]:
    """The steps of a run's fit that its ledger holds; none where a line is being written just now."""
    with contextlib.suppress(OutputError):
        return {line["round"] for line in ledger.read(own.folder) if (line["run"], line["phase"]) == (run, "fit")}
    return set()


class Answers:
    """How far a fit is, as a site can tell: its answers of those that the study's rounds take at most, and usually.

    A round takes the median of the last WINDOW: the first ones compile, and waits for another site are no measure; nor
    are steps that are asked again after an interruption.
    """

    def __init__(self, study: Study, told: Callable[[str], set[int]] = lambda run: set()):
        """`told`: the steps of a run's fit that were answered, by earlier commands too."""
        options = study.fit_options()
        self.optimiser, self.sites, self.told = options.optimiser, len(study.sites), told
        self.each = options.model.exchanges_per_round * (2 if study.policy.secures(len(study.sites)) else 1)
        self.most = options.optimiser.rounds * self.each
        self.run, self.said = None, 0.0
        self.steps: set[int] = set()
        """Of the fit, that were answered."""
        self.times: list[float] = []
        """Of this command's answers."""

    def seen(self, event: dict[str, Any], now: float) -> str:
        """A line every TELL_EVERY seconds of a fit."""
        if event["phase"] != "fit":
            return ""
        if event["run"] != self.run:
            self.run, self.steps, self.said, self.times = event["run"], self.told(event["run"]), now, []
        if event["round"] in self.steps:
            return ""
        self.steps.add(event["round"])
        self.times = [*self.times, now][-(WINDOW + 1) * self.each:]
        rounds = [later - earlier for earlier, later in zip(self.times, self.times[self.each:], strict=False)]
        if now - self.said < TELL_EVERY or len(rounds) < FEWEST * self.each or self.count > self.most:
            return ""
        self.said = now
        left = statistics.median(rounds) * rounds_left(self.optimiser, self.sites, self.count // self.each)
        return f"fit        {self.count} answers of at most {self.most}, about {left:.0f} s left"

    @property
    def count(self) -> int:
        return len(self.steps)


# --- the coordinator

def run_coordinator(folder: str | Path, study: Study, out: Path, say: Say,
                    deadline: float = 300.0, wait: float = 3600.0) -> None:
    """Wait for the sites, run the study, write the result; after a crash the same command goes on."""
    from fedci.network.flare import console

    check_way(kit.read(folder, "coordinator"), by_files=False)
    own = check_kit(folder, "coordinator")
    if study.hash() != own.study_hash:
        raise HandshakeError(f"the study differs: {study.hash()} in the file, {own.study_hash} in the kit. "
                             f"Make new kits for a changed study")
    with processes.command(own) as held:
        party.write_run(own, {"sites": list(own.sites),
                              "deadline": deadline, "out": str(out.resolve()), "command": held.path.name})
        (own.run / kit.EVENTS).unlink(missing_ok=True)
        processes.check_port_free(own.host, own.port)
        with processes.engine(own, held) as process:
            processes.wait_listening(own, process, LISTEN_SECONDS)
            say(f"listening  on {own.host}:{own.port}, waiting for {', '.join(own.sites)}")
            with console(own) as session:
                _conduct(own, session, process, say, wait, Absence(study.quorum, deadline))


@dataclass(frozen=True)
class Absence:
    """When the study may go on without sites that stay away or answer with what is no answer."""

    quorum: int | None
    patience: float
    """Seconds they are waited for, once enough are there."""

    def allows(self, present: int, waited: float) -> bool:
        return self.quorum is not None and present >= self.quorum and waited > self.patience

    def spares(self, present: tuple[str, ...], site: str) -> bool:
        """Whether enough are left without a site that broke, or lies."""
        return self.quorum is not None and site in present and len(present) - 1 >= self.quorum


def _conduct(own: Kit, session: Any, process: subprocess.Popen[bytes], say: Say, wait: float, absence: Absence) -> None:
    """Submit the job until it brings a result; a pause waits for the sites to come back, `wait` seconds at most."""
    from fedci.network.flare import job

    at, until, broken = 0, time.monotonic() + wait, set()
    while True:
        present = tuple(site for site in _wait_for_sites(own, session, say, wait, absence) if site not in broken)
        party.write_run(own, party.read_run(own) | {"sites": list(present)})
        folder = own.run / "job"
        shutil.rmtree(folder, ignore_errors=True)
        number = session.submit_job(str(job(folder, present)))
        say(f"started    the study{'' if present == own.sites else ' with ' + ', '.join(present) + ' alone'}")
        last, at, moved = _follow_job(own, session, number, present, process, say, at)
        if last["event"] == "result":
            say(f"result     written to {last['out']}")
            return
        if last["event"] == "failed":
            if not absence.spares(present, last.get("site", "")):
                raise from_code(last["code"], last["reason"])
            broken.add(last["site"])
            say(f"left out   {last['site']}, and the study starts anew: {last['reason']}")
        else:
            say(f"paused     {last['reason']}")
        until = time.monotonic() + wait if moved else until
        if time.monotonic() > until:
            raise AwayError(f"no progress for {wait:g} s: {last['reason']}. What was reached is kept: start the same "
                            f"command again when the sites are there")
        with contextlib.suppress(Exception):
            session.abort_job(number)
        time.sleep(PAUSE)


def _wait_for_sites(own: Kit, session: Any, say: Say, wait: float, absence: Absence) -> tuple[str, ...]:
    """The sites that are there: all of them, or enough when the others stay away."""
    began, before = time.monotonic(), None
    while True:
        here = _connected(session)
        present = tuple(site for site in own.sites if site in here)
        missing = [site for site in own.sites if site not in here]
        waited = time.monotonic() - began
        if not missing or absence.allows(len(present), waited):
            return present
        if missing != before:
            say(f"waiting    for {', '.join(missing)}")
            before = missing
        if waited > wait:
            raise AwayError(f"not there after {wait:g} s: {', '.join(missing)}. Start their commands, then this again")
        time.sleep(LOOK)


def _connected(session: Any) -> set[str]:
    return {client.name for client in session.get_connected_client_list()}


def _follow_job(own: Kit, session: Any, number: str, present: tuple[str, ...], process: subprocess.Popen[bytes],
                say: Say, at: int) -> tuple[dict[str, Any], int, bool]:
    """(the event that ended the job, where the events go on, whether there was progress)."""
    asked, begun, moved = time.monotonic(), False, False
    clock = Clock(own.study.fit_options().optimiser, len(present))
    while True:
        seen, at = kit.events(own.run, at)
        begun |= bool(seen)
        for event in seen:
            moved |= event["event"] == "round"
            if event["event"] == "round":
                left = clock.left(event["number"], event["seconds"], event["objective"], event.get("few", False))
                say(f"round      {event['number']} of at most {event['cap']}, objective {event['objective']:.3f}{left}")
            if event["event"] == "begin":
                say(f"again      {event['what']}: the same study on rows that each site changes")
            if event["event"] in ("result", "paused", "failed"):
                return event, at, moved
        if process.poll() is not None:
            raise AwayError(f"the engine ended (status {process.returncode}); see {own.run / 'engine.log'}")
        if time.monotonic() - asked > STATUS_EVERY:
            asked = time.monotonic()
            status = str(session.get_job_meta(number).get("status", ""))
            if status.startswith("FINISHED") and not kit.events(own.run, at)[0]:
                return {"event": "paused", "reason": f"the engine ended the job ({status})"}, at, moved
            gone = [site for site in present if site not in _connected(session)]
            if gone and not begun:  # the engine would keep the job until they are back
                return {"event": "paused", "reason": f"{', '.join(gone)} left before it began"}, at, moved
        time.sleep(POLL)
