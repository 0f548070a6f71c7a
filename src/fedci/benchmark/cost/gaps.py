"""A confounder that is missing at random: how often the interval of the average effect holds the truth, by what a study
does about it.

`python -m fedci.benchmark.cost.gaps FILE [REPLICATIONS [FIRST]]` measures what FILE lacks, and prints the table
of docs/study.md. Whether a value is missing hangs on the treatment and on a column that is seen, so the mean of those
who have it is not that of those who lack it, and a mark tells of the treatment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedci import FedCI, Source, Study
from fedci.benchmark.cost import kept
from fedci.study.covariate import Missing

SITES, PEOPLE, EFFECT = 3, 200, 1.0
WAYS: dict[str, Missing] = {"nothing is missing": "refuse", "the mean and a mark (`impute`)": "impute",
                            "draws (`model`)": "model"}
KINDS = ("a number", "0 or 1", "a number that a whole site lacks")
OPTIONS = {"model": {"knots": 3}, "optimiser": {"rounds": 60}, "prediction": {"draws": 512}}


class Cell(NamedTuple):
    """One fit."""

    kind: str
    way: str
    replication: int
    mean: float
    low: float
    high: float


def hospital(rng: np.random.Generator, kind: str, site: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(the people of a site, the same with what is missing)."""
    seen = rng.standard_normal(PEOPLE)
    hidden = 0.7 * seen + 0.7 * rng.standard_normal(PEOPLE) + 0.2 * rng.standard_normal()
    hidden = hidden if kind != "0 or 1" else (hidden > 0).astype(float)
    size = 1.0 if kind != "0 or 1" else 2.0
    w = (rng.uniform(size=PEOPLE) < 1 / (1 + np.exp(-1.5 * size * (hidden - hidden.mean())))).astype(int)
    y = 1.5 * size * hidden + EFFECT * w + rng.standard_normal(PEOPLE)
    gone = rng.uniform(size=PEOPLE) < 1 / (1 + np.exp(-(0.8 * seen + 1.2 * w - 0.8)))
    gone = np.ones(PEOPLE, bool) if kind == KINDS[2] and site == 0 else gone
    whole = pd.DataFrame({"seen": seen, "hidden": hidden, "w": w, "y": y})
    return whole, whole.assign(hidden=np.where(gone, np.nan, hidden))


def measured(kind: str, way: str, replication: int) -> Cell:
    rng = np.random.default_rng((replication, KINDS.index(kind), 24))
    sites = [hospital(rng, kind, site)[WAYS[way] != "refuse"] for site in range(SITES)]
    covariates = {"seen": {}, "hidden": {"type": "binary"} if kind == "0 or 1" else {}}
    study = Study(treatment="w", outcome="y", covariates=covariates, missing=WAYS[way], policy="simulation",
                  options=OPTIONS, diagnostics={"enabled": False})
    result = FedCI(study, seed=replication).fit([Source(f"s{k}", table) for k, table in enumerate(sites)])
    return Cell(kind, way, replication, result.ate().mean, *result.ate_interval())


def table(cells: Sequence[Cell]) -> str:
    lines = ["| what is missing | what is done | coverage | bias | width | replications |",
             "|---|---|---:|---:|---:|---:|"]
    for kind in KINDS:
        for way in WAYS:
            own = [cell for cell in cells if (cell.kind, cell.way) == (kind, way)]
            if own:
                inside = np.mean([cell.low <= EFFECT <= cell.high for cell in own])
                bias = np.mean([cell.mean - EFFECT for cell in own])
                width = np.mean([cell.high - cell.low for cell in own])
                lines.append(f"| {kind} | {way} | {inside:.2f} | {bias:+.2f} | {width:.2f} | {len(own)} |")
    return "\n".join(lines)


def main(file: str, replications: int = 100, first: int = 0) -> None:
    path = Path(file)
    done = {(cell.kind, cell.way, cell.replication) for cell in kept.read(path, Cell)}
    for replication in range(first, first + replications):
        for kind in KINDS:
            for way in WAYS:
                if (kind, way, replication) not in done:
                    kept.add(path, measured(kind, way, replication))
    print(table(kept.read(path, Cell)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
