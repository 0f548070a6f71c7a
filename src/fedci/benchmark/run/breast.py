"""Hormone therapy after breast cancer, two studies as sites: `python -m fedci.benchmark.run.breast`.

Rotterdam's tumour bank (its people with affected nodes, as where both were compared before) and the trial of the
German Breast Cancer Study Group: recurrence or death within two and five years. Beside FedCI Kaplan and Meier's
difference, and Cox regression of each arm averaged over everybody (lifelines, extra `benchmark`), with percentiles of a
bootstrap.
The two files, rotterdam.csv and gbsg.csv, are those of the package survival of R; they are not part of this project.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedci import FedCI, Source, Study
from fedci.benchmark.cost import kept
from fedci.benchmark.run.stroke import product_limit

YEAR = 365.25
HORIZONS = (2.0, 5.0)
COVARIATES = ("age", "meno", "size", "grade", "nodes", "progesterone", "oestrogen")
SIZES = {"<=20": 1.0, "20-50": 2.0, ">50": 3.0}
RESAMPLED = 100


def read(folder: Path) -> pd.DataFrame:
    """A row for each person: site, hormon, years, event, covariates; counts and receptors as log(1 + value)."""
    far, german = pd.read_csv(folder / "rotterdam.csv"), pd.read_csv(folder / "gbsg.csv")
    far = far[far.nodes > 0]
    parts = [far.assign(site="rotterdam", event=((far.recur == 1) | (far.death == 1)).astype(int),
                        days=np.where(far.recur == 1, far.rtime, far.dtime), size=far["size"].map(SIZES)),
             german.assign(site="gbsg", event=german.status, days=german.rfstime,
                           size=np.digitize(german["size"], [20.5, 50.5]) + 1.0)]
    every = pd.concat(parts, ignore_index=True)
    return pd.DataFrame({
        "site": every.site, "hormon": every.hormon, "years": np.maximum(every.days, 1) / YEAR, "event": every.event,
        "age": every.age.astype(float), "meno": every.meno, "size": every["size"], "grade": every.grade.astype(float),
        "nodes": np.log1p(every.nodes), "progesterone": np.log1p(every.pgr), "oestrogen": np.log1p(every.er)})


class Cell(NamedTuple):
    """The difference of survival at a horizon, treated less untreated."""

    method: str
    site: str
    """Or 'both'."""
    years: float
    people: int
    difference: float
    low: float
    high: float
    seconds: float


def study(**changes: object) -> Study:
    return Study(**{"treatment": "hormon", "covariates": list(COVARIATES), "policy": "simulation",
                    "diagnostics": {"enabled": False},
                    "outcome": {"time": "years", "event": "event", "type": "survival", "horizons": list(HORIZONS)}}
                 | changes)  # type: ignore[arg-type]  # forms that a study takes


def fedci(rows: pd.DataFrame) -> list[Cell]:
    start = time.perf_counter()
    result = FedCI(study()).fit([Source(site, part.drop(columns="site")) for site, part in rows.groupby("site")])
    seconds = time.perf_counter() - start
    sites = [("both", None, len(rows)), *((site, site, len(part)) for site, part in rows.groupby("site"))]
    effects = [(name, until, people, result.survival(site).difference(until))
               for name, site, people in sites for until in HORIZONS]
    return [Cell("FedCI", name, until, people, effect.mean, *effect.interval(), seconds)
            for name, until, people, effect in effects]


def crude(rows: pd.DataFrame, until: float) -> float:
    ends = [product_limit(part.years.to_numpy(), part.event.to_numpy().copy(), np.ones(len(part)), until)[0]
            for _, part in sorted(rows.groupby("hormon"))]
    return ends[1] - ends[0]


def cox(rows: pd.DataFrame, until: float) -> float:
    from lifelines import CoxPHFitter

    everybody, ends = rows[list(COVARIATES)], []
    for arm in (0, 1):
        part = rows[rows.hormon == arm].drop(columns=["hormon", "site"])
        fitted = CoxPHFitter(penalizer=0.01).fit(part, "years", "event")
        ends.append(float(fitted.predict_survival_function(everybody, times=[until]).to_numpy().mean()))
    return ends[1] - ends[0]


METHODS: dict[str, Callable[[pd.DataFrame, float], float]] = {"crude": crude, "Cox, each arm": cox}


def beside(rows: pd.DataFrame) -> list[Cell]:
    found = []
    for name, estimate in METHODS.items():
        for site, part in [("both", rows), *rows.groupby("site")]:
            rng = np.random.default_rng(20)
            for until in HORIZONS:
                start = time.perf_counter()
                again = [estimate(_again(part, rng), until) for _ in range(RESAMPLED)]
                low, high = np.quantile(again, [0.025, 0.975])
                found.append(Cell(name, site, until, len(part), estimate(part, until), float(low), float(high),
                                  time.perf_counter() - start))
    return found


def _again(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return rows.iloc[rng.integers(0, len(rows), len(rows))].reset_index(drop=True)


def cells(folder: Path) -> list[Cell]:
    return kept.read(folder / "breast.jsonl", Cell)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.run.breast", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with rotterdam.csv and gbsg.csv")
    parser.add_argument("--methods", nargs="+", choices=["FedCI", "others"], default=["FedCI", "others"])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    rows = read(asked.data)
    there = {cell.method for cell in cells(asked.out)}
    if "FedCI" in asked.methods and "FedCI" not in there:
        _keep(asked.out, fedci(rows))
    if "others" in asked.methods and not set(METHODS) <= there:
        _keep(asked.out, beside(rows))


def _keep(folder: Path, found: list[Cell]) -> None:
    for cell in found:
        kept.add(folder / "breast.jsonl", cell)
        print(f"{cell.method} {cell.site} {cell.years:g} years: {100 * cell.difference:.1f} ({100 * cell.low:.1f} to "
              f"{100 * cell.high:.1f})", flush=True)


if __name__ == "__main__":
    main()
