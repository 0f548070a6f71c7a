"""What the policy `standard` costs as it stands, at sizes that sites admit: effects beside those of `simulation`.

    python -m fedci.benchmark.cost.standard_cost [--replications 3] [--first 0] [--data 0 1] [--ist FILE] --out FILE …

`standard`: the preset `few`, with noise on sums (s = 0.5) drawn at the sites and noise on outcomes (δ = 0.1);
`simulation`: the preset `default`, nothing noised or withheld. Along s at δ = 0.1 and along δ at s = 0.5 too, on the
same people; s = 0 is the same straight model without noise. A size that s = 1 would refuse is fitted all the same.
Errors are √PEHE of new people at their sites, the rms of sites' own averages, and the average of all; of the stroke
trial, where nobody knows the truth, the average and its sd. Cells that a file has are not made again; of several files
all are read, the first is added to. `fedci.benchmark.pages.privacy_page` makes table and figures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedci.benchmark.cost import kept
from fedci.benchmark.cost.noise_cost import NONE, unrefused
from fedci.errors import DisclosureError
from fedci.synthetic import datasets
from fedci.synthetic.datasets import Sizes, Split

if TYPE_CHECKING:
    import pandas as pd

    from fedci import Result, Study

SITES, NEW = 5, 400
S, DELTA = 0.5, 0.1
"""Of `standard`."""
SUM_NOISE, OUTCOME_NOISE = (NONE, 0.25, 0.5, 1.0), (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
MAKERS: dict[str, tuple[Callable[[int, Sizes], list[Split]], int]] = {
    "DATA-1": (lambda r, sizes: datasets.synthetic("DATA-1", r, sizes=sizes), 1950),
    "heterogeneous": (lambda r, sizes: datasets.heterogeneous(r, sizes=sizes), 1200),
    "linear": (lambda r, sizes: datasets.linear(r, sizes=sizes), 1200)}
"""And people of a site: the least that five sites like it are admitted with, and some more."""
STROKE_TRIAL = "stroke trial"
BINARY = ("female", "drowsy", "unconscious", "atrial", "visible")


class Way(NamedTuple):
    """How it is fitted."""

    policy: str
    s: float
    delta: float

    def study(self, **columns: Any) -> Study:
        from fedci import Study

        if self.policy == "simulation":
            return Study(**columns, policy="simulation", diagnostics={"enabled": False})
        noise = {"name": "custom", "sum_noise": self.s, "outcome_noise": self.delta}
        return Study(**columns, policy="standard" if self == STANDARD else noise, preset="few",
                     diagnostics={"enabled": False})


SIMULATION = Way("simulation", 0.0, 0.0)
STANDARD = Way("standard", S, DELTA)
WAYS = (*dict.fromkeys([STANDARD, STANDARD._replace(delta=0.0), STANDARD._replace(s=NONE, delta=0.0),
                        *(STANDARD._replace(s=s) for s in SUM_NOISE),
                        *(STANDARD._replace(delta=delta) for delta in OUTCOME_NOISE)]), SIMULATION)


class Cell(NamedTuple):
    """One fit; NaN where nobody knows the truth."""

    data: str
    replication: int
    policy: str
    s: float
    delta: float
    sites: int
    people: int
    pehe: float
    own: float
    """Root mean square error of the sites' own averages."""
    ate_error: float
    ate: float
    ate_sd: float
    covered: float
    """Share of new people whose effect lies in its 95 % interval."""
    rounds: int
    MB: float
    """A site, both ways."""
    seconds: float


def fitted(way: Way, frames: dict[str, pd.DataFrame], covariates: Any, treatment: str, outcome: str,
           seed: int) -> tuple[Result, float]:
    """(the result, seconds); a size that this noise drowns is fitted all the same, but none at the policy's own s."""
    from contextlib import nullcontext

    from fedci import FedCI, Source

    study = way.study(treatment=treatment, outcome=outcome, covariates=covariates)
    start = time.perf_counter()
    with unrefused() if way.s > S else nullcontext():
        result = FedCI(study, seed=seed).fit([Source(name, frame) for name, frame in frames.items()])
    return result, time.perf_counter() - start


def simulated(data: str, splits: Sequence[Split], replication: int, way: Way) -> Cell:
    frames = {f"s{k}": split.train.frame() for k, split in enumerate(splits)}
    result, seconds = fitted(way, frames, splits[0].train.names, "w", "y", replication)
    effects = [(split.test.cate, result.effect_posterior(split.test.frame(), f"s{k}"))
               for k, split in enumerate(splits)]
    error = np.concatenate([effect.mean - truth for truth, effect in effects])
    inside = [(low <= truth) & (truth <= high) for truth, (low, high) in
              ((truth, effect.interval()) for truth, effect in effects)]
    own = [np.mean(result.effect(split.train.frame(), f"s{k}") - split.train.cate) for k, split in enumerate(splits)]
    ate, truth = result.ate(), float(datasets.combined([split.train for split in splits]).cate.mean())
    return Cell(data, replication, *way, len(splits), sum(map(len, frames.values())), _rms(error), _rms(own),
                abs(ate.mean - truth), float(ate.mean), float(ate.sd), float(np.mean(np.concatenate(inside))),
                *_cost(result), seconds)


def stroke(rows: pd.DataFrame, way: Way) -> Cell:
    """Aspirin on the days lived of the first 180, all countries, those with few people together."""
    from fedci.benchmark.run.stroke import COVARIATES

    frames = {str(country): part.drop(columns="country").reset_index(drop=True)
              for country, part in rows.groupby("country")}
    covariates = {name: {"type": "binary"} if name in BINARY else {} for name in COVARIATES}
    result, seconds = fitted(way, frames, covariates, "aspirin", "days", 0)
    ate = result.ate()
    return Cell(STROKE_TRIAL, 0, *way, len(frames), len(rows), np.nan, np.nan, np.nan, float(ate.mean), float(ate.sd),
                np.nan, *_cost(result), seconds)


def stroke_rows(file: Path) -> pd.DataFrame:
    from fedci.benchmark.run.stroke import COVARIATES, read

    rows = read(file)
    return rows[["country", "aspirin", "days", *COVARIATES]].assign(days=rows.days.clip(upper=180.0))


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _cost(result: Result) -> tuple[int, float]:
    told = sum(traffic.sent + traffic.received for traffic in result.traffic.values())
    return len(result.outcome.fit.rounds), told / len(result.traffic) / 1e6


def cells(replications: Sequence[int], data: Sequence[str], ist: Path | None, ways: Sequence[Way],
          done: Collection[Cell]) -> Iterator[Cell]:
    """Those that are not there yet. A replication whose sites `standard` refuses for how they differ is passed over: of
    `simulation` alone, where `standard` has no cell."""
    there = {cell[:5] for cell in done}

    def missing(name: str, replication: int) -> list[Way]:
        return [way for way in ways if (name, replication, *way) not in there]

    if ist and (left := missing(STROKE_TRIAL, 0)):
        rows = stroke_rows(ist)
        yield from (stroke(rows, way) for way in left)
    for replication in replications:
        for name in data:
            if not (left := missing(name, replication)) or not ({*left, *_kept(there, name, replication)} & {STANDARD}):
                continue
            make, people = MAKERS[name]
            splits = make(replication, Sizes(SITES, train=people, test=NEW, validation=1))
            try:
                for way in left:
                    yield simulated(name, splits, replication, way)
            except DisclosureError as refusal:
                print(f"{name}, replication {replication}: {refusal.message}", flush=True)


def _kept(there: Collection[tuple[Any, ...]], name: str, replication: int) -> list[Way]:
    return [Way(*key[2:]) for key in there if key[:2] == (name, replication)]


def refusal(people: int = 200) -> str:
    """What sites of DATA-1 with so few people say to `standard`."""
    splits = MAKERS["DATA-1"][0](0, Sizes(SITES, train=people, test=1, validation=1))
    try:
        simulated("DATA-1", splits, 0, STANDARD)
    except DisclosureError as refused:
        return refused.message
    return ""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=3, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--data", type=int, nargs="*", choices=range(len(MAKERS)), default=list(range(len(MAKERS))),
                        help="which simulated sites: " + ", ".join(f"{k} {name}" for k, name in enumerate(MAKERS)))
    parser.add_argument("--ist", type=Path, help="the stroke trial's file, ist.csv")
    parser.add_argument("--ways", choices=["all", "standard", "simulation"], default="all")
    parser.add_argument("--out", type=Path, nargs="+", required=True, help="files of cells, a line each")
    asked = parser.parse_args(arguments)
    ways = [way for way in WAYS if asked.ways in ("all", way.policy)]
    done = [cell for path in asked.out for cell in kept.read(path, Cell)]
    names = [list(MAKERS)[k] for k in asked.data]
    print(refusal())
    for cell in cells(range(asked.first, asked.first + asked.replications), names, asked.ist, ways, done):
        kept.add(asked.out[0], cell)
        print(*(f"{value:.3g}" if isinstance(value, float) else value for value in cell), flush=True)


if __name__ == "__main__":
    main()
