"""The preset `few` beside `default`: errors and coverage of effects, exchanges, and numbers told.

    python -m fedci.benchmark.cost.few_exchanges [--replications 2] [--rows 50] [--masked] --out FILE

Five sites, effects of new people (P2), each pair of fits on the same people; diagnostics are left out, so that what is
counted is what the fits and their effects tell. Exchanges are from the first message about rows to the effects; keys
and openings of secure sums come to these. IHDP (three sites of 83, ten replications) is among the data sets where
FEDCI_IHDP names the folder of its files.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedci.benchmark.cost import kept
from fedci.benchmark.cost.sameness_power import SETS, Maker
from fedci.benchmark.run import binary
from fedci.benchmark.run.suites import varying
from fedci.coordinator.talk import Talk, Total
from fedci.estimator import FedCI
from fedci.model.family import Ask
from fedci.protocol.ask import shapes
from fedci.study.study import Study
from fedci.synthetic import datasets, ihdp
from fedci.synthetic.datasets import Sizes
from fedci.table.source import Source

PRESETS = ("default", "few")
IHDP, RISKS = "IHDP", "0 and 1: "
"""RISKS: how the names begin of data whose outcomes are 0 and 1, of 100 people a site."""


class AtSite(NamedTuple):
    """The people to fit on, new ones, and these' true effects."""

    people: pd.DataFrame
    new: pd.DataFrame
    truth: np.ndarray


def of_numbers(make: Maker) -> Callable[[int, Sizes], list[AtSite]]:
    """Without columns that are constant over all people fitted on: a study refuses them."""
    def made(replication: int, sizes: Sizes) -> list[AtSite]:
        splits = make(replication, sizes)
        told = [f"x{c}" for c in np.flatnonzero(~varying(splits)) + 1]
        return [AtSite(part.train.frame().drop(columns=told), part.test.frame().drop(columns=told), part.test.cate)
                for part in splits]

    return made


def of_risks(name: str) -> Callable[[int, Sizes], list[AtSite]]:
    def made(replication: int, sizes: Sizes) -> list[AtSite]:
        study, new = binary.people(name, replication)
        frames = [part.frame().drop(columns="time") for part in (study, new)]
        return [AtSite(frames[0][study.site == s], frames[1][new.site == s], new.effect[new.site == s])
                for s in range(binary.SITES)]

    return made


ALL: dict[str, Callable[[int, Sizes], list[AtSite]]] = {
    **{name: of_numbers(make) for name, make in SETS.items()},
    "DATA-2": of_numbers(lambda r, sizes: datasets.synthetic("DATA-2", r, sizes=sizes)),
    IHDP: of_numbers(lambda r, sizes: ihdp.thirds(r)),
    **{RISKS + name: of_risks(name) for name in binary.LOG_ODDS}}


class Cell(NamedTuple):
    """One fit."""

    data: str
    replication: int
    preset: str
    pehe: float
    coverage: float
    exchanges: int
    numbers: int
    """That a site tells, in all."""
    objective: float
    megabytes: float = float("nan")
    """That a site sends and receives."""


MASKED = ", masked"
"""How the names end of studies with secure sums."""


def fitted(data: str, sites: Sequence[AtSite], replication: int, preset: str) -> Cell:
    outcome: Any = {"name": "y", "type": "binary"} if data.startswith(RISKS) else "y"
    study = Study(treatment="w", outcome=outcome, covariates=[c for c in sites[0].people if c not in ("w", "y")],
                  policy={"name": "simulation", "secure_sum": data.endswith(MASKED)},
                  preset=preset, diagnostics={"enabled": False})
    told: list[int] = []
    with counting(told):
        result = FedCI(study, seed=replication).fit(
            [Source(f"s{s}", site.people) for s, site in enumerate(sites)])
    errors, covered = [], []
    for s, site in enumerate(sites):
        effect = result.effect_posterior(site.new, f"s{s}")
        low, high = effect.interval()
        errors.append(np.mean((effect.mean - site.truth) ** 2))
        covered.append(np.mean((low <= site.truth) & (site.truth <= high)))
    return Cell(data, replication, preset, float(np.sqrt(np.mean(errors))), float(np.mean(covered)), len(told),
                sum(told), result.outcome.fit.objective,
                sum(t.sent + t.received for t in result.traffic.values()) / len(sites) / 1e6)


@contextmanager
def counting(told: list[int]) -> Iterator[None]:
    """Numbers of each answer that is summed, while it lasts."""
    plain = Talk.total

    def total(self: Talk, ask: Ask) -> Total:
        if sizes := shapes(self.terms.model, ask):
            told.append(sum(int(np.prod(shape)) for shape in sizes.values()))
        return plain(self, ask)

    Talk.total = total  # type: ignore[method-assign]
    try:
        yield
    finally:
        Talk.total = plain  # type: ignore[method-assign]


def table(done: Sequence[Cell]) -> str:
    """A row for each data set, of replications that have both; error and coverage, the errors' ratio and the largest of
    a fit, exchanges, how many times fewer numbers, and bytes."""
    lines = ["| data | fits | `default` (coverage) | `few` (coverage) | ratio of errors | largest | exchanges | "
             "numbers | MB a site |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for data in dict.fromkeys(cell.data for cell in done):
        pairs = _pairs(done, data)
        if not pairs:
            continue
        error, cover, asked, told, sent = (np.mean([[getattr(cell, name) for cell in pair] for pair in pairs], 0)
                                           for name in ("pehe", "coverage", "exchanges", "numbers", "megabytes"))
        largest = max(few.pehe / rounds.pehe for rounds, few in pairs)
        lines.append(f"| {data} | {len(pairs)} | {error[0]:.3f} ({cover[0]:.3f}) | {error[1]:.3f} ({cover[1]:.3f}) | "
                     f"{error[1] / error[0]:.2f} | {largest:.2f} | {asked[0]:.0f} / {asked[1]:.0f} | "
                     f"{told[0] / told[1]:.1f} × fewer | {sent[0]:.3g} / {sent[1]:.3g} |")
    return "\n".join(lines)


def _pairs(done: Sequence[Cell], data: str) -> list[tuple[Cell, Cell]]:
    """Of each replication that has both presets."""
    first, second = ({cell.replication: cell for cell in done if (cell.data, cell.preset) == (data, preset)}
                     for preset in PRESETS)
    return [(first[replication], second[replication]) for replication in sorted(first.keys() & second.keys())]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=2)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--data", action="append", choices=[*ALL], help="once for each; without it, all")
    parser.add_argument("--first", type=int, default=0, help="the first replication")
    parser.add_argument("--masked", action="store_true", help="with secure sums")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell)
    for replication in range(asked.first, asked.replications):
        for name in asked.data or [name for name in ALL if name != IHDP or ihdp.VARIABLE in os.environ]:
            sites, data = ALL[name](replication, Sizes(train=asked.rows)), name + MASKED * asked.masked
            for preset in PRESETS:
                if any(cell[:3] == (data, replication, preset) for cell in done):
                    continue
                done.append(fitted(data, sites, replication, preset))
                kept.add(asked.out, done[-1])
    print(table(done))


if __name__ == "__main__":
    main()
