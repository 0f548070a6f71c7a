"""What secure sums cost: rounds of one study with masks and without, all parties in this process, in turns.

    python -m fedci.benchmark.cost.masking_cost [--sites 10] [--rows 200] [--repeats 10]

The model `paper` with a network of about 5000 weights. The time is that of all parties together; on a network
the sites work side by side, and each sum takes one exchange more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from fedci.coordinator.talk import Talk
    from fedci.model.family import Rules

NAMES = [f"x{k}" for k in range(20)]
TRUNK = (64, 56)
"""With 20 covariates: p ≈ 5000."""


def prepared(sites: int, rows: int, secure: bool) -> tuple[Talk, Rules]:
    """(talk, rules) of a study whose fit is about to begin."""
    from fedci import Source, Study
    from fedci.coordinator import coordinator
    from fedci.coordinator import masked_sums as masks
    from fedci.coordinator.talk import PlainSums, Talk
    from fedci.protocol.engine import InProcessEngine
    from fedci.site.site import Site

    frames = [_people(rows, seed) for seed in range(sites)]
    study = Study(treatment="w", outcome="y", covariates=NAMES, preset="classic",
                  policy={"name": "simulation", "secure_sum": secure},
                  options={"model": {"mean": {"kind": "network", "trunk": TRUNK}}})
    local = {f"site-{s}": Site(study, Source(f"site-{s}", frame).read(study)) for s, frame in enumerate(frames)}
    talk, options = Talk(InProcessEngine(local), "bench"), study.fit_options()
    coordinator.handshake(talk, study, options)
    sums = masks.agree(talk) if secure else PlainSums()
    layout = coordinator.agree_units(talk, study, options)
    return talk.on(coordinator.terms_of(layout, study, sums)), coordinator.rules_of(layout, options, 0)


def _people(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(rows, len(NAMES))), np.arange(rows) % 2
    return pd.DataFrame(x, columns=NAMES).assign(w=w, y=x[:, 0] + w + rng.normal(size=rows))


def measure(sites: int, rows: int, repeats: int) -> dict[str, Any]:
    """Medians of rounds taken in turns, so that whatever else the machine does falls on both."""
    from fedci.protocol import rounds

    both = {secure: prepared(sites, rows, secure) for secure in (False, True)}
    talk, rules = both[False]
    theta = np.asarray(talk.follow(rounds.start(rules))[0])
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for repeat in range(repeats + 1):
        for secure, (talk, rules) in both.items():
            start = time.process_time()
            talk.follow(rounds.evaluation(rules, rounds.begin(rules, theta)))
            if repeat:  # the first compiles
                seconds[secure].append(time.process_time() - start)
    plain, masked = (statistics.median(seconds[secure]) for secure in (False, True))
    return {"sites": sites, "rows": rows, "parameters": theta.size, "plain": plain, "masked": masked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=10)
    found = measure(**vars(parser.parse_args()))
    more = found["masked"] - found["plain"]
    print(f"{found['sites']} sites of {found['rows']} rows, {found['parameters']} parameters: a round takes "
          f"{1e3 * found['plain']:.1f} ms in the clear and {1e3 * found['masked']:.1f} ms masked: "
          f"{1e3 * more:.1f} ms or {100 * more / found['plain']:.1f} % more, "
          f"{1e3 * more / found['sites']:.2f} ms for each site")


if __name__ == "__main__":
    main()
