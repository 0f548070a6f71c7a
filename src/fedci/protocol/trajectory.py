"""Where a fit stands, and what must be asked next: a site that knows the seed, the rules and the sums so far can tell.

    Place = (leg, optimiser's state at its beginning, sums told since)          legs: start → round … round → effects

A coordinator that asks for anything else (weights made to single out a person, another Θ for one site) is refused. The
sums themselves are the coordinator's word, unless they carry the sites' checks (`privacy.secure_sum`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedci.model.family import Ask, Rules, Sums
from fedci.protocol import optimise, rounds
from fedci.protocol.ask import request_of
from fedci.protocol.messages import Message
from fedci.protocol.requests import asked

START, ROUND, EFFECTS = "start", "round", "effects"
TOLERANCE = 1e-6
"""Relative to an array's largest number: machines differ in the last bits of a float64, and those of a long fit add up;
what a crafted request needs is larger by far."""


class Place(NamedTuple):
    leg: str
    state: optimise.State | None
    """None at the start, and only there."""
    told: tuple[Sums, ...] = ()


def begin() -> Place:
    return Place(START, None)


def now(rules: Rules, place: Place) -> tuple[Place, Ask]:
    """(the place without legs that are over, what is asked there)."""
    steps = _steps(rules, place)
    try:
        ask = next(steps)
        for total in place.told:
            ask = steps.send(total)
    except StopIteration as done:
        return now(rules, _after(rules, place, done.value))
    return place, ask


def after(rules: Rules, place: Place, total: Sums) -> tuple[Place, Ask]:
    return now(rules, place._replace(told=(*place.told, total)))


def _steps(rules: Rules, place: Place) -> Generator[Ask, Sums, Any]:
    if place.state is None:
        return rounds.start(rules)
    if place.leg == ROUND:
        return rounds.evaluation(rules, place.state)
    return rounds.effects(rules, place.state.best)


def _after(rules: Rules, place: Place, value: Any) -> Place:
    """`value`: what the leg's steps came to."""
    state = rounds.begin(rules, value) if place.state is None else rounds.after(rules, place.state, *value)
    return Place(ROUND if state.verdict is None else EFFECTS, state)


def differs(ask: Ask, request: Message, index: int) -> str | None:
    """What of a request is not as expected, in a word; None: it is."""
    if asked(request) != ask.name:
        return f"a {asked(request)} instead of a {ask.name}"
    expected = request_of(ask, ("", 0, ""), index, {})
    return next((name for name in ask.arrays if not _near(getattr(request, name), getattr(expected, name))), None)


def _near(got: np.ndarray, expected: np.ndarray) -> bool:
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape or got.dtype.kind != "f":
        return False
    scale = np.nanmax(np.abs(expected), initial=0.0)
    return bool(np.allclose(got, expected, rtol=0.0, atol=TOLERANCE * scale, equal_nan=True))


# --- on disk, so that a site that starts again knows where the fit stood


def pack(place: Place) -> dict[str, np.ndarray]:
    """The place as named arrays, bit for bit."""
    sums = {f"told/{k}/{name}": np.asarray(part) for k, total in enumerate(place.told) for name, part in total.items()}
    state = {} if place.state is None else {f"state/{k}": v for k, v in optimise.pack(place.state).items()}
    facts = {"leg": np.array(place.leg), "count": np.array(len(place.told)),
             "verdict": np.array("" if place.state is None else place.state.verdict or "")}
    return facts | sums | state


def resumed(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A place as `pack` gives it, from the optimiser's state in a coordinator's checkpoint: a round is to begin."""
    return {"leg": np.array(ROUND), "count": np.array(0), "verdict": np.array("")} | {
        f"state/{name}": part for name, part in state.items()}


def unpack(rules: Rules, packed: Mapping[str, np.ndarray]) -> Place:
    """The place that `pack` was given."""
    sums = tuple({name.split("/", 2)[2]: part for name, part in packed.items() if name.startswith(f"told/{k}/")}
                 for k in range(int(packed["count"])))
    packed_state = {name.removeprefix("state/"): part for name, part in packed.items() if name.startswith("state/")}
    state = optimise.unpack(rules.options.optimiser, len(rules.u), packed_state) if packed_state else None
    state = state and state._replace(verdict=str(packed["verdict"]) or None)
    return Place(str(packed["leg"]), state, sums)
