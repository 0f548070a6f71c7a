"""Where a party's run stands, from what lies in its kit alone: nothing is started, nobody is asked, nothing changes.

What is told are counts, times and names of steps; no number that left, and none of a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedci.bounded import json_file
from fedci.errors import OutputError
from fedci.network import kit, processes
from fedci.network.kit import Kit
from fedci.protocol.messages import Refusal
from fedci.site import ledger
from fedci.site.ledger import NOTE

CHECKPOINT = "checkpoint.npz"


@dataclass(frozen=True, kw_only=True)
class Status:
    """A party's standing."""

    party: str
    role: str
    study: str
    study_hash: str
    way: str
    """Where the coordinator listens, or that messages are files."""
    running: bool
    state: str
    """In words, with what to do next."""
    last: str
    """When something was last said or sent, UTC; '': never."""
    run: str = ""
    phase: str = ""
    request: str = ""
    step: int = 0
    """The last exchange: its run, phase, request and number."""
    round: str = ""
    """Of a fit, at the coordinator."""
    ledger: Mapping[str, Any] = field(default_factory=dict)
    """Of a site: lines, answers, refusals, numbers told, of how many people in the last run, and each."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Where to read on: logs, people's effects, the result."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> list[str]:
        """A line for each thing that is known."""
        last = f"{self.last}{f': {self.request} ({self.phase}), step {self.step} of run {self.run}' * bool(self.run)}"
        rows = {"party": f"{self.party}, {self.role} of study '{self.study}' ({self.study_hash[:12]})",
                "state": self.state, "process": "running" if self.running else "not running", "way": self.way,
                "last": last, "round": self.round, **{name: _counted(value) for name, value in self.ledger.items()},
                **self.files}
        return [f"{name:<16} {text}" for name, text in rows.items() if text]


def _counted(value: Any) -> str:
    return f"{value:,.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def site_status(folder: str | Path) -> Status:
    """Of a site's kit; OutputError where there is none, or its ledger is broken."""
    own = kit.read(folder, "site")
    entries = ledger.read(own.folder)
    seen = _events(own)
    sent = [entry for entry in entries if entry["reply"] not in (NOTE, Refusal.__name__) and entry["request"]]
    refusals = [entry for entry in entries if entry["reply"] == Refusal.__name__]
    latest = sent[-1] if sent else None
    told = ledger.per_person(entries)
    per = list(told.values())[-1] if told else None
    counts: dict[str, Any] = {"ledger lines": len(entries), "answers": len(sent), "refusals": len(refusals),
                              "numbers told": sum(map(ledger.numbers, ledger.told_once(entries)))}
    if per is not None:
        counts |= {"people told of": per.people, "numbers a person": per.each}
    if refusals:
        counts["last refusal"] = f"{refusals[-1]['time']}: {refusals[-1].get('reason') or ''}"
    running = bool(processes.workers(own))
    files = {"ledger": own.folder / ledger.LEDGER, "own log": own.folder / "site.log",
             "engine's log": own.run / "engine.log"}
    if people := sorted(own.out.glob("*people-*.csv")):
        files["people's effects"] = people[-1]
    return Status(**_facts(own), running=running, state=_site_state(own, seen, running, latest),
                  last=max((entry["time"] for entry in entries), default=""), ledger=counts,
                  files={name: str(path) for name, path in files.items() if path.exists()},
                  **({} if latest is None else {"run": latest["run"], "phase": latest["phase"],
                                                "request": latest["request"], "step": latest["round"]}))


def _facts(own: Kit) -> dict[str, Any]:
    way = "messages are files, carried by people" if own.by_files else f"{own.host}:{own.port} (TCP)"
    return {"party": own.name, "role": own.role, "study": own.study.name, "study_hash": own.study_hash, "way": way}


def _site_state(own: Kit, seen: list[dict[str, Any]], running: bool, latest: Mapping[str, Any] | None) -> str:
    names = [event["event"] for event in seen]
    broken = next((event["reason"] for event in reversed(seen) if event["event"] == "broken"), "")
    if broken:
        return f"failed: {broken}"
    if "finished" in names:
        return "complete: the study is done here"
    if own.by_files:
        return ("no request was answered yet: `fedci site answer`" if latest is None else
                f"answered step {latest['round']} ({latest['phase']}); the next request comes as a file, or none does")
    if not running:
        return ("never run: `fedci site check`, then `fedci site run`" if not seen and latest is None else
                "stopped; `fedci site run` goes on where it stood")
    if "answered" not in names or names[-1] == "ended":
        return "waits for the coordinator"
    return f"answers the coordinator, phase {latest['phase'] if latest else ''}"


def coordinator_status(folder: str | Path) -> Status:
    """Of a coordinator's kit."""
    own = kit.read(folder, "coordinator")
    if own.by_files:
        return _by_files(own)
    seen, running = _events(own), bool(processes.workers(own))
    place = own.run / kit.EVENTS
    last = _when(place) if place.exists() else ""
    number, cap = next(((event["number"], event["cap"]) for event in reversed(seen) if event["event"] == "round"),
                       (0, 0))
    files = {"checkpoint": own.run / CHECKPOINT, "engine's log": own.run / "engine.log",
             "own log": own.run / "error.log"}
    out = next((Path(event["out"]) for event in reversed(seen) if event["event"] == "result"), None)
    files |= {"result": out} if out else {}
    return Status(**_facts(own), running=running, state=_coordinator_state(own, seen, running), last=last,
                  round=f"{number} of at most {cap}" if number else "",
                  files={name: str(path) for name, path in files.items() if path.exists()})


def _coordinator_state(own: Kit, seen: list[dict[str, Any]], running: bool) -> str:
    goes_on = "" if running else "; `fedci coordinator run` goes on from the checkpoint"
    for event in reversed(seen):
        match event["event"]:
            case "result":
                return "complete: the result is written"
            case "failed":
                return f"failed: {event['reason']}"
            case "paused":
                return f"paused: {event['reason']}{goes_on}"
            case "round":
                return f"in the fit{goes_on}"
            case "begin":
                return f"in {event['what']}{goes_on}"
            case "ready":
                return f"before the fit, with {', '.join(event['sites'])}{goes_on}"
    if running:
        return f"waits for {', '.join(own.sites)}"
    there = (own.run / CHECKPOINT).exists()
    return f"stopped{goes_on}" if there else "never run, or stopped before a site was there: `fedci coordinator run`"


def _by_files(own: Kit) -> Status:
    facts = _standing(own)
    if facts is None:
        return Status(**_facts(own), running=False, state="no request was written yet: `fedci coordinator next`",
                      last="")
    run, step = facts["asked"]
    here = sorted(site for site in facts["sites"] if (own.run / "mail" / run / f"{step}-{site}.fedci").exists())
    missing = [site for site in facts["sites"] if site not in here]
    state = ("complete: the result is written" if facts["result"] else
             f"waits for the files of {', '.join(missing)}" if missing else
             "every answer is here: `fedci coordinator next` goes on")
    return Status(**_facts(own), running=False, state=state, last=_when(own.run / "mail" / "standing.json"), run=run,
                  step=int(step), phase="open", request="exchange",
                  files={"result": facts["result"]} if facts["result"] else {})


def _standing(own: Kit) -> dict[str, Any] | None:
    """What the coordinator's tray (`mail.tray`) says; None before a study has begun."""
    place = own.run / "mail" / "standing.json"
    try:
        facts: dict[str, Any] = json_file(place)
        return {key: facts[key] for key in ("asked", "sites", "result")}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise OutputError(f"'{place}' is damaged: bring it back from a backup, or begin a new run (--new-run)"
                          ) from None


def _events(own: Kit) -> list[dict[str, Any]]:
    """Of the last command; a line that a crash cut short, or that is damaged, is left out."""
    try:
        return [event for event in kit.events(own.run)[0] if "event" in event]
    except ValueError:
        raise OutputError(f"{own.run / kit.EVENTS} is damaged; it is made anew by the next run, and may be deleted"
                          ) from None


def _when(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
