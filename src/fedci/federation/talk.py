"""How a coordinator asks: numbered exchanges, answers checked, sums taken in the order of the sites' names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import numpy as np

from fedci.errors import MessageError, from_code
from fedci.federation.engine import Engine
from fedci.messages import ANSWERS, Message, Refusal, Reply, asked

Answer = TypeVar("Answer", bound=Message)


class Talk:
    """Numbers the exchanges of a run, checks that answers belong to them, and turns refusals into errors."""

    def __init__(self, engine: Engine, run: str):
        self.engine, self.run, self.round = engine, run, 0
        self.sites = tuple(sorted(engine.sites))

    def ask_all(self, make: Callable[[tuple], Message], kind: type[Answer] = Reply) -> dict[str, Answer]:
        return self.ask_each(dict.fromkeys(self.sites, make), kind)

    def ask_each(self, make: Mapping[str, Callable[[tuple], Message]], kind: type[Answer] = Reply) -> dict[str, Answer]:
        return {name: self._checked(name, *both, kind) for name, both in self._exchanged(make).items()}

    def ask_willing(self, make: Mapping[str, Callable[[tuple], Message]], codes: Collection[str]):
        """(the replies, the reasons of the sites that refuse for one of `codes`); other refusals are errors."""
        found = self._exchanged(make)
        away = {name: reply.reason for name, (reply, _) in found.items()
                if isinstance(reply, Refusal) and reply.code in codes}
        return {name: self._checked(name, *both, Reply) for name, both in found.items() if name not in away}, away

    def _exchanged(self, make) -> dict[str, tuple[Message | None, Message]]:
        """Site → (its answer, its request)."""
        self.round += 1
        requests = {name: build((self.run, self.round, name)) for name, build in make.items()}
        replies = self.engine.exchange(requests)
        return {name: (replies.get(name), requests[name]) for name in sorted(make)}

    def _checked(self, name: str, reply: Message | None, request: Message, kind: type[Answer]) -> Answer:
        if isinstance(reply, Refusal):
            raise from_code(reply.code, reply.reason)
        belongs = isinstance(reply, kind) and (reply.run, reply.round, reply.site) == (self.run, self.round, name)
        if not belongs:
            raise MessageError(f"site '{name}' did not answer round {self.round} of this run")
        if isinstance(reply, Reply):
            _check_whole(reply, asked(request))
        return reply


def _check_whole(reply: Reply, request: str) -> None:
    """A site's own filter may take a sum out of its answer; nothing can be made of the rest."""
    missing = sorted(ANSWERS.get(request, set()) - reply.sums.keys())
    if missing:
        raise MessageError(f"site '{reply.site}' answered a {request} without {', '.join(map(repr, missing))}: a "
                           f"filter at the site takes it out. Ask the site to let it pass, or run the study without "
                           f"the site")


def summed(replies: Mapping[str, Reply]) -> dict[str, np.ndarray]:
    """Σ_s of each named sum, in the order of the sites' names."""
    names = {name for reply in replies.values() for name in reply.sums}
    return {name: sum(replies[site].sums[name] for site in sorted(replies)) for name in names}


def note_jitters(jitters: dict, replies: Mapping[str, Reply]) -> None:
    for name, reply in replies.items():
        if "jitter" in reply.notes:
            jitters[name] = max(jitters.get(name, 0.0), reply.notes["jitter"])
