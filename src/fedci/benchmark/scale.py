"""`python -m fedci.benchmark.scale 10x1000 10x10000`: one fit for each size, what it cost and how near it came.

DATA-1 (d = 20) with so many sites × rows; each size in a process of its own, so that memory is its own. Error is √PEHE
(P2) over 400 new people of each site; `to 0.1` counts the rounds until the objective was within 0.1 nat a site of its
best. On a GPU nothing changes but JAX's own installation.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

NEW = 400


def measure(sites: int, rows: int, options: dict) -> dict:
    """One fit in this process, with compilation."""
    import jax
    import numpy as np

    from fedci import FedCI, Source, Study
    from fedci.datasets import Sizes, synthetic

    splits = synthetic("DATA-1", 0, sizes=Sizes(sites, train=rows, test=NEW, validation=1))
    study = Study(treatment="w", outcome="y", covariates=splits[0].train.names, policy="simulation", options=options,
                  diagnostics={"enabled": False})
    sources = [Source(f"site-{s:03}", split.train.frame()) for s, split in enumerate(splits)]
    start = time.perf_counter()
    result = FedCI(study).fit(sources)
    seconds, fit = time.perf_counter() - start, result.outcome.fit
    squares = [np.mean((result.effect(split.test.frame(), site=source.name) - split.test.cate) ** 2)
               for source, split in zip(sources, splits, strict=True)]
    best = np.maximum.accumulate([one.objective for one in fit.rounds])
    times = [one.seconds for one in fit.rounds]
    return {"sites": sites, "rows": rows, "seconds": seconds, "a round": float(np.median(np.diff(times))),
            "rounds": len(times), "to 0.1": int(np.argmax(best > best[-1] - 0.1 * sites)) + 1, "verdict": fit.verdict,
            "error": float(np.sqrt(np.mean(squares))),
            "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            "MB a site": sum(t.sent + t.received for t in result.traffic.values()) / sites / 1e6,
            "device": jax.devices()[0].device_kind}


def _in_own_process(size: str, options: str) -> dict:
    done = subprocess.run([sys.executable, "-m", "fedci.benchmark.scale", "--one", size, "--options", options],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.scale", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", default=["10x1000"], help="SITESxROWS")
    parser.add_argument("--options", default="{}", help="changes to the preset, as JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    told = parser.parse_args(arguments)
    if told.one:
        print(json.dumps(measure(*map(int, told.one.split("x")), json.loads(told.options))))
        return
    for number, size in enumerate(told.sizes):
        row = _in_own_process(size, told.options)
        if not number:
            print("| " + " | ".join(row) + " |\n|" + "---|" * len(row))
        shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
        print("| " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
