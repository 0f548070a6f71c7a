"""What a network costs: `python -m fedci.benchmark.cost.network_cost DIR [SITES]` runs a study over real processes.

    latency of a round = its seconds − Σ over its exchanges of the slowest site's own seconds

All parties share this machine's cores, so that the figure is an upper bound of what separate machines would see.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedci.files import check_folder
from fedci.network import kit, operations, rehearsal
from fedci.network.provision import COORDINATOR, new_network

OPTIONS = {"optimiser": {"rounds": 40, "tolerance": 0.0}, "prediction": {"draws": 16}}


def measure(out: Path, count: int, say: Callable[[str], None] = print) -> float:
    """The median latency of a round, in seconds."""
    names = [f"site-{number:02d}" for number in range(count)]
    study = rehearsal.make_study(sites=names, options=OPTIONS)
    rehearsal.make_people(out, study, people=60, twice=5)
    new_network(study, (), "localhost", out / "kits", rehearsal.free_port())
    began = time.monotonic()
    with rehearsal.sites(out, names):
        operations.run_coordinator(out / "kits" / COORDINATOR, study, out / "result", lambda text: None, deadline=300.0,
                                wait=300.0)
    whole = time.monotonic() - began
    rounds, own = _seconds(out, names)
    latency = float(np.median(rounds - own))
    say(f"{count} sites: round {np.median(rounds):.3f} s, of which the slowest site computes {np.median(own):.3f} s; "
        f"latency {latency:.3f} s a round of two exchanges; {whole:.0f} s in all")
    return latency


def _seconds(out: Path, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """([rounds − 1] seconds of each round but the first, which compiles; and of its slowest sites)."""
    seen, _ = kit.events(out / "kits" / COORDINATOR / kit.RUN)
    rounds = np.diff([event["seconds"] for event in seen if event["event"] == "round"])
    spent = {kind: _slowest(out, names, kind) for kind in ("AskStatistics", "PullBack")}
    # the start and the effects ask for statistics as well: the fit's are those in between
    return rounds, spent["AskStatistics"][2:len(rounds) + 2] + spent["PullBack"][1:len(rounds) + 1]


def _slowest(out: Path, names: Sequence[str], kind: str) -> np.ndarray:
    """[exchanges] seconds of the slowest site in each exchange of a kind."""
    each = []
    for name in names:
        seen, _ = kit.events(out / "kits" / name / kit.RUN)
        each.append([event["seconds"] for event in seen
                     if event["event"] == "answered" and event["request"] == kind])
    return np.max(each, axis=0)


def main() -> None:
    out = check_folder(sys.argv[1], force=False)
    for count in map(int, sys.argv[2:] or ("3", "10")):
        measure(out / f"{count}-sites", count)


if __name__ == "__main__":
    main()
