"""How commands speak: tables on a terminal for people, JSON for scripts. Names from files are text, never markup."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

if TYPE_CHECKING:
    from pathlib import Path

    from fedci.result.comparison import Comparison
    from fedci.result.result import Result
    from fedci.site.release import Release
    from fedci.table.proposal import Proposal


def as_json(value: Any) -> str:
    """JSON that every reader takes: NaN is null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def result_in_words(result: Result, folder: Path) -> str:
    """The effects, the diagnostics, and what to do next."""
    words = f"{result.summary()}\n\n{result.diagnostics or ''}".rstrip()
    return f"{words}\n\nWritten: {folder}. As a document: `fedci report {folder}`."


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[str] = ()) -> Table:
    grid = Table(*(Column(head, justify="right" if head in right else "left") for head in heads), title=title,
                 title_justify="left")
    for row in rows:
        grid.add_row(*(Text("–" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell))
                       for cell in row))
    return grid


@contextmanager
def waiting(label: str, quiet: bool = False, console: Console | None = None) -> Iterator[None]:
    """A line that moves and counts seconds, for work of which nobody knows how long it takes; gone when it is done."""
    console = console or Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(SpinnerColumn(), TextColumn(label, markup=False), TimeElapsedColumn(),
                  console=console, transient=True) as bar:
        bar.add_task("", total=None)
        yield


def screen() -> Console:
    return Console(soft_wrap=False, highlight=False)


def show_release(release: Release, console: Console) -> None:
    from fedci.site.release import MOMENT_NAMES, totals

    numbers = ("rows", *MOMENT_NAMES)
    rows = [(line.column, "kept back" if line.kept_back else line.rows, line.mean, line.variance, line.skewness,
             line.kurtosis) for line in release.moments]
    console.print(table("What would leave this site as moments, number by number", ("column", *numbers), rows, numbers))
    later = [(phase, name, " × ".join(map(str, shape)) or "1", f"{count:,}", meaning)
             for (phase, name), (shape, count, meaning) in totals(release.sums).items() if phase != "moments"]
    heads = ("phase", "sum", "largest", "numbers at most", "what")
    console.print(table("What would leave later: sums over people", heads, later, heads[2:4]))
    console.print(f"Numbers told per person: at most {release.told_per_person:,.3g}. What so many sums tell together, "
                  f"docs/security.md says.", markup=False)
    console.print("No row and no id leaves. Nothing has left now: this was computed here.", markup=False)


def show_codings(recoded: Sequence[tuple[str, str]], console: Console) -> None:
    """What is done to this site's cells before anything is computed; nothing where nothing is."""
    if recoded:
        console.print(table("How columns are read here", ("column", "from its cells"), recoded))


MOST_ROWS = 40
"""Of a table on a screen; the rest stands in the file."""
LONG_NAME = 24


def show_proposal(proposal: Proposal, console: Console) -> None:
    """What has a role, within the screen; what has none as one line."""
    shown = [guess for guess in proposal.guesses if guess.role != "left out"]
    rows = [(_cut(guess.look.name), guess.look.kind, _percent(guess.look.missing), guess.role, guess.why)
            for guess in sorted(shown, key=lambda guess: guess.role == "covariate")]
    console.print(table(f"{proposal.rows:,} rows; roles guessed, to be reviewed",
                        ("column", "cells", "missing", "role", "review"), rows[:MOST_ROWS], ("missing",)))
    if len(rows) > MOST_ROWS:
        console.print(f"… and {len(rows) - MOST_ROWS} more covariates, in the file.", markup=False)
    left = [guess.look.name for guess in proposal.guesses if guess.role == "left out"]
    if left:
        names = ", ".join(map(_cut, left[:6])) + (", …" if len(left) > 6 else "")
        console.print(f"Left out: {len(left)} columns ({names}); the file says why.", markup=False)


def _percent(share: float) -> str:
    return f"{max(round(100 * share), 1)}%" if share else ""


def _cut(name: str) -> str:
    return name if len(name) <= LONG_NAME else f"{name[:LONG_NAME - 1]}…"


def show_comparison(comparison: Comparison, names: tuple[str, str], console: Console) -> None:
    def cell(average: dict[str, Any] | None) -> str | None:
        return None if average is None else f"{average['mean']:.4g} ({average['low']:.4g} to {average['high']:.4g})"

    rows = [(p.estimand, p.site, cell(p.first), cell(p.second), p.difference, p.in_sds) for p in comparison.pairs]
    heads = ("estimand", "site", *names, "difference", "in sd")
    console.print(table("Average effects with their intervals", heads, rows, heads[2:]))
    if not comparison.same_question:
        console.print("warning: the two do not ask the same question: treatment or outcome differ", markup=False)
    differ = [(name, _short(a), _short(b)) for name, (a, b) in comparison.settings.items()]
    if differ:
        console.print(table("Settings that differ", ("setting", *names), differ))
    console.print("All other settings agree.", markup=False)
    if comparison.cohorts is not None:
        console.print(comparison.cohorts.in_words(), markup=False)
    console.print("The two results share people, so their difference has no interval of its own.", markup=False)


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 200 else f"{text[:200]} …"
