"""What is asked of a result: its diagnostics, its opening, predictions, comparisons, its report; and of a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedci.cli import office
from fedci.cli.arguments import Alpha, DataFile, Json, Quiet, ResultFolder
from fedci.cli.screen import as_json as _as_json
from fedci.errors import UsageError


def diagnostics(result: ResultFolder, as_json: Json = False) -> None:
    """What the diagnostics of a study say, each with its verdict; of a blinded study, all but what tells the effect.

    Example: `fedci diagnostics results`
    """
    from fedci.diagnostics.findings import Diagnostics
    from fedci.result.replacement import verified

    findings = Diagnostics.read(verified(result, "diagnostics.json"))
    typer.echo(findings.to_json() if as_json else str(findings))


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
    from fedci.table.source import Source, located

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
