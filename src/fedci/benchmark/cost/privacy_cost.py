"""What privacy costs: the error of effects over the noise on outcomes (δ), beside no protection at all.

    python -m fedci.benchmark.cost.privacy_cost [--replications 8] [--first 0] [--data 0 1] [--ist FILE] --out FILE …

On simulated sites the error is √PEHE of new people and of the average effect, each as a ratio to the same fits without
noise; on the stroke trial, where nobody knows the truth, it is the posterior sd of the average effect (as a ratio) and
how far the average moves, in those sds. All limits of `standard` hold, but for the number of sums and of columns for
each person: they refuse these sizes (docs/security.md). Cells that a file has are not made again; of several files all
are read, the first is added to.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedci.benchmark.cost import kept
from fedci.synthetic import datasets
from fedci.synthetic.datasets import Sizes, Split

if TYPE_CHECKING:
    import pandas as pd

DELTAS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
SIZES = Sizes(sources=5, train=200)
SETS: dict[str, Callable[[int], list[Split]]] = {
    "DATA-1, 5 × 200": lambda r: datasets.synthetic("DATA-1", r, sizes=SIZES),
    "heterogeneous, 5 × 200": lambda r: datasets.heterogeneous(r, sizes=SIZES)}
COUNTRIES = ("POLA", "NETH", "SWED", "AUSL", "ARGE", "NORW")
"""Of the stroke trial: those of 500 to 800 people."""
STROKE_TRIAL = "stroke trial, 6 countries"
STROKE = {"AGE": {}, "RSBP": {}, "RDELAY": {}, "female": {"type": "binary"}, "drowsy": {"type": "binary"},
          "TACS": {"type": "binary"}, "LACS": {"type": "binary"}}


class Cell(NamedTuple):
    """One fit."""

    data: str
    replication: int
    policy: str
    delta: float
    pehe: float
    """√PEHE of new people; NaN where nobody knows the truth."""
    ate: float
    """Error of the average effect, or the average itself where nobody knows the truth."""
    ate_sd: float
    covered: float
    """Share of new people whose effect lies in its 95 % interval."""
    seconds: float


def policy_of(delta: float | None) -> str | dict[str, Any]:
    """`standard` in all but the number of sums and their columns, with this noise; none: `simulation`."""
    if delta is None:
        return "simulation"
    return {"name": "custom", "numbers_per_person": 1e9, "statistics_per_row": 1e9, "outcome_noise": delta}


def fitted(frames: dict[str, pd.DataFrame], covariates: Any, treatment: str, outcome: str, delta: float | None) -> Any:
    from fedci import FedCI, Source, Study

    study = Study(treatment=treatment, outcome=outcome, covariates=covariates, policy=policy_of(delta),
                  diagnostics={"enabled": False})
    return FedCI(study, seed=0).fit([Source(name, frame) for name, frame in frames.items()])


def simulated(data: str, splits: Sequence[Split], replication: int, delta: float | None) -> Cell:
    frames = {f"s{k}": split.train.frame() for k, split in enumerate(splits)}
    result = fitted(frames, splits[0].train.names, "w", "y", delta)
    effects = [(split.test.cate, result.effect_posterior(split.test.frame(), f"s{k}"))
               for k, split in enumerate(splits)]
    error = np.concatenate([effect.mean - truth for truth, effect in effects])
    inside = np.concatenate([(low <= truth) & (truth <= high) for truth, (low, high) in
                             ((truth, effect.interval()) for truth, effect in effects)])
    truth, ate = float(datasets.combined([split.train for split in splits]).cate.mean()), result.ate()
    return Cell(data, replication, _word(delta), delta or 0.0, float(np.sqrt(np.mean(error**2))),
                abs(ate.mean - truth), ate.sd, float(inside.mean()), result.outcome.seconds)


def stroke(file: Path, delta: float | None) -> Cell:
    """Aspirin on the days lived of the first 180, by country."""
    result = fitted(stroke_tables(file), STROKE, "aspirin", "days", delta)
    ate = result.ate()
    return Cell(STROKE_TRIAL, 0, _word(delta), delta or 0.0, np.nan, ate.mean, ate.sd, np.nan,
                result.outcome.seconds)


def stroke_tables(file: Path) -> dict[str, pd.DataFrame]:
    import pandas as pd

    people = pd.read_csv(file, usecols=["COUNTRY", "RXASP", "TD", "AGE", "RSBP", "RDELAY", "SEX", "RCONSC", "STYPE"])
    people = people[people.COUNTRY.isin(COUNTRIES) & people.TD.notna()]
    kind = people.STYPE.str.strip()
    made = people[["COUNTRY", "AGE", "RSBP", "RDELAY"]].assign(
        aspirin=(people.RXASP == "Y").astype(int), days=people.TD.clip(upper=180.0),
        female=(people.SEX == "F").astype(int), drowsy=(people.RCONSC != "F").astype(int),
        TACS=(kind == "TACS").astype(int), LACS=(kind == "LACS").astype(int))
    return {str(country).lower(): part.drop(columns="COUNTRY").reset_index(drop=True)
            for country, part in made.groupby("COUNTRY")}


def _word(delta: float | None) -> str:
    return "simulation" if delta is None else "standard"


def cells(replications: Sequence[int], data: Sequence[str], ist: Path | None, done: Collection[Cell]) -> Iterator[Cell]:
    """Those that are not there yet; side by side, so that whatever else the machine does falls on all."""
    there = {cell[:4] for cell in done}

    def missing(name: str, replication: int) -> list[float | None]:
        return [delta for delta in (None, *DELTAS) if (name, replication, _word(delta), delta or 0.0) not in there]

    if ist:
        yield from (stroke(ist, delta) for delta in missing(STROKE_TRIAL, 0))
    for replication in replications:
        for name in data:
            splits = SETS[name](replication)
            yield from (simulated(name, splits, replication, delta) for delta in missing(name, replication))


def table(cells: Sequence[Cell]) -> str:
    """Markdown; ratios of means to those of δ = 0 under `standard`, over replications of which there are all cells."""
    lines = ["| data | policy | δ | error of effects | of the average | its sd | coverage |",
             "|---|---|---:|---:|---:|---:|---:|"]
    for data in dict.fromkeys(cell.data for cell in cells):
        of_replication = Counter(cell.replication for cell in cells if cell.data == data)
        own = sorted((cell for cell in cells if cell.data == data
                      and of_replication[cell.replication] == max(of_replication.values())),
                     key=lambda cell: cell.replication)
        base = [cell for cell in own if cell.policy == "standard" and cell.delta == 0.0]
        for policy, delta in dict.fromkeys((cell.policy, cell.delta) for cell in own):
            some = [cell for cell in own if (cell.policy, cell.delta) == (policy, delta)]
            lines.append(f"| {data} | {policy} | {delta:g} | {_ratio(some, base, 'pehe')} | {_average(some, base)} | "
                         f"{_ratio(some, base, 'ate_sd')} | {_mean(some, 'covered')} |")
    return "\n".join(lines)


def _ratio(some: Sequence[Cell], base: Sequence[Cell], field: str) -> str:
    """× the mean without noise, with its standard error over replications."""
    each = np.array([getattr(cell, field) for cell in some])
    own = np.array([getattr(cell, field) for cell in base])
    if np.isnan(each).any():
        return "–"
    error = np.std(each - own * (each.mean() / own.mean()), ddof=1) / np.sqrt(len(each)) if len(each) > 1 else 0.0
    return f"× {each.mean() / own.mean():.3f}" + (f" ± {error / own.mean():.3f}" if error else "")


def _average(some: Sequence[Cell], base: Sequence[Cell]) -> str:
    if not np.isnan(some[0].pehe):
        return _ratio(some, base, "ate")
    return f"{(some[0].ate - base[0].ate) / base[0].ate_sd:+.2f} sd"


def _mean(some: Sequence[Cell], field: str) -> str:
    each = [getattr(cell, field) for cell in some]
    return "–" if np.isnan(each).any() else f"{np.mean(each):.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=8, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--data", type=int, nargs="*", choices=range(len(SETS)), default=list(range(len(SETS))),
                        help="which simulated sites: " + ", ".join(f"{k} {name}" for k, name in enumerate(SETS)))
    parser.add_argument("--ist", type=Path, help="the stroke trial's file, ist.csv")
    parser.add_argument("--out", type=Path, nargs="+", required=True, help="files of cells, a line each")
    asked = parser.parse_args(arguments)
    done = [cell for path in asked.out for cell in kept.read(path, Cell)]
    names = [list(SETS)[k] for k in asked.data]
    for cell in cells(range(asked.first, asked.first + asked.replications), names, asked.ist, done):
        kept.add(asked.out[0], cell)
        done.append(cell)
    print(table(sorted(done, key=lambda cell: (cell.data not in SETS, *cell[:4]))))


if __name__ == "__main__":
    main()
