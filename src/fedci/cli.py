"""The command line: parse, call, and turn every error into one line on stderr and an exit code.

    0 done    1 a fault of fedci    2 an input to mend    3 refused by policy    4 federation    5 numerics
    130 interrupted

Heavy imports stand inside the commands, so that `--help` and mistakes in the call answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fedci.errors import FedciError, UsageError
from fedci.folder import check_folder

if TYPE_CHECKING:
    from fedci.data import Source
    from fedci.study import Study

# typer < 0.20 stands on click and later ones carry a copy of it; the root of its errors is reachable in both.
CommandLineError = typer.BadParameter.__mro__[2]

INTERRUPTED = 130

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown",
                  context_settings={"help_option_names": ["-h", "--help"]})

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (docs/study.md).")]
DataFile = Annotated[Path, typer.Argument(metavar="DATA", help="A .csv or .parquet file.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the results; made if need be.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier result in that folder.")]
SiteFiles = Annotated[list[str], typer.Option(
    "--site", metavar="NAME=PATH", help="A site and its .csv or .parquet file; once for each site.")]
SiteName = Annotated[str | None, typer.Option(
    "--site", metavar="NAME", help="The site's name; without it, the file's.")]
Preset = Annotated[str | None, typer.Option("--preset", metavar="NAME", help="In place of the study's.")]
Seed = Annotated[int | None, typer.Option("--seed", metavar="NUMBER", min=0, max=2**32 - 1,
                                          help="In place of the study's seed.")]
DemoSeed = Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, max=2**32 - 1,
                                       help="For the simulated patients.")]
ResultFolder = Annotated[Path, typer.Argument(metavar="RESULT", help="The folder of a study's result.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and leave with its exit code."""
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
def run(study: StudyFile, out: Out, site: SiteFiles, preset: Preset = None, seed: Seed = None,
        force: Force = False, quiet: Quiet = False) -> None:
    """Fit a study over several sites in this one process, and write the effects.

    Example: `fedci run study.toml --site lyon=lyon.csv --site oslo=oslo.parquet --out results`
    """
    from fedci.data import id_records
    from fedci.privacy.policy import check_available
    from fedci.study import Study

    plan = Study.read(study)
    sources = _sources(plan, site)
    check_available(plan.policy, len(sources))
    plan.fit_options(preset)
    check_folder(out, force)
    for source in sources:  # before the fit, which takes long, and before JAX is loaded
        table = source.read(plan)
        if plan.links and len(sources) > 1:
            id_records(plan, table)
    _fit(plan, sources, out, preset=preset or plan.preset, seed=plan.seed if seed is None else seed,
         force=force, quiet=quiet)


def _fit(plan: Study, sources: list[Source], out: Path, *, preset: str, seed: int, force: bool,
         quiet: bool) -> None:
    from fedci.estimator import FedCI
    from fedci.progress import round_progress

    with round_progress(quiet) as progress:
        result = FedCI(plan, preset=preset, seed=seed).fit(sources, progress=progress)
    result.save(out, force=force)
    typer.echo(result.summary())
    if result.diagnostics is not None:
        typer.echo(f"\n{result.diagnostics}")


@app.command()
def diagnostics(result: ResultFolder) -> None:
    """What the diagnostics of a study say, each with its verdict; of a blinded study, all but what tells the effect.

    Example: `fedci diagnostics results`
    """
    from fedci.diagnostics.record import Diagnostics

    typer.echo(str(Diagnostics.read(result / "diagnostics.json")))


@app.command()
def unblind(
        result: ResultFolder,
        by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who opens the effects; kept with the result.")],
        reason: Annotated[str, typer.Option(
            "--reason", metavar="TEXT", help="Why, where a diagnostic is a problem; kept as well.")] = "") -> None:
    """Open the effects of a blinded study, after its diagnostics were read; who, when and why is recorded.

    Example: `fedci unblind results --by "A. Statistician"`
    """
    from fedci.result import Result

    found = Result.load(result).unblind(by, reason)
    found.save(result, force=True)
    typer.echo(f"opened at {found.opened['at']} by {found.opened['by']}\n\n{found.summary()}\n\n{found.diagnostics}")


@app.command()
def check(study: StudyFile, data: DataFile, site: SiteName = None) -> None:
    """Read a site's file against the study, and say what is wrong with it. Nothing leaves the machine.

    Example: `fedci check study.toml lyon.csv`
    """
    from fedci.data import Source, id_records
    from fedci.study import Study

    plan = Study.read(study)
    table = Source(site or data.stem.lower(), data).read(plan)
    if plan.links:
        id_records(plan, table)
    typer.echo(f"ok: site {table.site!r}: rows {table.rows}, treated {table.treated}, "
               f"untreated {table.rows - table.treated}, design columns {len(table.columns)}, "
               f"values to impute {table.missing.sum()}")
    for warning in table.warnings:
        typer.echo(f"warning: {warning}")


@app.command()
def demo(out: Out, seed: DemoSeed = 0, force: Force = False) -> None:
    """Simulate five hospitals, fit a study over them, and compare the effects with the truth.

    Example: `fedci demo --out demo`
    """
    check_folder(out, force)  # before JAX is loaded
    from fedci.demo import run_demo

    run_demo(out, seed=seed, force=force)


@app.command()
def benchmark(
        dataset: Annotated[list[str], typer.Option(
            "--dataset", metavar="NAME", help="Once for each: data-1, data-2, ihdp, ihdp-shuffled, ihdp-sites, "
            "heterogeneous, overlap, linear, steps, many-directions, own-surfaces, interactions, "
            "null.")] = ["data-1"],  # noqa: B006
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
    from fedci.benchmark import command

    if show:
        typer.echo(command.listing())
        return
    asked = command.Asked(dataset, methods, replications, slow_replications, out, sources, modes, reading, parameters,
                          rows, ihdp, seed, jobs, retry, again, no_imputation)
    command.benchmark(command.quick(asked) if quick else asked, quiet)


# --- a study on a network: one command for each party

network_app = typer.Typer(help="Make the kits of a study's parties.", no_args_is_help=True)
site_app = typer.Typer(help="At a site: check the kit and the data, then take part.", no_args_is_help=True)
coordinator_app = typer.Typer(help="At the coordinator: run the study over its sites.", no_args_is_help=True)
app.add_typer(network_app, name="network")
app.add_typer(site_app, name="site")
app.add_typer(coordinator_app, name="coordinator")

KitFolder = Annotated[Path, typer.Option("--kit", metavar="DIR", help="The folder this party was given.")]
SiteData = Annotated[Path, typer.Option("--data", metavar="FILE", help="The site's .csv or .parquet file.")]


def _network_extra() -> None:
    from importlib.util import find_spec

    if find_spec("nvflare") is None:
        raise UsageError("the network needs the engine NVIDIA FLARE: run `pip install 'fedci[network]'`")


@network_app.command("new")
def network_new(
        study: StudyFile,
        host: Annotated[str, typer.Option("--host", metavar="NAME", help="How sites reach the coordinator.")],
        site: Annotated[list[str] | None, typer.Option("--site", metavar="NAME", help="Once for each site; without "
                                                       "it, the study's.")] = None,
        port: Annotated[int, typer.Option("--port", metavar="NUMBER", min=1, max=65535)] = 8002,
        out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the kits.")] = Path("kits"),
        force: Force = False) -> None:
    """Make one sealed kit per party: certificates, hardened settings, the study.

    Example: `fedci network new study.toml --site lyon --site oslo --site turin --host study.example.org`
    """
    _network_extra()
    from fedci.network.provision import COORDINATOR, new_network
    from fedci.study import Study

    made = new_network(Study.read(study), site or (), host, out, port, force)
    typer.echo(f"{len(made)} kits in '{out}', each for one party only, by a channel you trust:")
    for party, folder in made.items():
        runs = (f"fedci coordinator run --kit {folder} {study}" if party == COORDINATOR else
                f"fedci site run --kit {party} --data FILE")
        typer.echo(f"  {folder}   to {party}, who runs `{runs}`")
    typer.echo(f"Sites connect outward to {host}:{port} (TCP); only the coordinator listens. Then delete '{out}' here, "
               f"but for the coordinator's kit: it holds the other parties' private keys.")


@site_app.command("check")
def site_check(kit: KitFolder, data: SiteData) -> None:
    """Is the kit whole, are its settings the hardened ones, and does the data fit the study? Nothing is sent.

    Example: `fedci site check --kit lyon --data cohort.csv`
    """
    _network_extra()
    from fedci.network.command import check_site

    check_site(kit, data, typer.echo)


@site_app.command("run")
def site_run(
        kit: KitFolder, data: SiteData,
        approve: Annotated[bool, typer.Option("--approve", help="Ask here before each phase sends anything.")] = False,
        linkage_key: Annotated[Path | None, typer.Option(
            "--linkage-key", metavar="FILE", help="A key the sites shared among themselves.")] = None,
        wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=1.0,
                                            help="For a word from the coordinator.")] = 7 * 86400.0) -> None:
    """Connect to the coordinator, answer what the policy allows, and write the effects of your own people.

    Example: `fedci site run --kit lyon --data cohort.csv --approve`

    Ctrl-C stops; the same command goes on later. `fedci ledger lyon` shows what left.
    """
    _network_extra()
    from fedci.network.command import run_site

    ask = (lambda text: typer.confirm(f"{text}\nLet this leave?", default=False)) if approve else None
    run_site(kit, data, typer.echo, ask, linkage_key, wait)


@coordinator_app.command("run")
def coordinator_run(
        kit: KitFolder, study: StudyFile,
        out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Without it, in the kit.")] = None,
        seed: Seed = None, force: Force = False,
        deadline: Annotated[float, typer.Option("--deadline", metavar="SECONDS", min=1.0,
                                                help="A site's time for one answer; then the run pauses.")] = 300.0,
        wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=1.0,
                                            help="For sites that are not there.")] = 86400.0) -> None:
    """Wait for the sites, run the study over them, and write the result.

    Example: `fedci coordinator run --kit coordinator study.toml --out result`

    Interrupted, the same command goes on from its checkpoint.
    """
    _network_extra()
    from fedci.network.command import run_coordinator
    from fedci.result import Result
    from fedci.study import Study

    place = check_folder(out, force) if out else kit / "out" / "result"
    run_coordinator(kit, Study.read(study), place, typer.echo, seed, deadline, wait)
    found = Result.load(place)
    typer.echo(f"{found.summary()}\n\n{found.diagnostics or ''}".rstrip())


@app.command()
def ledger(kit: Annotated[Path, typer.Argument(metavar="KIT", help="The site's kit.")]) -> None:
    """Everything that left a site, phase by phase, and whether the record is whole.

    Example: `fedci ledger lyon`
    """
    from fedci.ledger_command import show_ledger

    show_ledger(kit)


def _sources(study: Study, options: Sequence[str]) -> list[Source]:
    """From NAME=PATH of each --site, each name once and in the study."""
    from fedci.data import Source

    paths: dict[str, str] = {}
    for option in options:
        name, equals, path = option.partition("=")
        if not (name and equals and path):
            raise UsageError(f"--site {option!r}: needs NAME=PATH, for example --site lyon=lyon.csv")
        if name in paths:
            raise UsageError(f"--site {name!r} is repeated. Give each site one file")
        study.check_site(name)
        paths[name] = path
    return [Source(name, Path(path)) for name, path in paths.items()]


if __name__ == "__main__":
    main()
