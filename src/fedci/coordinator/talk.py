"""How a coordinator asks: numbered exchanges, answers checked, and the one operation of a fit, the sum over sites."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from fedci.errors import MessageError, from_code
from fedci.model.family import Ask, Family, Sums
from fedci.protocol.ask import request_of, shapes, sizes
from fedci.protocol.engine import Engine
from fedci.protocol.messages import Base, Message, Refusal, Reply
from fedci.protocol.requests import MASKED, REQUESTS, Request, Shapes, Sizes, row_of

Make = Callable[[Base], Message]
"""A request to a site, from what every message begins with."""
Answer = TypeVar("Answer", bound=Message)
Value = TypeVar("Value")
HUGE = 1e200
"""A number beyond this is no sum over people in model units: a site is broken, or lies."""


class Total(NamedTuple):
    """What the coordinator learns of one exchange."""

    sums: Sums
    """Σ_s of each named sum."""
    told: Sums
    """The same as the sites are told it."""
    sites: dict[str, Sums]
    """What each site lets be seen of itself: all its sums (plain), its average effects or nothing (secure)."""
    withheld: Mapping[str, str] = {}
    """Site → why it added nothing (the code of an error); secure diagnostics only."""


class SumsOverSites(Protocol):
    """How answers become a sum: in the clear, or under masks."""

    def total(self, talk: Talk, ask: Ask) -> Total: ...


class PlainSums:
    """Every site's sums are seen; added in the order of the sites' names."""

    def total(self, talk: Talk, ask: Ask) -> Total:
        replies = talk.ask_sum(ask)
        if talk.terms.model is not None:
            for reply in replies.values():
                check_numbers(reply, talk.shapes(ask))
        note_jitters(talk.jitters, replies)
        total = summed(replies)
        return Total(total, total, {name: dict(reply.sums) for name, reply in replies.items()})


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On what terms sums are taken over the sites: all that the parties agree on before the fit."""

    model: Family | None = None
    """None before the units are agreed: no shape is known yet."""
    sums: SumsOverSites = PlainSums()
    unit: float = 1.0
    """Of the outcome: one in model units, in its own."""
    averaged: bool = False
    """Whether effects are told as averages over the draws (under differential privacy)."""
    tells: bool = False
    """Whether the sites are told each sum with the next request, and follow the fit."""


    @property
    def agreed_model(self) -> Family:
        """Of what is asked after the units are agreed."""
        if self.model is None:
            raise AssertionError("no sum is shaped before the units are agreed")
        return self.model


NO_TERMS = Terms()


class Talk:
    """Numbers the exchanges of a run, checks that answers belong to them, and turns refusals into errors. On other
    terms, or at another place of the run, it is another talk (`on`, `at`)."""

    def __init__(self, engine: Engine, run: str, terms: Terms = NO_TERMS, *, number: int = 0,
                 previous: Sums | None = None, jitters: Mapping[str, float] | None = None):
        self.engine, self.run, self.terms, self.round = engine, run, terms, number
        self.sites = tuple(sorted(engine.sites))
        self.previous: Sums = previous or {}
        """The last sum, where the sites are told it with the next request."""
        self.jitters: dict[str, float] = dict(jitters or {})
        """The largest jitter each site needed beyond the model's own; under '' where nobody can say which site."""

    def on(self, terms: Terms) -> Talk:
        return Talk(self.engine, self.run, terms, number=self.round, previous=self.previous, jitters=self.jitters)

    def at(self, number: int, previous: Sums | None = None, jitters: Mapping[str, float] | None = None) -> Talk:
        """At an exchange of the same run, such as where a checkpoint stood."""
        return Talk(self.engine, self.run, self.terms, number=number, previous=previous, jitters=jitters)

    @property
    def secure(self) -> bool:
        """Whether sums are taken under masks."""
        return not isinstance(self.terms.sums, PlainSums)

    def ask_all(self, make: Make) -> dict[str, Reply]:
        return self.ask_all_for(Reply, make)

    def ask_all_for(self, kind: type[Answer], make: Make) -> dict[str, Answer]:
        """Answers of another type."""
        exchanged = self._exchanged(dict.fromkeys(self.sites, make))
        return {name: self._checked(name, *both, kind) for name, both in exchanged.items()}

    def ask_each(self, make: Mapping[str, Make]) -> dict[str, Reply]:
        return {name: self._checked(name, *both, Reply) for name, both in self._exchanged(make).items()}

    def ask_willing(self, make: Mapping[str, Make], codes: Collection[str]) -> tuple[dict[str, Reply], dict[str, str]]:
        """(the replies, the reasons of the sites that refuse for one of `codes`); other refusals are errors."""
        exchanged = self._exchanged(make)
        away = {name: reply.reason for name, (reply, _) in exchanged.items()
                if isinstance(reply, Refusal) and reply.code in codes}
        return {name: self._checked(name, *both, Reply) for name, both in exchanged.items() if name not in away}, away

    def _exchanged(self, make: Mapping[str, Make]) -> dict[str, tuple[Message | None, Message]]:
        """Site → (its answer, its request)."""
        self.round += 1
        requests = {name: build((self.run, self.round, name)) for name, build in make.items()}
        replies = self.engine.exchange(requests)
        return {name: (replies.get(name), requests[name]) for name in sorted(make)}

    def checked(self, requests: Mapping[str, Message], replies: Mapping[str, Message]) -> dict[str, Reply]:
        return {name: self._checked(name, replies.get(name), requests[name], Reply) for name in sorted(requests)}

    def _checked(self, name: str, reply: Message | None, request: Message, kind: type[Answer]) -> Answer:
        if isinstance(reply, Refusal):
            raise from_code(reply.code, reply.reason)
        if not isinstance(reply, kind) or (reply.run, reply.round, reply.site) != (self.run, self.round, name):
            raise MessageError(f"site '{name}' did not answer round {self.round} of this run", site=name)
        if isinstance(reply, Reply):
            _check_whole(reply, request)
        return reply

    def total(self, ask: Ask) -> Total:
        """One thing asked of all sites, and the sum of their answers."""
        total = self.terms.sums.total(self, ask)
        self.previous = total.told if self.terms.tells else {}
        return total

    def ask_sum(self, ask: Ask) -> dict[str, Reply]:
        """The sites' answers to be summed, in this round."""
        def to_site(index: int) -> Make:
            return lambda base: request_of(ask, base, index, self.previous)

        return self.ask_each({name: to_site(index) for index, name in enumerate(self.sites)})

    def shapes(self, ask: Ask) -> Shapes:
        """Of the sums that answer."""
        return shapes(self.terms.agreed_model, ask, self.terms.averaged)

    def own_shapes(self, ask: Ask) -> Shapes:
        """Of what a site tells of itself beside a masked sum."""
        return REQUESTS[ask.name].own_shapes(sizes(ask.arrays, self.terms.model))

    def follow(self, steps: Generator[Ask, Sums, Value]) -> tuple[Value, Total | None]:
        """(what the steps of `protocol.rounds` come to, the last sum on their way)."""
        total = None
        try:
            ask = next(steps)
            while True:
                total = self.total(ask)
                ask = steps.send(total.sums)
        except StopIteration as done:
            return done.value, total


def _check_whole(reply: Reply, request: Message) -> None:
    """A site's own filter may take a sum out of its answer; nothing can be made of the rest."""
    row = row_of(request)
    masked = row.summed and MASKED in reply.sums
    missing = [] if masked else sorted(row.leaves(secure=False) - reply.sums.keys())
    if missing:
        raise MessageError(f"site '{reply.site}' answered a {row.name} without {', '.join(map(repr, missing))}: a "
                           f"filter at the site takes it out. Ask the site to let it pass, or run the study without "
                           f"the site", site=reply.site)


def check_form(reply: Reply, row: Request, measured: Sizes) -> None:
    """MessageError names the site whose answer in the clear has other shapes or types than the request's row says."""
    check_flags(reply, {array.name: array.at(measured) for array in row.answer if array.flag})
    check_numbers(reply, {array.name: array.at(measured) for array in row.answer if not array.flag})


def check_numbers(reply: Reply, expected: Shapes) -> None:
    """MessageError names the site whose sums have another shape, or numbers that no sum over people has."""
    for name, shape in expected.items():
        array = reply.sums[name]
        if array.shape != shape or array.dtype.kind not in "if":
            raise MessageError(f"site '{reply.site}' answered with {name!r} of shape {array.shape} and type "
                               f"{array.dtype}, needs {shape} and numbers. Is it of another version? Ask the site, or "
                               f"run the study without it", site=reply.site)
        if array.size and not np.abs(array).max() < HUGE:  # NaN too
            raise MessageError(f"site '{reply.site}' answered with {name!r} beyond {HUGE:g} or not finite: it is "
                               f"broken, or lies. Ask the site, or run the study without it", site=reply.site)


def check_flags(reply: Reply, expected: Shapes) -> None:
    for name, shape in expected.items():
        array = reply.sums[name]
        if array.shape != shape or array.dtype != bool:
            raise MessageError(f"site '{reply.site}' answered with {name!r} of shape {array.shape} and type "
                               f"{array.dtype}, needs {shape} and flags. Is it of another version? Ask the site, or "
                               f"run the study without it", site=reply.site)


def summed(replies: Mapping[str, Reply]) -> dict[str, np.ndarray]:
    """Σ_s of each named sum, in the order of the sites' names."""
    names = {name for reply in replies.values() for name in reply.sums}
    return {name: np.asarray(sum(replies[site].sums[name] for site in sorted(replies))) for name in names}


def note_jitters(jitters: dict[str, float], replies: Mapping[str, Reply]) -> None:
    for name, reply in replies.items():
        if "jitter" in reply.notes:
            jitters[name] = max(jitters.get(name, 0.0), reply.notes["jitter"])
