"""`make bench`: what a fit costs. Prints a table; nothing here is a timed test.

    evaluation   one objective and gradient over five sites, messages included, after compilation
    fit          the whole study, with compilation (cold: a process of its own) and without (warm: fitted again)
    peak         resident memory of the cold process

Every size runs in a process of its own, pinned to one core for the evaluation column if asked (`--cores 1`).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from fedci.benchmark.cost import own_process

if TYPE_CHECKING:
    from fedci import FedCI, Result, Source, Study
    from fedci.model.family import Ask, Sums
    from fedci.site.site import Site

Value = TypeVar("Value")

SIZES = (50, 200, 800, 2000)
SITES = 5
ONCE = 500
"""Rows above which one fit of five rounds, and 32 draws of the effects, is enough to wait for."""


def measure(rows: int, rounds: int | None) -> dict[str, Any]:
    """One cold fit, one warm fit and a mean evaluation for DATA-1 with `rows` per site."""
    start = time.perf_counter()
    from fedci import FedCI

    changes = {"optimiser": {"rounds": rounds}} if rounds else {}
    changes |= {"prediction": {"draws": 32}} if rows > ONCE else {}
    study, sources = data_1(rows, "classic", changes)
    loaded = time.perf_counter()
    result, sites = fitted(FedCI(study), sources)
    cold = warm = time.perf_counter()
    if rows <= ONCE:
        result, sites = fitted(FedCI(study), sources)
        warm = time.perf_counter()
    fit = result.outcome.fit
    return {"rows": rows, "ms per evaluation": 1e3 * seconds_per_evaluation(result),
            "fit, cold (s)": cold - loaded, "fit, warm (s)": warm - cold if rows <= ONCE else float("nan"),
            "import and data (s)": loaded - start,
            "rounds": len(fit.rounds), "verdict": fit.verdict,
            "MB per site": sum(t.sent + t.received for t in result.traffic.values()) / SITES / 1e6,
            "peak (MiB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def data_1(rows: int, preset: str, changes: dict[str, Any], 
           reading: Literal["variance", "std"] = "variance") -> tuple[Study, list[Source]]:
    """(study, sources) of DATA-1 with `rows` a site."""
    from fedci import Source, Study
    from fedci.synthetic.datasets import Sizes, synthetic

    splits = synthetic("DATA-1", 0, reading=reading, sizes=Sizes(SITES, train=rows, test=1, validation=1))
    study = Study(treatment="w", outcome="y", covariates=splits[0].train.names, policy="simulation", preset=preset,
                  options=changes, diagnostics={"enabled": False})
    return study, [Source(f"site-{s}", split.train.frame()) for s, split in enumerate(splits)]


def fitted(estimator: FedCI, sources: Sequence[Source]) -> tuple[Result, dict[str, Site]]:
    """(the result, its sites as they stand after the fit)."""
    sites = estimator.sites([source.read(estimator.study) for source in sources])
    return estimator.fit_sites(sites), sites


def seconds_per_evaluation(result: Result) -> float:
    """The median round of a fit that was compiled before: draws, a message to and from each site, data-free terms."""
    at = [step.seconds for step in result.outcome.fit.rounds]
    return statistics.median(later - earlier for earlier, later in pairwise(at))


def came_to(steps: Generator[Ask, Sums, Value], sites: Mapping[str, Site]) -> Value:
    """What steps of a fit come to over the rows of these sites, outside the course of their study: for judges, who see
    all rows."""
    ready = [site.people.ready for _, site in sorted(sites.items())]
    try:
        ask = next(steps)
        while True:
            answers = [part.model.answer(ask.name, ask.arrays, part.rows, None) for part in ready]
            parts = [answer.sums for answer in answers if answer is not None]
            ask = steps.send({name: np.asarray(sum(np.asarray(part[name]) for part in parts)) for name in parts[0]})
    except StopIteration as done:
        return done.value


def main(arguments: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.cost.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=SIZES, help="rows per site")
    parser.add_argument("--cores", type=int, help="pin each run to so many cores")
    parser.add_argument("--rounds", type=int, help="cap the rounds (for the large sizes)")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measure(options.one, options.rounds)))
        return
    print(f"DATA-1, {SITES} sites, d = 20, preset 'classic', {options.cores or len(os.sched_getaffinity(0))} core(s)")
    for position, rows in enumerate(options.rows):
        rounds = options.rounds or (5 if rows > ONCE else None)
        row = own_process.answer(__spec__.name, "--one", str(rows), *(["--rounds", str(rounds)] if rounds else []),
                                 cores=options.cores)
        if position == 0:
            print(" | ".join(row))
        print(" | ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
