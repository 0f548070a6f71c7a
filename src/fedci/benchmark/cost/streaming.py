"""Effects for many new people: seconds and memory of `fedci predict`, each size in a process of its own.

    python -m fedci.benchmark.cost.streaming 10000 100000 1000000

A study of DATA-1 (5 × 200, d = 20, preset `default`) is fitted and saved once; new people have standard normal
covariates and lie in a Parquet file; effects go to a CSV. Memory is the most the process held, its packages included.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fedci.benchmark.cost import own_process

SITES, ROWS = 5, 200
CHUNK = 100_000


def fitted(folder: Path) -> list[str]:
    """A study's result in `folder`; its covariates."""
    from fedci import FedCI, Source, Study
    from fedci.synthetic.datasets import Sizes, synthetic

    splits = synthetic("DATA-1", 0, sizes=Sizes(SITES, train=ROWS, test=1, validation=1))
    names = splits[0].train.names
    study = Study(treatment="w", outcome="y", covariates=names, policy="simulation", diagnostics={"enabled": False})
    FedCI(study).fit([Source(f"s{k}", split.train.frame()) for k, split in enumerate(splits)]).save(folder)
    return names


def people(path: Path, names: list[str], count: int) -> None:
    """So many new people, written piece by piece."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    rng, schema = np.random.default_rng(0), pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, count, CHUNK):
            x = rng.standard_normal((min(CHUNK, count - start), len(names)))
            writer.write_table(pa.table(dict(zip(names, x.T, strict=True)), schema))


def predicted(result: str, table: str, out: str) -> dict[str, Any]:
    """In this process: seconds and memory of the command's work."""
    import jax

    from fedci.result.prediction import predict_file
    from fedci.result.result import Result

    start = time.perf_counter()
    written = predict_file(Result.load(result), table, Path(out))
    return {"people": written.people, "seconds": time.perf_counter() - start,
            "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            "device": str(jax.devices()[0].device_kind)}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.cost.streaming",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("people", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(predicted(*given.one)))
        return
    with tempfile.TemporaryDirectory() as place:
        names = fitted(Path(place) / "result")
        print("| people | seconds | GiB | device |\n|---|---|---|---|")
        for count in given.people:
            table, out = Path(place) / "new.parquet", Path(place) / f"effects-{count}.csv"
            people(table, names, count)
            places = [str(Path(place) / "result"), str(table), str(out)]
            row = own_process.answer(__spec__.name, "--one", *places)
            print(f"| {row['people']:,} | {row['seconds']:.1f} | {row['GiB']:.2f} | {row['device']} |", flush=True)
            out.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
