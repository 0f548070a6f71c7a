"""What the folder of a benchmark holds: figures, effects of the first source, and a record of the runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedci.benchmark.pages.summary import Summaries, summarise
from fedci.benchmark.run import cells
from fedci.benchmark.run.cells import SiteEffect
from fedci.errors import SourceError

COVERAGE, ABLATION = "coverage", "ablation"
"""Folders of runs of their own within the results."""


class Archive(NamedTuple):
    """One folder; empty where there is none."""

    summaries: Summaries
    effects: Sequence[SiteEffect]
    runs: Sequence[dict[str, Any]]


def read(folder: Path) -> Archive:
    effects = cells.latest_effects(cells.read(folder / "effects.csv", SiteEffect))
    return Archive(summarise(cells.read(folder / "cells.csv")), effects, read_runs(folder / "run.json"))


def read_results(folder: Path) -> Archive:
    """As `read`, of a folder that must hold figures."""
    archive = read(folder)
    if not archive.summaries:
        raise SourceError(f"'{folder / 'cells.csv'}' holds no benchmark results: run `fedci benchmark` first")
    return archive


def read_runs(path: Path) -> list[dict[str, Any]]:
    """What was run; none if nobody kept a record."""
    if not path.exists():
        return []
    try:
        runs = json.loads(path.read_text(encoding="utf-8")).get("runs", [])
    except (ValueError, AttributeError):
        raise SourceError(f"'{path}' is no record of benchmark runs: needs JSON with a list 'runs'") from None
    return [run for run in runs if isinstance(run, dict)]
