"""What the parties of a study on a network type: `fedci network`, `fedci site`, `fedci coordinator`.

Heavy imports stand inside the commands, as in `cli`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedci.cli.arguments import Force, Json, StudyFile
from fedci.cli.screen import as_json as told_as_json
from fedci.cli.screen import result_in_words
from fedci.cli.stores import StoreFolder, store_app
from fedci.errors import UsageError
from fedci.files import check_folder

network_app = typer.Typer(help="Make the kits of a study's parties.", no_args_is_help=True)
site_app = typer.Typer(help="At a site: check the kit and the data, then take part.", no_args_is_help=True)
coordinator_app = typer.Typer(help="At the coordinator: run the study over its sites.", no_args_is_help=True)
site_app.add_typer(store_app, name="store")
APPS = {"network": network_app, "site": site_app, "coordinator": coordinator_app}

KitFolder = Annotated[Path, typer.Option("--kit", metavar="DIR", help="The folder this party was given.")]
SiteData = Annotated[str, typer.Option("--data", metavar="DATA", help="The site's .csv or .parquet file, `sql:FILE` "
                                       "with a query, or `sql:` for the study's query.")]
SitePolicy = Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="The site's own policy; without it, "
                                                 "FEDCI_SITE_POLICY, or site-policy.toml beside the kit.")]


@contextmanager
def _goes_on() -> Iterator[None]:
    """A command that Ctrl-C and every other way of asking ends, all below it too; and what a person then wants to know.

    Exit codes: 130 after Ctrl-C, 128 + the signal's number after another.
    """
    from fedci.network.signals import ending

    with ending() as heard:
        try:
            yield
        except (KeyboardInterrupt, typer.Abort):
            with suppress(OSError):  # the terminal may be gone
                typer.echo("stopped. What was reached is kept in the kit: run the same command again to go on",
                           err=True)
            if heard and heard[0] != signal.SIGINT:
                raise typer.Exit(128 + heard[0]) from None
            raise


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
        force: Force = False, as_json: Json = False) -> None:
    """Make one sealed kit per party: certificates, hardened settings, the study.

    Example: `fedci network new study.toml --site lyon --site oslo --site turin --host study.example.org`
    """
    _network_extra()
    from fedci.network.provision import COORDINATOR, new_network
    from fedci.study.study import Study

    made = new_network(Study.read(study), tuple(site or ()), host, out, port, force)
    if as_json:
        typer.echo(told_as_json({"kits": {party: str(folder) for party, folder in made.items()}, "host": host,
                             "port": port}))
        return
    typer.echo(f"{len(made)} kits in '{out}', each for one party only, by a channel you trust:")
    for party, folder in made.items():
        runs = (f"fedci coordinator run --kit {folder} {study}" if party == COORDINATOR else
                f"fedci site run --kit {party} --data FILE")
        typer.echo(f"  {folder}   to {party}, who runs `{runs}`")
    typer.echo(f"Sites connect outward to {host}:{port} (TCP); only the coordinator listens. Then delete '{out}' here, "
               f"but for the coordinator's kit: it holds the other parties' private keys.")


@site_app.command("policy")
def site_policy(
        kit: Annotated[Path | None, typer.Option("--kit", metavar="DIR", help="A kit of the site: its policy stands "
                                                 "beside it.")] = None,
        policy: SitePolicy = None,
        base: Annotated[str | None, typer.Option("--base", metavar="NAME", help="Begin anew from 'standard' or "
                                                 "'simulation'.")] = None,
        require: Annotated[list[str] | None, typer.Option("--require", metavar="KEY=VALUE", help="A stricter value; "
                                                          "once for each.")] = None,
        allow: Annotated[list[str] | None, typer.Option("--allow", metavar="KEY=VALUE", help="A looser value; once for "
                                                        "each. The ledger will hold it with the reason.")] = None,
        reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why a value is loosened.")] = "",
        as_json: Json = False) -> None:
    """Make, change and explain the site's own policy: what it asks of any study.

    Example: `fedci site policy`

    Loosening is an act of the site's operator: `fedci site policy --allow min_cell=5 --reason "board 12/3"`
    """
    from fedci.cli.screen import screen, table
    from fedci.site import floors

    place = floors.place_of(kit, policy)
    there = place.exists()
    now = floors.read_floors(place) if there and base is None else floors.based_on(base or "standard", reason)
    now = floors.required(now, dict(map(floors.value_of, require or ())))
    now = floors.allowed(now, dict(map(floors.value_of, allow or ())), reason)
    if not there or base or require or allow:
        now = floors.write_floors(now, place)
    if as_json:
        typer.echo(told_as_json({"policy": str(place), **now.plain()}))
        return
    heads = ("value", "floor", "stricter", "what it says")
    screen().print(table("What this site asks of any study", heads, list(floors.explained(now)), ("floor",)))
    typer.echo(f"{'Written' if not there else 'At'}: {place}. Without it a site on a network holds to 'standard'. "
               f"`fedci site check` shows which values hold in a study.")


@site_app.command("check")
def site_check(kit: KitFolder, data: SiteData, policy: SitePolicy = None, store: StoreFolder = None,
               as_json: Json = False) -> None:
    """Is the kit whole, do data and study fit, and which policy holds here, value by value? Nothing is sent.

    Example: `fedci site check --kit lyon --data cohort.csv`
    """
    _network_extra()
    from fedci.network.operations import check_site
    from fedci.site.floors import held

    said: list[str] = []
    own, floors = check_site(kit, data, said.append if as_json else typer.echo, policy, store)
    if as_json:
        typer.echo(told_as_json({"ok": True, "site": own.name, "study_hash": own.study_hash, "coordinator":
                             f"{own.host}:{own.port}", "policy": [rule._asdict() for rule in held(own.study, floors)],
                             "said": said}))


@site_app.command("run")
def site_run(
        kit: KitFolder, data: SiteData,
        approve: Annotated[bool, typer.Option("--approve", help="Ask here before each phase sends anything.")] = False,
        linkage_key: Annotated[Path | None, typer.Option(
            "--linkage-key", metavar="FILE", help="A key the sites shared among themselves.")] = None,
        store: StoreFolder = None,
        apart: Annotated[str, typer.Option("--apart", metavar="REASON", help="Where the site cannot tell: why these "
                                           "are none of the people it told of before.")] = "",
        wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=1.0,
                                            help="For a word from the coordinator.")] = 7 * 86400.0,
        policy: SitePolicy = None) -> None:
    """Connect to the coordinator, answer what the policy allows, and write the effects of your own people.

    Example: `fedci site run --kit lyon --data cohort.csv --approve`

    Ctrl-C stops, and nothing leaves any more; the same command goes on later. `fedci ledger lyon` shows what left.
    """
    _network_extra()
    ask = (lambda text: typer.confirm(f"{text}\nLet this leave?", default=False)) if approve else None
    with _goes_on():
        from fedci.network.operations import run_site

        run_site(kit, data, typer.echo, ask, linkage_key=linkage_key, wait=wait, policy=policy, keep=store, apart=apart)


@coordinator_app.command("run")
def coordinator_run(
        kit: KitFolder, study: StudyFile,
        out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Without it, in the kit.")] = None,
        force: Force = False,
        deadline: Annotated[float, typer.Option("--deadline", metavar="SECONDS", min=1.0,
                                                help="A site's time for one answer; then the run pauses.")] = 300.0,
        wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=1.0,
                                            help="For sites that are not there.")] = 86400.0,
        as_json: Json = False) -> None:
    """Wait for the sites, run the study over them, and write the result.

    Example: `fedci coordinator run --kit coordinator study.toml --out result`

    Interrupted, the same command goes on from its checkpoint.
    """
    _network_extra()
    place = check_folder(out, force) if out else kit / "out" / "result"
    with _goes_on():
        from fedci.network.operations import run_coordinator
        from fedci.result.result import Result
        from fedci.study.study import Study

        run_coordinator(kit, Study.read(study), place, partial(typer.echo, err=as_json), deadline, wait)
    result = Result.load(place)
    typer.echo(told_as_json({"out": str(place), **result.plain()}) if as_json else result_in_words(result, place))
