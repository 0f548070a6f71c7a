"""Curves over people of a site: what noise on sums leaves of a person, and who is found, at sizes that are let take
part and at those that are refused.

    python assurance/noised_curves.py [--people 50 200 1000] [--noise 0.0001 0.05 0.25 0.5 1] [--of 6] [--out FILE]

Three masked sites behind doors, a half of each in either arm; one works with the coordinator, and its part is taken
away. *Left* is the local bound, in sds, of a number of one who knows all else (`noised_sums.bound`): the most exposed
person's, and the typical one's. *Found* are people to 0.1 sd, beside what shuffled columns or a regression find:

    rows      of some people, everybody else's rows known: the whole row
    column    of everybody, all but that column known

Errors and coverage at the same sizes: `python -m fedci.benchmark.cost.noise_cost --people 50 200 1000`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import noised_doors
import numpy as np
from noised_sums import NAMES, SITES, SUM_NOISE, attack_each, bound, likeliest, material, model_at, people, score
from people_sites import met

from fedci.benchmark.cost import kept
from fedci.benchmark.cost.noise_cost import unrefused

COLUMN_STARTS, ROW_STARTS = 2, 2
NUMBERS = [NAMES.index(name) for name in NAMES if name != "0/1"]


class Cell(NamedTuple):
    people: int
    """Of a site."""
    noise: float
    """s."""
    needed: int
    """People of a site with whom `standard` would let it take part."""
    left: float
    """Of the most exposed person, in some number."""
    typical: float
    rows: int
    rows_of: int
    rows_chance: float
    column: int
    column_of: int
    column_chance: float
    beyond: int
    """People found beyond chance, by either."""


def overheard(count: int, noise: float) -> noised_doors.Heard:
    """A study that sites may refuse."""
    rows = noised_doors.tables(count // 2, count // 2, SITES, 7)
    policy = {"name": "simulation", "sum_noise": noise, "secure_sum": "auto"}
    with unrefused(), met(noised_doors.planned(tuple(rows), policy=policy), rows) as parties:
        return noised_doors.overheard(parties)


def cell(count: int, noise: float, of: int) -> Cell:
    model, share = model_at(noise), noise / SUM_NOISE
    left = bound(model, *people(count // 2, 0))[:, NUMBERS]
    task = material(overheard(count, noise))
    each = attack_each(task, of, ROW_STARTS, share)
    free = np.zeros(task.whom.rows.shape, bool)
    free[:, 0] = True
    every = score(task.whom, likeliest(task, free, share, COLUMN_STARTS, 7), free)
    return Cell(count, noise, -(-model.people_needed // model.sites), float(left.min()), float(np.median(left)),
                each.near, each.people, each.chance, every.near, every.people, every.chance,
                each.beyond + every.beyond)


def table(done: Sequence[Cell]) -> str:
    lines = ["| people of a site | s | admitted from | left: most exposed, typical (sd) | rows found (chance) | "
             "column found (chance) | beyond chance |", "|---:|---:|---:|---|---|---|---:|"]
    lines += [f"| {one.people:,} | {one.noise:g} | {one.needed:,} | {one.left:.2g}, {one.typical:.2g} | "
              f"{one.rows} of {one.rows_of} ({one.rows_chance:.0f}) | {one.column} of {one.column_of} "
              f"({one.column_chance:.0f}) | {one.beyond} |" for one in sorted(done)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--noise", type=float, nargs="+", default=[1e-4, 0.05, 0.25, 0.5, 1.0])
    parser.add_argument("--of", type=int, default=6, help="people whose whole rows are looked for")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell)
    for count in asked.people:
        for noise in asked.noise:
            if any(one[:2] == (count, noise) for one in done):
                continue
            done.append(cell(count, noise, asked.of))
            kept.add(asked.out, done[-1])
    print(table(done))


if __name__ == "__main__":
    main()
