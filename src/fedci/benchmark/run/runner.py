"""Runs a grid of methods, replications and data sets; what is finished is on disk and never repeated.

A task is one method on one replication. Its rows are added to cells.csv when it is done; a run that was interrupted
goes on with the tasks that have none. Each worker is a process of its own on a core of its own, so a method that takes
its process down costs one row that says so.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fedci.benchmark.run import cells, methods
from fedci.benchmark.run.baselines import LEARNERS
from fedci.benchmark.run.cells import Cell, SiteEffect
from fedci.benchmark.run.suites import Choice, Suite, suite
from fedci.errors import UsageError
from fedci.model.programs import FRESH
from fedci.result.versions import versions

CELLS, EFFECTS, RUNS = "cells.csv", "effects.csv", "run.json"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
DIED = "the process died (out of memory, or a crash of the package)"
FEW = 3
"""Replications of a slow method, unless more are asked for."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run."""

    choices: Sequence[Choice]
    methods: Sequence[str]
    replications: int = 10
    slow_replications: int = FEW
    modes: Sequence[str] = cells.MODES
    counts: Sequence[int] | None = None
    """Numbers of sources; None: those of each data set's tables."""
    seed: int = 0
    """Of the methods; the data have their own."""
    imputation: bool = True
    """Whether FedCI is scored under P1, which takes about as long as the rest."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One method on one replication of one data set."""

    choice: Choice
    method: str
    replication: int
    counts: tuple[int, ...]
    modes: tuple[str, ...]
    seed: int
    imputation: bool = True

    @property
    def title(self) -> str:
        return f"{self.choice.label}, {self.method}, replication {self.replication + 1}"


Rows = list[Cell | SiteEffect]
Told = Callable[[Task, Rows], None]


def tasks(plan: Plan, finished: set[tuple[Any, ...]]) -> list[Task]:
    """What is left to do, replication by replication, so that an early end still compares like with like."""
    missing = [_task(plan, choice, method, replication, finished) for replication in range(plan.replications)
               for choice in plan.choices for method in plan.methods]
    return [task for task in missing if task is not None]


def _task(plan: Plan, choice: Choice, method: str, replication: int, finished: set[tuple[Any, ...]]) -> Task | None:
    data = suite(choice)
    slow = method in LEARNERS and LEARNERS[method].slow
    limits = [plan.slow_replications if slow else None, data.replications]
    beyond = any(limit is not None and replication >= limit for limit in limits)
    if method == methods.ORACLE and data.form is None or beyond:
        return None
    modes = tuple(mode for mode in methods.modes_of(method) if mode in plan.modes and mode in data.modes)
    counts = tuple(count for count in _counts(plan, data) if any(
        (choice.label, method, mode, count, replication) not in finished for mode in modes))
    return Task(choice=choice, method=method, replication=replication, counts=counts, modes=modes, seed=plan.seed,
                imputation=plan.imputation) if counts and modes else None


def _counts(plan: Plan, data: Suite) -> Sequence[int]:
    counts = plan.counts or data.counts
    if not all(1 <= count <= data.most for count in counts):
        raise UsageError(f"--sources {' '.join(map(str, counts))}: {data.label} has 1 to {data.most} sources")
    return counts


def finished(out: Path, retry: bool) -> set[tuple[Any, ...]]:
    """Keys of the rows on disk; with `retry`, without those that failed."""
    return {_key(cell) for cell in cells.latest(cells.read(out / CELLS)) if not (retry and cell.failed)}


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell.dataset, cell.method, cell.mode, cell.sources, cell.replication


def run(todo: Sequence[Task], out: Path, jobs: int, listener: Told = lambda task, rows: None) -> None:
    """Do the tasks, `jobs` at a time; rows go to disk as they come, and `listener` hears of every finished task."""
    for task, rows in _performed(todo, jobs):
        cells.append(out / CELLS, [row for row in rows if isinstance(row, Cell)])
        cells.append(out / EFFECTS, [row for row in rows if isinstance(row, SiteEffect)])
        listener(task, rows)


def perform(task: Task) -> Rows:
    return list(methods.cells(task.method, suite(task.choice), task.replication, task.counts, task.modes, task.seed,
                              task.imputation))


def _performed(todo: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Rows]]:
    queue, workers = list(reversed(todo)), []
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    try:
        with _for_workers(jobs > 1):
            for number in range(min(jobs, len(queue))):
                core = cores[number % len(cores)] if jobs > 1 and cores else None
                workers.append(Worker(core, queue.pop()))
            while workers:
                for worker in _ready(workers):
                    yield worker.task, worker.rows()
                    workers.remove(worker)
                    if queue:
                        workers.append(worker.next(queue.pop()))
                    else:
                        worker.end()
    finally:
        for worker in workers:
            worker.end()


@contextmanager
def _for_workers(one_thread: bool) -> Iterator[None]:
    """Workers compile anew, so that seconds are comparable; side by side they get one numeric thread each: more would
    only wait for each other."""
    changes = FRESH | (dict.fromkeys(THREADS, "1") if one_thread else {})
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


MAPS = 40_000
"""Places in a worker's memory map after which it forgets what it has compiled."""


class Worker:
    """A process that does one task after the other."""

    def __init__(self, core: int | None, task: Task):
        context = multiprocessing.get_context("spawn")
        self.core = core
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, core), daemon=True)
        self.process.start()
        theirs.close()
        self._give(task)

    def _give(self, task: Task) -> None:
        self.task = task
        self.pipe.send(task)

    def rows(self) -> Rows:
        """Of the task it has; if the process died, failed rows."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            task = self.task
            return [Cell(dataset=task.choice.label, method=task.method, mode=mode, sources=count,
                         replication=task.replication, protocol="P2", failed=DIED)
                    for count in task.counts for mode in task.modes]

    def next(self, task: Task) -> Worker:
        """Itself with another task, or its successor if it died."""
        try:
            if self.process.is_alive():
                self._give(task)
                return self
        except ConnectionError:
            pass
        self.end()
        return Worker(self.core, task)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _ready(workers: Sequence[Worker]) -> list[Worker]:
    heard = wait([worker.pipe for worker in workers])
    return [worker for worker in workers if worker.pipe in heard]


def _serve(pipe: Connection, core: int | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    if core is not None:
        os.sched_setaffinity(0, {core})
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(perform(task))
        _forget_compiled()


def _forget_compiled() -> None:
    """Compiled functions take places in the process's memory map, of which Linux gives 65,530: a long grid of many
    models and sizes would end there."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            many = sum(1 for _ in maps) > MAPS
    except OSError:
        return
    if many:
        import jax

        jax.clear_caches()


# --- what was run, for whoever reads the figures

PACKAGES = ("stochtree", "causalml", "xgboost", "econml", "scikit-learn", "torch", "pyro-ppl")


def note_run(out: Path, command: str, seed: int) -> None:
    """Add this run to run.json: command, versions, seed, machine. One folder holds figures of one seed."""
    path = out / RUNS
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    if runs and runs[-1]["seed"] != seed:
        raise UsageError(f"'{out}' holds figures made with --seed {runs[-1]['seed']}, not {seed}: choose another --out")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    runs.append({"command": command, "started": now, "seed": seed, "cores": os.cpu_count(),
                 "machine": platform.machine(), "versions": versions() | _benchmark_versions()})
    path.write_text(json.dumps({"runs": runs}, indent=1) + "\n", encoding="utf-8")


def _benchmark_versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
