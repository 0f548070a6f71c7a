"""Outcomes of 0 and 1, times and counts, measured: what docs/benchmarks/outcomes.md is made from.

    python -m fedci.benchmark.run.outcome_grid --kinds binary --people 100 --replications 20 --methods FedCI --out DIR
    taskset -c 3 python -m fedci.benchmark.run.outcome_grid --out DIR --part 3/16        a share, a process of its own

A cell is one method on one replication of one data set. Cells are kept, a file for each part: the same command goes on
where it stopped. Replications come first, so that what was stopped has as many of each data set.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedci.benchmark.cost import kept
from fedci.benchmark.run import binary, rates, survival
from fedci.benchmark.run.drawn import Drawn, Found, Method


class Kind(NamedTuple):
    """Of an outcome."""

    sets: tuple[str, ...]
    people: Callable[[str, int, int], tuple[Drawn, Drawn]]
    methods: Mapping[str, Method]
    sizes: tuple[int, ...]
    """People of a site."""


KINDS = {"binary": Kind(tuple(binary.LOG_ODDS), binary.people, binary.METHODS, (100, 400)),
         "survival": Kind(tuple(survival.SETS), survival.people, survival.METHODS, (200,)),
         "count": Kind(tuple(rates.SETS), rates.people, rates.METHODS, (100,))}


class Cell(NamedTuple):
    """One method on one replication."""

    kind: str
    data: str
    people: int
    """Of a site."""
    replication: int
    method: str
    events: float
    """The share of people with the event; of counts their mean."""
    pehe: float
    """Root mean square error of the effects of new people."""
    covered: float
    """The share of them whose 95 % interval holds their effect; NaN without intervals."""
    width: float
    error: float
    """Of the average effect over the people of the study."""
    average_covered: float
    """1 where its interval holds it."""
    average_width: float
    truth: float
    """The average effect itself."""
    seconds: float

    @property
    def place(self) -> Place:
        return Place(self.kind, self.data, self.people, self.replication, self.method)


class Place(NamedTuple):
    """Which cell it is."""

    kind: str
    data: str
    people: int
    replication: int
    method: str


def places(kinds: Sequence[str], sizes: Sequence[int], sets: Sequence[str], methods: Sequence[str],
           replications: range) -> Iterator[Place]:
    """All that is asked for; nothing said of sizes, sets or methods: all of them."""
    for replication, kind in itertools.product(replications, kinds):
        known = KINDS[kind]
        for people, data, method in itertools.product(known.sizes, known.sets, known.methods):
            if all(not asked or one in asked for one, asked in ((people, sizes), (data, sets), (method, methods))):
                yield Place(kind, data, people, replication, method)


def measured(place: Place) -> Cell:
    kind = KINDS[place.kind]
    study, new = kind.people(place.data, place.replication, place.people)
    start = time.perf_counter()
    found = kind.methods[place.method](study, new, place.replication)
    return _cell(place, study, new, found, time.perf_counter() - start)


def _cell(place: Place, study: Drawn, new: Drawn, found: Found, seconds: float) -> Cell:
    truth, (mean, low, high) = float(study.effect.mean()), found.average
    has = bool(np.isfinite(found.low).all())
    return Cell(*place, events=float(study.y.mean()), pehe=float(np.sqrt(np.mean((found.mean - new.effect) ** 2))),
                covered=float(np.mean((found.low <= new.effect) & (new.effect <= found.high))) if has else np.nan,
                width=float(np.mean(found.high - found.low)), error=float(mean - truth),
                average_covered=float(low <= truth <= high) if np.isfinite(low) else np.nan,
                average_width=float(high - low), truth=truth, seconds=seconds)


def read(folder: Path) -> list[Cell]:
    """All that is kept, each place once."""
    cells = [cell for path in sorted(folder.glob("part*.jsonl")) for cell in kept.read(path, Cell)]
    return list({cell.place: cell for cell in cells}.values())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.run.outcome_grid",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--people", type=int, nargs="+", default=[], help="of a site")
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--methods", nargs="+", default=[])
    parser.add_argument("--first", type=int, default=0, help="the first replication")
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--part", default="0/1", help="k/n: the cells k, k + n, … of them")
    parser.add_argument("--out", type=Path, required=True, help="a folder; what is there is not measured again")
    asked = parser.parse_args(arguments)
    part, parts = map(int, asked.part.split("/"))
    asked.out.mkdir(parents=True, exist_ok=True)
    every = places(asked.kinds, asked.people, asked.sets, asked.methods,
                   range(asked.first, asked.first + asked.replications))
    there = {cell.place for cell in read(asked.out)}
    for place in list(itertools.islice(every, part, None, parts)):
        if place not in there:
            cell = measured(place)
            kept.add(asked.out / f"part-{part}-of-{parts}.jsonl", cell)
            print(f"{place.kind} {place.data} {place.people} {place.method} {place.replication}: "
                  f"error {cell.pehe:.3f}, {cell.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
