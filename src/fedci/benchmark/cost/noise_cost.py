"""What noise on the sums of a fit at home costs (`policy.sum_noise`): errors and coverage over s and people.

    python -m fedci.benchmark.cost.noise_cost [--replications 5] [--people 300 1000 3000] --out FILE

Three masked sites, five covariates, confounded treatment; outcomes that are straight in x (of which covariates and arm
explain four fifths; of `noisier` ones three quarters, as the rule of admission takes it), and outcomes and effects that
bend. Every s is fitted to the same people; s = 1e-4 is the same straight model without noise, by which ratios are
taken. Sizes that sites refuse are fitted all the same, to see why; of so few people that noise drowns the spreads of
columns sites refuse what it made of the common units, and such a fit is in no mean. `--bent-fit` adds the preset `few`
without noise, which may bend: what straightness costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedci.benchmark.cost import kept
from fedci.errors import DisclosureError
from fedci.estimator import FedCI
from fedci.site import admission, summing
from fedci.study.study import Study
from fedci.table.source import Source

NONE = 1e-4
"""s that no sum feels."""
LEVELS = (NONE, 0.25, 0.5, 1.0, 2.0)
FREE = -1.0
"""In place of s: the preset `few` as it is."""
SITES, COLUMNS, NEW = 3, 5, 1000
SLOPES = np.array([0.6, -0.4, 0.3, 0.0, 0.2])
KINDS = {"straight": 0.5, "bent": 0.5, "noisier": 0.62}
"""And the sd of the outcome given covariates and arm."""


class Cell(NamedTuple):
    """One fit."""

    data: str
    people: int
    """Of a site."""
    replication: int
    noise: float
    pehe: float
    coverage: float
    ate_error: float
    ate_sd: float


def people(data: str, count: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """(rows, their expected effects)."""
    x = rng.standard_normal((count, COLUMNS))
    w = (rng.random(count) < 1.0 / (1.0 + np.exp(-0.5 * x[:, 0]))).astype(float)
    level, effect = x @ SLOPES, 0.5 + 0.3 * x[:, 0] - 0.2 * x[:, 1]
    if data == "bent":
        level = level + 0.5 * np.maximum(x[:, 0] + 0.5 * x[:, 2], 0.0)
        effect = 0.3 + 0.6 * np.maximum(0.8 * x[:, 0] - 0.4 * x[:, 1], 0.0)
    rows = pd.DataFrame(x, columns=[f"x{k}" for k in range(COLUMNS)])
    return rows.assign(w=w, y=level + w * effect + KINDS[data] * rng.standard_normal(count)), effect


def plan(noise: float) -> Study:
    policy: dict[str, Any] = {"name": "simulation", "sum_noise": max(noise, 0.0), "secure_sum": "auto"}
    return Study(treatment="w", outcome="y", covariates=[f"x{k}" for k in range(COLUMNS)], policy=policy, preset="few",
                 diagnostics={"enabled": False})


@contextmanager
def unrefused() -> Iterator[None]:
    """While it lasts, no size is refused for its noise."""
    drowned, near = admission._drowned, summing._check_near
    admission._drowned = lambda asked: iter(())
    summing._check_near = lambda *given: None
    try:
        yield
    finally:
        admission._drowned, summing._check_near = drowned, near


def fitted(data: str, count: int, replication: int, noise: float) -> Cell:
    rng = np.random.default_rng(np.random.SeedSequence((replication, count)))
    sites, (new, effect) = [people(data, count, rng) for _ in range(SITES)], people(data, NEW, rng)
    try:
        with unrefused():
            result = FedCI(plan(noise), seed=replication).fit([Source(f"s{k}", rows)
                                                               for k, (rows, _) in enumerate(sites)])
    except DisclosureError:  # of so few people noise leaves units that a site does not take for common ones
        return Cell(data, count, replication, noise, *[np.nan] * 4)
    found = result.effect_posterior(new.drop(columns=["w", "y"]))
    low, high = found.interval()
    average = result.ate()
    return Cell(data, count, replication, noise, float(np.sqrt(np.mean((found.mean - effect) ** 2))),
                float(np.mean((low <= effect) & (effect <= high))),
                float(average.mean - np.mean(np.concatenate([part for _, part in sites]))), float(average.sd))


def table(done: Sequence[Cell]) -> str:
    """A row for each data set and size; numbers of each s in their order."""
    levels = sorted({cell.noise for cell in done})
    shown = ", ".join({NONE: "0", FREE: "`few`"}.get(noise, f"{noise:g}") for noise in levels)
    lines = [f"| data | people | fits | √PEHE at s = {shown} | ratio | coverage | average: rmse | its sd |",
             "|---|---:|---:|---|---|---|---|---|"]
    for data, count in sorted({(cell.data, cell.people) for cell in done}):
        parts = [[cell for cell in done if (cell.data, cell.people, cell.noise) == (data, count, noise)]
                 for noise in levels]
        error = [_rms(cell.pehe for cell in part) for part in parts]
        plain = error[levels.index(NONE)] if NONE in levels else np.nan
        columns: list[list[float]] = [
            error, [one / plain for one in error], [_mean(cell.coverage for cell in part) for part in parts],
            [_rms(cell.ate_error for cell in part) for part in parts],
            [_mean(cell.ate_sd for cell in part) for part in parts]]
        cells = [", ".join(f"{one:.{digits}f}" for one in column)
                 for column, digits in zip(columns, (3, 2, 2, 3, 3), strict=True)]
        fits = [sum(np.isfinite(cell.pehe) for cell in part) for part in parts]
        shown = str(fits[0]) if len(set(fits)) == 1 else ", ".join(map(str, fits))
        lines.append(f"| {data} | {SITES} × {count} | {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Iterable[float]) -> float:
    """Of the fits that there are."""
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else np.nan


def _rms(values: Iterable[float]) -> float:
    return float(np.sqrt(_mean(value**2 for value in values)))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=5)
    parser.add_argument("--people", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--data", nargs="+", choices=[*KINDS], default=["straight", "bent"])
    parser.add_argument("--bent-fit", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell)
    for replication in range(asked.replications):
        for count in asked.people:
            for data in asked.data:
                for noise in ((FREE,) if asked.bent_fit else LEVELS):
                    if any(cell[:4] == (data, count, replication, noise) for cell in done):
                        continue
                    done.append(fitted(data, count, replication, noise))
                    kept.add(asked.out, done[-1])
    print(table(done))


if __name__ == "__main__":
    main()
