"""The command line: parse, call, and turn every error into one line on stderr and an exit code.

    0 done    1 a fault of fedci    2 an input to mend    3 refused by policy    4 federation    5 numerics
    130 interrupted

Heavy imports stand inside the commands, so that `--help` and mistakes in the call answer at once.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from fedci.cli import choosing, office, parties
from fedci.cli.arguments import (
    RESULT,
    Alpha,
    DataFile,
    DemoSeed,
    Force,
    Json,
    Out,
    OwnColumns,
    Preset,
    Quiet,
    ResultFolder,
    Seed,
    SiteColumns,
    SiteFiles,
    SiteName,
    StudyFile,
)
from fedci.cli.compiler import compile_quickly
from fedci.cli.screen import as_json as _as_json
from fedci.cli.screen import result_in_words
from fedci.errors import FedciError, UsageError
from fedci.files import check_folder

if TYPE_CHECKING:
    from fedci.result.result import Result
    from fedci.study.study import Study
    from fedci.table.table import Source, Table

# typer < 0.20 stands on click and later ones carry a copy of it; the root of its errors is reachable in both.
CommandLineError: Any = typer.BadParameter.__mro__[2]

INTERRUPTED = 130

app = typer.Typer(add_completion=True, pretty_exceptions_enable=False, rich_markup_mode="markdown",
                  context_settings={"help_option_names": ["-h", "--help"]})
for name, commands in parties.APPS.items():
    app.add_typer(commands, name=name)
for command in (office.protocol, office.show, choosing.plan, choosing.transport):
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and leave with its exit code."""
    compile_quickly()
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        code = app(args=arguments, prog_name="fedci", standalone_mode=False) or 0
        return _failed("interrupted", code) if code == INTERRUPTED else code  # newer typer answers Ctrl-C itself
    except FedciError as error:
        return _failed(error.message, error.exit_code)
    except CommandLineError as error:
        return _failed(error.format_message(), UsageError.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _failed("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read the answer has gone: `fedci … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        place = f"'{problem.filename}': " if problem.filename else ""
        reason = (problem.strerror or type(problem).__name__).lower()
        return _failed(f"{place}{reason}. Check the path, its permissions and the space on the disk", 2)
    except Exception as error:
        if os.environ.get("FEDCI_DEBUG"):
            raise
        kind = type(error).__name__  # its own words might quote the data
        return _failed(f"unexpected {kind}. Set FEDCI_DEBUG=1 to see where. {FedciError.help}", 1)


def _failed(message: str, code: int) -> int:
    print("error:", " ".join(message.split()), file=sys.stderr)
    return code


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version
    from platform import python_version

    from fedci.version import __version__

    typer.echo(f"fedci {__version__}, Python {python_version()}, jax {version('jax')}")
    raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True,
                                       help="Versions of fedci, Python and JAX.")]


@app.callback(invoke_without_command=True)
def _fedci(context: typer.Context, version: Version = False) -> None:
    """Causal effects from data that may not move.

    Try `fedci demo --out demo`: five simulated hospitals, one study, and the truth beside the estimates.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def init(data: DataFile,
         out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the study file goes.")] =
         Path("study.toml"), force: Annotated[bool, typer.Option("--force", help="Replace that file.")] = False,
         policy: Annotated[str, typer.Option("--policy", metavar="NAME", help=(
             "What may leave a site: 'standard' for patients, 'simulation' for data of nobody."))] = "standard",
         treatment: Annotated[str | None, typer.Option(
             "--treatment", metavar="COLUMN", help="Who is treated; else it is guessed.")] = None,
         outcome: Annotated[str | None, typer.Option("--outcome", metavar="COLUMN", help="Else it is guessed.")] = None,
         covariates: Annotated[str | None, typer.Option(
             "--covariates", metavar="COLUMNS", help="Separated by commas. Without it, all that may be.")] = None,
         omop: Annotated[str | None, typer.Option(
             "--omop", metavar="IDS", help="With `sql:`, of an OMOP common data model: ids of the cohorts of target, "
             "comparator and outcome, separated by commas.")] = None,
         as_json: Json = False) -> None:
    """Propose a study file from a site's data: roles guessed, levels, ranges, missing values; all to be reviewed.

    Example: `fedci init lyon.csv --out study.toml`, or, for simulated people, with `--policy simulation`

    Where names do not say it: `fedci init ist.csv --treatment RXASP --outcome OCCODE --covariates AGE,SEX,RSBP`

    Then read the file, correct what is marked 'review', and run `fedci check study.toml lyon.csv`.
    """
    from fedci.cli.screen import screen, show_proposal, waiting
    from fedci.files import write_new
    from fedci.table.proposal import Roles, propose, suggested_name
    from fedci.table.table import located

    if omop is not None:
        _init_omop(data, omop, out, policy, force, as_json)
        return
    named = None if covariates is None else tuple(part.strip() for part in covariates.split(",") if part.strip())
    with waiting(f"reading {data}", as_json):
        proposal = propose(located(data, "init"), suggested_name(data), policy,
                           Roles(treatment=treatment, outcome=outcome, covariates=named))
    write_new(out, proposal.to_toml(), force)
    if as_json:
        typer.echo(_as_json({"study": str(out), "rows": proposal.rows, "columns": [
            {"name": guess.look.name, "cells": guess.look.kind, "missing": guess.look.missing, "role": guess.role,
             "review": guess.why} for guess in proposal.guesses]}))
        return
    show_proposal(proposal, screen())
    typer.echo(f"Written: {out}. Review it, then run `fedci check {out} {data}`.")


def _init_omop(data: str, cohorts: str, out: Path, policy: str, force: bool, as_json: bool) -> None:
    """From cohorts of the site's common data model."""
    from fedci.files import write_new
    from fedci.table.proposal import propose_omop

    numbers = [part.strip() for part in cohorts.split(",")]
    if data != "sql:" or len(numbers) != 3 or not all(part.isdecimal() for part in numbers):
        raise UsageError("--omop asks the site's database for three cohorts: fedci init sql: --omop 101,102,103 "
                         "(target, comparator, outcome)")
    write_new(out, propose_omop("init", [int(part) for part in numbers], policy=policy), force)
    typer.echo(_as_json({"study": str(out)}) if as_json else
               f"Written: {out}. Review it, then run `fedci check {out} sql: --site NAME`.")


@app.command()
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
    _tell_queries(sources)
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


@app.command()
def diagnostics(result: ResultFolder, as_json: Json = False) -> None:
    """What the diagnostics of a study say, each with its verdict; of a blinded study, all but what tells the effect.

    Example: `fedci diagnostics results`
    """
    from fedci.diagnostics.findings import Diagnostics
    from fedci.result.replacement import verified

    findings = Diagnostics.read(verified(result, "diagnostics.json"))
    typer.echo(findings.to_json() if as_json else str(findings))


@app.command()
def unblind(
        result: ResultFolder,
        by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who opens the effects; kept with the result.")],
        reason: Annotated[str, typer.Option(
            "--reason", metavar="TEXT", help="Why, where a diagnostic is a problem; kept as well.")] = "",
        as_json: Json = False) -> None:
    """Open the effects of a blinded study, after its diagnostics were read; who, when and why is recorded.

    Example: `fedci unblind results --by "A. Statistician"`
    """
    from fedci.result.result import Result

    unblinded = Result.load(result).unblind(by, reason)
    unblinded.save(result, force=True)
    opened = dict(unblinded.opened or {})
    if as_json:
        typer.echo(_as_json({"opened": opened, **unblinded.plain()}))
        return
    typer.echo(f"opened at {opened['at']} by {opened['by']}\n\n{unblinded.summary()}\n\n{unblinded.diagnostics}")


@app.command()
def check(study: StudyFile, data: DataFile, site: SiteName = None,
          sites: Annotated[int | None, typer.Option("--sites", metavar="NUMBER", min=1, help="How many take part; "
                                                    "without it, as many as the study names.")] = None,
          policy: parties.SitePolicy = None, columns: OwnColumns = None, as_json: Json = False) -> None:
    """Read a site's data against the study: every problem at once, and what would leave. Nothing leaves the machine.

    Example: `fedci check study.toml lyon.csv`

    A study that names no sites is taken to have three, the fewest that the policy 'standard' lets sums be seen of.

    With a query: `FEDCI_DATABASE_URL=postgresql://reader@db/cohort fedci check study.toml sql:cohort.sql --site lyon`
    """
    from fedci.cli.screen import waiting
    from fedci.site.floors import floors_at
    from fedci.study.policy import SECURE_SUM_SITES
    from fedci.study.study import Study
    from fedci.table.recode import in_words
    from fedci.table.table import Source, attrition, problems

    floors = floors_at(None, policy)
    plan = Study.read(study).under(floors.policy if floors.path else None)
    source = Source.at(plan, site or _site_named(data), data, columns)
    _tell_queries([source])
    with waiting(f"reading {data}", as_json):
        faults = problems(plan, source)
        table = None if faults else source.read(plan)
        lost = attrition(plan, source)
    if lost is not None and not as_json:
        typer.echo(f"attrition: {lost.in_words()}")
    if table is None:
        _tell_problems(faults, as_json)
    _tell_release(plan, table, sites or len(plan.sites) or SECURE_SUM_SITES, as_json, in_words(plan, source.columns))


def _site_named(data: str) -> str:
    """The file's own name, as a site's."""
    stem = Path(data.removeprefix("sql:")).stem.lower()
    return "".join(c if c.isascii() and (c.isalnum() or c == "-") else "-" for c in stem)[:40] or "site"


def _tell_problems(faults: list[FedciError], as_json: bool) -> NoReturn:
    if as_json:
        problems = [{"code": fault.code, "message": fault.message} for fault in faults]
        typer.echo(_as_json({"ok": False, "problems": problems}))
    if len(faults) == 1:
        raise faults[0]
    for fault in faults:
        print("error:", fault.message, file=sys.stderr)
    raise max(faults, key=lambda fault: fault.exit_code).__class__(
        f"{len(faults)} problems, each named above; nothing has left. Mend them and run the same command again")


def _tell_release(plan: Study, table: Table, sites: int, as_json: bool, recoded: list[tuple[str, str]]) -> None:
    from fedci.cli.screen import screen, show_codings, show_release, waiting
    from fedci.site.admission import admit, situation
    from fedci.site.release import release

    arms = dict(zip(plan.arms, table.by_arm, strict=True)) if plan.arms else {}
    facts = {"rows": table.rows, "treated": table.treated, "untreated": table.rows - table.treated,
             **({"arms": arms} if arms else {}),
             "design_columns": len(table.columns), "to_impute": int(table.missing.sum()),
             "dropped": table.dropped._asdict()}
    with waiting("working out what would leave", as_json):
        admit(situation(plan, table, sites))
        leaving = release(plan, table, sites=sites)
    notes = _on_a_network(plan, table, sites)
    if as_json:
        typer.echo(_as_json({"ok": True, **facts, "sites": sites, "study_hash": plan.hash(), "notes": notes,
                             "recoded": dict(recoded),
                             **leaving.plain()}))
        return
    each = ", ".join(f"{arm} {people}" for arm, people in arms.items())
    each = each or f"treated {table.treated}, untreated {table.rows - table.treated}"
    typer.echo(f"ok: site {table.site!r}: rows {table.rows}, {each}, design columns {len(table.columns)}, "
               f"values to impute {table.missing.sum()}; one of {sites} sites")
    if dropped := table.dropped.in_words():
        typer.echo(f"dropped: {dropped}")
    for warning in table.warnings:
        typer.echo(f"warning: {warning}")
    for note in notes:
        typer.echo(f"note: {note}")
    show_codings(recoded, screen())
    show_release(leaving, screen())


def _on_a_network(plan: Study, table: Table, sites: int) -> list[str]:
    """What a site without a policy of its own would refuse there, though this check does not."""
    from fedci.site.admission import of_nobody, reasons, situation
    from fedci.study.policy import POLICIES

    if plan.floors is not None:
        return []
    asked = situation(plan.under(POLICIES["standard"]), table, sites)
    against = reasons(asked)
    return [f"over a network a site holds to 'standard' unless its own policy says otherwise (`fedci site policy`), "
            f"and would refuse: {'; '.join(map(str, against))}{of_nobody(asked)}"] if against else []


@app.command()
def predict(
        result: ResultFolder, data: DataFile,
        out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The .csv of effects; only you can read it.")] =
        Path("effects-new.csv"),
        site: Annotated[str | None, typer.Option(
            "--site", metavar="NAME", help="Where they are treated; without it, a hospital outside the study.")] = None,
        rows: Annotated[str | None, typer.Option(
            "--rows", metavar="DATA", help="At a site, after a study over a network: its table of the study.")] = None,
        kit: Annotated[Path | None, typer.Option(
            "--kit", metavar="DIR", help="With --rows, if linkage left people out: the site's kit knows whom.")] = None,
        alpha: Alpha = 0.05,
        keep: Annotated[list[str] | None, typer.Option(
            "--keep", metavar="COLUMN", help="A column to carry over, such as an id; once for each.")] = None,
        realised: Annotated[bool, typer.Option(
            "--realised", help="Of one person's realised effect: wider, with the outcome's noise.")] = False,
        force: Annotated[bool, typer.Option("--force", help="Replace that file.")] = False,
        quiet: Quiet = False, as_json: Json = False) -> None:
    """Effects with intervals for new people, written here and nowhere else.

    Example: `fedci predict result new.csv --out effects.csv`

    At a site: `fedci predict result new.csv --site lyon --rows lyon.csv --keep patient`
    """
    from fedci.cli.progress import count_progress
    from fedci.result.prediction import check_site, kept_at, predict_file, with_rows
    from fedci.result.result import Result
    from fedci.table.columns import count_rows
    from fedci.table.table import Source, located

    fitted = Result.load(result)
    if rows and not site:
        raise UsageError("--rows are a site's: say which with --site")
    if rows and site in fitted.sites:
        fitted = with_rows(fitted, site, Source.at(fitted.study, site, rows), kept_at(fitted, site, kit))
    check_site(fitted, site)
    people = located(data, site or "new", fitted.study)
    with count_progress("people", count_rows(people), quiet or as_json) as progress:
        made = predict_file(fitted, people, out, site, alpha, outcome_noise=realised, keep=keep or (), force=force,
                            progress=progress)
    facts = {"out": str(made.path), "people": made.people, "mean_effect": made.mean, "site": site, "alpha": alpha}
    typer.echo(_as_json(facts) if as_json else
               f"{made.people:,} people, mean effect {made.mean:.4g}, {100 * (1 - alpha):g}% intervals: {made.path} "
               f"(only you can read it)")


@app.command()
def compare(first: ResultFolder,
            second: Annotated[Path, typer.Argument(metavar="RESULT", help="The folder of another result.")],
            alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """Two results beside each other, such as a study with and without one site.

    Example: `fedci compare result result-without-oslo`
    """
    from fedci.cli.screen import screen, show_comparison
    from fedci.result.comparison import compare as compared
    from fedci.result.result import Result

    comparison = compared(Result.load(first), Result.load(second), alpha)
    if as_json:
        typer.echo(_as_json(comparison.plain()))
        return
    show_comparison(comparison, (str(first), str(second)), screen())


@app.command()
def report(result: ResultFolder,
           out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Else RESULT/report.html.")] = None,
           others: Annotated[list[Path] | None, typer.Option(
               "--with", metavar="RESULT", help="A result over fewer sources, to show what each source added; once for "
               "each, in the order they were added.")] = None,
           ledgers: Annotated[list[Path] | None, typer.Option(
               "--ledger", metavar="DIR", help="A site's folder, to list what left it; once for each.")] = None,
           form: office.DocumentFormat = None,
           tables: Annotated[Path | None, typer.Option("--tables", metavar="DIR", help="For the numbers of every table "
                                                       "and plot, as CSV files.")] = None,
           alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """The result as a document: one HTML file with plots, readable on a phone, printable, without a network; or Word.

    Example: `fedci report result --out report.html`

    For a manuscript: `fedci report result --format docx --tables numbers`
    """
    from fedci.cli.progress import count_progress
    from fedci.report.documents import format_of
    from fedci.report.page import STEPS, write_report

    with count_progress("effects along the covariates", STEPS, as_json) as done:
        made = write_report(result, out, others or (), ledgers or (), alpha, done=done or (lambda steps: None),
                            form=format_of(out or Path("report.html"), form), tables=tables)
    typer.echo(_as_json({"report": str(made), "bytes": made.stat().st_size}) if as_json else f"Written: {made}")


@app.command()
def simulate(out: Annotated[Path, typer.Option("--out", metavar="DIR", help="For the files.")] = Path("hospitals"),
             rows: Annotated[int, typer.Option("--rows", metavar="NUMBER", min=20, help="Patients a hospital.")] = 140,
             seed: DemoSeed = 0, force: Force = False, as_json: Json = False) -> None:
    """Files of three simulated hospitals, to learn the commands with; truth.csv says what only a simulation knows.

    Example: `fedci simulate --out hospitals`
    """
    from fedci.synthetic.hospitals import write_hospitals

    made = [str(path) for path in write_hospitals(out, rows, seed, force)]
    typer.echo(_as_json({"files": made}) if as_json else "\n".join(made))


@app.command()
def demo(out: Out, seed: DemoSeed = 0, force: Force = False) -> None:
    """Simulate five hospitals, fit a study over them, and compare the effects with the truth.

    Example: `fedci demo --out demo`
    """
    check_folder(out, force)  # before JAX is loaded
    from fedci.cli.demo import run_demo

    run_demo(out, seed=seed, force=force)


@app.command()
def benchmark(
        dataset: Annotated[list[str], typer.Option(
            "--dataset", metavar="NAME", help="Once for each: data-1, data-2, ihdp, ihdp-shuffled, ihdp-sites, "
            "ihdp-causalrff, ihdp-missing, heterogeneous, overlap, linear, steps, many-directions, "
            "own-surfaces, interactions, null.")] = ["data-1"],  # noqa: B006
        methods: Annotated[str | None, typer.Option(
            "--methods", metavar="NAMES", help="Separated by commas; `--list` shows them. Without it, all.")] = None,
        replications: Annotated[int, typer.Option("--replications", metavar="NUMBER", min=1)] = 10,
        slow_replications: Annotated[int, typer.Option(
            "--slow-replications", metavar="NUMBER", min=0, help="Of OrthoRF and CEVAE, which take minutes.")] = 3,
        out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Figures so far in it are kept.")] =
        Path("benchmark-out"),
        sources: Annotated[str | None, typer.Option(
            "--sources", metavar="NUMBERS", help="Such as 1,2,3,4,5. Without it, the paper's.")] = None,
        modes: Annotated[str, typer.Option("--modes", metavar="NAMES", help="Of fed,com,loc,agg.")] =
        "fed,com,loc,agg",
        reading: Annotated[str, typer.Option("--reading", help="N(m, 2 I) of the paper: variance or std.")] =
        "variance",
        parameters: Annotated[str, typer.Option(
            "--parameters", help="True parameters of data-1 and data-2 drawn: once or per-replication.")] = "once",
        rows: Annotated[int, typer.Option("--rows", metavar="NUMBER", min=2, help="Training rows a source.")] = 50,
        ihdp: Annotated[Path | None, typer.Option("--ihdp", metavar="DIR", help="Where the IHDP files lie.")] = None,
        ihdp_missing: Annotated[Path | None, typer.Option(
            "--ihdp-missing", metavar="DIR", help="Where the files of ihdp-missing lie.")] = None,
        seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, max=2**31 - 1,
                                          help="Of the methods; data have their own.")] = 0,
        jobs: Annotated[int, typer.Option("--jobs", metavar="NUMBER", min=1, help="Processes side by side.")] = 1,
        retry: Annotated[bool, typer.Option("--retry", help="Try again what failed.")] = False,
        again: Annotated[bool, typer.Option("--again", help="Also what is finished; new figures replace old.")] = False,
        no_imputation: Annotated[bool, typer.Option(
            "--no-imputation", help="Leave out P1 of FedCI, half of its time.")] = False,
        quick: Annotated[bool, typer.Option("--quick", help="A small grid of fast methods: minutes.")] = False,
        show: Annotated[bool, typer.Option("--list", help="Methods and data sets, and what is installed.")] = False,
        quiet: Quiet = False) -> None:
    """Compare FedCI with other methods on data with known truth: tables, figures and the rows behind them.

    Example: `fedci benchmark --dataset data-1 --methods fedci,ridge-t-learner --replications 3 --out results --jobs 2`

    Interrupted, the same command goes on where it stopped.
    """
    from fedci.benchmark import grid

    if show:
        typer.echo(grid.listing())
        return
    asked = grid.Asked(datasets=dataset, methods=methods, replications=replications,
                       slow_replications=slow_replications, out=out, sources=sources, modes=modes, reading=reading,
                       parameters=parameters, rows=rows, ihdp=ihdp, ihdp_missing=ihdp_missing, seed=seed,
                       jobs=jobs, retry=retry, again=again, no_imputation=no_imputation)
    grid.benchmark(grid.quick(asked) if quick else asked, quiet)


@app.command()
def ledger(words: Annotated[list[str], typer.Argument(metavar="[verify] KIT", help="The site's kit.")],
           data: Annotated[str | None, typer.Option(
               "--data", metavar="DATA", help="With verify: the site's data, to recompute what left from it.")] = None,
           as_json: Json = False) -> None:
    """Everything that left a site, phase by phase, and whether the record is whole.

    `verify` recomputes every answer from the site's data, and names the first line that differs.

    Example: `fedci ledger lyon`, or `fedci ledger verify lyon --data cohort.csv`
    """
    from fedci.cli.ledger_view import show_ledger, show_replay

    verify = words[0] == "verify" and len(words) == 2
    if len(words) > 1 and not verify or verify != (data is not None):
        raise UsageError("give one kit (`fedci ledger KIT`), or `fedci ledger verify KIT --data DATA`")
    if verify and data is not None:
        show_replay(words[1], data, as_json=as_json)
    else:
        show_ledger(words[0], as_json=as_json)


def _parted(study: Study, table: str, column: str) -> list[Source]:
    """The sites of one table; those that are too small for the policy are left out, and said."""
    from fedci.errors import SizeError
    from fedci.table.parted import parted_file
    from fedci.table.table import located

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


def _tell_queries(sources: Sequence[Source]) -> None:
    """Before they are asked; beside the answer, which may be JSON."""
    for source in sources:
        if source.query:
            typer.echo(f"site {source.name!r}: {source.query}", err=True)


def _sources(study: Study, options: Sequence[str], columns: Sequence[str] = ()) -> list[Source]:
    """From NAME=DATA of each --site, each name once and in the study; and NAME=FILE of each --columns."""
    from fedci.table.table import Source

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


if __name__ == "__main__":
    main()
