"""Cells of a measurement in a file, a line of JSON each: what is there is not measured again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Cell = TypeVar("Cell")


def read(path: Path, make: Callable[..., Cell]) -> list[Cell]:
    """`make` takes a cell's values by name; nothing where there is no file yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [make(**json.loads(line)) for line in lines]


def add(path: Path, cell: Any) -> None:
    """A NamedTuple, behind the others."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(cell._asdict()) + "\n")
