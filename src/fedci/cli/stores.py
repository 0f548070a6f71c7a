"""`fedci site store`: what a site keeps of whom it has told, shown in counts, copied, brought back, begun anew.

Heavy imports stand inside the commands, as in `cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedci.cli.arguments import Force, Json
from fedci.cli.screen import as_json as told_as_json
from fedci.errors import OutputError, UsageError

store_app = typer.Typer(help="Of whom this site has told: show it, back it up, bring it back.", no_args_is_help=True)

StoreFolder = Annotated[Path | None, typer.Option(
    "--store", metavar="DIR", help="Where the site keeps of whom it has told; without it FEDCI_SITE_STORE, or "
    "~/.local/share/fedci/site.")]
Backup = Annotated[Path, typer.Argument(metavar="FILE", help="The backup: one private file.")]


@store_app.command("show")
def store_show(store: StoreFolder = None, as_json: Json = False) -> None:
    """How many cohorts, people and numbers this site has told of, over all studies. Names nobody.

    Example: `fedci site store show`
    """
    from fedci.site.accountant import Accountant, act_in_words
    from fedci.site.store import place

    folder = place(store)
    accountant = Accountant(folder)
    counts, acts = accountant.counts, [act_in_words(act) for act in accountant.acts]
    if as_json:
        typer.echo(told_as_json({"store": str(folder), **counts._asdict(), "acts": acts}))
        return
    typer.echo(f"the store in '{folder}' is whole: {counts.cohorts} cohorts of {counts.people} people told of in "
               f"{counts.runs} runs; {counts.numbers} numbers, at most {counts.most} in the runs of one person")
    for act in acts:
        typer.echo(act)


@store_app.command("backup")
def store_backup(file: Backup, store: StoreFolder = None, force: Force = False, as_json: Json = False) -> None:
    """Copy the whole store, verified, to a file that only you can read. It holds the store's secret: keep it as you
    keep patients' data.

    Example: `fedci site store backup store.backup`
    """
    from fedci.site.store import backup, place

    if file.exists() and not force:
        raise OutputError(f"'{file}' is there already: choose another name, or replace it with --force")
    lines = backup(place(store), file)
    if as_json:
        typer.echo(told_as_json({"file": str(file), "lines": lines}))
        return
    typer.echo(f"{lines} lines in '{file}', whole. Bring it back with `fedci site store restore {file}`")


@store_app.command("restore")
def store_restore(
        file: Backup, store: StoreFolder = None,
        reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why a backup that is older than the last "
                                            "run must do; the ledger will say it.")] = "",
        as_json: Json = False) -> None:
    """Bring the store back from a backup. What stood there is set aside, never deleted; a whole store that holds more
    than the backup stays.

    Example: `fedci site store restore store.backup`
    """
    from fedci.site.store import place, restore

    lines = restore(place(store), file, reason)
    if as_json:
        typer.echo(told_as_json({"store": str(place(store)), "lines": lines}))
        return
    typer.echo(f"{lines} lines restored to '{place(store)}'. Runs after the backup was made are not in it: where this "
               f"site's ledger has such, it refuses until a newer backup is brought, or --reason is given")


@store_app.command("new")
def store_new(
        reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; every ledger of the site will say "
                                            "it.")],
        store: StoreFolder = None, as_json: Json = False) -> None:
    """Begin anew where a store is lost and there is no backup. From then on nobody can see that a later study differs
    by few people from one before.

    Example: `fedci site store new --reason "disk lost on 3 May, no backup; agreed with the DPO"`
    """
    from fedci.site.store import create, place

    if not reason.strip():
        raise UsageError("a new store needs a reason in words: --reason \"…\"")
    create(place(store), reason.strip())
    if as_json:
        typer.echo(told_as_json({"store": str(place(store)), "reason": reason.strip()}))
        return
    typer.echo(f"a new store in '{place(store)}'. What stood there is set aside in the same folder. The ledger of each "
               f"kit notes the reason at its next run")
