"""The ledger of a site: one line for each thing that left it, each line bound to the one before.

    ledger.jsonl   {n, time, run, round, phase, request, request_sha256, reply, sums, bytes, reply_sha256, …,
                    previous, hash}          hash = SHA-256 of the line's canonical JSON without `hash`
    ledger.head    {count, hash} after the last line: a ledger cut at its end disagrees with it
    ledger.torn    what a crash left of a line; the answer it would have told of was not sent

A line is on disk before its answer leaves. The chain shows that lines were changed, taken out or put in; it cannot show
that somebody wrote the whole folder anew: whoever wants that notes the head elsewhere and gives it to `verify`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedci.bounded import json_file, json_of
from fedci.errors import OutputError
from fedci.files import sync_folder, whole_file
from fedci.protocol.requests import OWN

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

LEDGER, HEAD, TORN = "ledger.jsonl", "ledger.head", "ledger.torn"
GENESIS = "0" * 64
"""`previous` of the first line."""
NOTE = "Note"
"""`reply` of a line that tells of the ledger itself: nothing left."""
REFUSAL = "Refusal"
COUNTED = ("answers", "refusals", "numbers", "bytes")
"""Of a phase, and of a run."""
Entry = dict[str, Any]
"""A line."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """One thing that left the site, or was refused."""

    run: str
    round: int
    phase: str
    request: str
    """The request's type."""
    request_sha256: str
    reply: str
    """The answer's type."""
    reply_sha256: str
    bytes: int
    sums: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Name → shape."""
    values: Mapping[str, object] | None = None
    """Name → the numbers themselves, nested; for moments, effects and diagnostics."""
    notes: Mapping[str, object] | None = None
    code: str | None = None
    reason: str | None = None
    """Of a refusal, in the words that left."""


class Head(NamedTuple):
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a head
    hash: str


class Verdict(NamedTuple):
    """Whether a chain is whole; else its first broken line (None: the head itself) and why."""

    ok: bool
    line: int | None = None
    reason: str = ""


def canonical(value: Mapping[str, Any]) -> bytes:
    """JSON in its one spelling: keys sorted, no blanks, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sealed(left: Left, head: Head, time: str) -> Entry:
    """The line after `head`; what `left` leaves out is left out."""
    parts = {name: value for name, value in vars(left).items() if value is not None}
    entry = parts | {"n": head.count + 1, "time": time, "previous": head.hash}
    return entry | {"hash": sha256(canonical(entry))}


# --- reading


def read(folder: Path | str) -> list[Entry]:
    """The lines of a whole ledger; OutputError names the first broken one."""
    entries, verdict = _examined(Path(folder))
    if not verdict.ok:
        raise broken(Path(folder), verdict)
    return entries


def verify(folder: Path | str, known: Head | None = None) -> Verdict:
    """Whether the ledger is whole and agrees with ledger.head, and with a head `known` from elsewhere."""
    entries, verdict = _examined(Path(folder))
    return _against(entries, known) if verdict.ok and known else verdict


def broken(folder: Path, verdict: Verdict) -> OutputError:
    where = f"at line {verdict.line}" if verdict.line else f"at its head ({HEAD})"
    return OutputError(f"the ledger in '{folder}' is broken {where}: {verdict.reason}. Nothing is sent with a broken "
                       f"ledger: keep the folder as it is for whoever audits it, and take another")


def head_of(entries: Sequence[Entry]) -> Head:
    return Head(len(entries), entries[-1]["hash"]) if entries else Head(0, GENESIS)


def _examined(folder: Path) -> tuple[list[Entry], Verdict]:
    """The sound lines from the start, and the verdict on all of them."""
    whole, torn = _lines(folder)
    entries, verdict = _chain(whole)
    if verdict.ok and torn:
        verdict = Verdict(False, len(whole) + 1, "the line is cut short (if by a crash, the next start of the site "
                                                 "sets it aside)")
    if verdict.ok:
        verdict = _against_file(entries, folder)
    return entries, verdict


def _lines(folder: Path) -> tuple[list[bytes], bytes]:
    """The whole lines, and what stands after the last line's end."""
    try:
        *whole, torn = (folder / LEDGER).read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], b""
    except OSError as problem:
        raise _unreadable(folder, problem) from None
    return whole, torn


def _chain(lines: Iterable[bytes]) -> tuple[list[Entry], Verdict]:
    entries: list[Entry] = []
    head = Head(0, GENESIS)
    for number, line in enumerate(lines, 1):
        entry, reason = _entry(line, head)
        if entry is None:
            return entries, Verdict(False, number, reason)
        entries.append(entry)
        head = Head(number, entry["hash"])
    return entries, Verdict(True)


def _entry(line: bytes, head: Head) -> tuple[Entry | None, str]:
    """The line as an entry, or None and why not. Equal to its canonical spelling, so no byte is free to change."""
    try:
        entry = json_of(line)
        sound = isinstance(entry, dict) and canonical(entry) == line
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        return None, "the line is not an entry of a ledger"
    if entry.get("previous") != head.hash or entry.get("n") != head.count + 1:
        return None, "the line does not follow the one before it"
    if entry.get("hash") != sha256(canonical({name: part for name, part in entry.items() if name != "hash"})):
        return None, "the line was changed: its hash differs"
    return entry, ""


def _against_file(entries: Sequence[Entry], folder: Path) -> Verdict:
    """One line more than the head knows is a crash (or a look) between the two writes; no head is a head of 0 lines."""
    head = _read_head(folder)
    if head is None:
        return Verdict(False, None, "the file is damaged")
    verdict = _against(entries, head)
    if verdict.ok and len(entries) > head.count + 1:
        return Verdict(False, head.count + 1, f"the line and those after it are not known to {HEAD}")
    return verdict


def _against(entries: Sequence[Entry], head: Head) -> Verdict:
    if head.count > len(entries):
        return Verdict(False, len(entries) + 1, f"{head.count} lines were written and the ledger holds {len(entries)}")
    if head_of(entries[:head.count]).hash != head.hash:
        return Verdict(False, head.count or None, "the line is not the one that the head knows")
    return Verdict(True)


def _read_head(folder: Path) -> Head | None:
    try:
        written = json_file(folder / HEAD)
        head = Head(written["count"], written["hash"])
    except FileNotFoundError:
        return Head(0, GENESIS)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    except OSError as problem:
        raise _unreadable(folder, problem) from None
    return head if type(head.count) is int and head.count >= 0 and isinstance(head.hash, str) else None


def _unreadable(folder: Path, problem: OSError) -> OutputError:
    return OutputError(f"the ledger in '{folder}' cannot be read: {problem.strerror}")


# --- writing


class Ledger:
    """A site's ledger, open for appending by this process alone.

    Opening checks the whole chain and mends nothing; only a torn last line, of an answer that was never sent, is moved
    to ledger.torn and noted.
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            handle = os.open(self.folder / LEDGER, flags, 0o600)
            self._handle: int | None = handle
            os.fchmod(handle, 0o600)
            sync_folder(self.folder)
        except OSError as problem:
            raise _unwritable(self.folder, problem) from None
        try:
            self._open(handle)
        except BaseException:
            self.close()
            raise

    def _open(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"the ledger in '{self.folder}' is in use by another process: a site runs once. End the "
                              f"other one") from None
        whole, torn = _lines(self.folder)
        entries, verdict = _chain(whole)
        verdict = _against_file(entries, self.folder) if verdict.ok else verdict
        if not verdict.ok:
            raise broken(self.folder, verdict)
        self.head = head_of(entries)
        self._catch_up()
        if torn:
            self._set_aside(handle, torn)

    def _catch_up(self) -> None:
        """The head after a crash between a line and its head: a second such crash must not leave it two behind."""
        try:
            if _read_head(self.folder) != self.head:
                _replace_head(self.folder, self.head)
        except OSError as problem:
            raise _unwritable(self.folder, problem) from None

    def _set_aside(self, handle: int, torn: bytes) -> None:
        """First to ledger.torn, then off the ledger: a crash between the two loses nothing."""
        try:
            _append_private(self.folder / TORN, torn + b"\n")
            os.ftruncate(handle, os.fstat(handle).st_size - len(torn))
            os.fsync(handle)
        except OSError as problem:
            raise _unwritable(self.folder, problem) from None
        self.append(Left(run="", round=0, phase="ledger", request="", request_sha256="", reply=NOTE,
                         reply_sha256=sha256(torn), bytes=0,
                         reason=f"the last line was cut short by a crash; its {len(torn)} bytes are in {TORN}. "
                                f"The answer it would have told of was not sent"))

    @property
    def entries(self) -> list[Entry]:
        """The lines, from the disk: a long run's memory does not grow with its ledger."""
        return _chain(_lines(self.folder)[0])[0]

    def append(self, left: Left) -> Entry:
        """The line, on disk. OutputError where it cannot be written: then nothing may be sent, and the ledger closes,
        so that the next start looks at what the failed write left."""
        if self._handle is None:
            raise OutputError(f"the ledger in '{self.folder}' is closed: start the site again")
        entry = sealed(left, self.head, datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            _write_all(self._handle, canonical(entry) + b"\n")
            os.fsync(self._handle)
            head = Head(entry["n"], entry["hash"])
            _replace_head(self.folder, head)
        except OSError as problem:
            self.close()
            raise _unwritable(self.folder, problem) from None
        self.head = head
        return entry

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unwritable(folder: Path, problem: OSError) -> OutputError:
    return OutputError(f"the ledger in '{folder}' cannot be written: {problem.strerror}. Nothing was sent. Mend the "
                       f"folder or the disk, and start the site again")


def _write_all(handle: int, data: bytes) -> None:
    """A full disk may take a part without an error."""
    while data:
        data = data[os.write(handle, data):]


def _append_private(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        _write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace_head(folder: Path, head: Head) -> None:
    with whole_file(folder / HEAD) as file:
        file.write(canonical(head._asdict()) + b"\n")


# --- for people


class Total(NamedTuple):
    """What left in one phase of one run."""

    run: str
    phase: str
    answers: int
    refusals: int
    numbers: int
    bytes: int
    names: tuple[str, ...]
    first: str
    """When, UTC."""
    last: str


def totals(entries: Iterable[Entry]) -> list[Total]:
    """Per run and phase, in the order they began."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry["run"], entry["phase"]), []).append(entry)
    return [_total(run, phase, group) for (run, phase), group in groups.items()]


def _total(run: str, phase: str, entries: Sequence[Entry]) -> Total:
    refusals = sum(entry["reply"] == REFUSAL for entry in entries)
    answers = sum(entry["reply"] not in (REFUSAL, NOTE) for entry in entries)
    names, times = {name for entry in entries for name in entry["sums"]}, [entry["time"] for entry in entries]
    return Total(run=run, phase=phase, answers=answers, refusals=refusals, numbers=sum(map(numbers, entries)),
                 bytes=sum(entry["bytes"] for entry in entries), names=tuple(sorted(names)), first=min(times),
                 last=max(times))


def told_once(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Without answers that left before, byte for byte: a request that is asked again after an interruption tells
    nothing new."""
    known: set[tuple[str, int, str]] = set()
    for entry in entries:
        answer = entry["run"], entry["round"], entry["reply_sha256"]
        if answer not in known:
            yield entry
        known.add(answer)


def numbers(entry: Entry) -> int:
    """How many numbers an entry's sums hold."""
    return sum(math.prod(shape) for shape in entry["sums"].values())


class PerPerson(NamedTuple):
    """What one run told, over the people it told of."""

    numbers: int
    """As they left: masked, a number is several."""
    people: int

    @property
    def each(self) -> float:
        return self.numbers / max(self.people, 1)


def per_person(entries: Iterable[Entry]) -> dict[str, PerPerson]:
    """Run → numbers told and people, of every run that has said how many people the site has."""
    numbers_by_run: dict[str, int] = {}
    entries = list(told_once(entries))
    people: dict[str, int] = {}
    for entry in entries:
        numbers_by_run[entry["run"]] = numbers_by_run.get(entry["run"], 0) + numbers(entry)
        counted = (entry.get("values") or {}).get(OWN + "people")
        if isinstance(counted, list) and counted and entry["request"] == "AskMeans":
            people[entry["run"]] = int(counted[0])
    return {run: PerPerson(numbers_by_run[run], count) for run, count in people.items()}


def show(entries: Sequence[Entry]) -> Iterator[Table | str]:
    """The ledger within 80 columns: for each run a table of its phases with a line for all of it, and what left."""
    by_run: dict[str, list[Total]] = {}
    for total in totals(entries):
        by_run.setdefault(total.run, []).append(total)
    yield "what left this site, to the coordinator"
    for run, parts in by_run.items():
        yield _table(run, parts)
        yield from (f"  {part.phase}: {', '.join(part.names)}" for part in parts if part.names)


def _table(run: str, parts: Sequence[Total]) -> Table:
    from rich.table import Column, Table
    from rich.text import Text

    table = Table("phase", "when (UTC)", *(Column(name, justify="right") for name in COUNTED),
                  title=Text(f"run {run or '–'}"), title_justify="left")
    for part in parts:
        table.add_row(*_cells(part))
    table.add_section()
    table.add_row(*_cells(_sum(run, parts)), style="bold")
    return table


def _sum(run: str, parts: Sequence[Total]) -> Total:
    counts = {name: sum(getattr(part, name) for part in parts) for name in COUNTED}
    return Total(run=run, phase="all", names=(), first=min(part.first for part in parts),
                 last=max(part.last for part in parts), **counts)


def _cells(total: Total) -> list[Text | str]:
    """Text, not markup: a name from outside must not style the screen."""
    from rich.text import Text

    return [Text(total.phase), Text(_when(total.first, total.last)), *(f"{count:,}" for count in total[2:6])]


def _when(first: str, last: str) -> str:
    """When it began, and until when: to the second, in seventeen letters a line."""
    (day, _, begin), (other, _, end) = (time[2:19].partition("T") for time in (first, last))
    return f"{day} {begin}" if (day, begin) == (other, end) else (
        f"{day} {begin}\n{'' if day == other else other:<8} {end}")
