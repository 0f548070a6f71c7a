"""The course of a fit as a site follows it: where it stood in the last exchanges, and what may be asked next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedci.errors import SiteError
from fedci.model.family import Ask, Rules, Sums
from fedci.protocol import trajectory
from fedci.protocol.messages import Message
from fedci.protocol.trajectory import Place

PLACES = 16
"""Exchanges that a coordinator may go back to: its checkpoint is at most five rounds of two exchanges old."""


@dataclass(frozen=True)
class Course:
    """Replaced, never changed."""

    site: str
    rules: Rules
    index: int
    """The site's place among the sites."""
    places: Mapping[int, Place] = field(default_factory=dict)
    """Round of the talk → where the fit stood at its request."""

    def followed(self, request: Message, answered: Callable[[Message, Ask, int], Sums]) -> Course:
        """The course with this request; SiteError unless it is what the fit, from its seed and the sums so far, must
        ask now. `answered(request, ask, number)` is the sum that answered `ask` in exchange `number`."""
        number = request.round
        place = self.places.get(number)
        if place is not None:  # walked before: a coordinator that goes on from its checkpoint
            ask = trajectory.now(self.rules, place)[1]
        elif before := [at for at in self.places if at < number]:
            last = self.places[max(before)]
            total = answered(request, trajectory.now(self.rules, last)[1], max(before))
            place, ask = trajectory.after(self.rules, last, total)
        else:
            place, ask = trajectory.now(self.rules, trajectory.begin())
        if wrong := trajectory.differs(ask, request, self.index):
            raise SiteError(f"site '{self.site}': the coordinator left the agreed course of the fit in round {number} "
                            f"({wrong}): it follows neither from the seed nor from the sums. Nothing was answered. "
                            f"Stop the study, and ask the coordinator")
        return replace(self, places=_newest({**self.places, number: place}))

    def packed(self, number: int) -> dict[str, np.ndarray]:
        return trajectory.pack(self.places[number])

    def restored(self, packed: Mapping[int, Mapping[str, np.ndarray]]) -> Course:
        return replace(self, places={number: trajectory.unpack(self.rules, place)
                                     for number, place in packed.items()})


def _newest(by_round: Mapping[int, Place]) -> dict[int, Place]:
    """The last rounds: further back than to its checkpoint no coordinator goes."""
    return {number: by_round[number] for number in sorted(by_round)[-PLACES:]}
