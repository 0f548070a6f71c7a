"""The door of a site on a network: bytes in, bytes out, and a line in the ledger before anything leaves.

    bytes ─► decode ─► in sequence? ─► site.answered ─► may it leave? ─► approved? ─► admitted? ─► ledger ─► bytes
                              any "no" is a Refusal, which goes through the ledger as well

What a door knows of the past is a fold over its ledger, so a site that starts again knows what the one before it knew.
Only answers count: a refusal releases nothing and binds nothing. A request that was answered is answered again, with
the same bytes or not at all: the last one from memory (its reply was lost), an earlier one by computing it again, which
leads the site back to where it stood then (a coordinator that goes on from its checkpoint walks the rounds anew).
"""

from __future__ import annotations

import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from fedci.errors import DisclosureError, FedciError, MessageError, SiteError
from fedci.files import rotate
from fedci.protocol import refuting
from fedci.protocol.codec import MAX_BYTES, decode, encode
from fedci.protocol.messages import Hello, Message, OpenSum, Refusal
from fedci.protocol.requests import MASKED, REQUESTS, asked, row_of
from fedci.site import replay
from fedci.site.ledger import Entry, Ledger, Left, numbers, sha256

if TYPE_CHECKING:
    from fedci.site.run import Run
    from fedci.site.site import Site

LOG = "site.log"
RUN_ID = re.compile(r"[A-Za-z0-9-]{1,80}")
"""A run's name stands in ledgers and on screens."""
WITHOUT_COUNTS = {
    "size": "too few rows, in all or in an arm, for the study's policy, or too many for its memory",
    "data": "its table does not fit the study",
    "source": "its file cannot be read as the study's table",
    "disclosure": "its policy does not let this leave; ask for less, such as fewer covariates or landmarks",
}
"""What is told in place of a reason with numbers in it: a count below the policy's minimum is what the policy hides."""
CIPHERTEXT = {"shares", "opened", "wrapped"}
"""Notes that say nothing of the data: the ledger keeps their hash with the answer's, and not themselves."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One answer, for the site's own screen."""

    phase: str
    request: str
    run: str
    round: int
    reply: str
    bytes_in: int
    bytes_out: int
    seconds: float
    reason: str = ""
    """Of a refusal, in full: more than what left."""


@dataclass
class Memory:
    """What the ledger says of the current run, and which runs there were."""

    runs: list[str] = field(default_factory=list)
    """Begun, the current one last."""
    answered: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Round → SHA-256 of its request and of its answer."""
    phases: dict[int, str] = field(default_factory=dict)
    """Round → the phase in which something was answered."""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Memory:
        memory = cls()
        for entry in entries:
            memory.learn(entry)
        return memory

    def learn(self, entry: Entry) -> None:
        if entry["request"] not in REQUESTS or entry["reply"] == Refusal.__name__:
            return
        if entry["run"] not in self.runs:
            self.runs, self.answered, self.phases = [*self.runs, entry["run"]], {}, {}
        self.answered.setdefault(entry["round"], (entry["request_sha256"], entry["reply_sha256"]))
        self.phases[entry["round"]] = entry["phase"]

    def begins(self, request: Message) -> TypeGuard[Hello]:
        """Whether it is the handshake of a new run."""
        return isinstance(request, Hello) and request.run not in self.runs

    def _check_begins(self, request: Hello, most: int) -> None:
        """A study begins no more often than its file says; a refuter's run follows one that has begun."""
        studies = [run for run in self.runs if not refuting.is_refuters(run)]
        if request.refuter:
            if request.run not in [refuting.run_of(run, request.refuter) for run in studies]:
                raise SiteError(f"site '{request.site}': the run of a refuter bears the name of a run of the study, "
                                f"and follows it")
        elif refuting.is_refuters(request.run):
            raise SiteError(f"site '{request.site}': a run of the study does not bear the name of a refuter's")
        elif len(studies) >= most:
            raise DisclosureError(f"site '{request.site}': this study was begun here as often as it allows (runs in "
                                  f"the study file). If every site agrees, make kits for a study with more")

    def check(self, request: Message, digest: str, most: int) -> None:
        """SiteError where the request is out of sequence: of no run or an earlier one, or of a round that is over.
        `most`: runs that the study allows."""
        site, number = request.site, request.round
        if self.begins(request):
            self._check_begins(request, most)
            return
        if not self.runs or request.run != self.runs[-1]:
            known = "an earlier run" if request.run in self.runs else "a run that did not begin with a handshake"
            raise SiteError(f"site '{site}': the request belongs to {known}. Start a new run")
        if number in self.answered and self.answered[number][0] != digest:
            raise SiteError(f"site '{site}': round {number} of this run was answered to another request, and is not "
                            f"answered to a second one. Start a new run")
        if number not in self.answered and number < max(self.answered):
            raise SiteError(f"site '{site}': round {number} of this run has passed; the last one answered is round "
                            f"{max(self.answered)}")

    def phase(self, request: Message | None) -> str:
        """That of a request; of the opening of a sum, that of the request which was summed."""
        if isinstance(request, OpenSum) and self.runs and request.run == self.runs[-1]:
            return self.phases.get(request.round - 1, phase_of(request))
        return phase_of(request)

    def released(self, request: Message) -> str | None:
        """SHA-256 of the answer that this request had before."""
        return None if self.begins(request) else self.answered.get(request.round, ("", None))[1]


class Door:
    """The one way messages enter and leave a site on a network.

    folder     the site's own: its site.log takes tracebacks and full reasons (mode 0600)
    approve    (phase, what will leave, in words) → whether it may; asked once for each phase of a run
    listener   called with an Event after each answer
    tied       returns while the operator's command lives, and else ends the process: asked before an answer is
               recorded, and again before it leaves
    """

    def __init__(self, site: Site, ledger: Ledger, folder: Path | str,
                 approve: Callable[[str, str], bool] | None = None, listener: Callable[[Event], None] | None = None,
                 tied: Callable[[], None] | None = None):
        self.tied = tied or (lambda: None)
        self.site, self.ledger, self.folder, self.approve, self.listener = site, ledger, Path(folder), approve, listener
        self.memory = Memory.of(ledger.entries)
        self._declined: set[tuple[str, str]] = set()
        self._last: tuple[str, bytes] = "", b""
        """SHA-256 of the last request that was answered, and the answer's bytes: for a reply lost on its way."""
        self._lock = threading.Lock()

    def answer(self, data: bytes) -> bytes:
        """The answer to a request, both as bytes. OutputError where the ledger cannot be written: nothing leaves."""
        with self._lock:
            back = self._answer(data)
            self.tied()
            return back

    def _answer(self, data: bytes) -> bytes:
        start, run = time.perf_counter(), self.site.run
        request, digest, back, reason = None, sha256(data), b"", ""
        try:
            request = self._read(data)
            run, reply, back = self._answered(request, digest)
        except FedciError as problem:
            run, (reply, reason) = self._passed(request, digest), self._refused(request, problem)
        except Exception as problem:
            run, (reply, reason) = self._passed(request, digest), self._failed(request, problem)
        back = back or encode(reply)
        self.tied()
        moves = not isinstance(reply, Refusal) or run is not self.site.run
        if request is not None and moves and phase_of(request) != replay.LINKAGE:
            replay.keep(self.folder, request, data)
        self._record(request, digest, reply, back, run)
        self._tell(Event(phase=self.memory.phase(request), request=_name(request), run=reply.run, round=reply.round,
                         reply=_name(reply), bytes_in=len(data), bytes_out=len(back),
                         seconds=time.perf_counter() - start, reason=reason))
        return back

    def _passed(self, request: Message | None, digest: str) -> Run:
        """The site's run after a refusal: past a diagnostic of its own run that was next; else as it was."""
        try:
            if request is not None:
                self.memory.check(request, digest, self.site.party.agreed.runs)
                return self.site.passed(request)
        except FedciError:  # out of sequence: the refusal's own line says so
            return self.site.run
        except Exception as problem:
            self._log(request, wordless(problem))
        return self.site.run

    def _read(self, data: bytes) -> Message:
        """The request; MessageError before anything of it is used, where it is none for this site."""
        request = decode(data)
        if not RUN_ID.fullmatch(request.run):
            raise MessageError(f"site '{self.site.name}': a run is named by 1 to 80 letters, digits and dashes")
        return request

    def _answered(self, request: Message, digest: str) -> tuple[Run, Message, bytes]:
        """(the site's run after it, the reply that may leave, its bytes); every reason against it is an error."""
        if request.site != self.site.name:
            raise SiteError(f"site '{self.site.name}' got a request meant for another site")
        if _name(request) not in REQUESTS:
            raise SiteError(f"site '{self.site.name}' does not answer a {_name(request)}")
        self.memory.check(request, digest, self.site.party.agreed.runs)
        if self._last[0] == digest:
            return self.site.run, decode(self._last[1]), self._last[1]
        run = self.site.begun(request.refuter) if self.memory.begins(request) else self.site.run
        run, reply = self.site.answered(run, request)
        check_leaving(request, reply, run.masked, run.study.policy.site_effects)
        back = encode(reply)
        decode(back)  # what the other side could not read (NaN, say) must not leave, nor enter the ledger
        released = self.memory.released(request)
        if released not in (None, sha256(back)):
            raise SiteError(f"site '{self.site.name}': the answer to round {request.round} would be a second, "
                            f"different release. Start a new run")
        self._ask_person(run, request, reply, len(back))
        return self.site.admitted(run, request), reply, back

    def _ask_person(self, run: Run, request: Message, reply: Message, size: int) -> None:
        phase, known = self.memory.phase(request), () if self.memory.begins(request) else self.memory.phases.values()
        if self.approve is None or phase in known or (run.refuter and known):  # a refuter is approved as a whole
            return
        key = request.run, phase
        if key in self._declined or not self.approve(phase, describe(request, reply, size)):
            self._declined.add(key)
            raise DisclosureError(f"the site's operator did not approve the phase '{phase}' at site "
                                  f"'{self.site.name}'")

    def _refused(self, request: Message | None, problem: FedciError) -> tuple[Refusal, str]:
        """A refusal in words that may leave, and the full reason."""
        reason = "".join(sign if sign.isprintable() else "·" for sign in str(problem))
        self._log(request, f"{problem.code}: {'; '.join([reason, *getattr(problem, '__notes__', [])])}")
        return self._refusal(request, problem.code, public_reason(self.site.name, problem.code, reason)), reason

    def _failed(self, request: Message | None, problem: Exception) -> tuple[Refusal, str]:
        """An error nobody foresaw: its words may quote the data, so not even the site's own log has them."""
        self._log(request, wordless(problem))
        reason = (f"site '{self.site.name}' failed while it answered a {_name(request)}; its own file {LOG} says "
                  f"where")
        return self._refusal(request, SiteError.code, reason), reason

    def _refusal(self, request: Message | None, code: str, reason: str) -> Refusal:
        run, number = (request.run, request.round) if request else ("", 0)
        return Refusal(run, number, self.site.name, code, reason)

    def _record(self, request: Message | None, digest: str, reply: Message, back: bytes, run: Run) -> None:
        """The line on disk, and only then what it changes, in memory and in the site."""
        line = replace(left(request, digest, reply, back), phase=self.memory.phase(request))
        again = request is not None and self.memory.released(request) is not None
        if self.site.party.accountant is not None and not again:
            self.site.party.accountant.add_numbers(reply.run, numbers({"sums": line.sums}))
        entry = self.ledger.append(line)
        self.site.run = run
        if isinstance(reply, Refusal):
            return
        self.memory.learn(entry)
        self._last = digest, back

    def _tell(self, event: Event) -> None:
        """A screen that fails must not lose an answer that is already in the ledger."""
        try:
            if self.listener:
                self.listener(event)
        except Exception as problem:
            self._log(None, wordless(problem))

    def _log(self, request: Message | None, text: str) -> None:
        """To site.log; a full disk shows itself at the ledger."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        where = f"{_name(request)} round {request.round} run {request.run}" if request else "no request"
        rotate(self.folder / LOG)
        try:
            handle = os.open(self.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{now} {where}: {text.rstrip()}\n")
        except OSError:
            return


def wordless(problem: BaseException) -> str:
    """Where an error came from, file by file, and of which kinds it is: without its words, which may quote a cell."""
    parts = []
    seen: BaseException | None = problem
    while seen is not None:
        frames = traceback.extract_tb(seen.__traceback__)
        parts.append("\n".join([*(f"  {at.filename}, line {at.lineno}, in {at.name}" for at in frames),
                                type(seen).__name__]))
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\nwhile handling\n".join(parts)


def _name(message: Message | None) -> str:
    return asked(message) if message else ""


def phase_of(request: Message | None) -> str:
    return row_of(request).phase


def arrays_of(reply: Message) -> dict[str, np.ndarray]:
    """The named arrays that a reply carries."""
    parts = {part.name: getattr(reply, part.name) for part in fields(reply)}
    return dict(parts.get("sums", {})) | {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}


def check_leaving(request: Message, reply: Message, secure: bool = False, site_effects: bool = False) -> None:
    """DisclosureError where a reply holds anything that is not among the answers to its request."""
    row, what, site = row_of(request), _name(request), f"site '{request.site}'"
    if type(reply) not in row.replies:
        raise DisclosureError(f"{site}: a {_name(reply)} is no answer to a {what}")
    if (reply.run, reply.round, reply.site) != (request.run, request.round, request.site):
        raise DisclosureError(f"{site}: the answer to a {what} belongs to another request")
    arrays = arrays_of(reply)
    foreign = [name for name in arrays if name not in row.leaves(secure, site_effects)]
    foreign += [name for name in getattr(reply, "notes", {}) if name not in row.notes_beside(secure)]
    if foreign:
        problem = DisclosureError(f"{site}: the answer to a {what} holds a name that may not leave in it")
        problem.add_note(f"such as {foreign[0]!r}")  # for the site's own log: a name could itself tell something
        raise problem
    if sum(np.asarray(array).nbytes for array in arrays.values()) > MAX_BYTES:
        raise DisclosureError(f"{site}: the answer to a {what} is over the limit of a message")


def public_reason(site: str, code: str, reason: str) -> str:
    """The reason in words that may leave: those that could hold a count are replaced, the site's name apart."""
    unnamed = reason.replace(f"'{site}'", "")
    if code not in WITHOUT_COUNTS or not any(sign.isnumeric() for sign in unnamed):
        return reason
    return f"site '{site}': {WITHOUT_COUNTS[code]}; the site's own screen has the numbers"


def left(request: Message | None, digest: str, reply: Message, back: bytes) -> Left:
    """The ledger's line on a reply."""
    line = Left(run=reply.run, round=reply.round, phase=phase_of(request), request=_name(request),
                request_sha256=digest, reply=_name(reply), reply_sha256=sha256(back), bytes=len(back))
    if isinstance(reply, Refusal):
        return replace(line, code=reply.code, reason=reply.reason)
    arrays = {name: np.asarray(array) for name, array in arrays_of(reply).items()}
    values = {name: array.tolist() for name, array in arrays.items() if name != MASKED}
    return replace(line, sums={name: list(array.shape) for name, array in arrays.items()},
                   values=values if row_of(request).in_full else None,
                   notes={name: note for name, note in getattr(reply, "notes", {}).items()
                          if name not in CIPHERTEXT} or None)


def describe(request: Message, reply: Message, size: int) -> str:
    """What a person is asked to let out: this answer's names, shapes and size, and the names of the phase's others."""
    phase, line = phase_of(request), left(request, "", reply, b"")
    parts = [f"{name} ({' × '.join(map(str, shape)) or 'a number'})" for name, shape in line.sums.items()]
    parts += [f"{name} (in words)" for name in line.notes or {}]
    what = ", ".join(parts) or "no numbers, only that it agrees"
    count = numbers({"sums": line.sums})
    if isinstance(request, Hello) and request.refuter:
        return (f"the refuter '{request.refuter}', run {request.run}: site '{request.site}' changes its rows as the "
                f"study says, and all phases of the study but linkage and diagnostics run once more on them: moments, "
                f"fit and effects leave again, of the changed rows. Asked once for all of it.")
    secure = MASKED in line.sums
    later = sorted({name for row in REQUESTS.values() if row.phase == phase for name in row.leaves(secure)})
    also = f" Later answers of the phase hold nothing but: {', '.join(later)}." if later else ""
    return (f"phase '{phase}' of run {request.run}: to a {_name(request)}, site '{request.site}' answers with {what}; "
            f"{count:,} numbers, {size:,} bytes.{also}")
