"""Live lines with the time left: the rounds of a fit, its effects, and people who are predicted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedci.federation.coordinator import Round

EFFECTS = ("AskEffects", "AskSharedEffects")


@contextmanager
def round_progress(quiet: bool = False, console: Console | None = None) -> Iterator[Callable[[Round], None] | None]:
    """Within it, a callable for `FedCI.fit(progress=…)`; quiet: None. Off a terminal one line is left at the end."""
    if quiet:
        yield None
        return
    bar = Progress(BarColumn(bar_width=12), TextColumn("{task.fields[what]}round {task.completed}/{task.total}"),
                   TextColumn("objective {task.fields[objective]:.2f}"),
                   TextColumn("|gradient| {task.fields[norm]:.1e}"), TextColumn("{task.fields[spent]} s,"),
                   TextColumn("{task.fields[left]}"), console=console or Console(stderr=True))
    show = _Show(bar)
    try:
        yield show
    finally:
        if show.task is not None:
            bar.stop()


class _Show:
    """Starts the bar with the first round: what fails before it leaves one line, its error."""

    def __init__(self, bar: Progress):
        self.bar, self.task, self.began, self.what = bar, None, None, ""

    def __call__(self, now: Round) -> None:
        left = now.seconds / now.number * (now.cap - now.number)
        seen = {"what": self.what, "completed": now.number, "objective": now.objective, "norm": now.gradient_norm,
                "spent": f"{now.seconds:.0f}", "left": f"at most {left:.0f} s left"}
        if self.task is None:
            self.task = self.bar.add_task("fit", total=now.cap, **seen)
            self.bar.start()
        self.bar.update(self.task, **seen)

    def begin(self, what: str) -> None:
        """A fit of its own after the study's."""
        self.what = f"{what}: "

    def watch(self, kind: str, done: int, sites: int) -> None:
        """After the rounds, each site makes its sums of effects; the first one compiles, so it is no measure."""
        if self.task is None or kind not in EFFECTS:
            return
        now = time.monotonic()
        self.began = now if done <= 1 else self.began
        left = "" if done < 2 else f", about {(now - self.began) / (done - 1) * (sites - done):.0f} s left"
        self.bar.update(self.task, left=f"effects of site {done + 1} of {sites}{left}")


@contextmanager
def working(label: str, quiet: bool = False, console: Console | None = None) -> Iterator[None]:
    """A line that moves and counts seconds, for work of which nobody knows how long it takes."""
    if quiet:
        yield
        return
    with Progress(SpinnerColumn(), TextColumn(label), TimeElapsedColumn(), console=console or Console(stderr=True),
                  transient=True) as bar:
        bar.add_task(label, total=None)
        yield


@contextmanager
def count_progress(label: str, total: int | None, quiet: bool = False,
                   console: Console | None = None) -> Iterator[Callable[[int], None] | None]:
    """Within it, a callable that is told how many are done; quiet: None."""
    if quiet:
        yield None
        return
    with Progress(TextColumn(label), BarColumn(bar_width=20), TextColumn("{task.completed:,}"), TimeElapsedColumn(),
                  TextColumn("left"), TimeRemainingColumn(), console=console or Console(stderr=True),
                  transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
