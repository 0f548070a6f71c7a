"""People in clusters: how often the interval of the average effect holds the truth, with `cluster` and without.

`python -m fedci.benchmark.cost.clusters [REPLICATIONS]` prints the table of docs/study.md. Schools of three
districts, and each school is treated whole: what its people share looks like an effect to whoever counts them as
independent.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedci import FedCI, Source, Study

SITES, CLUSTERS, PEOPLE = 3, 12, 10
SHARED = (0.0, 0.5, 1.0)
"""Sd of what people of a cluster share; the noise of a person has sd 1."""
EFFECT = 0.5
OPTIONS = {"model": {"knots": 3}, "optimiser": {"rounds": 40}, "prediction": {"draws": 128}}


class Found(NamedTuple):
    """Over replications."""

    coverage: float
    width: float


def district(rng: np.random.Generator, shared: float) -> pd.DataFrame:
    """One site: clusters that are treated whole, half of them."""
    cluster = np.repeat(np.arange(CLUSTERS), PEOPLE)
    treated = rng.permutation(np.arange(CLUSTERS) % 2)[cluster]
    age = rng.normal(size=len(cluster))
    y = (0.5 * age + EFFECT * treated + shared * rng.normal(size=CLUSTERS)[cluster] + rng.normal(size=len(cluster)))
    return pd.DataFrame({"w": treated, "y": y, "age": age, "school": [f"s{k}" for k in cluster]})


def study(clustered: bool) -> Study:
    return Study(treatment="w", outcome="y", covariates=["age"], cluster="school" if clustered else None,
                 policy="simulation", options=OPTIONS, diagnostics={"enabled": False})


def measured(replications: int, shared: float, clustered: bool) -> Found:
    inside, widths = [], []
    for replication in range(replications):
        rng = np.random.default_rng((replication, round(10 * shared)))
        sources = [Source(f"d{k}", district(rng, shared)) for k in range(SITES)]
        low, high = FedCI(study(clustered), seed=replication).fit(sources).ate_interval()
        inside.append(low <= EFFECT <= high)
        widths.append(high - low)
    return Found(float(np.mean(inside)), float(np.mean(widths)))


def main(replications: int = 100) -> None:
    print("| sd of what a cluster shares | coverage without `cluster` | width | coverage with it | width |\n"
          "|---|---|---|---|---|", flush=True)
    for shared in SHARED:
        without, with_them = (measured(replications, shared, clustered) for clustered in (False, True))
        print(f"| {shared:g} | {without.coverage:.2f} | {without.width:.2f} | {with_them.coverage:.2f} | "
              f"{with_them.width:.2f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
