"""What secure sums cost: rounds of one study with masks and without, all parties in this process, in turns.

    python -m fedci.benchmark.cost.masking_cost [--sites 10] [--rows 200] [--repeats 10]

The model `paper` with a network of about 5000 weights. The time is that of all parties together; on a network
the sites work side by side, and each sum takes one exchange more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

NAMES = [f"x{k}" for k in range(20)]
TRUNK = (64, 56)
"""With 20 covariates: p ≈ 5000."""


def round_seconds(sites: int, rows: int, secure: bool, rounds: int) -> tuple[list[float], int]:
    """(CPU seconds of each round but the first, which compiles; parameters)."""
    from fedci import FedCI, Source, Study

    study = Study(treatment="w", outcome="y", covariates=NAMES, preset="classic", diagnostics={"enabled": False},
                  policy={"name": "simulation", "secure_sum": secure},
                  options={"model": {"mean": {"kind": "network", "trunk": TRUNK}}, "prediction": {"draws": 2},
                           "optimiser": {"rounds": rounds + 1}})
    at: list[float] = []
    sources = [Source(f"site-{s}", _people(rows, s)) for s in range(sites)]
    fit = FedCI(study).fit(sources, progress=lambda _: at.append(time.process_time())).outcome.fit
    return [later - earlier for earlier, later in pairwise(at)], fit.theta.size


def _people(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(rows, len(NAMES))), np.arange(rows) % 2
    return pd.DataFrame(x, columns=NAMES).assign(w=w, y=x[:, 0] + w + rng.normal(size=rows))


def measure(sites: int, rows: int, repeats: int) -> dict[str, Any]:
    """Medians over two fits of each kind taken in turns, so that whatever else the machine does falls on both."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(2):
        for secure in seconds:
            more, parameters = round_seconds(sites, rows, secure, repeats)
            seconds[secure] += more
    plain, masked = (statistics.median(seconds[secure]) for secure in (False, True))
    return {"sites": sites, "rows": rows, "parameters": parameters, "plain": plain, "masked": masked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=10)
    figures = measure(**vars(parser.parse_args()))
    more = figures["masked"] - figures["plain"]
    print(f"{figures['sites']} sites of {figures['rows']} rows, {figures['parameters']} parameters: a round takes "
          f"{1e3 * figures['plain']:.1f} ms in the clear and {1e3 * figures['masked']:.1f} ms masked: "
          f"{1e3 * more:.1f} ms or {100 * more / figures['plain']:.1f} % more, "
          f"{1e3 * more / figures['sites']:.2f} ms for each site")


if __name__ == "__main__":
    main()
