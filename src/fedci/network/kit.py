"""A kit: all that one party of a study needs, in one sealed folder.

    KIT/  kit.json     who this is, with whom, where the coordinator listens       study.toml   the study
          startup/     the engine's certificates and start-up files               local/       its hardened settings
          identity.key, identities.json   Ed25519 keys: a site signs its linkage key with its own, and knows the others'
          mailbox.key, mail.json   of a kit by files, in place of startup/ and local/ (`mail.post`)
          seal.json    SHA-256 of every file above
          run/         made while running: what to run on, what is happening       out/         results
          ledger.jsonl, ledger.head       what left the site (of whom: the site's own store, beside no kit)

A coordinator's kit holds the engine's server in server/ and its console in console/ instead of startup/ and local/.
Nothing here knows the engine; `provision` writes its files and `hardening` says what they must hold.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedci.bounded import json_file, json_of
from fedci.errors import OutputError
from fedci.site.replay import ANSWERED
from fedci.study.study import Study

FORMAT = 1
FACTS, STUDY, SEAL = "kit.json", "study.toml", "seal.json"
IDENTITY, MAILBOX, MAIL = "identity.key", "mailbox.key", "mail.json"
RUN, OUT, EVENTS = "run", "out", "events.jsonl"
UNSEALED = (RUN, OUT, "ledger", ANSWERED, "site.log", SEAL)
"""What comes and goes while a kit is used."""
ENGINE_MAKES = ("audit.log", "log", "error_log", "pid.fl", "daemon_pid.fl", "shutdown.fl", "restart.fl", "transfer",
                "snapshot", "jobs", "pool_stats", "stats_pool", "error.log")
"""Beginnings of names the engine makes beside its own files."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The facts of a kit, and its folder."""

    folder: Path
    role: str
    """'site' or 'coordinator'."""
    name: str
    sites: tuple[str, ...]
    host: str
    """Where the coordinator listens; empty: nobody connects, messages travel as files."""
    port: int
    study_hash: str
    project: str
    """What the engine calls the study."""

    @property
    def by_files(self) -> bool:
        """Whether its messages travel as files, carried by people."""
        return not self.host

    @property
    def study(self) -> Study:
        return Study.read(self.folder / STUDY)

    @property
    def run(self) -> Path:
        """The folder of the present run, made on demand, for its owner only."""
        path = self.folder / RUN
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @property
    def out(self) -> Path:
        path = self.folder / OUT
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @property
    def engine(self) -> Path:
        """Where the engine's process has its workspace."""
        return self.folder / "server" if self.role == "coordinator" else self.folder

    @property
    def organisation(self) -> str:
        return organisation(self.name)

    @property
    def console(self) -> Path:
        return self.folder / "console"


def organisation(party: str) -> str:
    """The engine's name for whom a party belongs to: without the dashes that a site's name may have."""
    return party.replace("-", "_")


def write_facts(kit: Kit) -> None:
    facts = {key: value for key, value in asdict(kit).items() if key != "folder"}
    (kit.folder / FACTS).write_text(json.dumps({"format": FORMAT} | facts, indent=2) + "\n", encoding="utf-8")


def read(folder: str | Path, role: str | None = None) -> Kit:
    """The kit in a folder; of the wanted role, if one is named."""
    path = Path(folder).resolve()
    try:
        facts = json_file(path / FACTS)
        if facts.pop("format") != FORMAT:
            raise OutputError(f"the kit '{folder}' was made by another version of fedci: ask for a new one")
        kit = Kit(folder=path, **(facts | {"sites": tuple(facts["sites"])}))
    except FileNotFoundError:
        raise OutputError(f"'{folder}' is no kit: it holds no {FACTS}. Give the folder that "
                          f"`fedci network new` made for this party") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OutputError(f"the kit '{folder}' is damaged: its {FACTS} cannot be read. Ask for a new one") from None
    if role and kit.role != role:
        raise OutputError(f"the kit '{folder}' is that of the {kit.role} '{kit.name}'; this command needs a {role}'s")
    return kit


# --- the seal

def seal(folder: Path) -> None:
    """Write the SHA-256 of every file of the kit, and let only its owner read any."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() or os.access(path, os.X_OK) else 0o600)
    sums = {str(path.relative_to(folder)): _digest(path) for path in _sealed(folder)}
    (folder / SEAL).write_text(json.dumps(sums, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (folder / SEAL).chmod(0o600)


def check_seal(kit: Kit) -> list[str]:
    """What differs from the kit as it was made; empty: nothing."""
    try:
        sums = json_file(kit.folder / SEAL)
        if not isinstance(sums, dict):
            raise ValueError(SEAL)
    except (OSError, ValueError):
        return [f"{SEAL} is missing or damaged"]
    files = {str(path.relative_to(kit.folder)): path for path in _sealed(kit.folder)}
    changed = [name for name in sums if name in files and _digest(files[name]) != sums[name]]
    return ([f"{name} is missing" for name in sums if name not in files] + [f"{name} was changed" for name in changed]
            + [f"{name} was added" for name in files if name not in sums])


def _sealed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not _comes_and_goes(path, folder))


def _comes_and_goes(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    first = parts[1] if parts[0] in ("server", "console") and len(parts) > 1 else parts[0]
    placed = parts == ("server", "local", "resources.json")  # names the kit's place, and is written anew when it moves
    if first.startswith(".") and first.endswith(".new"):  # half of it is all that a crash left (`files.whole_file`)
        first = first[1:]
    return placed or first.startswith((*UNSEALED, *ENGINE_MAKES)) or _is_job(first) or "__pycache__" in parts


def _is_job(name: str) -> bool:
    """The engine names a job's folder by a UUID."""
    return len(name) == 36 and name.count("-") == 4


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- what a run tells its own screen

def note(folder: Path, event: str, **facts: Any) -> None:
    """Add a line to the run's events; whoever shows them reads the file's end."""
    with (folder / EVENTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event} | facts) + "\n")


def events(folder: Path, start: int = 0) -> tuple[list[dict[str, Any]], int]:
    """(whole lines from byte `start` on, where to go on)."""
    try:
        with (folder / EVENTS).open("rb") as file:
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return [], start
    whole = data[:data.rfind(b"\n") + 1]
    return [json_of(line) for line in whole.splitlines()], start + len(whole)
