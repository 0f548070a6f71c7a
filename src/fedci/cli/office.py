"""What a study office types: `fedci protocol`, the analysis plan before any data are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedci.cli.arguments import Json, StudyFile
from fedci.cli.screen import as_json as told_as_json
from fedci.errors import OutputError

DocumentFormat = Annotated[str | None, typer.Option("--format", metavar="NAME", help="html or docx (Word, with the "
                                                    "extra 'report'); without it, by the ending of --out.")]


def protocol(study: StudyFile,
             out: Annotated[Path, typer.Option("--out", metavar="FILE", help="plan.html or plan.docx.")] =
             Path("plan.html"),
             form: DocumentFormat = None, force: Annotated[bool, typer.Option("--force", help="Replace that file.")] =
             False, as_json: Json = False) -> None:
    """The analysis plan, from the study file alone: estimand, target trial, analysis, diagnostics, what may leave.

    Example: `fedci protocol study.toml --out plan.docx`

    Make it before any data are read: the study's hash stands in it and in every report.
    """
    from fedci.report.documents import format_of, write
    from fedci.report.protocol import FOR_AUTHORS, plan
    from fedci.study.study import Study

    asked = Study.read(study)
    kind = format_of(out, form)
    if out.exists() and not force:
        raise OutputError(f"'{out}' is there already: choose another --out, or replace it with --force")
    write(plan(asked), out, kind)
    said = [] if asked.estimand else ["the study has no [estimand]: what only people can say is marked "
                                      f"'{FOR_AUTHORS}'"]
    if as_json:
        typer.echo(told_as_json({"plan": str(out), "format": kind, "study_hash": asked.hash(), "notes": said}))
        return
    typer.echo(f"Written: {out}. Study hash {asked.hash()}")
    for note in said:
        typer.echo(f"note: {note}")
