"""The International Stroke Trial: `python -m fedci.benchmark.run.stroke FILE` prints a table of docs/outcomes.md.

Sites are countries with enough people (others together: 'rest'); aspirin was randomised, so the trial's own differences
are what to find. Death within 14 days, and survival up to 180 days; beside the difference in proportions, and Kaplan
and Meier's. With `--thin SEED` arms are thinned by age, consciousness and pressure: an observational study whose answer
is the trial's.

Sandercock, Niewada, Członkowska (2011), International Stroke Trial database (version 2), University of Edinburgh, doi
10.7488/ds/104, ODC-By. The file is not part of this project.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedci import FedCI, Result, Source, Study

LEAST = 400
"""People of a country that is a site of its own."""
HORIZONS = (14.0, 180.0)
COVARIATES = ("age", "pressure", "delay", "female", "drowsy", "unconscious", "atrial", "visible")


def read(path: Path, least: int = LEAST) -> pd.DataFrame:
    """A row for each person with a known outcome: country, aspirin, dead14, days, died, covariates."""
    raw = pd.read_csv(path, low_memory=False, encoding="latin-1")
    country = raw.COUNTRY.str.strip().str.lower().str.replace(r"[^a-z0-9]+", "-", regex=True)
    sizes = country.map(country.value_counts())
    rows = pd.DataFrame({
        "country": np.where(sizes >= least, country, "rest"), "aspirin": (raw.RXASP == "Y").astype(int),
        "dead14": pd.to_numeric(raw.ID14, errors="coerce"), "days": pd.to_numeric(raw.TD, errors="coerce"),
        "died": pd.to_numeric(raw.DIED, errors="coerce"), "age": raw.AGE.astype(float),
        "pressure": raw.RSBP.astype(float), "delay": raw.RDELAY.astype(float), "female": (raw.SEX == "F").astype(int),
        "drowsy": (raw.RCONSC == "D").astype(int), "unconscious": (raw.RCONSC == "U").astype(int),
        "atrial": (raw.RATRIAL == "Y").astype(int), "visible": (raw.RVISINF == "Y").astype(int)})
    return rows.dropna().reset_index(drop=True)


def thinned(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Of the treated the older, of lower pressure and less conscious are kept, of the untreated the others."""
    risk = (rows.age - 72.0) / 12.0 + 1.5 * rows.unconscious + rows.drowsy - (rows.pressure - 160.0) / 60.0
    kept = 1.0 / (1.0 + np.exp(-np.where(rows.aspirin == 1, 1.0, -1.0) * 1.2 * (risk - risk.mean())))
    return rows[np.random.default_rng(seed).random(len(rows)) < kept].reset_index(drop=True)


def sources(rows: pd.DataFrame, most: int | None = None) -> list[Source]:
    """`most`: people of a site at most, the first ones."""
    return [Source(country, part.head(most or len(part)).drop(columns="country"))
            for country, part in rows.groupby("country")]


def study(kind: str, **changes: object) -> Study:
    outcome = ({"name": "dead14", "type": "binary"} if kind == "binary" else
               {"time": "days", "event": "died", "type": "survival", "horizons": list(HORIZONS)})
    return Study(**{"treatment": "aspirin", "outcome": outcome, "covariates": list(COVARIATES), "policy": "simulation",
                    "diagnostics": {"enabled": False}} | changes)  # type: ignore[arg-type]  # forms that a study takes


class Crude(NamedTuple):
    """A difference of risks, treated less untreated, and its standard error."""

    difference: float
    error: float


def proportions(rows: pd.DataFrame) -> Crude:
    p = [rows.dead14[rows.aspirin == arm].mean() for arm in (0, 1)]
    n = [np.sum(rows.aspirin == arm) for arm in (0, 1)]
    return Crude(p[1] - p[0], float(np.sqrt(sum(q * (1 - q) / k for q, k in zip(p, n, strict=True)))))


def kaplan_meier(rows: pd.DataFrame, until: float) -> Crude:
    """1 − S by arm, with Greenwood's standard errors."""
    ends = []
    for arm in (0, 1):
        here = rows[rows.aspirin == arm]
        times = np.unique(here.days[(here.died == 1) & (here.days <= until)])
        risk = np.array([np.sum(here.days >= t) for t in times], float)
        events = np.array([np.sum((here.days == t) & (here.died == 1)) for t in times], float)
        survival = float(np.prod(1.0 - events / risk))
        ends.append((1.0 - survival, survival**2 * float(np.sum(events / (risk * np.maximum(risk - events, 1.0))))))
    return Crude(ends[1][0] - ends[0][0], float(np.sqrt(ends[0][1] + ends[1][1])))


def told(result: Result, crude: Crude, truth: Crude, seconds: float) -> str:
    risks = result.risks()
    low, high = risks.difference.interval()
    return (f"| {result.study.outcome_type} | {len(result.sites)} | {result.outcome.layout.rows:,} | "
            f"{100 * truth.difference:.2f} ± {100 * truth.error:.2f} | {100 * crude.difference:.2f} ± "
            f"{100 * crude.error:.2f} | {100 * risks.difference.mean:.2f} ({100 * low:.2f} to {100 * high:.2f}) | "
            f"{'yes' if low <= truth.difference <= high else 'no'} | {seconds:.0f} |")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The International Stroke Trial, countries as sites.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--thin", type=int, nargs="*", default=[], help="seeds with which arms are thinned")
    parser.add_argument("--kinds", nargs="+", choices=["binary", "survival"], default=["binary", "survival"])
    parser.add_argument("--people", type=int, default=None, help="of a site, at most")
    asked = parser.parse_args(arguments)
    every = read(asked.file)
    print("| outcome | sites | people | the trial's, % | crude | FedCI (95%) | holds the trial's | seconds |")
    print("|---|---:|---:|---:|---:|---:|---|---:|", flush=True)
    for seed in asked.thin or [None]:
        rows = every if seed is None else thinned(every, seed)
        for kind in asked.kinds:
            start = time.perf_counter()
            result = FedCI(study(kind)).fit(sources(rows, asked.people))
            crude, truth = ((proportions(part) if kind == "binary" else kaplan_meier(part, HORIZONS[-1]))
                            for part in (rows, every))
            print(told(result, crude, truth, time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
