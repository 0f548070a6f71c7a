"""`fedci run`: a study over several sites in this one process, resumed where it stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedci.cli.arguments import RESULT, Force, Json, Out, Preset, Quiet, Seed, SiteColumns, SiteFiles, StudyFile
from fedci.cli.screen import as_json as _as_json
from fedci.cli.screen import result_in_words
from fedci.errors import UsageError
from fedci.files import check_folder

if TYPE_CHECKING:
    from fedci.result.result import Result
    from fedci.study.study import Study
    from fedci.table.source import Source
    from fedci.table.table import Table


def run(study: StudyFile, site: SiteFiles = None,
        table: Annotated[str | None, typer.Option(
            "--table", metavar="DATA", help="In place of --site: one table of all people.")] = None,
        by: Annotated[str | None, typer.Option(
            "--by", metavar="COLUMN", help="With --table: the column that says at which site each is.")] = None,
        out: Out = RESULT, preset: Preset = None, seed: Seed = None,
        columns: SiteColumns = None, force: Force = False, quiet: Quiet = False, as_json: Json = False) -> None:
    """Fit a study over several sites in this one process, and write the effects.

    Example: `fedci run study.toml --site lyon=lyon.csv --site oslo=oslo.parquet --site rome=sql:it.sql --out result`

    Interrupted (Ctrl-C), the same command goes on where it stopped. The same study file drives a study over a network:
    `fedci network new --help`.
    """
    from fedci.cli.screen import waiting
    from fedci.study.policy import check_available
    from fedci.study.study import Study
    from fedci.table.table import id_records

    plan = Study.read(study)
    if (table is None) == (not site) or (table is None) != (by is None):
        raise UsageError("give each site with --site NAME=DATA, or one table of all people with --table DATA --by "
                         "COLUMN")
    sources = _sources(plan, site or (), columns or ()) if table is None or by is None else _parted(plan, table, by)
    check_available(plan.policy, len(sources))
    options = plan.fit_options(preset)
    check_folder(out, force)
    tell_queries(sources)
    with waiting("reading the tables", quiet):
        tables = [source.read(plan) for source in sources]  # before the fit, which takes long, and before JAX is loaded
    if plan.links and len(sources) > 1:
        for one in tables:
            id_records(plan, one)
    from fedci.site.admission import admit, together  # with JAX

    for situation in together(plan, tables, options):
        admit(situation)
    _fit(plan, tables, out, preset=preset or plan.preset, seed=plan.seed if seed is None else seed, force=force,
         quiet=quiet, as_json=as_json)


def _fit(plan: Study, tables: list[Table], out: Path, *, preset: str, seed: int, force: bool, quiet: bool,
         as_json: bool) -> None:
    from fedci.cli.screen import waiting

    result = _resumable(plan.model_copy(update={"preset": preset}), tables, out, seed, quiet)
    with waiting("writing the effects of each site's people", quiet or as_json):
        result.save(out, force=force)
    if as_json:
        typer.echo(_as_json({"out": str(out), **result.plain()}))
        return
    typer.echo(result_in_words(result, out))


def _resumable(plan: Study, tables: list[Table], out: Path, seed: int, quiet: bool) -> Result:
    """The fit with its progress, from a checkpoint of the same study, seed and rows if one was left."""
    from fedci.cli.progress import round_progress
    from fedci.coordinator.refits import checkpoints
    from fedci.estimator import FedCI
    from fedci.protocol.forecast import Clock

    place = out.absolute()
    checkpoint = place.with_name(f".{place.name}.checkpoint-{_fingerprint(tables)}.npz")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if checkpoint.exists():
        typer.echo(f"going on from {checkpoint}", err=True)
    try:
        with round_progress(quiet, clock=Clock(plan.fit_options().optimiser, len(tables))) as progress:
            result = FedCI(plan, seed=seed).fit_tables(tables, progress=progress, checkpoint=checkpoint)
    except KeyboardInterrupt:
        reached = f"What was reached is kept in {checkpoint}. " if checkpoint.exists() else ""
        typer.echo(f"stopped. {reached}Run the same command again to go on; nothing was written to {out}.", err=True)
        raise
    for path in checkpoints(checkpoint, plan):
        path.unlink(missing_ok=True)
    return result


def _fingerprint(tables: list[Table]) -> str:
    """Of the rows: a checkpoint is of no use to others."""
    digest = hashlib.sha256()
    for table in tables:
        cluster = b"" if table.cluster is None else table.cluster.tobytes()
        for part in (table.site.encode(), table.x.tobytes(), table.w.tobytes(), table.y.tobytes(), cluster):
            digest.update(part)
    return digest.hexdigest()[:12]


def _parted(study: Study, table: str, column: str) -> list[Source]:
    """The sites of one table; those that are too small for the policy are left out, and said."""
    from fedci.errors import SizeError
    from fedci.table.parted import parted_file
    from fedci.table.source import located

    sources, small = [], []
    for source in parted_file(study, located(table, "all", study), column):
        try:
            source.read(study)
            sources.append(source)
        except SizeError as problem:
            small.append((source.name, problem))
    if not sources and small:
        raise small[0][1]
    if small:
        typer.echo(f"left out, too small for the policy: {', '.join(name for name, _ in small)}", err=True)
    return sources


def tell_queries(sources: Sequence[Source]) -> None:
    """Before they are asked; beside the answer, which may be JSON."""
    for source in sources:
        if source.query:
            typer.echo(f"site {source.name!r}: {source.query}", err=True)


def _sources(study: Study, options: Sequence[str], columns: Sequence[str] = ()) -> list[Source]:
    """From NAME=DATA of each --site, each name once and in the study; and NAME=FILE of each --columns."""
    from fedci.table.source import Source

    paths, own = _by_site("--site", options, "DATA", "lyon.csv"), _by_site("--columns", columns, "FILE", "lyon.toml")
    for name in paths:
        study.check_site(name)
    if unknown := sorted(set(own) - set(paths)):
        raise UsageError(f"--columns {unknown[0]!r}: no --site of that name is given")
    return [Source.at(study, name, path, Path(own[name]) if name in own else None) for name, path in paths.items()]


def _by_site(option: str, given: Sequence[str], what: str, example: str) -> dict[str, str]:
    paths: dict[str, str] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise UsageError(f"{option} {one!r}: needs NAME={what}, for example {option} lyon={example}")
        if name in paths:
            raise UsageError(f"{option} {name!r} is repeated. Give each site one file")
        paths[name] = path
    return paths
