"""The course of a study as a site follows it: where it stood in the last exchanges, and what is asked now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fedci.errors import SiteError
from fedci.model.family import Ask, Sums
from fedci.protocol import course
from fedci.protocol.course import Contract, Place
from fedci.protocol.messages import Step
from fedci.protocol.requests import REQUESTS

PLACES = 16
"""Of the fit, to which a coordinator may go back: its checkpoint is at most five rounds of two exchanges old."""
Answered = Callable[[Place, Ask, int], Sums]
"""(the place, what was asked there, its exchange) → the sum that answered, as the coordinator tells it, checked."""


@dataclass(frozen=True)
class Course:
    """Replaced, never changed."""

    site: str
    contract: Contract
    places: Mapping[int, Place] = field(default_factory=dict)
    """Round of the talk → where the study stood at its step."""
    earlier: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """The same of a process before this one, as `packed` gave it."""
    asked: tuple[int, Ask] | None = None
    """The last step's round and what it asked, so that it need not be worked out again."""

    def followed(self, request: Step, answered: Answered) -> tuple[Course, Ask]:
        """(the course with this step, what it asks); SiteError unless it is the next one."""
        number = request.round
        place, ask = self._place(number, request, answered)
        if ask is None or ask.name != request.name:
            expected = "nothing more" if ask is None else f"a {ask.name}"
            raise SiteError(f"site '{self.site}': the coordinator left the agreed course of the study in round "
                            f"{number} (a {request.name[:40]} instead of {expected}): it follows neither from the "
                            f"study nor from the sums. Nothing was answered. Stop the study, and ask the coordinator")
        return replace(self, places=_newest({**self.places, number: place}), asked=(number, ask)), ask

    def _place(self, number: int, request: Step, answered: Answered) -> tuple[Place, Ask | None]:
        if number in self.places:  # walked before: a coordinator that goes on from its checkpoint
            return course.now(self.contract, self.places[number])
        last = max((at for at in self.places if at < number), default=None)
        if last is None:
            return course.now(self.contract, Place())
        walked = self.places[last]
        if walked.leg not in course.BEFORE:
            if number in self.earlier:
                return course.now(self.contract, course.unpack(self.contract, walked, self.earlier[number]))
            if later := [at for at in self.earlier if last < at < number]:  # answered before the restart, the last
                last = max(later)
                walked = course.unpack(self.contract, walked, self.earlier[last])
        before, ask = self._now(last, walked)
        if ask is None:
            return before, None
        row = REQUESTS[ask.name]
        given_up = row.optional and not request.previous
        place, ask = course.after(self.contract, before,
                                  answered(before, ask, last) if row.summed and not given_up else {})
        while ask is not None and ask.name != request.name and REQUESTS[ask.name].optional and not request.previous:
            place, ask = course.after(self.contract, place, {})  # a diagnostic that another site refused
        return place, ask

    def _now(self, number: int, place: Place) -> tuple[Place, Ask | None]:
        if self.asked is not None and self.asked[0] == number and place is self.places.get(number):
            return place, self.asked[1]
        return course.now(self.contract, place)

    def place(self, number: int) -> Place:
        return self.places[number]

    def packed(self, number: int) -> dict[str, np.ndarray] | None:
        """For the site's own disk; None before the fit, which is walked again."""
        place = self.places[number]
        return None if place.leg in course.BEFORE else course.pack(place)


def _newest(by_round: Mapping[int, Place]) -> dict[int, Place]:
    """All places before the first round, which a coordinator that goes on from its checkpoint walks anew, and the last
    ones after: further back than to its checkpoint it does not go."""
    before = {number for number, place in by_round.items()
              if place.leg in (*course.BEFORE, course.START)}
    last = sorted(set(by_round) - before)[-PLACES:]
    return {number: by_round[number] for number in sorted(before | set(last))}
