"""`python -m fedci.benchmark.cost.scale 10x1000 10x10000 --out DIR`: a fit of each size, its cost, how near it came.

DATA-1 (d = 20) with so many sites × rows; each size in a process of its own, so that memory is its own. Error is √PEHE
(P2) over 400 new people of each site; `to 0.1` counts the rounds until the objective was within 0.1 nat a site of its
best. `--peers` fits econml's forests to all the rows in one table beside it, and gives up after `--limit` seconds. On a
GPU nothing changes but JAX's own installation. `benchmark.pages.scale_page` makes the curves from what `--out` keeps.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedci.benchmark.cost import own_process

if TYPE_CHECKING:
    from fedci.synthetic.datasets import Split

NEW = 400
PEERS = {"CausalForestDML": "causal_forest_as_it_is", "DMLOrthoForest": "ortho_forest"}
"""By name, the adapter in `fedci.benchmark.learners.forests`."""
ASKED = 500
"""New people that DMLOrthoForest is asked about: it fits anew for each of them."""


def _data(sites: int, rows: int) -> list[Split]:
    from fedci.synthetic.datasets import Sizes, synthetic

    return synthetic("DATA-1", 0, sizes=Sizes(sites, train=rows, test=NEW, validation=1))


def measure(sites: int, rows: int, options: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(cost and error, each round) of one fit in this process, with compilation."""
    import jax
    import numpy as np

    from fedci import FedCI, Source, Study, __version__

    splits = _data(sites, rows)
    study = Study(treatment="w", outcome="y", covariates=splits[0].train.names, policy="simulation", options=options,
                  diagnostics={"enabled": False})
    sources = [Source(f"site-{s:03}", split.train.frame()) for s, split in enumerate(splits)]
    start = time.perf_counter()
    result = FedCI(study).fit(sources)
    seconds, fit, laps = time.perf_counter() - start, result.outcome.fit, result.outcome.seconds
    squares = [np.mean((result.effect(split.test.frame(), site=source.name) - split.test.cate) ** 2)
               for source, split in zip(sources, splits, strict=True)]
    whole = [evaluation for evaluation in fit.rounds if not evaluation.few]
    best, first = np.maximum.accumulate([evaluation.objective for evaluation in whole]), len(fit.rounds) - len(whole)
    lengths = np.diff([evaluation.seconds for evaluation in fit.rounds])
    row = {"sites": sites, "rows": rows, "seconds": seconds, "fit": laps["fit"], "effects": laps["effects"],
           "a round": float(np.median(lengths[max(first, 1):])), "rounds": len(fit.rounds), "first": first,
           "to 0.1": first + int(np.argmax(best > best[-1] - 0.1 * sites)) + 1, "verdict": fit.verdict,
           "error": float(np.sqrt(np.mean(squares))),
           "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
           "MB a site": sum(t.sent + t.received for t in result.traffic.values()) / sites / 1e6,
           "device": jax.devices()[0].device_kind, "cores": _cores(), "options": json.dumps(options),
           "fedci": __version__, "jax": jax.__version__}
    size = {"sites": sites, "rows": rows, "device": row["device"], "options": row["options"]}
    return row, [size | {"round": evaluation.number, "seconds": evaluation.seconds, "objective": evaluation.objective,
                         "few": int(evaluation.few)} for evaluation in fit.rounds]


def measure_peer(name: str, sites: int, rows: int) -> dict[str, Any]:
    """A forest on the rows of all sites in one table, with all cores; fitting and asking apart."""
    from importlib.metadata import version

    import numpy as np

    from fedci.benchmark.learners import forests

    splits = _data(sites, rows)
    x, w, y = (np.concatenate([getattr(split.train, part) for split in splits]) for part in ("x", "w", "y"))
    new = np.concatenate([split.test.x for split in splits])
    truth = np.concatenate([split.test.cate for split in splits])
    if name == "DMLOrthoForest":
        new, truth = new[:ASKED], truth[:ASKED]
    forests.JOBS = _cores()
    start = time.perf_counter()
    predict = getattr(forests, PEERS[name])(x, w, y, 0)
    fitted = time.perf_counter()
    error = float(np.sqrt(np.mean((predict(new).cate - truth) ** 2)))
    return {"method": name, "sites": sites, "rows": rows, "seconds": time.perf_counter() - start,
            "fit": fitted - start, "asked": len(truth), "error": error,
            "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "cores": _cores(),
            "econml": version("econml")}


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def keep(rows: list[dict[str, Any]], path: Path) -> None:
    """Appended to a table; a new one gets its header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerows({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}
                         for row in rows)


def show(row: dict[str, Any], header: bool) -> None:
    if header:
        print("| " + " | ".join(row) + " |\n|" + "---|" * len(row))
    shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
    print("| " + " | ".join(shown) + " |", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.cost.scale", description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", default=["10x1000"], help="SITESxROWS")
    parser.add_argument("--options", default="{}", help="changes to the preset, as JSON")
    parser.add_argument("--out", type=Path, help="a folder; what is measured is added to its tables")
    parser.add_argument("--peers", action="store_true", help="econml's forests too (extra benchmark)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a peer may take")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        sites, rows = map(int, given.one.split("x"))
        options = json.loads(given.options)
        print(json.dumps(measure_peer(given.peer, sites, rows) if given.peer else measure(sites, rows, options)))
        return
    for number, size in enumerate(given.sizes):
        row, rounds = own_process.answer(__spec__.name, "--one", size, "--options", given.options)
        show(row, not number)
        if given.out:
            keep([row], given.out / "fits.csv")
            keep(rounds, given.out / "rounds.csv")
    for number, (size, name) in enumerate((size, name) for size in given.sizes for name in PEERS if given.peers):
        row = own_process.answer(__spec__.name, "--one", size, "--peer", name, limit=given.limit)
        sites, rows = map(int, size.split("x"))
        row = row or {"method": name, "sites": sites, "rows": rows, "seconds": float("inf"), "fit": float("inf"),
                      "asked": 0, "error": float("nan"), "GiB": float("nan"), "cores": _cores(), "econml": ""}
        row |= {"limit": given.limit}
        show(row, not number)
        if given.out:
            keep([row], given.out / "peers.csv")


if __name__ == "__main__":
    main(sys.argv[1:])
