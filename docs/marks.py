"""Tables that are made stand on a page between two marks, and are replaced there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def marked(text: str, name: str, command: str, table: str) -> str:
    """The page with this table between the marks of its name; ValueError where the page lacks them."""
    begin, end = f"<!-- {name}: made by {command} -->", f"<!-- end of {name} -->"
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"the page lacks the marks {begin} and {end}")
    return f"{before}{begin}\n{table}{end}{after}"


def rewrite(page: Path, made: Callable[[str], str]) -> None:
    page.write_text(made(page.read_text(encoding="utf-8")), encoding="utf-8")
