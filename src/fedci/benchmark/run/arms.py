"""More than two arms, measured: `python -m fedci.benchmark.run.arms` prints the tables of docs/arms.md.

    shrink           one fit of all arms beside a fit of each arm with the reference: √PEHE on people of known effects
    alike            people whose arms have one law: how often intervals of the contrasts hold 0
    colon, stroke    two trials, contrasts beside plain differences; their files are not part of this project
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedci import FedCI, Result, Source, Study
from fedci.benchmark.cost import kept

ARMS = ("none", "one", "two", "three")
SITES, COLUMNS, NEW = 3, 5, 500
NAMES = [f"x{c}" for c in range(COLUMNS)]


class Cell(NamedTuple):
    """An effect, or the error of one, in one replication."""

    of: str
    method: str
    replication: int
    people: int
    contrast: str
    error: float
    """√PEHE at new people; of a trial nothing (0)."""
    mean: float
    low: float
    high: float
    truth: float
    """Of the average; of a trial nothing (0)."""
    seconds: float


# --- people whose effects are known


class Drawn(NamedTuple):
    frame: pd.DataFrame
    """Columns site, x0 …, w, y."""
    effects: np.ndarray
    """[n, A] of each arm against the reference."""


def drawn(replication: int, people: int, alike: bool) -> Drawn:
    """Three arms whose effects have most in common, with 1, 1 and ½ times as many people as the reference; `alike`: all
    arms have one law."""
    rng = np.random.default_rng((replication, 31))
    x = rng.standard_normal((people, COLUMNS))
    arm = rng.choice(len(ARMS), people, p=np.array([2.0, 2.0, 2.0, 1.0]) / 7.0)
    common = 1.0 + 0.8 * np.tanh(1.5 * x[:, 0]) + 0.5 * x[:, 1]
    own = np.stack([0.0 * x[:, 0], 0.2 * x[:, 2], -0.2 * x[:, 2], 0.3 + 0.2 * x[:, 3]], 1)
    effects = 0.0 * own if alike else (common[:, None] + own) * np.array([0.0, 1.0, 1.0, 1.0])
    base = np.sin(2.0 * x[:, 0]) + x[:, 1] - 0.5 * np.abs(x[:, 2])
    y = base + effects[np.arange(people), arm] + rng.standard_normal(people)
    frame = pd.DataFrame(x, columns=NAMES).assign(w=np.array(ARMS)[arm], y=y, site=np.arange(people) % SITES)
    return Drawn(frame, effects)


def sources(frame: pd.DataFrame) -> list[Source]:
    return [Source(f"s{site}", part.drop(columns="site")) for site, part in frame.groupby("site")]


def planned(names: Sequence[str], **changes: Any) -> Study:
    return Study(treatment={"name": "w", "arms": list(names)}, outcome="y", covariates=NAMES, policy="simulation",
                 diagnostics={"enabled": False}, **changes)


def shrink(replication: int, people: int, alike: bool = False) -> list[Cell]:
    some, new = drawn(replication, people, alike), drawn(replication + 10_000, NEW, alike)
    of = "alike" if alike else "shrink"
    start = time.perf_counter()
    result = FedCI(planned(ARMS), seed=replication).fit(sources(some.frame))
    seconds = time.perf_counter() - start
    found = [_cell(of, "one fit", replication, result.between(*pair), pair, some, new, seconds)
             for pair in [(arm, ARMS[0]) for arm in ARMS[1:]] + list(combinations(ARMS[:0:-1], 2))]
    if alike:
        return found
    for arm in ARMS[1:]:
        start = time.perf_counter()
        two = FedCI(planned((ARMS[0], arm)), seed=replication).fit(
            sources(some.frame[some.frame.w.isin((ARMS[0], arm))]))
        found.append(_cell(of, "two arms alone", replication, two, (arm, ARMS[0]), some, new,
                           time.perf_counter() - start))
    return found


def _cell(of: str, method: str, replication: int, result: Result, pair: tuple[str, str], some: Drawn, new: Drawn,
          seconds: float) -> Cell:
    arm, against = (ARMS.index(name) for name in pair)
    true = new.effects[:, arm] - new.effects[:, against]
    error = float(np.sqrt(np.mean((result.effect(new.frame[NAMES]) - true) ** 2)))
    ate = result.ate()
    low, high = ate.interval()
    among = np.ones(len(some.frame), bool) if method == "one fit" else some.frame.w.isin(pair).to_numpy()
    truth = float(np.mean((some.effects[:, arm] - some.effects[:, against])[among]))
    return Cell(of, method, replication, len(some.frame), f"{pair[0]} vs {pair[1]}", error, ate.mean, low, high, truth,
                seconds)


# --- two trials


def colon(path: Path, people: int = 0) -> tuple[Study, list[Source]]:
    """Death within five years of surgery for cancer of the colon. The file names no hospital, so people stand in three
    sources in turns."""
    rows = pd.read_csv(path)
    rows = rows[rows.etype == 2]
    rows = rows[(rows.time >= 5 * 365) | (rows.status == 1)]
    frame = pd.DataFrame({"rx": rows.rx, "dead": ((rows.status == 1) & (rows.time < 5 * 365)).astype(int),
                          "age": rows.age.astype(float), "nodes": np.log1p(rows.nodes),
                          **{name: rows[name] for name in ("sex", "obstruct", "adhere", "surg")},
                          "extent": rows.extent.astype(float), "differ": rows.differ}).reset_index(drop=True)
    study = Study(treatment={"name": "rx", "arms": ["Obs", "Lev", "Lev+5FU"]},
                  outcome={"name": "dead", "type": "binary"}, missing="impute", policy="simulation",
                  covariates=["age", "nodes", "extent", "differ",
                              *({"name": name, "type": "binary"} for name in ("sex", "obstruct", "adhere", "surg"))],
                  diagnostics={"enabled": False})
    return study, [Source(f"s{k}", frame.iloc[k::3]) for k in range(3)]


FACTORIAL = ("neither", "low", "medium", "aspirin", "aspirin+low", "aspirin+medium")


def stroke(path: Path, people: int = 3000) -> tuple[Study, list[Source]]:
    """The trial's 2 × 3 factorial: aspirin, and heparin in no, a low or a medium dose; dead or dependent at six months.
    Three groups of countries as sources, and of all people so many at random (0: everybody)."""
    rows = pd.read_csv(path, low_memory=False, encoding="latin-1")
    rows = rows[rows.OCCODE.isin([1, 2, 3, 4]) & rows.RXASP.isin(["Y", "N"]) & rows.RXHEP.isin(["N", "L", "M", "H"])]
    rows = rows.sample(people, random_state=0) if people else rows
    dose = rows.RXHEP.map({"N": 0, "L": 1, "M": 2, "H": 2})
    frame = pd.DataFrame({"given": np.array(FACTORIAL)[dose + 3 * (rows.RXASP == "Y")],
                          "bad": rows.OCCODE.isin([1, 2]).astype(int), "age": rows.AGE.astype(float),
                          "pressure": rows.RSBP.astype(float), "delay": rows.RDELAY.astype(float),
                          "female": (rows.SEX == "F").astype(int), "drowsy": (rows.RCONSC != "F").astype(int),
                          "asleep": (rows.RSLEEP == "Y").astype(int),
                          "total": (rows.STYPE.astype(str).str.strip() == "TACS").astype(int)})
    country = rows.COUNTRY.astype(str).str.strip().str.upper()
    place = np.where(country == "UK", 0, np.where(country == "ITAL", 1, 2))
    study = Study(treatment={"name": "given", "arms": list(FACTORIAL)}, outcome={"name": "bad", "type": "binary"},
                  covariates=["age", "pressure", "delay",
                              *({"name": name, "type": "binary"} for name in ("female", "drowsy", "asleep", "total"))],
                  policy="simulation", diagnostics={"enabled": False})
    return study, [Source(name, frame[place == k]) for k, name in enumerate(("uk", "italy", "others"))]


def trial(of: str, path: Path, people: int) -> list[Cell]:
    """Each arm against the reference, by the model and by proportions alone."""
    study, parts = {"colon": colon, "stroke": stroke}[of](path, people)
    every = pd.concat([part.data for part in parts if isinstance(part.data, pd.DataFrame)])
    start = time.perf_counter()
    result = FedCI(study).fit(parts)
    seconds, found = time.perf_counter() - start, []
    for against, arm in result.pairs:
        pair = study.arms[arm], study.arms[against]
        effect = result.ate(contrast=pair)
        found.append(Cell(of, "FedCI", 0, len(every), f"{pair[0]} vs {pair[1]}", 0.0, effect.mean, *effect.interval(),
                          0.0, seconds))
        one, other = (every[every[study.treatment] == name][study.outcome] for name in pair)
        plain, se = one.mean() - other.mean(), np.sqrt(one.var() / len(one) + other.var() / len(other))
        found.append(Cell(of, "plain", 0, len(every), f"{pair[0]} vs {pair[1]}", 0.0, float(plain),
                          float(plain - 1.96 * se), float(plain + 1.96 * se), 0.0, 0.0))
    return found


# --- the tables


def table(cells: Sequence[Cell]) -> str:
    """One line for each thing that was measured and each method."""
    lines = []
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        if cell.of in ("shrink", "alike"):
            groups.setdefault((cell.of, cell.method, cell.people), []).append(cell)
        else:
            lines.append(f"| {cell.of} | {cell.contrast} | {cell.method} | {100 * cell.mean:.1f} "
                         f"({100 * cell.low:.1f} to {100 * cell.high:.1f}) |")
    for (of, method, people), own in sorted(groups.items()):
        errors = [np.mean([cell.error for cell in own if cell.replication == k and cell.contrast.endswith(ARMS[0])])
                  for k in sorted({cell.replication for cell in own})]
        holds = np.mean([cell.low <= cell.truth <= cell.high for cell in own])
        spread = np.std(errors, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.nan
        lines.append(f"| {of} | {people} people | {method} | {len(errors)} | √PEHE {np.mean(errors):.3f} ± "
                     f"{spread:.3f} | averages within their 95% intervals {holds:.1%} of {len(own)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.run.arms", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["shrink", "alike", "colon", "stroke", "table"])
    parser.add_argument("--data", type=Path, help="of colon and stroke: the file")
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--replications", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="a file of cells, or for the table a folder of them")
    asked = parser.parse_args(arguments)
    if asked.what == "table":
        print(table([cell for path in sorted(asked.out.glob("*.jsonl")) for cell in kept.read(path, Cell)]))
        return
    measure: Mapping[str, Callable[[int], list[Cell]]] = {
        "shrink": lambda k: shrink(k, asked.people), "alike": lambda k: shrink(k, asked.people, True),
        "colon": lambda k: trial("colon", asked.data, 0), "stroke": lambda k: trial("stroke", asked.data, asked.people)}
    known = {(cell.of, cell.replication) for cell in kept.read(asked.out, Cell)}
    for k in range(asked.first, asked.first + asked.replications):
        for cell in measure[asked.what](k) if (asked.what, k) not in known else ():
            kept.add(asked.out, cell)


if __name__ == "__main__":
    main()
