"""The coordinator's tray: the run by files, and the sites' letters that the study still needs, in the kit.

    run/mail/  standing.json            the run, its sites, the secret of its linkage, the exchange that is open, bytes
               RUN/STEP-SITE.fedci      an answer as the site signed it: read again, its signature is checked again

A study is walked anew from these letters (and from the coordinator's checkpoint) with each command, up to the exchange
that nobody has answered. What the walk no longer needs is deleted, and all of it once the result is written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedci.bounded import json_file
from fedci.errors import OutputError
from fedci.files import whole_file
from fedci.mail.letter import SUFFIX
from fedci.network.kit import Kit
from fedci.protocol.engine import Traffic

FORMAT = 1
FOLDER, STANDING = "mail", "standing.json"
Key = tuple[str, int, str]
"""Run, step and site of an answer."""


@dataclass(kw_only=True)
class Tray:
    """Where a study by files stands; `write` after a change."""

    folder: Path
    study: str
    """Its hash."""
    run: str
    sites: tuple[str, ...]
    secret: str
    """Hex: orders a person's sites in the linkage."""
    asked: tuple[str, int] = ("", 0)
    """(run, step) of the exchange that is open: its requests were written."""
    traffic: dict[str, Traffic] = field(default_factory=dict)
    result: str = ""
    """Where the result was written; empty: the study goes on."""

    def write(self) -> None:
        facts = {"format": FORMAT} | {name: part for name, part in asdict(self).items() if name != "folder"}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_file(self.folder / STANDING) as file:
                file.write(json.dumps(facts).encode())
        except OSError as problem:
            raise _unwritable(self.folder, problem) from None

    # --- letters

    def place(self, key: Key) -> Path:
        run, step, site = key
        return self.folder / run / f"{step}-{site}{SUFFIX}"

    def keep(self, key: Key, data: bytes) -> None:
        try:
            self.place(key).parent.mkdir(mode=0o700, exist_ok=True)
            with whole_file(self.place(key)) as file:
                file.write(data)
        except OSError as problem:
            raise _unwritable(self.folder, problem) from None

    def forget(self, needed: set[Key]) -> None:
        """All letters but these."""
        for path in list(self._letters()):
            step, _, site = path.stem.partition("-")
            if not step.isdigit() or (path.parent.name, int(step), site) not in needed:
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """No letter is needed any more."""
        for path in {path.parent for path in self._letters()}:
            shutil.rmtree(path, ignore_errors=True)

    def _letters(self) -> Iterator[Path]:
        return self.folder.glob(f"*/*{SUFFIX}")

    def is_past(self, run: str, step: int) -> bool:
        """Whether an exchange was answered: a later one of its run is open, or one of a run after it."""
        open_run, open_step = self.asked
        return bool(open_run) and (run == open_run and step < open_step or run == self.run != open_run)


def tray_of(own: Kit) -> Tray | None:
    """None before a study has begun; OutputError where its standing is damaged."""
    folder = own.run / FOLDER
    try:
        facts: dict[str, Any] = json_file(folder / STANDING)
        if facts.pop("format") != FORMAT:
            raise OutputError(f"the study in the kit '{own.folder}' was begun by another version of fedci: go on with "
                              f"that one, or begin a new run (--new-run)")
        run, step = facts["asked"]
        return Tray(folder=folder, **facts | {
            "sites": tuple(facts["sites"]), "asked": (str(run), int(step)),
            "traffic": {site: Traffic(**seen) for site, seen in facts["traffic"].items()}})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise OutputError(f"where the study stands cannot be read from '{folder / STANDING}': it is damaged. Bring it "
                          f"back from a backup, or begin a new run (--new-run)") from None


def _unwritable(folder: Path, problem: OSError) -> OutputError:
    return OutputError(f"'{folder}' cannot be written: {(problem.strerror or 'unknown').lower()}. Nothing was lost: "
                       f"make room, and run the same command again")
