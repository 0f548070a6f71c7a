"""The preset `few` without noise, by people of a site: what its messages leave of a person, and who is found.

    python assurance/people_few.py [--people 50 200] [--of 50] [--out FILE]

Three masked sites, one covariate, a small dictionary, all five messages and the effects, exact but for rounding. The
attacker knows everybody's arm and outcome and looks for the covariate. *Left* is the local bound of all that was told
(`people_told.left`); *found* are people within 0.1 sd by least squares on all of it, from where a regression on arm and
outcome puts them, at sites of no more than --of people; *regression* is what that start finds by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import people_attack as attack
from people import regressed
from people_sites import NO_LIMIT, followed, met, planned, tables
from people_told import KINDS, Listener, left

from fedci.benchmark.cost import kept

SMALL: dict[str, Any] = {"model": {"knots": 3, "directions": 1, "landmarks": 4, "inducing": 16},
                         "prediction": {"draws": 8}}
POLICY = NO_LIMIT | {"sum_noise": 0.0, "outcome_noise": 0.0, "min_rows": 10, "min_arm_rows": 3, "min_cell": 0,
                     "statistics_per_row": 999.0, "max_parameters_per_row": 99.0, "override_reason": "a measurement"}
STEPS, NEAR = 8, 0.1


class Cell(NamedTuple):
    people: int
    """Of a site."""
    numbers: int
    messages: float
    """The least sd that is left to anybody by the messages of products alone, in sds of the column."""
    everything: float
    to_03: int
    """People left below 0.3 sd by everything."""
    typical: float
    found: int
    """−1: not tried."""
    regression: int


def cell(count: int, of: int) -> Cell:
    rows = tables((count,) * 3)
    with met(planned(rows, covariates={"age": {}}, preset="few", policy=POLICY, options=SMALL), rows) as parties:
        who = followed(parties)[1]
        known = np.vstack([np.column_stack([site.w, site.y]) for site in
                           (parties.site(name).party.noisy for name in parties.sites)])
    parts, start = who.parts(who.truth), regressed(known, who.truth)
    messages, told = left(parts, ("moments", "products")), left(parts, KINDS)
    return Cell(count, len(who.told()), float(messages.min()), float(told.min()), int((told < 0.3).sum()),
                float(np.median(told)), _found(who, start) if count <= of else -1,
                int((np.abs(start - who.truth) < NEAR).sum()))


def _found(who: Listener, start: np.ndarray) -> int:
    return attack.near(attack.by_least_squares(who, start, STEPS).values, who.truth)[0]


def table(done: Sequence[Cell]) -> str:
    lines = ["| people of a site | numbers told | least left: messages, everything (sd) | below 0.3 sd | typical | "
             "found within 0.1 sd (regression) |", "|---:|---:|---|---:|---:|---|"]
    lines += [f"| {one.people:,} | {one.numbers:,} | {one.messages:.2g}, {one.everything:.2g} | "
              f"{one.to_03} of {3 * one.people} | {one.typical:.2f} | "
              f"{f'{one.found} of {3 * one.people}' if one.found >= 0 else 'not tried'} ({one.regression}) |"
              for one in sorted(done)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--of", type=int, default=0, help="people of a site, up to which they are looked for: minutes")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell)
    for count in asked.people:
        if all(one.people != count for one in done):
            done.append(cell(count, asked.of))
            kept.add(asked.out, done[-1])
    print(table(done))


if __name__ == "__main__":
    main()
