"""Rounds of the preset `default` from where the preset `few` ends, with natural steps from the first on.

    python -m fedci.benchmark.cost.few_start [--replications 1] [--data NAME …] --out FILE

Both fits of each pair are on the same people as `few_exchanges` has. Exchanges and numbers of a fit from there are with
the messages of products that led there.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedci.benchmark.cost import kept
from fedci.benchmark.cost.few_exchanges import ALL, RISKS, AtSite, counting
from fedci.estimator import FedCI
from fedci.model.family import Ask, Rules, Sums
from fedci.model.shared import shared_family
from fedci.model.shared.shared_family import SharedFamily
from fedci.result.result import Result
from fedci.study.study import Study
from fedci.synthetic.datasets import Sizes
from fedci.table.source import Source

OPENING = 3
"""Exchanges of `few` that every fit has: two about columns, one for the effects."""


class Cell(NamedTuple):
    """One pair of fits; `began` is from where `few` ends."""

    data: str
    replication: int
    pehe: float
    began_pehe: float
    objective: float
    began_objective: float
    exchanges: int
    began_exchanges: int
    numbers: int
    began_numbers: int


@contextmanager
def beginning(q: np.ndarray) -> Iterator[None]:
    """While it lasts, fits of `default` begin at q, with natural steps; what the start sets is set."""
    start, plain = SharedFamily.start, shared_family.PLAIN

    def begun(self: SharedFamily, rules: Rules) -> Generator[Ask, Sums, np.ndarray]:
        first = yield from start(self, rules)
        return np.where(np.tile(self.held, 2), first, q)

    SharedFamily.start, shared_family.PLAIN = begun, 0  # type: ignore[method-assign]
    try:
        yield
    finally:
        SharedFamily.start, shared_family.PLAIN = start, plain  # type: ignore[method-assign]


def fitted(sites: Sequence[AtSite], replication: int, preset: str) -> tuple[Result, list[int]]:
    """(the fit, numbers of each exchange)."""
    study = Study(treatment="w", outcome="y", covariates=[c for c in sites[0].people if c not in ("w", "y")],
                  policy="simulation", preset=preset, diagnostics={"enabled": False})
    told: list[int] = []
    with counting(told):
        result = FedCI(study, seed=replication).fit([Source(f"s{s}", site.people) for s, site in enumerate(sites)])
    return result, told


def error(result: Result, sites: Sequence[AtSite]) -> float:
    found = [result.effect_posterior(site.new, f"s{s}").mean - site.truth for s, site in enumerate(sites)]
    return float(np.sqrt(np.mean(np.square(found))))


def pair(data: str, sites: Sequence[AtSite], replication: int) -> Cell:
    (own, told), (few, messages) = (fitted(sites, replication, preset) for preset in ("default", "few"))
    with beginning(few.outcome.fit.theta):
        began, more = fitted(sites, replication, "default")
    return Cell(data, replication, error(own, sites), error(began, sites), own.outcome.fit.objective,
                began.outcome.fit.objective, len(told), len(more) + len(messages) - OPENING, sum(told),
                sum(more) + sum(messages[2:-1]))


def table(done: Sequence[Cell]) -> str:
    lines = ["| data | fits | error: ratio, largest | bound: nats above, least | exchanges | numbers, millions |",
             "|---|---:|---|---|---:|---:|"]
    for data in dict.fromkeys(cell.data for cell in done):
        some = [cell for cell in done if cell.data == data]
        mean: Any = {name: float(np.mean([getattr(cell, name) for cell in some])) for name in Cell._fields[2:]}
        above = [cell.began_objective - cell.objective for cell in some]
        largest = max(cell.began_pehe / cell.pehe for cell in some)
        lines.append(f"| {data} | {len(some)} | {mean['began_pehe'] / mean['pehe']:.2f}, {largest:.2f} | "
                     f"{np.mean(above):.1f}, {min(above):.1f} | "
                     f"{mean['exchanges']:.0f} / {mean['began_exchanges']:.0f} | "
                     f"{mean['numbers'] / 1e6:.2f} / {mean['began_numbers'] / 1e6:.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = [name for name in ALL if not name.startswith(RISKS)]
    parser.add_argument("--replications", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first replication")
    parser.add_argument("--data", nargs="+", choices=numbers, default=[name for name in numbers if name != "IHDP"])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell)
    for replication in range(asked.first, asked.replications):
        for data in asked.data:
            if all(cell[:2] != (data, replication) for cell in done):
                done.append(pair(data, ALL[data](replication, Sizes(train=50)), replication))
                kept.add(asked.out, done[-1])
    print(table(done))


if __name__ == "__main__":
    main()
