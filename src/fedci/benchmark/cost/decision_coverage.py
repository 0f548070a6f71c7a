"""Subgroups and decisions beside the truth: how often intervals hold it, and whether a rule's worth is overstated.

    python -m fedci.benchmark.cost.decision_coverage --set differ --outcome numeric --replications 100 --out FILE
    python -m fedci.benchmark.cost.decision_coverage --peers --replications 20 --out FILE       (extra `benchmark`)

    python -m fedci.benchmark.cost.decision_coverage --shift 0.5 --replications 20 --out FILE

Three sites; treatment depends on two covariates; the effect on age, sex and stage (`differ`), or on nothing (`same`).
Truths are averages of the people's own expected effects. With `--shift` the third site, whose ages are so many sds
higher, is left out of the fit, and the effect over its people told by `result.transport`. Cells that FILE has are not
measured again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedci.benchmark.cost import kept
from fedci.protocol import rule as rules
from fedci.result.result import Result
from fedci.study.study import Study

SUBGROUPS: dict[str, Any] = {"sex": "sex", "age": {"by": "age", "cuts": [55, 65]}, "stage": "stage",
             "old": {"where": {"age": {"from": 65}, "sex": 1}}}
COST = 0.5
STAGES = np.array(["I", "II", "III"])


class Cell(NamedTuple):
    """One fit."""

    set: str
    outcome: str
    rows: int
    """Of each of three sites."""
    replication: int
    groups: int
    held: int
    """Intervals of groups that hold the truth."""
    held_together: bool
    """Whether all simultaneous ones do."""
    contrasts: int
    contrasts_held: int
    contrasts_held_together: bool
    alarm: bool
    """Whether any contrast is said to be clear."""
    line_alarm: bool
    """Whether any covariate of the linear summary is, allowing for all."""
    said_to_differ: bool
    """By P(same) < 5 %."""
    rule: float
    """Net benefit of the rule beside treating nobody, as told."""
    rule_se: float
    rule_true: float
    chosen: float
    """Of treating those who are expected to benefit by more than the cost."""
    chosen_se: float
    chosen_true: float
    best: float
    """Of treating those who truly do."""


def people(kind: str, outcome: str, rows: int, replication: int, site: int, older: float = 0.0) -> pd.DataFrame:
    """One site's table, with the expected outcomes of both arms in its last columns."""
    rng = np.random.default_rng((replication, site, 17))
    age, sbp = rng.normal(60 + 3 * (site - 1) + older, 10, rows), rng.normal(140, 20, rows)
    sex, stage = rng.integers(0, 2, rows), rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-(0.05 * (age - 60) + 0.02 * (sbp - 140))))).astype(int)
    base = 0.03 * (age - 60) + 0.01 * (sbp - 140) + 0.3 * stage
    tau = np.full(rows, 0.5) if kind == "same" else 0.5 + 0.5 * sex - 0.05 * (age - 60) + 0.6 * (stage == 2)
    if outcome == "binary":
        mu0, mu1 = (1 / (1 + np.exp(-(at - 0.5))) for at in (base, base + tau))
        y = (rng.uniform(size=rows) < np.where(w == 1, mu1, mu0)).astype(int)
    else:
        mu0, mu1 = base, base + tau
        y = np.where(w == 1, mu1, mu0) + rng.normal(0, 1, rows)
    return pd.DataFrame({"age": age, "sbp": sbp, "sex": sex, "stage": STAGES[stage], "w": w, "y": y, "mu0": mu0,
                         "mu1": mu1})


def study(outcome: str) -> Study:
    cost = COST if outcome == "numeric" else 0.1
    covariates: Any = {"age": {}, "sbp": {}, "sex": "binary",
                       "stage": {"type": "categorical", "levels": STAGES.tolist()}}
    return Study(treatment="w", outcome="y", outcome_type="binary" if outcome == "binary" else "numeric",
                 covariates=covariates, policy="simulation", subgroups=SUBGROUPS,
                 decisions={"along": ["age", "sbp", "sex", "stage"], "cost": cost})


def measured(kind: str, outcome: str, rows: int, replication: int) -> Cell:
    from fedci.estimator import FedCI
    from fedci.table.source import Source

    plan = study(outcome)
    tables = {f"s{site}": people(kind, outcome, rows, replication, site) for site in range(3)}
    result = FedCI(plan, seed=replication).fit([Source(name, table[["age", "sbp", "sex", "stage", "w", "y"]])
                                                for name, table in tables.items()])
    truth = pd.concat(tables.values())
    tau = (truth.mu1 - truth.mu0).to_numpy()
    x = np.column_stack([truth.age, truth.sbp, truth.sex, truth.stage == "II", truth.stage == "III"]).astype(float)
    table, against = result.subgroups(), result.contrasts()
    true = {group.name: tau[group.holds(x)].mean() for group in plan.groups}
    of_groups = table.group.map(true)
    of_pairs = against.group.map(true) - against.against.map(true)
    line = result.decisions.projection().iloc[1:]
    known = result.diagnostics.sameness if result.diagnostics is not None else None
    return Cell(kind, outcome, rows, replication, len(table), _held(table, of_groups, ""),
                _held(table, of_groups, "all_") == len(table), len(against), _held(against, of_pairs, ""),
                _held(against, of_pairs, "all_") == len(against),
                bool(((against.all_low > 0) | (against.all_high < 0)).any()),
                bool(((line.all_low > 0) | (line.all_high < 0)).any()),
                known is not None and known.probability < 0.05, *_valued(result, plan, tau, x))


def _held(table: pd.DataFrame, truth: pd.Series, which: str) -> int:
    return int(((table[f"{which}low"] <= truth) & (truth <= table[f"{which}high"])).sum())


def _valued(result: Result, plan: Study, tau: np.ndarray, x: np.ndarray) -> tuple[float, ...]:
    """(told, its standard error, true) of the rule and of those chosen, and of the best choice. Who was chosen by the
    expectation without their own outcome is taken to be who is chosen with it: they differ at the threshold alone."""
    found, cost = result.decisions, plan.decisions.cost if plan.decisions is not None else 0.0
    leaves = found.leaves()
    inside = rules.holds(found.told["rule"], x)[np.flatnonzero(rules.exists(found.told["rule"]))]
    treated = inside[found.told["leaf_people"][:len(inside)] > 0][leaves.treat.to_numpy()].any(0)
    expected = np.concatenate([np.asarray(result.people[site].cate().mean) for site in result.sites])
    rows = found.values().set_index("policy")
    told: list[float] = []
    for name, chosen in (("treat by the rule", treated), (rows.index[2], expected > cost)):
        row = rows.loc[name]
        told += [float(row.over_nobody), float(row.over_nobody_high - row.over_nobody) / 1.959964,
                 float(np.mean(chosen * (tau - cost)))]
    return *told, float(np.mean(np.maximum(tau - cost, 0.0)))


class Peer(NamedTuple):
    """What peers' policies are truly worth, on the combined rows of the same people."""

    set: str
    rows: int
    replication: int
    policy_tree: float
    """econml's DRPolicyTree of depth 2."""
    forest: float
    """Those whose effect econml's CausalForestDML takes to be above the cost."""


def peers(kind: str, rows: int, replication: int) -> Peer:
    from econml.dml import CausalForestDML
    from econml.policy import DRPolicyTree

    truth = pd.concat([people(kind, "numeric", rows, replication, site) for site in range(3)])
    x = np.column_stack([truth.age, truth.sbp, truth.sex, truth.stage == "II", truth.stage == "III"]).astype(float)
    w, y, tau = truth.w.to_numpy(), truth.y.to_numpy(), (truth.mu1 - truth.mu0).to_numpy()
    tree = DRPolicyTree(max_depth=2, random_state=replication)
    tree.fit(y - COST * w, w, X=x)
    forest = CausalForestDML(discrete_treatment=True, random_state=replication)
    forest.fit(y, w, X=x)
    chosen = np.asarray(tree.predict(x)).ravel() == 1, np.asarray(forest.effect(x)).ravel() > COST
    return Peer(kind, rows, replication, *(float(np.mean(one * (tau - COST))) for one in chosen))


class Moved(NamedTuple):
    """A site that was left out."""

    shift: float
    rows: int
    replication: int
    mean: float
    low: float
    high: float
    true: float
    verdict: str
    weighted: float
    """By weights and model together."""
    weighted_low: float
    weighted_high: float
    worth: float
    """How many of the study's people the weights leave."""


def moved(shift: float, rows: int, replication: int) -> Moved:
    from fedci.estimator import FedCI
    from fedci.result.transport import of_people
    from fedci.table.source import Source

    plan = study("numeric").changed(subgroups={}, decisions=None)
    columns = ["age", "sbp", "sex", "stage", "w", "y"]
    tables = [people("differ", "numeric", rows, replication, site, 3.0 * (1 - site)) for site in range(2)]
    result = FedCI(plan, seed=replication).fit([Source(f"s{site}", table[columns])
                                                for site, table in enumerate(tables)])
    there = people("differ", "numeric", rows, replication, 2, 10.0 * shift - 3.0)
    found = of_people(result, there[columns[:4]])
    low, high = found.effect.interval()
    if found.weighted is None or found.worth is None:
        raise AssertionError("the study tells how its doubly robust effects go with the expected ones")
    return Moved(shift, rows, replication, found.effect.mean, low, high, float((there.mu1 - there.mu0).mean()),
                 found.verdict.verdict, found.weighted.mean, *found.weighted.interval(), found.worth)


def summary(done: Sequence[Cell]) -> str:
    """A row for each set and outcome."""
    lines = ["| effects | outcome | fits | groups held | all groups at once | differences held | all differences at "
             "once | clear difference | linear alarm | said to differ | rule: told − true (se) | "
             "chosen: told − true (se) |",
             "|---|---|" + "---:|" * 10]
    for key in sorted({(cell.set, cell.outcome, cell.rows) for cell in done}):
        own = [cell for cell in done if (cell.set, cell.outcome, cell.rows) == key]
        n = len(own)
        off = [np.array([getattr(cell, name) - getattr(cell, f"{name}_true") for cell in own])
               for name in ("rule", "chosen")]
        told = [f"{one.mean():+.4f} ({one.std(ddof=1) / np.sqrt(n):.4f})" if n > 1 else "–" for one in off]
        lines.append(
            f"| {key[0]} | {key[1]}, 3 × {key[2]} | {n} | "
            f"{sum(c.held for c in own) / sum(c.groups for c in own):.3f} | "
            f"{np.mean([c.held_together for c in own]):.3f} | "
            f"{sum(c.contrasts_held for c in own) / sum(c.contrasts for c in own):.3f} | "
            f"{np.mean([c.contrasts_held_together for c in own]):.3f} | {np.mean([c.alarm for c in own]):.3f} | "
            f"{np.mean([c.line_alarm for c in own]):.3f} | {np.mean([c.said_to_differ for c in own]):.3f} | "
            f"{told[0]} | {told[1]} |")
    return "\n".join(lines)


def _moves(asked: argparse.Namespace) -> Iterator[Moved]:
    known = [one for path in asked.out for one in kept.read(path, Moved)]
    yield from known
    for r in range(asked.first, asked.first + asked.replications):
        if (asked.shift, asked.rows, r) not in {(one.shift, one.rows, one.replication) for one in known}:
            one = moved(asked.shift, asked.rows, r)
            kept.add(asked.out[0], one)
            yield one


def summary_of_moved(done: Sequence[Moved]) -> str:
    lines = ["| shift, sds | fits | model: held | mean error | mean width | weighted: held | mean error | mean width | "
             "worth, of people |", "|" + "---:|" * 9]
    for shift in sorted({one.shift for one in done}):
        own = [one for one in done if one.shift == shift]
        lines.append(f"| {shift:g} | {len(own)} | {np.mean([one.low <= one.true <= one.high for one in own]):.3f} | "
                     f"{np.mean([one.mean - one.true for one in own]):+.3f} | "
                     f"{np.mean([one.high - one.low for one in own]):.3f} | "
                     f"{np.mean([one.weighted_low <= one.true <= one.weighted_high for one in own]):.3f} | "
                     f"{np.mean([one.weighted - one.true for one in own]):+.3f} | "
                     f"{np.mean([one.weighted_high - one.weighted_low for one in own]):.3f} | "
                     f"{np.mean([one.worth for one in own]):.0f} of {2 * own[0].rows} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=("differ", "same"), default="differ")
    parser.add_argument("--outcome", choices=("numeric", "binary"), default="numeric")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--replications", type=int, default=10)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--shift", type=float)
    parser.add_argument("--out", type=Path, nargs="+", required=True)
    asked = parser.parse_args(arguments)
    if asked.peers:
        known = kept.read(asked.out[0], Peer)
        for r in range(asked.first, asked.first + asked.replications):
            if (asked.set, asked.rows, r) not in {(one.set, one.rows, one.replication) for one in known}:
                kept.add(asked.out[0], peers(asked.set, asked.rows, r))
        return
    if asked.shift is not None:
        print(summary_of_moved(list(_moves(asked))))
        return
    done = [cell for path in asked.out for cell in kept.read(path, Cell)]
    have = {(cell.set, cell.outcome, cell.rows, cell.replication) for cell in done}
    for r in range(asked.first, asked.first + asked.replications):
        if (asked.set, asked.outcome, asked.rows, r) not in have:
            done.append(measured(asked.set, asked.outcome, asked.rows, r))
            kept.add(asked.out[0], done[-1])
    print(summary(done))


if __name__ == "__main__":
    main()
