"""The preset `few` beside `default`: errors and coverage of effects, exchanges, and numbers told.

    python -m fedci.benchmark.cost.few_exchanges [--replications 2] [--rows 50] --out FILE

Five sites, effects of new people (P2), each pair of fits on the same people; diagnostics are left out, so that what is
counted is what the fits and their effects tell. Exchanges are from the first message about rows to the effects; keys
and openings of secure sums come to these.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedci.benchmark.cost import kept
from fedci.benchmark.cost.sameness_power import SETS, Maker
from fedci.coordinator.talk import Talk, Total
from fedci.estimator import FedCI
from fedci.model.family import Ask
from fedci.protocol.ask import shapes
from fedci.study.study import Study
from fedci.synthetic import datasets
from fedci.synthetic.datasets import Sizes, Split
from fedci.table.source import Source

PRESETS = ("default", "few")
ALL: dict[str, Maker] = SETS | {"DATA-2": lambda r, sizes: datasets.synthetic("DATA-2", r, sizes=sizes)}


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


def fitted(data: str, splits: Sequence[Split], replication: int, preset: str) -> Cell:
    study = Study(treatment="w", outcome="y", covariates=splits[0].train.names, policy="simulation", preset=preset,
                  diagnostics={"enabled": False})
    told: list[int] = []
    with _counting(told):
        result = FedCI(study, seed=replication).fit(
            [Source(f"s{s}", split.train.frame()) for s, split in enumerate(splits)])
    errors, covered = [], []
    for s, split in enumerate(splits):
        effect = result.effect_posterior(split.test.frame(), f"s{s}")
        low, high = effect.interval()
        errors.append(np.mean((effect.mean - split.test.cate) ** 2))
        covered.append(np.mean((low <= split.test.cate) & (split.test.cate <= high)))
    return Cell(data, replication, preset, float(np.sqrt(np.mean(errors))), float(np.mean(covered)), len(told),
                sum(told), result.outcome.fit.objective)


@contextmanager
def _counting(told: list[int]) -> Iterator[None]:
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
    """A row for each data set; error and coverage, their ratio, exchanges, and how many times fewer numbers."""
    lines = ["| data | fits | `default` (coverage) | `few` (coverage) | ratio of errors | exchanges | numbers |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    for data in dict.fromkeys(cell.data for cell in done):
        both = [[cell for cell in done if (cell.data, cell.preset) == (data, preset)] for preset in PRESETS]
        error, cover, asked, told = (np.array([np.mean([getattr(cell, name) for cell in part]) for part in both])
                                     for name in ("pehe", "coverage", "exchanges", "numbers"))
        lines.append(f"| {data} | {len(both[0])} | {error[0]:.2f} ({cover[0]:.2f}) | {error[1]:.2f} ({cover[1]:.2f}) | "
                     f"{error[1] / error[0]:.2f} | {asked[0]:.0f} / {asked[1]:.0f} | {told[0] / told[1]:.0f} × fewer |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=2)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--data", action="append", choices=[*ALL], help="once for each; without it, all")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell)
    for replication in range(asked.replications):
        for data in asked.data or [*ALL]:
            splits = ALL[data](replication, Sizes(train=asked.rows))
            for preset in PRESETS:
                if any(cell[:3] == (data, replication, preset) for cell in done):
                    continue
                done.append(fitted(data, splits, replication, preset))
                kept.add(asked.out, done[-1])
    print(table(done))


if __name__ == "__main__":
    main()
