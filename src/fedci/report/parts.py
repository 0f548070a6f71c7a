"""What a page or a document is made of: sections of paragraphs, tables and plots, before any layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup


@dataclass(frozen=True)
class Table:
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    """Markup where a cell has links."""
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    svg: Markup
    caption: str
    numbers: Table | None = None
    """The text alternative: the numbers that the plot shows."""


@dataclass(frozen=True)
class Grid:
    """Small plots beside each other."""

    figures: Sequence[Figure]


def bare(cell: str) -> str:
    """Without its links."""
    return cell.striptags() if isinstance(cell, Markup) else cell


Part = str | Table | Figure | Grid


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """What is written as HTML or as Word (`report.documents`)."""

    kicker: str
    title: str
    facts: str
    sections: list[Section]


TITLES = {"answer": "The answer", "sources": "As sources are added", "sites": "Site by site",
          "people": "For whom, and what drives it", "sensitivity": "What if an assumption is wrong?"}
"""Of the sections that tell effects."""
