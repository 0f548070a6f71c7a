"""Cells of a measurement in a file, a line each (of JSON, or of a table in a file .csv): what is there is not measured
again."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

Cell = TypeVar("Cell")


def read(path: Path, make: Callable[..., Cell]) -> list[Cell]:
    """`make` takes a cell's values by name; nothing where there is no file yet."""
    if not path.exists():
        return []
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return [make(**{name: _value(text) for name, text in row.items()}) for row in csv.DictReader(file)]
    return [make(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def add(path: Path, cell: Any) -> None:
    """A NamedTuple, behind the others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values, fresh = cell._asdict(), not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        if path.suffix != ".csv":
            file.write(json.dumps(values) + "\n")
            return
        writer = csv.DictWriter(file, values, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(values)


def _value(text: str) -> str | int | float:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
