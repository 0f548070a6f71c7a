"""`fedci report`: one HTML file that needs nothing else, from a result's folder."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup

from fedci.errors import OutputError, UsageError
from fedci.files import plain_cell, whole_file
from fedci.report.aggregates import aggregates
from fedci.report.documents import Format, asset, docx, environment
from fedci.report.facts import Extra, headline, named, read_ledgers, sections
from fedci.report.parts import Document, Figure, Grid, Part, Table, bare
from fedci.report.slots import read_slots
from fedci.result.result import Result
from fedci.version import __version__

FILE = Path("report.html")
STEPS = 6
"""The result, four kinds of aggregates, the page."""


def render(result: Result, extra: Extra, alpha: float = 0.05) -> str:
    """The page. Every name that comes from a study, a site or a file is escaped."""
    template = environment().from_string(asset("report.html.j2"))
    return template.render(head=headline(result), sections=sections(result, extra, alpha), version=__version__,
                           style=Markup(asset("report.css")), script=Markup(asset("report.js")))


def _fewer(result: Result, folders: Sequence[Path]) -> dict[str, Result]:
    """By their folders; each must ask what this study asks."""
    others = {name: Result.load(folder) for name, folder in named(folders).items()}
    for folder, other in zip(folders, others.values(), strict=True):
        if (other.study.treatment, other.study.outcome) != (result.study.treatment, result.study.outcome):
            raise UsageError(f"--with '{folder}': it asks for the effect of '{other.study.treatment}' on "
                             f"'{other.study.outcome}', this study for that of '{result.study.treatment}' on "
                             f"'{result.study.outcome}'")
    return others


def document(result: Result, extra: Extra, alpha: float = 0.05) -> Document:
    """The report as it is written in Word."""
    head = headline(result)
    sites = f"{len(head['sites'])} site{'' if len(head['sites']) == 1 else 's'} ({', '.join(head['sites'])})"
    return Document(f"Study “{head['name']}”", f"What does {head['treatment']} do to {head['outcome']}?",
                    f"{head['people']:,} people at {sites}, none of whose rows left their site. Study hash "
                    f"{result.study.hash()}; made {head['made']}.", sections(result, extra, alpha))


def write_tables(made: Document, folder: Path) -> list[Path]:
    """A CSV of each table and of the numbers behind each plot, as SECTION-NUMBER.csv; a spreadsheet runs none of it."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for section in made.sections:
        tables = [table for part in section.parts for table in _tables(part)]
        for count, table in enumerate(tables, 1):
            path = folder / f"{section.id}-{count}.csv"
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([[plain_cell(bare(cell)) for cell in row]
                                            for row in (table.heads, *table.rows)])
            written.append(path)
    return written


def _tables(part: Part) -> list[Table]:
    if isinstance(part, Grid):
        return [table for figure in part.figures for table in _tables(figure)]
    if isinstance(part, Figure):
        return [part.numbers] if part.numbers is not None else []
    return [part] if isinstance(part, Table) else []


def write_report(folder: str | Path, out: str | Path | None = None, others: Sequence[Path] = (),
                 ledgers: Sequence[Path] = (),
                 alpha: float = 0.05, force: bool = True, done: Callable[[int], None] = lambda steps: None,
                 form: Format = "html", tables: Path | None = None) -> Path:
    """From RESULT to RESULT/report.html (or .docx), or to `out`.

    form      html or docx
    tables    a folder for the numbers of every table and plot, as CSV
    others    folders of results over fewer sources, in the order in which sources were added
    ledgers   folders of sites whose ledgers are shown
    done      told how many of STEPS are done
    """
    folder = Path(folder)
    result = Result.load(folder)
    done(1)
    out = folder / f"{FILE.stem}.{form}" if out is None else Path(out)
    if out.exists() and not force:
        raise OutputError(f"'{out}' is there already: choose another --out, or replace it with --force")
    extra = Extra(read_slots(folder, result.outcome.run), {} if result.many else aggregates(result, folder, done),
                  _fewer(result, others), read_ledgers(ledgers))
    try:
        if tables is not None:
            write_tables(document(result, extra, alpha), tables)
        made = docx(document(result, extra, alpha)) if form == "docx" else render(result, extra, alpha).encode()
        with whole_file(out) as file:
            file.write(made)
    except OSError as problem:
        raise OutputError(f"the report cannot be written to '{out}': {problem.strerror}") from None
    return out
