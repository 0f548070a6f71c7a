"""Who stands alone: how near one who knows everything but a column could come to the most exposed person.

By the kind of column and the number of people, in the smallest fit there is (one covariate, one round, one draw).

    python assurance/people_alone.py [--people 200,600,5000] [--columns normal,skewed,heavy,bounded]     a table

Three masked sites; numbers told per person fall as people grow. What counts: `people_told`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from people import WHOLE
from people_sites import NO_LIMIT, listened, met, planned, tables
from people_told import KINDS, left

COLUMNS: Mapping[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "normal": lambda age, rng: age,
    "skewed": lambda age, rng: np.exp((age - 62.0) / 12.0),
    "heavy": lambda age, rng: rng.standard_t(3, len(age)),
    "bounded": lambda age, rng: rng.uniform(20.0, 90.0, len(age)),
}
"""Log-normal; Student's t with three degrees of freedom; uniform."""


class Line(NamedTuple):
    column: str
    people: int
    per_person: float
    """Numbers of the column and the sums, each site's own averages too, over people."""
    statistics: float
    """The smallest sd that is left to anybody by the statistics alone, in sds of the column."""
    gradients: float
    everything: float
    to_03: int
    """People left below 0.3 sd by everything."""
    to_01: int
    typical: float
    furthest: float
    """How far from the mean the most exposed stands, in sds."""


def line(column: str, people: int) -> Line:
    """Of three sites of so many."""
    rng = np.random.default_rng(1)
    rows = {name: _with(table, COLUMNS[column](table["age"].to_numpy(), rng))
            for name, table in tables((people,) * 3).items()}
    with met(planned(rows, covariates={"age": {}}, policy=NO_LIMIT, options=WHOLE), rows) as parties:
        who = listened(parties).listener
    parts = who.parts(who.truth)
    few, more, all_told = (left(parts, kinds) for kinds in (("moments", "statistics"),
                                                           ("moments", "statistics", "gradients"), KINDS))
    return Line(column, 3 * people, len(who.told()) / (3 * people), few.min(), more.min(), all_told.min(),
                int((all_told < 0.3).sum()), int((all_told < 0.1).sum()), float(np.median(all_told)),
                float(np.abs(who.truth[all_told.argmin()])))


def _with(table: pd.DataFrame, values: np.ndarray) -> pd.DataFrame:
    return table.assign(age=values)


def table_of(lines: list[Line]) -> str:
    head = ("| column | people | numbers a person | most exposed: Gram matrices | and gradients | and effects | "
            "below 0.3 sd | below 0.1 sd | typical | the most exposed stands |")
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|", *(
        f"| {one.column} | {one.people} | {one.per_person:.2g} | {one.statistics:.2f} sd | {one.gradients:.2f} | "
        f"{one.everything:.2f} | {one.to_03} | {one.to_01} | {one.typical:.2f} | {one.furthest:.1f} sd out |"
        for one in lines)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", default="200,600,5000", help="at each of three sites")
    parser.add_argument("--columns", default=",".join(COLUMNS))
    asked: Any = parser.parse_args()
    found = []
    for people in map(int, asked.people.split(",")):
        for column in asked.columns.split(","):
            found.append(line(column, people))
            print(found[-1], flush=True)
    print(table_of(found))


if __name__ == "__main__":
    main()
