"""`python -m fedci.benchmark.cost.authors`: seconds to the objective that the authors' course reaches, on their model.

DATA-1 (standard deviation 2), five sites of 50 rows, preset `paper`: networks for μ and h, 300,000 parameters.

    authors    Adagrad, 2000 rounds, one fresh draw of (Φ, Σ) each: their settings
    ours       quasi-Newton, the same few draws in every round, until the objective is at least as high

Objectives are compared under 64 other draws, the same for both. Each course runs in a process of its own on one core,
as their code was measured (187 to 190 CPU seconds a fit): until its last round is over, compilation included, and again
where all is compiled. Let no other work run on that core.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedci.benchmark.cost import own_process
from fedci.benchmark.cost.speed import SITES, came_to, data_1, fitted

if TYPE_CHECKING:
    from fedci import Result
    from fedci.site.site import Site

ROWS, JUDGES = 50, 64
THEIRS = 187.0
"""CPU seconds of their code for this fit (the lower of two), one thread."""
COURSES = {"authors": {}, **{f"ours, {rounds} rounds": {"optimiser": {
    "name": "lbfgs", "rounds": rounds, "draws": 4, "fresh_draws": False, "tolerance": 1e-2}}
    for rounds in (10, 20, 40, 80, 160)}}


def measure(course: str) -> dict[str, Any]:
    from fedci import FedCI

    study, sources = data_1(ROWS, "paper", COURSES[course] | {"prediction": {"draws": 8}}, reading="std")
    fits = [fitted(FedCI(study), sources) for _ in range(1 if course == "authors" else 2)]
    first, again = fits[0][0].outcome.fit.rounds, fits[-1][0].outcome.fit.rounds
    return {"course": course, "rounds": len(first), "seconds": first[-1].seconds, "compiled": again[-1].seconds,
            "objective": judged(*fits[0])}


def judged(result: Result, sites: Mapping[str, Site], seed: int = 1, draws: int = JUDGES) -> float:
    """L at the fitted Θ under the draws of that seed."""
    from fedci.model.family import Rules

    outcome, layout = result.outcome, result.outcome.layout
    optimiser = outcome.options.optimiser.model_copy(update={"draws": draws})
    options = outcome.options.model_copy(update={"optimiser": optimiser})
    rules = Rules(layout.model, options, seed, layout.u, layout.rows)
    return float(came_to(layout.model.evaluation(rules, outcome.fit.theta, 0, False), sites)[0])


def main(arguments: list[str]) -> None:
    if arguments:
        print(json.dumps(measure(arguments[0])))
        return
    print(f"DATA-1 (standard deviation 2), {SITES} × {ROWS}, preset 'paper', one core")
    goal = None
    for course in COURSES:
        row = own_process.answer(__spec__.name, course, cores=1)
        goal = row["objective"] if goal is None else goal
        print(f"{course}: {row['rounds']} rounds, {row['seconds']:.1f} s, objective {row['objective']:.1f}", flush=True)
        if course != "authors" and row["objective"] >= goal:
            print(f"a better objective in 1/{THEIRS / row['seconds']:.0f} of the seconds of the authors' own code, "
                  f"compilation included, in 1/{THEIRS / row['compiled']:.0f} where all is compiled")
            return


if __name__ == "__main__":
    main(sys.argv[1:])
