"""Whether effects differ: how often that is said where they do, and where they do not.

    python -m fedci.benchmark.cost.sameness_power [--replications 10] [--rows 50,200] --out FILE

Five sites each; P(same) is `diagnostics.sameness`, and effects are said to differ where it is below 5 %. Fits that FILE
has are not made again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedci.benchmark.cost import kept
from fedci.diagnostics.sameness import ALARM
from fedci.synthetic import datasets
from fedci.synthetic.datasets import Records, Sizes, Split

Maker = Callable[[int, Sizes], list[Split]]
SAME = 2.0
"""The effect of everybody, where it is the same for all."""


def constant(replication: int, sizes: Sizes) -> list[Split]:
    """Outcomes of *Interactions* without treatment; treatment adds the same for everybody."""
    splits = datasets.interactions(replication, sizes=sizes)
    return [Split(*(_with_same_effect(part) for part in (split.train, split.test, split.validation)))
            for split in splits]


def _with_same_effect(people: Records) -> Records:
    moved = people.mu0 + SAME - people.mu1
    y1 = people.y1 + moved
    return replace(people, mu1=people.mu0 + SAME, y1=y1, y=np.where(people.w == 1, y1, people.y0))


SETS: dict[str, Maker] = {
    "No effect": lambda r, sizes: datasets.null(r, sizes=sizes),
    "Same effect, interactions in the outcome": constant,
    "Linear": lambda r, sizes: datasets.linear(r, sizes=sizes),
    "Heterogeneous sites": lambda r, sizes: datasets.heterogeneous(r, sizes=sizes),
    "Poor overlap": lambda r, sizes: datasets.overlap(r, sizes=sizes),
    "Steps": lambda r, sizes: datasets.steps(r, sizes=sizes),
    "Many directions": lambda r, sizes: datasets.many_directions(r, sizes=sizes),
    "Own surfaces": lambda r, sizes: datasets.own_surfaces(r, sizes=sizes),
    "Interactions": lambda r, sizes: datasets.interactions(r, sizes=sizes),
    "DATA-1": lambda r, sizes: datasets.synthetic("DATA-1", r, sizes=sizes)}


class Cell(NamedTuple):
    """One fit."""

    data: str
    rows: int
    """Of each of five sites."""
    replication: int
    probability: float
    """P(same)."""


def probability(splits: Sequence[Split], seed: int) -> float:
    """P(same) of one study."""
    from fedci.estimator import FedCI
    from fedci.study.study import Study
    from fedci.table.source import Source

    study = Study(treatment="w", outcome="y", covariates=splits[0].train.names, policy="simulation")
    result = FedCI(study, seed=seed).fit([Source(f"s{s}", split.train.frame()) for s, split in enumerate(splits)])
    found = result.diagnostics.sameness if result.diagnostics else None
    return 1.0 if found is None else found.probability


def cells(replications: int, rows: Sequence[int], done: Sequence[Cell] = ()) -> Iterator[Cell]:
    known = {(cell.data, cell.rows, cell.replication) for cell in done}
    for replication in range(replications):
        for n in rows:
            for data, make in SETS.items():
                if (data, n, replication) not in known:
                    splits = make(replication, Sizes(train=n))
                    yield Cell(data, n, replication, probability(splits, replication))


def table(done: Sequence[Cell]) -> str:
    """A row for each data set: fits, how many are said to differ, and the median of P(same), for each size."""
    rows = sorted({cell.rows for cell in done})
    lines = ["| data | " + " | ".join(f"5 × {n}: differ | median P(same)" for n in rows) + " |",
             "|---|" + "---:|---:|" * len(rows)]
    for data in SETS:
        own = [[cell.probability for cell in done if (cell.data, cell.rows) == (data, n)] for n in rows]
        said = [f"{sum(p < ALARM for p in part)} of {len(part)} | {np.median(part):.2f}" if part else "– | –"
                for part in own]
        lines.append(f"| {data} | " + " | ".join(said) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=10)
    parser.add_argument("--rows", default="50,200")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell)
    for cell in cells(asked.replications, [int(n) for n in asked.rows.split(",")], done):
        done.append(cell)
        kept.add(asked.out, cell)
    print(table(done))


if __name__ == "__main__":
    main()
