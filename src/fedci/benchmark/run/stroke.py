"""The International Stroke Trial, countries as sites: `python -m fedci.benchmark.run.stroke --ist FILE --out DIR`.

Sites are countries with enough people (others together: 'rest'); aspirin was randomised, so the trial's own differences
are what to find: of death within 14 days, of being dead or dependent after six months, of death within 180 days (a time
to an event). With `--thin SEED …` arms are thinned by age, consciousness and pressure: observational studies whose
answer is the trial's. Beside FedCI, on the combined rows, with percentiles of a bootstrap:

    crude            the difference of proportions, of times Kaplan and Meier's
    g-computation    a logistic regression in each arm, averaged over everybody
    IPW              the crude difference with weights 1/P(arm | covariates), a logistic regression's

Sandercock, Niewada, Członkowska (2011), International Stroke Trial database (version 2), University of Edinburgh, doi
10.7488/ds/104, ODC-By. The file is not part of this project.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from fedci import FedCI, Source, Study
from fedci.benchmark.cost import kept
from fedci.benchmark.run.binary import logistic, logistic_arms

LEAST = 400
"""People of a country that is a site of its own."""
HORIZONS = (14.0, 180.0)
COVARIATES = ("age", "pressure", "delay", "female", "drowsy", "unconscious", "atrial", "visible")
KINDS = {"death14": "dead14", "dependent": "dependent", "survival": "died"}
"""The column that holds each outcome."""
Z95 = 1.959963984540054
RESAMPLED = 200


def read(path: Path, least: int = LEAST) -> pd.DataFrame:
    """A row for each person whose death or life is known: country, aspirin, outcomes, covariates."""
    raw = pd.read_csv(path, low_memory=False, encoding="latin-1")
    country = raw.COUNTRY.str.strip().str.lower().str.replace(r"[^a-z0-9]+", "-", regex=True)
    sizes = country.map(country.value_counts())
    code = pd.to_numeric(raw.OCCODE, errors="coerce")
    rows = pd.DataFrame({
        "country": np.where(sizes >= least, country, "rest"), "aspirin": (raw.RXASP == "Y").astype(int),
        "dead14": pd.to_numeric(raw.ID14, errors="coerce"), "days": pd.to_numeric(raw.TD, errors="coerce"),
        "died": pd.to_numeric(raw.DIED, errors="coerce"), "age": raw.AGE.astype(float),
        "pressure": raw.RSBP.astype(float), "delay": raw.RDELAY.astype(float), "female": (raw.SEX == "F").astype(int),
        "drowsy": (raw.RCONSC == "D").astype(int), "unconscious": (raw.RCONSC == "U").astype(int),
        "atrial": (raw.RATRIAL == "Y").astype(int), "visible": (raw.RVISINF == "Y").astype(int)})
    return rows.dropna().assign(dependent=code.where(code.between(1, 4)).le(2).where(code.between(1, 4))
                                ).reset_index(drop=True)


def of_kind(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Those whose outcome of this kind is known, its column being 0 and 1."""
    known = rows.dropna(subset=[KINDS[kind]])
    return known.assign(**{KINDS[kind]: known[KINDS[kind]].astype(int)}).reset_index(drop=True)


def thinned(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Of the treated the older, of lower pressure and less conscious are kept, of the untreated the others."""
    risk = (rows.age - 72.0) / 12.0 + 1.5 * rows.unconscious + rows.drowsy - (rows.pressure - 160.0) / 60.0
    kept_with = 1.0 / (1.0 + np.exp(-np.where(rows.aspirin == 1, 1.0, -1.0) * 1.2 * (risk - risk.mean())))
    return rows[np.random.default_rng(seed).random(len(rows)) < kept_with].reset_index(drop=True)


def sources(rows: pd.DataFrame, most: int | None = None) -> list[Source]:
    """`most`: people of a site at most, the first ones."""
    return [Source(country, part.head(most or len(part)).drop(columns="country"))
            for country, part in rows.groupby("country")]


def study(kind: str, **changes: object) -> Study:
    outcome = ({"time": "days", "event": "died", "type": "survival", "horizons": list(HORIZONS)} if kind == "survival"
               else {"name": KINDS[kind], "type": "binary"})
    return Study(**{"treatment": "aspirin", "outcome": outcome, "covariates": list(COVARIATES), "policy": "simulation",
                    "diagnostics": {"enabled": False}} | changes)  # type: ignore[arg-type]  # forms that a study takes


# --- differences of risks, treated less untreated


class Crude(NamedTuple):
    difference: float
    error: float
    """Its standard error."""

    @property
    def interval(self) -> tuple[float, float]:
        return self.difference - Z95 * self.error, self.difference + Z95 * self.error


def proportions(rows: pd.DataFrame, outcome: str = "dead14") -> Crude:
    p = [rows[outcome][rows.aspirin == arm].mean() for arm in (0, 1)]
    n = [np.sum(rows.aspirin == arm) for arm in (0, 1)]
    return Crude(p[1] - p[0], float(np.sqrt(sum(q * (1 - q) / k for q, k in zip(p, n, strict=True)))))


def kaplan_meier(rows: pd.DataFrame, until: float) -> Crude:
    """1 − S by arm, with Greenwood's standard errors."""
    ends = []
    for arm in (0, 1):
        here = rows[rows.aspirin == arm]
        survival, tail = product_limit(here.days.to_numpy(), here.died.to_numpy(), np.ones(len(here)), until)
        ends.append((1.0 - survival, survival**2 * tail))
    return Crude(ends[1][0] - ends[0][0], float(np.sqrt(ends[0][1] + ends[1][1])))


def product_limit(days: np.ndarray, died: np.ndarray, weight: np.ndarray, until: float) -> tuple[float, float]:
    """(S(until), Greenwood's sum) of weighted people."""
    times = np.unique(days[(died == 1) & (days <= until)])
    risk = np.array([np.sum(weight[days >= t]) for t in times])
    events = np.array([np.sum(weight[(days == t) & (died == 1)]) for t in times])
    return (float(np.prod(1.0 - events / risk)),
            float(np.sum(events / (risk * np.maximum(risk - events, 1.0)))))


def crude(rows: pd.DataFrame, kind: str) -> Crude:
    return kaplan_meier(rows, HORIZONS[-1]) if kind == "survival" else proportions(rows, KINDS[kind])


def g_computation(rows: pd.DataFrame, kind: str) -> float:
    """Of times: of death by the last horizon; nobody was followed for less."""
    y = ((rows.died == 1) & (rows.days <= HORIZONS[-1])).to_numpy() if kind == "survival" else rows[KINDS[kind]]
    x = rows[list(COVARIATES)].to_numpy(float)
    risks = logistic_arms(x, rows.aspirin.to_numpy(), np.asarray(y, float))(x)
    return float(np.mean(risks[1] - risks[0]))


def weighted(rows: pd.DataFrame, kind: str) -> float:
    """Weights 1/P(arm | covariates), normed in each arm."""
    x, w = rows[list(COVARIATES)].to_numpy(float), rows.aspirin.to_numpy()
    scaled = (x - x.mean(0)) / np.maximum(x.std(0), 1e-12)
    treated = expit(np.column_stack([np.ones(len(w)), scaled]) @ logistic(scaled, w, np.ones(len(w))))
    weight = 1.0 / np.where(w == 1, treated, 1.0 - treated)
    risks = []
    for arm in (0, 1):
        here = w == arm
        if kind == "survival":
            risks.append(1.0 - product_limit(rows.days.to_numpy()[here], rows.died.to_numpy()[here], weight[here],
                                             HORIZONS[-1])[0])
        else:
            risks.append(np.average(rows[KINDS[kind]].to_numpy()[here], weights=weight[here]))
    return float(risks[1] - risks[0])


def resampled(estimate: Callable[[pd.DataFrame, str], float], rows: pd.DataFrame, kind: str,
              seed: int) -> tuple[float, float, float]:
    """(estimate, 2.5 % and 97.5 % of RESAMPLED bootstraps)."""
    rng = np.random.default_rng((seed, 19))
    again = [estimate(rows.iloc[rng.integers(0, len(rows), len(rows))].reset_index(drop=True), kind)
             for _ in range(RESAMPLED)]
    low, high = np.quantile(again, [0.025, 0.975])
    return estimate(rows, kind), float(low), float(high)


# --- cells


class Cell(NamedTuple):
    """One method, of the whole trial (seed −1) or of one that was thinned."""

    kind: str
    seed: int
    method: str
    most: int
    """People of a site at most; 0: all."""
    sites: int
    people: int
    difference: float
    """Of risks, treated less untreated."""
    low: float
    high: float
    truth: float
    """The whole trial's crude difference."""
    truth_error: float
    seconds: float

    @property
    def place(self) -> Place:
        return Place(self.kind, self.seed, self.method, self.most)

    @property
    def holds(self) -> bool:
        return self.low <= self.truth <= self.high


class Place(NamedTuple):
    """Which cell it is."""

    kind: str
    seed: int
    method: str
    most: int


def _fedci(rows: pd.DataFrame, kind: str, seed: int, most: int) -> tuple[float, float, float]:
    result = FedCI(study(kind), seed=max(seed, 0)).fit(sources(rows, most or None))
    difference = result.risks().difference
    return (difference.mean, *difference.interval())


def _crude(rows: pd.DataFrame, kind: str, seed: int, most: int) -> tuple[float, float, float]:
    found = crude(rows, kind)
    return (found.difference, *found.interval)


METHODS: dict[str, Callable[[pd.DataFrame, str, int, int], tuple[float, float, float]]] = {
    "FedCI": _fedci, "crude": _crude,
    "g-computation": lambda rows, kind, seed, most: resampled(g_computation, rows, kind, seed + 1),
    "IPW": lambda rows, kind, seed, most: resampled(weighted, rows, kind, seed + 1)}


def measured(every: pd.DataFrame, place: Place) -> Cell:
    whole = of_kind(every, place.kind)
    rows = whole if place.seed < 0 else thinned(whole, place.seed)
    if place.most:
        rows = rows.groupby("country").head(place.most).reset_index(drop=True)
    truth, start = crude(whole, place.kind), time.perf_counter()
    found = METHODS[place.method](rows, place.kind, place.seed, place.most)
    return Cell(*place, rows.country.nunique(), len(rows), *found, *truth, time.perf_counter() - start)


def places(kinds: Sequence[str], seeds: Sequence[int], methods: Sequence[str], most: int) -> Iterator[Place]:
    for seed, kind, method in itertools.product(seeds, kinds, methods):
        yield Place(kind, seed, method, most)


def cells(folder: Path) -> list[Cell]:
    """All that is kept, each place once."""
    found = [cell for path in sorted(folder.glob("stroke*.jsonl")) for cell in kept.read(path, Cell)]
    return list({cell.place: cell for cell in found}.values())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.run.stroke", description=__doc__.splitlines()[0])
    parser.add_argument("--ist", type=Path, required=True, help="the trial's file, ist.csv")
    parser.add_argument("--thin", type=int, nargs="*", default=[-1], help="seeds with which arms are thinned")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--people", type=int, default=0, help="of a site, at most; 0: all")
    parser.add_argument("--part", default="0/1", help="k/n: the cells k, k + n, … of them")
    parser.add_argument("--out", type=Path, required=True, help="a folder; what is there is not measured again")
    asked = parser.parse_args(arguments)
    part, parts = map(int, asked.part.split("/"))
    asked.out.mkdir(parents=True, exist_ok=True)
    every, there = read(asked.ist), {cell.place for cell in cells(asked.out)}
    for place in itertools.islice(places(asked.kinds, asked.thin, asked.methods, asked.people), part, None, parts):
        if place not in there:
            cell = measured(every, place)
            kept.add(asked.out / f"stroke-{part}-of-{parts}.jsonl", cell)
            print(f"{cell.kind} {cell.seed} {cell.method}: {100 * cell.difference:.2f} ({100 * cell.low:.2f} to "
                  f"{100 * cell.high:.2f}), the trial's {100 * cell.truth:.2f}, {cell.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
