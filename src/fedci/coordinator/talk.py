"""How a coordinator asks: numbered exchanges, answers checked, and the one operation of a fit, the sum over sites."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from fedci.coordinator.replies import check_numbers, checked, refused
from fedci.errors import DisclosureError, MessageError, NumericalError
from fedci.model.family import Ask, Family, Sums
from fedci.protocol.ask import shapes, sizes, step_of
from fedci.protocol.engine import Engine
from fedci.protocol.messages import Base, Message, Refusal, Reply
from fedci.protocol.requests import OWN, REQUESTS, Shapes, row_of

Make = Callable[[Base], Message]
"""A request to a site, from what every message begins with."""
Answer = TypeVar("Answer", bound=Message)
Value = TypeVar("Value")


class Total(NamedTuple):
    """What the coordinator learns of one exchange."""

    sums: Sums
    """Σ_s of each named sum."""
    for_sites: Sums
    """The same as the sites are told it."""
    sites: dict[str, Sums]
    """What each site lets be seen of itself: all its sums (plain), or what it tells beside a masked one."""


GIVEN_UP = Total({}, {}, {})
"""Of a diagnostic that a site refused."""
WITHHELD = (DisclosureError, NumericalError)
"""Refusals for which a diagnostic is given up; any other ends the study, as everywhere."""


class SumsOverSites(Protocol):
    """How answers become a sum: in the clear, or under masks."""

    def total(self, talk: Talk, ask: Ask) -> Total: ...


class PlainSums:
    """Every site's sums are seen; added in the order of the sites' names."""

    def total(self, talk: Talk, ask: Ask) -> Total:
        replies, row = talk.ask_sum(ask), REQUESTS[ask.name]
        for reply in replies.values():
            own = {} if row.averaged else {OWN + name: shape for name, shape in talk.own_shapes(ask).items()}
            check_numbers(reply, talk.shapes(ask) | own, row.rules())
        note_jitters(talk.jitters, replies)
        total = {name: part for name, part in summed(replies).items() if not name.startswith(OWN)}
        seen: dict[str, Sums] = {name: {key.removeprefix(OWN): part for key, part in reply.sums.items()}
                                 for name, reply in replies.items()}
        return Total(total, total, seen)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On what terms sums are taken over the sites: all that the parties agree on before the fit."""

    model: Family | None = None
    """None before the units are agreed: no shape is known yet."""
    sums: SumsOverSites = PlainSums()
    unit: float = 1.0
    """Of the outcome: one in model units, in its own."""
    people: int = 0
    """Of all sites."""
    averaged: bool = False
    """Whether effects are told as averages over the draws (under differential privacy)."""


NO_TERMS = Terms()


class Talk:
    """Numbers the exchanges of a run, checks that answers belong to them, and turns refusals into errors. On other
    terms, or at another place of the run, it is another talk (`on`, `at`)."""

    def __init__(self, engine: Engine, run: str, terms: Terms = NO_TERMS, *, number: int = 0,
                 previous: Sums | None = None, jitters: Mapping[str, float] | None = None, before: Talk | None = None):
        """`before`: the talk that this one goes on from."""
        self.engine, self.run, self.terms, self.round = engine, run, terms, number
        self.sites = tuple(sorted(engine.sites))
        self.previous: Sums = previous or {}
        """The last sum, where the sites are told it with the next request."""
        self.jitters: dict[str, float] = dict(jitters or {})
        """The largest jitter each site needed beyond the model's own; under '' where nobody can say which site."""
        self.totals: dict[str, Total] = dict(before.totals) if before else {}
        """Name of a step → the last sum that it came to."""
        self.notes: tuple[str, ...] = before.notes if before else ()
        """Diagnostics that were given up, and why."""

    def on(self, terms: Terms) -> Talk:
        return Talk(self.engine, self.run, terms, number=self.round, previous=self.previous, jitters=self.jitters,
                    before=self)

    def at(self, number: int, previous: Sums | None = None, jitters: Mapping[str, float] | None = None) -> Talk:
        """At an exchange of the same run, such as where a checkpoint stood."""
        return Talk(self.engine, self.run, self.terms, number=number, previous=previous, jitters=jitters, before=self)

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
            raise refused(replace(reply, site=name))
        if not isinstance(reply, kind) or (reply.run, reply.round, reply.site) != (self.run, self.round, name):
            raise MessageError(f"site '{name}' did not answer round {self.round} of this run", site=name)
        return checked(reply, row_of(request), self.secure, self.sites)

    def total(self, ask: Ask) -> Total:
        """One thing asked of all sites, and the sum of their answers."""
        row = REQUESTS[ask.name]
        if not row.summed:
            self.ask_sum(ask)
            total = Total({}, {}, {})
        else:
            total = self._given_up(ask) if row.optional else self.terms.sums.total(self, ask)
        self.previous, self.totals[ask.name] = total.for_sites, total
        return total

    def _given_up(self, ask: Ask) -> Total:
        """Of a diagnostic: without it the study goes on."""
        try:
            return self.terms.sums.total(self, ask)
        except WITHHELD as problem:
            self.notes += (f"the diagnostic '{REQUESTS[ask.name].kind}' was given up: {problem}",)
            return GIVEN_UP

    def ask_sum(self, ask: Ask) -> dict[str, Reply]:
        """The sites' answers to be summed, in this round."""
        return self.ask_all(lambda base: step_of(ask, base, self.previous))

    def shapes(self, ask: Ask) -> Shapes:
        """Of the sums that answer."""
        return shapes(self.terms.model, ask, self.terms.averaged)

    def own_shapes(self, ask: Ask) -> Shapes:
        """Of what a site tells of itself beside the sum."""
        return REQUESTS[ask.name].own_shapes(sizes(ask.arrays, self.terms.model))

    def follow(self, steps: Generator[Ask, Sums, Value]) -> Value:
        """What a leg of the course comes to."""
        try:
            ask = next(steps)
            while True:
                ask = steps.send(self.total(ask).sums)
        except StopIteration as done:
            return done.value


def summed(replies: Mapping[str, Reply]) -> dict[str, np.ndarray]:
    """Σ_s of each named sum, in the order of the sites' names."""
    names = next(iter(replies.values())).sums.keys()
    return {name: np.asarray(sum(replies[site].sums[name] for site in sorted(replies))) for name in names}


def note_jitters(jitters: dict[str, float], replies: Mapping[str, Reply]) -> None:
    for name, reply in replies.items():
        if "jitter" in reply.notes:
            jitters[name] = max(jitters.get(name, 0.0), reply.notes["jitter"])
