"""`fedci network demo`: a coordinator and three sites as processes of their own on this machine, over mutual TLS.

People are planted twice between the sites; linkage must find them. At the end the result is compared with the same
study in one process on the rows that linkage kept: equal to 1e-10, or the command fails.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedci.bounded import npy_file
from fedci.errors import NumericalError
from fedci.estimator import FedCI
from fedci.files import check_folder
from fedci.network import kit, operations
from fedci.network.provision import COORDINATOR, new_network
from fedci.network.signals import ending
from fedci.result.result import Result
from fedci.site.floors import FILE as FLOORS
from fedci.site.floors import based_on, write_floors
from fedci.study.study import Study
from fedci.table.source import Source

SITES = ("lyon", "oslo", "turin")
PEOPLE, TWICE = 150, 20
TOLERANCE = 1e-10
"""Same sums in the same order give the same bits; the bound is the promise."""


def run_demo(out: Path, preset: str = "default", say: Callable[[str], None] = print) -> None:
    """All of it, below `out`, which must be new or empty."""
    began = time.monotonic()
    study = make_study(preset)
    tables = make_people(out, study)
    port = free_port()
    new_network(study, (), "localhost", out / "kits", port)
    say(f"kits       of {COORDINATOR}, {', '.join(SITES)}: {time.monotonic() - began:.1f} s")
    with sites(out) as running:
        operations.run_coordinator(out / "kits" / COORDINATOR, study, out / "result", say, deadline=120.0, wait=120.0)
        for process in running.values():
            process.wait(60)
    say(f"all        from start to result in {time.monotonic() - began:.1f} s")
    result = Result.load(out / "result")
    _say_costs(out, result, say)
    compare(out, study, tables, result, say)


def make_study(preset: str = "default", sites: Sequence[str] = SITES, policy: str | dict[str, Any] = "simulation",
               **changes: Any) -> Study:
    return Study(name="network demo", treatment="treated", outcome="score", covariates=["age", "severity", "weight"],
                 ids=("person",), sites=tuple(sites), policy=policy, preset=preset, **changes)


def make_people(out: Path, study: Study, people: int = PEOPLE, twice: int = TWICE) -> dict[str, pd.DataFrame]:
    """Each site's table in a folder of its own; `twice` people of each site are at the next one as well. Beside them
    the sites' own policy, which lets simulated people through."""
    rng = np.random.default_rng(7)
    tables = {}
    for number, site in enumerate(study.sites):
        x = rng.normal(size=(people, 3))
        w = (rng.uniform(size=people) < 1 / (1 + np.exp(-x[:, 1]))).astype(int)
        y = x[:, 0] + w * (1.0 + np.maximum(x[:, 1], 0)) + 0.5 * rng.normal(size=people)
        ids = [f"P{number:02d}{i:05d}" for i in range(people)]
        tables[site] = pd.DataFrame({"person": ids, "age": 50 + 10 * x[:, 0], "severity": x[:, 1],
                                     "weight": 70 + 12 * x[:, 2], "treated": w, "score": y})
    for site, after in zip(study.sites, (*study.sites[1:], study.sites[0]), strict=True):
        tables[after] = pd.concat([tables[after], tables[site].iloc[:twice]], ignore_index=True)
    for site, table in tables.items():
        (out / site).mkdir(parents=True, exist_ok=True)
        table.to_csv(out / site / "cohort.csv", index=False)
    study.write(out / "study.toml")
    write_floors(based_on("simulation", "people of a rehearsal, drawn at random"), out / FLOORS)
    return tables


@contextmanager
def sites(out: Path, names: Sequence[str] = SITES) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Every site's own command; whatever still runs at the end is stopped."""
    running = {}
    try:
        for place, site in enumerate(names):
            running[site] = start_site(out, site, place)
        yield running
    finally:
        for process in running.values():
            stop(process)


def start_site(out: Path, site: str, place: int = 0, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """On a core of its own, in turn: XLA's threads of several processes on the same cores wait for each other.
    It ends with this process, however that ends. `before`: words of a command that runs it elsewhere."""
    cores = sorted(os.sched_getaffinity(0))
    pinned = (f"import os; os.sched_setaffinity(0, {{{cores[place % len(cores)]}}}); "
              f"from fedci.network.tether import Tether; Tether({os.getpid()}).watch(); ")
    with (out / f"{site}.log").open("ab") as log:
        return subprocess.Popen([*before, sys.executable, "-c", pinned + "from fedci.cli.commands import main; main()",
                                 "site", "run", "--kit", str(out / "kits" / site), "--data",
                                 str(out / site / "cohort.csv"), "--store", str(out / site / "store"), "--policy",
                                 str(out / FLOORS)],
                                stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def stop(process: subprocess.Popen[bytes], seconds: float = 40.0) -> None:
    """As Ctrl-C would; it ends the engine's processes below it."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    if process.poll() is None:
        process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def kept_rows(out: Path, site: str, run: str) -> np.ndarray:
    return npy_file(out / "kits" / site / kit.RUN / f"kept-{run}.npy")


def compare(out: Path, study: Study, tables: dict[str, pd.DataFrame], result: Result,
            say: Callable[[str], None] = print) -> None:
    """NumericalError unless the networked result is that of one process on the rows linkage kept."""
    rows = {site: kept_rows(out, site, result.outcome.run) for site in tables}
    people = pd.concat([table["person"].iloc[rows[site]] for site, table in tables.items()])
    if people.duplicated().any() or set(people) != set(pd.concat(list(tables.values()))["person"]):
        raise NumericalError("linkage kept a person twice, or lost one")
    alone = study.model_copy(update={"ids": (), "sites": tuple(tables)})
    here = FedCI(alone).fit([Source(site, table.iloc[rows[site]].reset_index(drop=True))
                             for site, table in tables.items()])
    away = max(float(np.max(np.abs(result.outcome.fit.theta - here.outcome.fit.theta))),
               abs(result.ate().mean - here.ate().mean), abs(result.ate().sd - here.ate().sd),
               float(np.max(np.abs(_values(result) - _values(here)), initial=0.0)))
    say(f"linkage    left out {sum(result.outcome.excluded.values())} of {sum(map(len, tables.values()))} rows; every "
        f"person stays once")
    say(f"equality   networked and in one process differ by {away:.1e} at most (needs {TOLERANCE:g})")
    if not away <= TOLERANCE:
        raise NumericalError(f"the networked result differs from the one of one process by {away:g}")


def _values(result: Result) -> np.ndarray:
    """Of all diagnostics; −1 for one that is unknown."""
    verdicts = result.diagnostics.verdicts if result.diagnostics else ()
    return np.array([-1.0 if verdict.value is None else verdict.value for verdict in verdicts])


def _say_costs(out: Path, result: Result, say: Callable[[str], None]) -> None:
    seen, _ = kit.events(out / "kits" / COORDINATOR / kit.RUN)
    rounds = [event["seconds"] for event in seen if event["event"] == "round"]
    for phase, seconds in result.outcome.seconds.items():
        say(f"phase      {phase:<10} {seconds:6.2f} s")
    site = result.traffic[SITES[0]]
    exchanges = max(site.messages, 1)
    say(f"round      {np.median(np.diff(rounds)):.3f} s (median of {len(rounds)}, two exchanges each in the model "
        f"`shared`); {(site.sent + site.received) / exchanges / 1e3:.0f} kB per exchange and site")


def main() -> None:
    """`python -m fedci.network.rehearsal DIR [preset]`."""
    with ending():
        out = check_folder(sys.argv[1], force=False)
        run_demo(out, sys.argv[2] if len(sys.argv) > 2 else "default", lambda text: print(text, flush=True))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
