"""An engine that asks again, a few times and ever more slowly, where a message was lost or damaged on its way.

The request is the same to the byte: a site that had answered it answers the same again (its door sees to that), so a
retry changes nothing but the time it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedci.errors import AwayError, FedciError, MessageError
from fedci.protocol.engine import Engine
from fedci.protocol.messages import Message

TRIES, PAUSE = 3, 1.0
"""Further tries, and seconds before the first; each waits twice as long as the one before."""


@dataclass
class Retrying:
    """`engine`, more patient. `of`: the errors after which it asks again."""

    engine: Engine
    tries: int = TRIES
    pause: float = PAUSE
    of: tuple[type[FedciError], ...] = (AwayError, MessageError)
    sleep: Callable[[float], None] = time.sleep

    @property
    def sites(self) -> tuple[str, ...]:
        return self.engine.sites

    def exchange(self, requests: Mapping[str, Message]) -> Mapping[str, Message]:
        try:
            return self.engine.exchange(requests)
        except self.of:
            return {site: self._again(site, request) for site, request in sorted(requests.items())}

    def _again(self, site: str, request: Message) -> Message:
        for number in range(self.tries):
            self.sleep(self.pause * 2.0**number)
            try:
                return self.engine.exchange({site: request})[site]
            except self.of as problem:
                last = problem
        raise last
