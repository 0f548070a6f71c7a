"""`fedci benchmark`: what was asked, checked; the grid with progress; tables and figures of what is on disk."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedci.benchmark.pages import benchmark_page
from fedci.benchmark.run import methods, runner
from fedci.benchmark.run.cells import MODES, Cell
from fedci.benchmark.run.runner import Plan, Task, Told
from fedci.benchmark.run.suites import NAMES, Choice, Parameters, Reading, suite
from fedci.errors import OutputError, UsageError

QUICK = ("FedCI", "BART", "X-Learner", "R-Learner", "CausalForestDML", "GP T-learner", "ridge T-learner", "oracle")
COST = {"FedCI (paper)": 170.0, "FedCI (paper, no inter-dependency)": 170.0, "FedCI": 60.0,
        "FedCI (no inter-dependency)": 50.0, "OrthoRF": 200.0, "OrthoRF (global residuals)": 200.0, "CEVAE": 60.0,
        "ridge T-learner": 0.3, "GP T-learner": 2.0, "oracle": 0.3}
USUAL = 25.0
"""Seconds of a task, so that the time left is right before every method has had its turn."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command line."""

    datasets: Sequence[str]
    methods: str | None = None
    replications: int = 10
    slow_replications: int = runner.FEW
    out: Path = Path("benchmark-out")
    sources: str | None = None
    modes: str = ",".join(MODES)
    reading: str = "variance"
    parameters: str = "once"
    rows: int = 50
    ihdp: Path | None = None
    ihdp_missing: Path | None = None
    seed: int = 0
    jobs: int = 1
    retry: bool = False
    again: bool = False
    no_imputation: bool = False


def quick(asked: Asked) -> Asked:
    """A look within five minutes on two cores: one replication of data-1 by the fast methods."""
    return replace(asked, datasets=["data-1"], methods=asked.methods or ",".join(QUICK), replications=1,
                   jobs=max(asked.jobs, min(2, os.cpu_count() or 1)))


def listing() -> str:
    """Methods, with what is missing, and data sets."""
    lines = ["methods:"]
    for name in methods.NAMES:
        lines.append(f"  {methods.slug(name):<36}{methods.missing_package(name) or 'ready'}")
    return "\n".join([*lines, "data sets:", *(f"  {name}" for name in NAMES)])


def benchmark(asked: Asked, quiet: bool = False) -> None:
    """Run what is missing, then write tables and figures of all that is there."""
    plan = planned(asked)
    out = _folder(asked.out)
    done = set() if asked.again else runner.finished(out, asked.retry)
    todo = runner.tasks(plan, done)
    runner.note_run(out, command_line(asked), asked.seed)
    try:
        with _progress(todo, quiet) as finish:
            runner.run(todo, out, asked.jobs, finish)
    except KeyboardInterrupt:
        print(f"What is finished is kept in '{out}': the same command goes on from there.", file=sys.stderr)
        raise
    benchmark_page.write_tables(out)
    print(f"{out / 'tables.md'}: tables; {out / 'figures'}: figures; {out / runner.CELLS}: the rows behind them")


def command_line(asked: Asked) -> str:
    """The command that asks for the same: what differs from the defaults."""
    words = ["fedci", "benchmark", *(word for name in asked.datasets for word in ("--dataset", name))]
    for option in fields(asked):
        value = getattr(asked, option.name)
        if option.name != "datasets" and value != option.default:
            words += [f"--{option.name.replace('_', '-')}"] + [str(value)] * (value is not True)
    return shlex.join(words)


def planned(asked: Asked) -> Plan:
    """Everything that can be wrong with the call is found here, before anything runs."""
    modes = tuple(asked.modes.split(","))
    for mode in modes:
        if mode not in MODES:
            raise UsageError(f"--modes {asked.modes}: {mode!r} is none of {', '.join(MODES)}")
    reading: Reading = _one_of("--reading", asked.reading, get_args(Reading))
    parameters: Parameters = _one_of("--parameters", asked.parameters, get_args(Parameters))
    choices = [Choice(name=name, reading=reading, parameters=parameters, rows=asked.rows,
                      folder=_ihdp_folder(asked, name)) for name in asked.datasets]
    for choice in choices:
        suite(choice).load(0)
    return Plan(choices=choices, methods=_methods(asked.methods), replications=asked.replications,
                slow_replications=asked.slow_replications, modes=modes, counts=_counts(asked.sources), seed=asked.seed,
                imputation=not asked.no_imputation)


def _ihdp_folder(asked: Asked, name: str) -> str | None:
    chosen = asked.ihdp_missing if name == "ihdp-missing" else asked.ihdp
    return str(chosen) if chosen else None


def _one_of(option: str, value: str, known: Sequence[Any]) -> Any:
    """The value, if it is known."""
    if value not in known:
        raise UsageError(f"{option} {value}: needs {' or '.join(known)}")
    return value


def _methods(asked: str | None) -> list[str]:
    """All of them, where a missing package becomes a row that says so; named ones must be installed."""
    if asked is None:
        return [name for name in methods.NAMES if name not in methods.ABLATIONS | methods.GAPS]
    names = [methods.named(text) for text in asked.split(",") if text]
    missing = [text for text in map(methods.missing_package, names) if text]
    if missing:
        raise UsageError(" ".join(missing))
    return names


def _counts(asked: str | None) -> tuple[int, ...] | None:
    if asked is None:
        return None
    try:
        return tuple(int(text) for text in asked.split(","))
    except ValueError:
        raise UsageError(f"--sources {asked}: needs numbers separated by commas, such as 1,3,5") from None


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise OutputError(f"the folder '{out}' cannot be made: choose another with --out") from None
    return out


@contextmanager
def _progress(todo: Sequence[Task], quiet: bool) -> Iterator[Told]:
    if quiet or not todo:
        yield lambda task, rows: None
        return
    bar = Progress(BarColumn(bar_width=20), TextColumn("{task.fields[done]}/{task.fields[all]}"), TimeElapsedColumn(),
                   TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.description}"),
                   console=Console(stderr=True))
    shown = bar.add_task("starting", total=sum(map(_cost, todo)), done=0, all=len(todo))
    finished = 0

    def finish(task: Task, rows: runner.Rows) -> None:
        nonlocal finished
        finished += 1
        failed = sum(isinstance(row, Cell) and bool(row.failed) for row in rows)
        words = task.title + (f": {failed} of its cells failed" if failed else "")
        bar.update(shown, advance=_cost(task), done=finished, description=words)

    with bar:
        yield finish


def _cost(task: Task) -> float:
    return COST.get(task.method, USUAL) * len(task.counts)
