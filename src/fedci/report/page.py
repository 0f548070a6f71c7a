"""`fedci report`: one HTML file that needs nothing else, from a result's folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup

from fedci.errors import OutputError, UsageError
from fedci.files import whole_file
from fedci.report.aggregates import aggregates
from fedci.report.documents import asset, environment
from fedci.report.facts import Extra, headline, named, read_ledgers, sections
from fedci.report.slots import read_slots
from fedci.result.result import Result
from fedci.version import __version__

FILE = "report.html"
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


def write_report(folder: str | Path, out: Path | None = None, others: Sequence[Path] = (), ledgers: Sequence[Path] = (),
                 alpha: float = 0.05, force: bool = True, done: Callable[[int], None] = lambda steps: None) -> Path:
    """From RESULT to RESULT/report.html, or to `out`.

    others    folders of results over fewer sources, in the order in which sources were added
    ledgers   folders of sites whose ledgers are shown
    done      told how many of STEPS are done
    """
    folder = Path(folder)
    result = Result.load(folder)
    done(1)
    out = folder / FILE if out is None else out
    if out.exists() and not force:
        raise OutputError(f"'{out}' is there already: choose another --out, or replace it with --force")
    extra = Extra(read_slots(folder, result.outcome.run), aggregates(result, folder, done),
                  _fewer(result, others), read_ledgers(ledgers))
    try:
        with whole_file(out) as file:
            file.write(render(result, extra, alpha).encode())
    except OSError as problem:
        raise OutputError(f"the report cannot be written to '{out}': {problem.strerror}") from None
    return out
