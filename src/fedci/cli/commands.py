"""The command line: parse, call, and turn every error into one line on stderr and an exit code.

    0 done    1 a fault of fedci    2 an input to mend    3 refused by policy    4 federation    5 numerics
    130 interrupted

Heavy imports stand inside the commands, so that `--help` and mistakes in the call answer at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from fedci.cli import checking, choosing, fitting, office, parties, results
from fedci.cli.arguments import DemoSeed, Force, Json, Out, Quiet
from fedci.cli.screen import as_json as _as_json
from fedci.errors import FedciError, UsageError
from fedci.files import check_folder

# typer < 0.20 stands on click and later ones carry a copy of it; the root of its errors is reachable in both.
CommandLineError: Any = typer.BadParameter.__mro__[2]

INTERRUPTED = 130

app = typer.Typer(add_completion=True, pretty_exceptions_enable=False, rich_markup_mode="markdown",
                  context_settings={"help_option_names": ["-h", "--help"]})
for name, commands in parties.APPS.items():
    app.add_typer(commands, name=name)


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
        return _failed(_with_usage(error), UsageError.exit_code)
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


def _with_usage(error: Any) -> str:
    """A call that was not understood, with one that would be."""
    said, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if context is None:
        return f"{said}. `fedci --help` lists the commands"
    called = context.command_path
    if commands := getattr(context.command, "commands", None):
        return f"{said}. There are: {', '.join(commands)}. `{called} --help` says what each does"
    example = re.search(r"Example: (`[^`]*`)", context.command.help or "")
    return f"{said}. {example[0] if example else 'All of it'}; `{called} --help` says what is what"


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


def simulate(out: Annotated[Path, typer.Option("--out", metavar="DIR", help="For the files.")] = Path("hospitals"),
             rows: Annotated[int, typer.Option("--rows", metavar="NUMBER", min=20, help="Patients a hospital.")] = 140,
             seed: DemoSeed = 0, force: Force = False, as_json: Json = False) -> None:
    """Files of three simulated hospitals, to learn the commands with; truth.csv says what only a simulation knows.

    Example: `fedci simulate --out hospitals`
    """
    from fedci.synthetic.hospitals import write_hospitals

    made = [str(path) for path in write_hospitals(out, rows, seed, force)]
    typer.echo(_as_json({"files": made}) if as_json else "\n".join(made))


def demo(out: Out, seed: DemoSeed = 0, force: Force = False) -> None:
    """Simulate five hospitals, fit a study over them, and compare the effects with the truth.

    Example: `fedci demo --out demo`
    """
    check_folder(out, force)  # before JAX is loaded
    from fedci.cli.demo import run_demo

    run_demo(out, seed=seed, force=force)


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


# in the order in which `--help` lists them
for command in (demo, simulate, checking.init, checking.check, choosing.plan, office.protocol, fitting.run,
                results.diagnostics, results.unblind, office.show, results.report, results.predict, results.compare,
                choosing.transport, results.ledger, benchmark):
    app.command()(command)


if __name__ == "__main__":
    main()
