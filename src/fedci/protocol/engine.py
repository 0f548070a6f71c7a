"""The seam between coordinator and sites: one method. What carries the messages is all that differs between one
process and many machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fedci.errors import MessageError
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Message
from fedci.protocol.requests import asked


class Engine(Protocol):
    @property
    def sites(self) -> tuple[str, ...]:
        """The sites it reaches, sorted."""
        ...

    def exchange(self, requests: Mapping[str, Message]) -> Mapping[str, Message]:
        """Each site's answer to its request (a Reply or a Refusal)."""
        ...


class Answering(Protocol):
    """A site, as far as an engine knows it."""

    def answer(self, request: Message) -> Message: ...


@dataclass
class Traffic:
    """Bytes to and from one site."""

    sent: int = 0
    received: int = 0
    messages: int = 0


def added(parts: Iterable[Mapping[str, Traffic]]) -> dict[str, Traffic]:
    """Of several engines, site by site."""
    total: dict[str, Traffic] = {}
    for part in parts:
        for name, seen in part.items():
            before = total.get(name, Traffic())
            total[name] = Traffic(before.sent + seen.sent, before.received + seen.received,
                                  before.messages + seen.messages)
    return total


@dataclass
class InProcessEngine:
    """All sites in this process. Messages still pass through their bytes: what could not travel fails here too."""

    local: Mapping[str, Answering]
    traffic: dict[str, Traffic] = field(default_factory=dict)
    watch: Callable[[str, int, int], None] = lambda request, done, sites: None
    """Called before each question: its name in the table of requests, how many sites have answered it, of how many."""

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(sorted(self.local))

    def exchange(self, requests: Mapping[str, Message]) -> Mapping[str, Message]:
        back = {}
        for done, name in enumerate(sorted(requests)):
            self.watch(asked(requests[name]), done, len(requests))
            back[name] = self._ask(name, requests[name])
        return back

    def _ask(self, name: str, request: Message) -> Message:
        outward = encode(request)
        back = encode(self.local[name].answer(decode(outward)))
        seen = self.traffic.setdefault(name, Traffic())
        seen.sent, seen.received, seen.messages = seen.sent + len(outward), seen.received + len(back), seen.messages + 1
        return decode_from(name, back)


def decode_from(site: str, data: bytes) -> Message:
    """The message in a site's bytes; MessageError names the site."""
    try:
        return decode(data)
    except MessageError as problem:
        raise MessageError(f"site '{site}': {problem}", site=site) from None
