"""A document as one HTML file, or as Word (python-docx, extra `report`): the same sections, tables and sentences.

Word shows no plot: in its place stand the caption and the numbers behind it. Same document, same bytes.
"""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from fedci.errors import OutputError, UsageError
from fedci.files import whole_file
from fedci.report.parts import Document, Figure, Grid, Part, Section, Table, bare
from fedci.version import __version__

Format = Literal["html", "docx"]
FORMATS: tuple[str, ...] = get_args(Format)
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""Of every part of a Word file, so that the same document has the same bytes; what is dated stands in the text."""
CELL = 32_000
"""Characters of a cell or paragraph at most: more is a file's text, and Word has little use of it."""
CUT = " … (cut here: the rest stands in the HTML)"
LONG = 1_000
"""Letters of a cell that may be parted."""
MARGIN, PAGE, TABLE_POINTS = 0.8, 6.9, 8.5
"""In inches, what is between the margins, and of letters in tables: wide ones fit a page."""
LONGEST, MOST_LETTERS = 22, 70
"""Letters of a word, and of a cell on average, by which the width of a column is measured, at most."""


def environment() -> Environment:
    """For pages: every name that comes from a study, a site or a file is escaped."""
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.tests |= {name: lambda part, kind=kind: isinstance(part, kind)
                   for name, kind in (("figure", Figure), ("table", Table), ("grid", Grid))}
    return made


def asset(name: str) -> str:
    return resources.files("fedci.report").joinpath("assets", name).read_text(encoding="utf-8")


def html(document: Document) -> bytes:
    page = environment().from_string(asset("document.html.j2"))
    return page.render(document=document, version=__version__, style=Markup(asset("report.css"))).encode()


def docx(document: Document) -> bytes:
    """UsageError where python-docx is not installed."""
    word = _word()
    made = word.Document()
    _lay_out(made)
    made.core_properties.author = f"fedci {__version__}"
    made.core_properties.title = _clean(document.title)
    made.core_properties.created = made.core_properties.modified = EPOCH.replace(tzinfo=None)
    made.add_paragraph(_clean(document.kicker))
    made.add_heading(_clean(document.title), 0)
    made.add_paragraph(_clean(document.facts))
    for section in document.sections:
        _write_section(made, section)
    made.add_paragraph(f"Made by fedci {__version__}. This file holds no one's data.")
    held = io.BytesIO()
    made.save(held)
    return _undated(held.getvalue())


def _word() -> Any:
    try:
        import docx as word
    except ImportError:
        raise UsageError("Word files are written by python-docx, which is not installed: run "
                         "`pip install 'fedci[report]'`, or leave --format docx out for HTML") from None
    return word


def _lay_out(made: Any) -> None:
    from docx.shared import Inches, Pt

    for page in made.sections:
        page.left_margin = page.right_margin = Inches(MARGIN)
    table = made.styles["Table Grid"]
    table.font.size = Pt(TABLE_POINTS)
    table.paragraph_format.space_after = Pt(1)


def _write_section(made: Any, section: Section) -> None:
    made.add_heading(_clean(section.title), 1)
    for part in section.parts:
        _write_part(made, part)


def _write_part(made: Any, part: Part) -> None:
    if isinstance(part, str):
        made.add_paragraph(_clean(part))
    elif isinstance(part, Table):
        _write_table(made, part)
    elif isinstance(part, Grid):
        for figure in part.figures:
            _write_part(made, figure)
    else:
        if part.caption:
            made.add_paragraph(_clean(part.caption))
        if part.numbers is not None:
            _write_table(made, part.numbers)


def _write_table(made: Any, table: Table) -> None:
    if table.caption:
        made.add_paragraph(_clean(table.caption)).paragraph_format.keep_with_next = True
    grid = made.add_table(rows=1, cols=len(table.heads), style="Table Grid")
    for cell, head in zip(grid.rows[0].cells, table.heads, strict=True):
        cell.paragraphs[0].add_run(_clean(head)).bold = True
    for row in table.rows:
        for cell, text in zip(grid.add_row().cells, row, strict=True):
            cell.text = _clean(text)
    _set_widths(grid, table)
    _keep_whole(grid)
    made.add_paragraph()


def _set_widths(grid: Any, table: Table) -> None:
    """By what columns hold: the longest word whole, as far as may be, and more to those of many words."""
    from docx.shared import Inches

    columns = [[_clean(row[k]) for row in (table.heads, *table.rows)] for k in range(len(table.heads))]
    longest = [max((len(word) for text in column for word in text.split()), default=1) for column in columns]
    mean = [sum(map(len, column)) / len(column) for column in columns]
    share = [max(min(word, LONGEST), min(letters, MOST_LETTERS), 3.0)
             for word, letters in zip(longest, mean, strict=True)]
    widths = [Inches(PAGE * part / sum(share)) for part in share]
    for column, width in zip(grid.columns, widths, strict=True):
        column.width = width
    for line in grid.rows:
        for cell, width in zip(line.cells, widths, strict=True):
            cell.width = width


def _keep_whole(grid: Any) -> None:
    """Heads stand on every page of a table, and no short row is parted by the end of a page."""
    from docx.oxml import OxmlElement

    grid.rows[0]._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))
    for row in grid.rows:
        if all(len(cell.text) < LONG for cell in row.cells):
            row._tr.get_or_add_trPr().insert(0, OxmlElement("w:cantSplit"))


def _clean(text: str) -> str:
    """What XML takes; of a cell with links the words."""
    text = bare(text)
    shown = "".join(letter for letter in text[:CELL] if letter in "\n\t" or letter.isprintable())
    return f"{shown}{CUT}" if len(text) > CELL else shown


def _undated(held: bytes) -> bytes:
    """The same parts with one date."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(held)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(old.namelist(), key=lambda name: (name != "[Content_Types].xml", name)):
            new.writestr(zipfile.ZipInfo(name, EPOCH.timetuple()[:6]), old.read(name), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def format_of(out: Path, asked: str | None) -> Format:
    """As asked, or by the file's ending."""
    kind = asked or out.suffix.removeprefix(".").lower() or "html"
    if kind not in FORMATS:
        raise UsageError(f"--format {kind!r} is unknown: choose {' or '.join(FORMATS)}")
    return "docx" if kind == "docx" else "html"


def write(document: Document, out: Path, form: Format) -> Path:
    made = docx(document) if form == "docx" else html(document)
    try:
        with whole_file(out) as file:
            file.write(made)
    except OSError as problem:
        raise OutputError(f"the document cannot be written to '{out}': {problem.strerror}") from None
    return out
