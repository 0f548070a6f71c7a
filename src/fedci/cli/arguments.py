"""What commands take, each named and explained once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedci.study.coding import OWN_COLUMNS

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (docs/study.md).")]
DataFile = Annotated[str, typer.Argument(metavar="DATA", help="A .csv or .parquet file, `sql:FILE` with a query on the "
                                         "database in FEDCI_DATABASE_URL, or `sql:` for the study's query.")]
ResultFolder = Annotated[Path, typer.Argument(metavar="RESULT", help="The folder of a result.")]
Json = Annotated[bool, typer.Option("--json", help="For scripts: one JSON document on standard output.")]
Alpha = Annotated[float, typer.Option("--alpha", metavar="RATE", help="Intervals hold 1 − alpha of the posterior.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results; made if need be.")]
RESULT = Path("result")
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier result in that folder.")]
SiteFiles = Annotated[list[str] | None, typer.Option(
    "--site", metavar="NAME=DATA", help="A site and its .csv or .parquet file, or `sql:FILE`; once for each site.")]
SiteName = Annotated[str | None, typer.Option(
    "--site", metavar="NAME", help="The site's name; without it, the file's.")]
Preset = Annotated[str | None, typer.Option("--preset", metavar="NAME", help="In place of the study's.")]
Seed = Annotated[int | None, typer.Option("--seed", metavar="NUMBER", min=0, max=2**32 - 1,
                                          help="In place of the study's seed.")]
DemoSeed = Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, max=2**32 - 1,
                                       help="For the simulated patients.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
OwnColumns = Annotated[Path | None, typer.Option(
    "--columns", metavar="FILE", help="What this site calls its columns (columns.toml); without it, FEDCI_COLUMNS.")]
SiteColumns = Annotated[list[str] | None, typer.Option(
    "--columns", metavar="NAME=FILE", help="What a site calls its columns (columns.toml); once for each.")]


@contextmanager
def own_columns(path: Path | None) -> Iterator[None]:
    """The site's own file for all that this command starts, other processes too."""
    before = os.environ.get(OWN_COLUMNS)
    if path is not None:
        os.environ[OWN_COLUMNS] = str(path.absolute())
    try:
        yield
    finally:
        if path is not None:
            os.environ.pop(OWN_COLUMNS)
            if before is not None:
                os.environ[OWN_COLUMNS] = before
