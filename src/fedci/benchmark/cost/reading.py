"""What reading a large table costs: `python -m fedci.benchmark.cost.reading FOLDER [ROWS]` writes a Parquet file of
twenty columns there, and reads it as a site does, in a process of its own.

Prints seconds and the largest memory of that process: from a file to checked arrays (`Source.read`).
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from fedci import Source, Study
from fedci.benchmark.cost import own_process

ROWS, COVARIATES, GROUP = 10_000_000, 18, 500_000
ONCE = "--read"


def write(path: Path, rows: int) -> None:
    """Twelve numbers, four columns of 0 and 1, a categorical in words, one with gaps; arm and outcome."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{k}" for k in range(12)] + [f"b{k}" for k in range(4)] + ["stage", "gaps", "w", "y"]
    rng, writer = np.random.default_rng(0), None
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        parts = [pa.array(rng.standard_normal(n)) for _ in range(12)]
        parts += [pa.array(rng.integers(0, 2, n)) for _ in range(4)]
        parts += [pa.array(np.array(["A", "B", "C"])[rng.integers(0, 3, n)]).dictionary_encode(),
                  pa.array(rng.standard_normal(n), mask=rng.uniform(size=n) < 0.1),
                  pa.array(rng.integers(0, 2, n)), pa.array(rng.standard_normal(n))]
        table = pa.table(parts, names=names)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def study() -> Study:
    covariates: dict[str, dict[str, object]] = {f"x{k}": {} for k in range(12)}
    covariates |= {f"b{k}": {"type": "binary"} for k in range(4)}
    covariates |= {"stage": {"type": "categorical", "levels": ["A", "B", "C"]}, "gaps": {"missing": "impute"}}
    return Study(treatment="w", outcome="y", covariates=covariates, policy="simulation")


def read(path: Path) -> dict[str, float]:
    start = time.perf_counter()
    table = Source("here", path).read(study())
    return {"rows": table.rows, "seconds": round(time.perf_counter() - start, 1),
            "GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}


def main(folder: str, rows: int = ROWS) -> None:
    path = Path(folder) / f"rows-{rows}.parquet"
    if not path.exists():
        write(path, rows)
    print(json.dumps(own_process.answer(__spec__.name, ONCE, str(path))))


if __name__ == "__main__":
    if sys.argv[1] == ONCE:
        print(json.dumps(read(Path(sys.argv[2]))))
    else:
        main(sys.argv[1], *map(int, sys.argv[2:3]))
