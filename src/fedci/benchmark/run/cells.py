"""One row of a benchmark: what a method reached on one replication under one protocol; and the file that holds them."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fedci.errors import SourceError

NAN = math.nan
MODES = ("fed", "com", "loc", "agg")
"""Federated; combined rows; each source alone; each source alone and their effects averaged."""
PROTOCOLS = ("P1", "P2", "P3")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """NaN (empty in the file) where a method has no such output."""

    dataset: str
    method: str
    mode: str
    sources: int
    replication: int
    protocol: str
    pehe: float = NAN
    """√ mean (τ̂ − τ)² over the test people of all sources in use; what τ is, the protocol says."""
    ate_error: float = NAN
    """|mean τ̂ − mean τ| over the same people."""
    coverage: float = NAN
    """Share of those people whose 95% interval holds τ."""
    width: float = NAN
    """Mean width of those intervals."""
    ate_covered: float = NAN
    """Whether the 95% interval of the average expected effect of the people *fitted on* holds its true value."""
    ate_width: float = NAN
    ate_rejects: float = NAN
    """Whether that interval leaves 0 out. In mode loc these three are averages over the sources."""
    seconds: float = NAN
    """Fit and predictions."""
    rounds: float = NAN
    bytes: float = NAN
    """Sent and received, mean per site."""
    failed: str = ""
    """Why there are no figures."""


@dataclass(frozen=True, kw_only=True)
class SiteEffect:
    """The estimated average expected effect at source 1, as more sources take part."""

    dataset: str
    method: str
    sources: int
    replication: int
    mean: float
    sd: float
    low: float
    high: float
    truth: float


def append(path: Path, rows: Iterable[Cell | SiteEffect]) -> None:
    """Add rows and flush them: an interruption loses nothing that was finished."""
    rows = list(rows)
    if not rows:
        return
    _cut_to_whole_lines(path)
    names = [field.name for field in fields(rows[0])]
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(names)
        writer.writerows([_written(value) for value in asdict(row).values()] for row in rows)


def _cut_to_whole_lines(path: Path) -> None:
    """Drop a last line that an interruption cut short."""
    if path.exists():
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            path.write_bytes(text[:text.rfind(b"\n") + 1])
            if not path.stat().st_size:
                path.unlink()


def read(path: Path, kind: type = Cell) -> list[Any]:
    """Rows of a file, without a last line cut short; none if there is no file."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return list(_parsed(csv.DictReader(whole.splitlines()), kind, path)) if whole else []


def latest(rows: Iterable[Cell]) -> list[Cell]:
    """One row per key, the last: a method that was run again replaces its earlier figures, failures included."""
    by_key: dict[tuple[Any, ...], dict[str, Cell]] = {}
    for row in rows:
        key = (row.dataset, row.method, row.mode, row.sources, row.replication)
        cells = by_key.setdefault(key, {})
        if row.failed or any(other.failed for other in cells.values()) or row.protocol in cells:
            cells.clear()
        cells[row.protocol] = row
    return [row for cells in by_key.values() for row in cells.values()]


def latest_effects(rows: Iterable[SiteEffect]) -> list[SiteEffect]:
    """One row per method, number of sources and replication, the last."""
    return list({(row.dataset, row.method, row.sources, row.replication): row for row in rows}.values())


def _parsed(lines: csv.DictReader[str], kind: type, path: Path) -> Iterator[Any]:
    types = {field.name: field.type for field in fields(kind)}
    if lines.fieldnames != list(types):
        raise SourceError(f"'{path}' is no file of benchmark results: needs the columns {', '.join(types)}")
    for number, line in enumerate(lines, start=2):
        try:
            yield kind(**{name: _value(line[name], str(types[name])) for name in types})
        except (TypeError, ValueError):
            raise SourceError(f"'{path}', line {number}: not a row of benchmark results; remove it and run again") \
                from None


def _value(text: str, kind: str) -> str | int | float:
    if kind == "str":
        return text
    if kind == "int":
        return int(text)
    return float(text) if text else NAN


def _written(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)
