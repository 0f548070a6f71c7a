"""Files carry the messages: an engine that hands out answers which came as letters, and stops where one is missing.

    exchange ─► all answers there?  yes: the course goes on, and they are kept once it asks for more
                                    no:  `Unanswered`, with the requests; the command writes them, and ends

The course of a study follows from the study and the answers alone, so the next command walks it again to the same
requests, to the bit. An answer that the course does not take (a refusal, another shape) is not kept: the site may send
another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedci.errors import FedciError, HandshakeError, MessageError, OutputError
from fedci.mail import letter
from fedci.mail.letter import ANSWER, HEADER_BYTES, SUFFIX, Header
from fedci.mail.post import Post, digest
from fedci.mail.tray import Key, Tray
from fedci.plain import plain
from fedci.protocol.codec import encode
from fedci.protocol.engine import Traffic, decode_from
from fedci.protocol.messages import Message, Refusal
from fedci.protocol.refuting import behind

MOST_FILES = 100_000
"""In a folder of answers."""


class Unanswered(Exception):
    """Where a study waits: these requests have no answer yet. No error: nothing went wrong."""

    def __init__(self, run: str, step: int, requests: Mapping[str, Message], missing: tuple[str, ...]):
        super().__init__(f"step {step} of run {run} waits for {', '.join(missing)}")
        self.run, self.step, self.requests, self.missing = run, step, dict(requests), missing


@dataclass
class Found:
    """The letters of a folder, by what they say of themselves; none of it holds before it is opened."""

    letters: dict[Key, list[Path]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """File → why it is not looked at further."""

    @classmethod
    def at(cls, folder: Path, post: Post, tray: Tray) -> Found:
        """OutputError where the folder cannot be read, or holds more than any study has."""
        found = cls()
        try:
            paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
        except OSError as problem:
            raise OutputError(f"the folder of answers '{folder}' cannot be read: "
                              f"{(problem.strerror or 'unknown').lower()}") from None
        if len(paths) > MOST_FILES:
            raise OutputError(f"the folder of answers '{folder}' holds more than {MOST_FILES:,} letters: put the "
                              f"latest ones into a folder of their own")
        for path in paths:
            found._look(path, post, tray)
        return found

    def _look(self, path: Path, post: Post, tray: Tray) -> None:
        try:
            header = letter.header_of(letter.read(path, 6 + HEADER_BYTES))
            post.check(header, ANSWER)
            if behind(header.run) != tray.run:
                raise HandshakeError("it is of an earlier run, or of another coordinator's")
            if header.sender not in tray.sites:
                raise HandshakeError(f"'{header.sender}' takes no part in this run")
        except FedciError as problem:
            self.refuse(path, str(problem))
            return
        self.letters.setdefault(_key(header), []).append(path)

    def refuse(self, path: Path, reason: str) -> None:
        self.refused[plain(path.name, 100)] = reason


def _key(header: Header) -> Key:
    return header.run, header.step, header.sender


@dataclass(frozen=True)
class Answer:
    """A letter that holds, and what is in it."""

    key: Key
    data: bytes
    sent: int
    """Bytes of the request's message."""
    reply: bytes
    kept: bool
    """Whether it was in the tray."""


class MailEngine:
    """The seam of the federation over files."""

    def __init__(self, post: Post, tray: Tray, found: Found):
        self.post, self.tray, self.found = post, tray, found
        self.sites = tuple(sorted(tray.sites))
        self.traffic = tray.traffic
        self.used: set[Key] = set()
        self.went_on = False
        """Whether an exchange was completed by answers that came with this command."""
        self._pending: list[Answer] = []

    def exchange(self, requests: Mapping[str, Message]) -> Mapping[str, Message]:
        self.take()
        if not requests:
            return {}
        run, step = next((request.run, request.round) for request in requests.values())
        answers = {site: self._answer((run, step, site), encode(request)) for site, request in sorted(requests.items())}
        missing = tuple(site for site, answer in answers.items() if answer is None)
        if missing and self.tray.is_past(run, step):
            raise OutputError(f"the answers of {', '.join(missing)} to step {step} are lost from '{self.tray.folder}'. "
                              f"Put the files that these sites sent then into the folder of answers again, or begin a "
                              f"new run (--new-run)")
        if missing:
            raise Unanswered(run, step, requests, missing)
        self._pending = [answer for answer in answers.values() if answer is not None]
        return {answer.key[2]: decode_from(answer.key[2], answer.reply) for answer in self._pending}

    def take(self) -> None:
        """The course went on from the last exchange: its answers stand, and the next command finds them in the tray."""
        new = [answer for answer in self._pending if not answer.kept]
        for answer in new:
            self.tray.keep(answer.key, answer.data)
        self.used |= {answer.key for answer in self._pending}
        for answer in new:
            seen = self.traffic.setdefault(answer.key[2], Traffic())
            seen.sent, seen.received = seen.sent + answer.sent, seen.received + len(answer.reply)
            seen.messages += 1
        if new:
            self.went_on = True
            self.tray.write()
        self._pending = []

    def _answer(self, key: Key, request: bytes) -> Answer | None:
        """The site's answer to this request: the one that was kept, or the one among the files that holds."""
        place = self.tray.place(key)
        if place.exists():
            kept = self._kept(place, key, request)
            if kept is not None:
                return kept
        found: dict[bytes, Answer] = {}
        for path in self.found.letters.get(key, ()):
            try:
                data = letter.read(path)
                found[data] = self._opened(data, key, request)
            except FedciError as problem:
                self.found.refuse(path, str(problem))
        return self._one(key, list(found.values()))

    def _one(self, key: Key, answers: list[Answer]) -> Answer | None:
        """A site may answer after it refused, and the answer stands; two answers it never gives."""
        given = [one for one in answers if not isinstance(decode_from(key[2], one.reply), Refusal)]
        if len(given) > 1:
            raise MessageError(f"there are {len(given)} different answers of '{key[2]}' to step {key[1]}: a site gives "
                               f"one. Ask the site which is right, and take the others out of the folder", site=key[2])
        return given[0] if given else answers[-1] if answers else None

    def _kept(self, place: Path, key: Key, request: bytes) -> Answer | None:
        """None where the file is damaged: it may be among the letters again."""
        try:
            data = letter.read(place)
            header, _ = self.post.opened(data, ANSWER)
        except FedciError:
            return None
        if header.answers != digest(request):
            raise OutputError(f"step {key[1]} of run {key[0]} comes out otherwise than when '{key[2]}' answered it: "
                              f"fedci, the machine or the checkpoint is another. Go on with those of then, or begin a "
                              f"new run (--new-run)")
        return self._opened(data, key, request, kept=True)

    def _opened(self, data: bytes, key: Key, request: bytes, kept: bool = False) -> Answer:
        """MessageError unless the letter is the site's answer to this very request, in this run and cohort."""
        header, reply = self.post.opened(data, ANSWER)
        if _key(header) != key or header.cohort != letter.cohort_of(self.sites):
            raise MessageError("it is of another step, run or cohort than its name among the answers says")
        if header.answers != digest(request):
            raise MessageError(f"it answers another request than that of step {key[1]}")
        decode_from(key[2], reply)
        return Answer(key, data, len(request), reply, kept)
