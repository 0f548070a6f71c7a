"""A live line for a fit: round, objective, gradient norm, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from fedci.federation.coordinator import Round


@contextmanager
def round_progress(quiet: bool = False, console: Console | None = None) -> Iterator[Callable[[Round], None] | None]:
    """Within it, a callable for `FedCI.fit(progress=…)`; quiet: None. Off a terminal one line is left at the end."""
    if quiet:
        yield None
        return
    bar = Progress(BarColumn(bar_width=12), TextColumn("round {task.completed}/{task.total}"),
                   TextColumn("objective {task.fields[objective]:.2f}"),
                   TextColumn("|gradient| {task.fields[norm]:.1e}"), TextColumn("{task.fields[spent]} s,"),
                   TextColumn("at most {task.fields[left]} s left"), console=console or Console(stderr=True))
    show = _Show(bar)
    try:
        yield show
    finally:
        if show.task is not None:
            bar.stop()


class _Show:
    """Starts the bar with the first round: what fails before it leaves one line, its error."""

    def __init__(self, bar: Progress):
        self.bar, self.task = bar, None

    def __call__(self, now: Round) -> None:
        left = now.seconds / now.number * (now.cap - now.number)
        seen = {"completed": now.number, "objective": now.objective, "norm": now.gradient_norm,
                "spent": f"{now.seconds:.0f}", "left": f"{left:.0f}"}
        if self.task is None:
            self.task = self.bar.add_task("fit", total=now.cap, **seen)
            self.bar.start()
        self.bar.update(self.task, **seen)
