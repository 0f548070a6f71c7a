"""Intervals calibrated by negative controls, where something that nobody measured biases every outcome.

    u hidden      w ~ Bernoulli(σ(x₁ + u))      y_k = sin x₁ + x₂ + a_k u + noise      a_k ~ N(0.5, 0.4²)

30 controls (true effect 0) and the outcome (true effect 0.5) at three sites; each study is fitted whole. Counted
is how often 95% intervals hold the truth, over everybody and at each site: of the study's own outcome, and of each
control in turn, calibrated by the others.

`python -m fedci.benchmark.controls --replications 8 --out benchmarks/results/controls`; it goes on from what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedci.diagnostics.systematic import Law, Systematic
from fedci.estimator import FedCI
from fedci.study.study import Study
from fedci.table.table import Source

CONTROLS, SITES, PEOPLE, EFFECT = 30, 3, 200, 0.5
OPTIONS = {"model": {"knots": 3, "landmarks": 4}, "optimiser": {"rounds": 60}, "prediction": {"draws": 128}}
"""Straight enough for the truth here, and quick: a study is 31 fits."""


def study(controls: int = CONTROLS) -> Study:
    return Study(name="controls", treatment="w", outcome="y", covariates=["x1", "x2"], policy="simulation",
                 options=OPTIONS, diagnostics={"negative_controls": names(controls)})


def names(controls: int) -> list[str]:
    return [f"c{k}" for k in range(1, controls + 1)]


def hospitals(seed: int, controls: int = CONTROLS, people: int = PEOPLE) -> list[Source]:
    """Sites of one study; loadings of the hidden cause are the study's, people a site's."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(0.5, 0.4, controls + 1)
    made = []
    for site in range(SITES):
        x, u = rng.standard_normal((people, 2)), rng.standard_normal(people)
        w = (rng.uniform(size=people) < 1 / (1 + np.exp(-x[:, 0] - u))).astype(int)
        outcomes = (np.sin(x[:, 0]) + x[:, 1])[:, None] + u[:, None] * loadings + rng.standard_normal(
            (people, controls + 1))
        outcomes[:, 0] += EFFECT * w
        made.append(Source(f"site-{site}", pd.DataFrame(
            {"x1": x[:, 0], "x2": x[:, 1], "w": w, "y": outcomes[:, 0]}
            | dict(zip(names(controls), outcomes[:, 1:].T, strict=True)))))
    return made


def replication(seed: int, controls: int = CONTROLS) -> dict[str, Any]:
    """One study: whether plain and calibrated intervals hold the truth."""
    found = FedCI(study(controls), seed=seed).fit(hospitals(seed, controls)).diagnostics
    known = found.systematic if found is not None else None
    if known is None or not known.systematic:
        raise AssertionError("a study with negative controls tells what they came to")
    whole = known.systematic[0]
    return {"seed": seed, **_hits(whole, [(row.mean, row.sd) for row in known.controls]), "mu": whole.mean,
            "sigma": whole.sd, "at_sites": [_hits(one, [row.sites[one.over] for row in known.controls])
                                            for one in known.systematic[1:]]}


def _hits(found: Systematic, controls: list[tuple[float, float]]) -> dict[str, Any]:
    """Of everybody, or of one site: which intervals hold the truth; each control is calibrated by the others."""
    b, s = np.array(controls).T
    each = [Law(np.delete(b, k), np.delete(s, k)).calibrated(b[k], s[k]) for k in range(len(b))]
    return {"plain": bool(found.plain.low <= EFFECT <= found.plain.high),
            "calibrated": bool(found.calibrated.low <= EFFECT <= found.calibrated.high),
            "plain_width": found.plain.high - found.plain.low,
            "calibrated_width": found.calibrated.high - found.calibrated.low,
            "controls_plain": int(np.sum(np.abs(b) <= 1.96 * s)),
            "controls_calibrated": int(sum(one.low <= 0 <= one.high for one in each)), "controls": len(b)}


def covered(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Shares over all studies (or sites of studies), and over all outcomes with known truth."""
    total = sum(row["controls"] for row in rows)
    shares = {name: sum(row[name] for row in rows) / len(rows) for name in ("plain", "calibrated")}
    shares |= {name: sum(row[name] for row in rows) / total for name in ("controls_plain", "controls_calibrated")}
    return shares | {name: float(np.mean([row[name] for row in rows])) for name in ("plain_width", "calibrated_width")}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """As the file of results has it."""
    return {"rows": rows, "covered": covered(rows), "covered_at_sites": covered([
        site for row in rows for site in row["at_sites"]])}


def run(replications: int, controls: int = CONTROLS, known: dict[int, dict[str, Any]] | None = None
        ) -> Iterator[dict[str, Any]]:
    """By seed; a row of `known` is taken as it is."""
    for seed in range(replications):
        yield (known or {}).get(seed) or replication(seed, controls)


def _known(path: Path) -> dict[int, dict[str, Any]]:
    """Rows on disk, by seed."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return {row["seed"]: row for row in rows if "at_sites" in row}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--replications", type=int, default=8)
    asked.add_argument("--controls", type=int, default=CONTROLS)
    asked.add_argument("--out", type=Path, default=Path("benchmarks/results/controls"))
    given = asked.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    path = given.out / "controls.json"
    for row in run(given.replications, given.controls, _known(path)):
        rows.append(row)
        print(json.dumps(row), flush=True)
        path.write_text(json.dumps(summary(rows), indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: shares for name, shares in summary(rows).items() if name != "rows"}, indent=1))


if __name__ == "__main__":
    main()
