"""Live lines with the time left: the rounds of a fit, its effects, and people who are predicted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fedci.coordinator.coordinator import Round
from fedci.protocol.forecast import Clock
from fedci.protocol.requests import NO_REQUEST, REQUESTS


@contextmanager
def round_progress(quiet: bool = False, console: Console | None = None,
                   clock: Clock | None = None) -> Iterator[Callable[[Round], None] | None]:
    """Within it, a callable for `FedCI.fit(progress=…)`; quiet: None. Off a terminal one line is left at the end, and
    none of what fails before the first round. `clock` tells the time left."""
    if quiet:
        yield None
        return
    console = console or Console(stderr=True)
    bar = Progress(BarColumn(bar_width=12), TextColumn("{task.fields[line]}"), TimeElapsedColumn(), console=console)
    show = _Show(bar, clock)
    if console.is_terminal:
        bar.start()
    try:
        yield show
    finally:
        if console.is_terminal:
            bar.live.transient = not show.last
            bar.update(show.task, line=show.last)
            bar.stop()
        elif show.last:
            console.print(show.last, markup=False, highlight=False, soft_wrap=True)


class _Show:
    """One line: what is asked before the first round, then the rounds of each fit with the time they still take."""

    def __init__(self, bar: Progress, clock: Clock | None = None):
        self.bar, self.clock, self.what, self.last = bar, clock, "", ""
        self.first: Round | None = None
        self.began = 0.0
        """When the exchange in progress began, by the monotonic clock."""
        self.task = bar.add_task("fit", total=None, line="reading")

    def __call__(self, now: Round) -> None:
        if self.first is None or now.number < self.first.number:
            self.first = now
        some = "on some of the people, " if now.few else ""
        self.last = (f"{self.what}round {now.number}/{now.cap} {some}objective {now.objective:.2f} |gradient| "
                     f"{now.gradient_norm:.1e}")
        left = self.clock.left(now.number, now.seconds, now.objective, now.few) if self.clock is not None else ""
        self.bar.update(self.task, total=now.cap, completed=now.number, line=f"{self.last}{left}")

    def begin(self, what: str) -> None:
        """A fit of its own after the study's."""
        self.what, self.first = f"{what}: ", None
        self.bar.update(self.task, line=what)

    def watch(self, request: str, done: int, sites: int) -> None:
        """Called before every question: shown before the rounds, and after them with the time left; the first site
        compiles, so it is no measure."""
        row = REQUESTS.get(request, NO_REQUEST)
        if not row.words or (self.first is not None and not row.slow):
            return
        now = time.monotonic()
        self.began = now if done <= 1 else self.began
        left = "" if done < 2 else f", about {(now - self.began) / (done - 1) * (sites - done):.0f} s left"
        self.bar.update(self.task, line=f"{self.what}{row.words}: site {done + 1} of {sites}{left}")


@contextmanager
def count_progress(label: str, total: int | None, quiet: bool = False,
                   console: Console | None = None) -> Iterator[Callable[[int], None] | None]:
    """Within it, a callable that is told how many are done; quiet, and off a terminal, where nothing would be shown but
    an empty line: None."""
    console = console or Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with Progress(TextColumn(label), BarColumn(bar_width=20), TextColumn("{task.completed:,}"), TimeElapsedColumn(),
                  TextColumn("left"), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
