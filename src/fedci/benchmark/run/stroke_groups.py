"""Aspirin in subgroups of the stroke trial: `python -m fedci.benchmark.run.stroke_groups --ist FILE`.

Dead or dependent after six months, and whom to give it. Sites are three groups of countries, of whose people so many
are taken at random. Beside each group's effect stands the difference of its arms, which a lot drew. What is written is
a table, and with `--out` all of the result's JSON.

Sandercock, Niewada, Członkowska (2011), International Stroke Trial database (version 2), University of Edinburgh, doi
10.7488/ds/104, ODC-By. The file is not part of this project.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedci import FedCI, Result, Source, Study
from fedci.benchmark.run.stroke import read

NUMERIC, BINARY = ("age", "pressure", "delay"), ("female", "drowsy", "unconscious", "atrial", "visible")
SUBGROUPS: dict[str, Any] = {
    "sex": "female", "age": {"by": "age", "cuts": [65, 75]}, "delay": {"by": "delay", "cuts": [6, 12]},
    "pressure": {"by": "pressure", "cuts": [160]}, "alert": {"where": {"drowsy": 0, "unconscious": 0}},
    "atrial": "atrial", "visible": "visible"}


def study() -> Study:
    return Study(treatment="aspirin", outcome={"name": "dependent", "type": "binary"}, policy="simulation",
                 design="randomised", subgroups=SUBGROUPS,
                 covariates=[*NUMERIC, *({"name": name, "type": "binary"} for name in BINARY)],
                 decisions={"along": ["age", "pressure", "delay", "female", "drowsy", "atrial"], "better": "lower"})


def people(rows: pd.DataFrame, count: int) -> dict[str, pd.DataFrame]:
    """So many of those whose six months are known, by groups of countries."""
    known = rows.dropna(subset="dependent")
    some = known.sample(count, random_state=0) if 0 < count < len(known) else known
    where = some.country.map({"uk": "uk", "ital": "italy"}).fillna("others")
    columns = ["aspirin", "dependent", *NUMERIC, *BINARY]
    return {str(name): part[columns].astype({"dependent": int}) for name, part in some.groupby(where)}


def table(result: Result, sites: dict[str, pd.DataFrame]) -> str:
    """A line for each subgroup: the effect with both intervals, and the plain difference, in percentage points."""
    every = pd.concat(sites.values())
    x = every[[*NUMERIC, *BINARY]].to_numpy(float)
    lines = ["| group | people | effect (95% interval) | that holds for all | the arms differ by |",
             "|---|---:|---:|---:|---:|"]
    for group, row in zip(result.groups.groups, result.subgroups().itertuples(), strict=True):
        own = every[group.holds(x)]
        means, ses = zip(*((part.mean(), part.std() / np.sqrt(len(part))) for part in (
            own.dependent[own.aspirin == arm] for arm in (0, 1))), strict=True)
        lines.append(f"| {row.group} | {row.people:,} | {points(row.mean)} ({points(row.low)} to {points(row.high)}) | "
                     f"{points(row.all_low)} to {points(row.all_high)} | "
                     f"{points(means[1] - means[0])} ± {points(np.hypot(*ses))} |")
    return "\n".join(lines)


def points(share: float) -> str:
    """In percentage points; no −0."""
    return f"{round(100.0 * share, 1) + 0.0:.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ist", type=Path, required=True)
    parser.add_argument("--people", type=int, default=3000, help="0: everybody")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    sites = people(read(asked.ist), asked.people)
    result = FedCI(study()).fit([Source(name, part) for name, part in sites.items()])
    if asked.out is not None:
        asked.out.write_text(json.dumps(result.plain(), indent=1), encoding="utf-8")
    print(result.summary())
    print(table(result, sites))


if __name__ == "__main__":
    main()
