"""Where a run stood, on the coordinator's disk: written whole or not at all, and read only by the run it belongs to.

    run, study's hash, sites | round of the talk, the phases done | the optimiser's state, the trace

A run that starts again repeats the cheap phases (the sites recognise the requests and answer the same) and goes on
with the optimiser's state: the numbers are those of a run that was never interrupted, bit for bit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedci.bounded import json_of, npz_file
from fedci.errors import OutputError
from fedci.files import whole_file
from fedci.version import __version__

FORMAT = 3
PREVIOUS = "previous/"
EVERY = 5
"""Rounds of the fit between two writings."""


@dataclass(frozen=True)
class Mark:
    """What identifies a run; a checkpoint of another is never used."""

    study_hash: str
    sites: tuple[str, ...]
    version: str = __version__


@dataclass(kw_only=True)
class Checkpoint:
    """A file, and what stands in it. Without a path nothing is kept."""

    mark: Mark
    run: str
    path: Path | None = None
    linked: list[Any] | None = None
    """[people excluded at each site, warnings] of the linkage, once it is done; its keys are gone, so it is not
    repeated."""
    linked_round: int = 0
    """The talk's round after linkage."""
    fit_round: int = 0
    """The talk's round when `state` was taken."""
    state: dict[str, np.ndarray] | None = None
    """Of the optimiser."""
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    """The sum that the sites are told with the next request."""
    rounds: list[list[Any]] = field(default_factory=list)
    jitters: dict[str, float] = field(default_factory=dict)

    def due(self, number: int) -> bool:
        return self.path is not None and number % EVERY == 0

    def write(self) -> None:
        """Nothing, without a path."""
        if self.path is None:
            return
        facts = {"format": FORMAT, "mark": asdict(self.mark), "run": self.run, "linked": self.linked,
                 "linked_round": self.linked_round, "fit_round": self.fit_round, "rounds": self.rounds,
                 "jitters": self.jitters}
        try:
            with whole_file(self.path) as file:
                np.savez(file, allow_pickle=False, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8),
                         **(self.state or {}), **{f"{PREVIOUS}{name}": part for name, part in self.previous.items()})
        except OSError as problem:
            raise OutputError(f"the checkpoint could not be written to '{self.path}': {problem.strerror}. The one "
                              f"before it stands; free some space and start the same command again") from None


def load(path: Path | None, mark: Mark, run: str) -> Checkpoint:
    """The checkpoint of this run, or a new one (named `run`) where there is none or it is another run's."""
    fresh = Checkpoint(mark=mark, run=run, path=path)
    if path is None or not path.exists():
        return fresh
    try:
        arrays = npz_file(path)
        facts = json_of(arrays.pop("facts").tobytes())
        previous = {name.removeprefix(PREVIOUS): arrays.pop(name) for name in list(arrays) if name.startswith(PREVIOUS)}
        known = facts["format"] == FORMAT and facts["mark"] | {"sites": tuple(facts["mark"]["sites"])} == asdict(mark)
        return Checkpoint(mark=mark, run=facts["run"], path=path, linked=facts["linked"],
                          linked_round=facts["linked_round"], fit_round=facts["fit_round"], state=arrays or None,
                          previous=previous, rounds=facts["rounds"], jitters=facts["jitters"]) if known else fresh
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise OutputError(f"the checkpoint '{path}' is damaged. Remove it to start the run from the start") from None


def link_again(path: Path | None, mark: Mark) -> None:
    """For sites that start anew with the coordinator, in one process: their linkage follows from the seed, and is
    repeated."""
    if path is not None and path.exists():
        checkpoint = load(path, mark, "")
        if checkpoint.run:
            checkpoint.linked = None
            checkpoint.write()
