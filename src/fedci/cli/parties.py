"""What the parties of a study on a network, or by files, type: `fedci network`, `fedci site`, `fedci coordinator`.

Heavy imports stand inside the commands, as in `cli`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedci.cli.arguments import Force, Json, OwnColumns, StudyFile, own_columns
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

LinkageKey = Annotated[Path | None, typer.Option("--linkage-key", metavar="FILE", help="A key the sites shared among "
                                                 "themselves.")]
Apart = Annotated[str, typer.Option("--apart", metavar="REASON", help="Where the site cannot tell: why these are none "
                                    "of the people it told of before.")]


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


def _for_network(kit: Path, role: str) -> None:
    """UsageError where the kit is made for files, or the engine is not installed."""
    from fedci.network.kit import read
    from fedci.network.operations import check_way

    check_way(read(kit, role), by_files=False)
    _network_extra()


@network_app.command("new")
def network_new(
        study: StudyFile,
        host: Annotated[str, typer.Option("--host", metavar="NAME", help="How sites reach the coordinator.")] = "",
        files: Annotated[bool, typer.Option("--files", help="Nobody connects: messages travel as files.")] = False,
        site: Annotated[list[str] | None, typer.Option("--site", metavar="NAME", help="Once for each site; without "
                                                       "it, the study's.")] = None,
        port: Annotated[int, typer.Option("--port", metavar="NUMBER", min=1, max=65535)] = 8002,
        out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the kits.")] = Path("kits"),
        force: Force = False, as_json: Json = False) -> None:
    """Make one sealed kit per party: certificates, hardened settings, the study.

    Example: `fedci network new study.toml --site lyon --site oslo --site turin --host study.example.org`

    Where sites may not connect: `fedci network new study.toml --site lyon --site oslo --site turin --files`
    """
    if files == bool(host):
        raise UsageError("say how messages travel: over a network (--host NAME, how sites reach the coordinator), or "
                         "as files that people carry (--files)")
    if files:
        _new_by_files(study, tuple(site or ()), out, force, as_json)
        return
    _network_extra()
    from fedci.network.provision import COORDINATOR, new_network
    from fedci.study.study import Study

    made = new_network(Study.read(study), tuple(site or ()), host, out, port, force)
    if as_json:
        typer.echo(told_as_json({"kits": _places(made), "host": host, "port": port}))
        return
    _show_kits(out, made, {party: f"fedci coordinator run --kit {folder} {study}" if party == COORDINATOR else
                           f"fedci site run --kit {party} --data FILE" for party, folder in made.items()},
               f"Sites connect outward to {host}:{port} (TCP); only the coordinator listens.")


def _new_by_files(study: Path, sites: tuple[str, ...], out: Path, force: bool, as_json: bool) -> None:
    from fedci.network.provision import COORDINATOR, new_by_files
    from fedci.study.study import Study

    made = new_by_files(Study.read(study), sites, out, force)
    if as_json:
        typer.echo(told_as_json({"kits": _places(made), "files": True}))
        return
    _show_kits(out, made, {party: f"fedci coordinator next --kit {folder} --out requests" if party == COORDINATOR else
                           f"fedci site answer request-1.fedci --kit {party} --data FILE"
                           for party, folder in made.items()},
               "Nobody connects: requests and answers are files, sealed for who reads them.")


def _places(made: Mapping[str, Path]) -> dict[str, str]:
    return {party: str(folder) for party, folder in made.items()}


def _show_kits(out: Path, made: Mapping[str, Path], runs: Mapping[str, str], way: str) -> None:
    """Whose each kit is and what its party runs; `way`: how messages travel."""
    typer.echo(f"{len(made)} kits in '{out}', each for one party only, by a channel you trust:")
    for party, folder in made.items():
        typer.echo(f"  {folder}   to {party}, who runs `{runs[party]}`")
    typer.echo(f"{way} Then delete '{out}' here, but for the coordinator's kit: it holds the other parties' private "
               f"keys.")


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
               columns: OwnColumns = None, as_json: Json = False) -> None:
    """Is the kit whole, do data and study fit, and which policy holds here, value by value? Nothing is sent.

    Example: `fedci site check --kit lyon --data cohort.csv`
    """
    from fedci.network.kit import read
    from fedci.network.operations import check_site
    from fedci.site.floors import held

    if not read(kit, "site").by_files:
        _network_extra()
    said: list[str] = []
    with own_columns(columns):
        own, floors = check_site(kit, data, said.append if as_json else typer.echo, policy, store)
    coordinator = "" if own.by_files else f"{own.host}:{own.port}"
    if as_json:
        typer.echo(told_as_json({"ok": True, "site": own.name, "study_hash": own.study_hash, "coordinator": coordinator,
                                 "policy": [rule._asdict() for rule in held(own.study, floors)], "said": said}))


@site_app.command("run")
def site_run(
        kit: KitFolder, data: SiteData,
        approve: Annotated[bool, typer.Option("--approve", help="Ask here before each phase sends anything.")] = False,
        linkage_key: LinkageKey = None, store: StoreFolder = None, apart: Apart = "",
        wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", min=1.0,
                                            help="For a word from the coordinator.")] = 7 * 86400.0,
        policy: SitePolicy = None, columns: OwnColumns = None) -> None:
    """Connect to the coordinator, answer what the policy allows, and write the effects of your own people.

    Example: `fedci site run --kit lyon --data cohort.csv --approve`

    Ctrl-C stops, and nothing leaves any more; the same command goes on later. `fedci ledger lyon` shows what left.
    """
    _for_network(kit, "site")
    ask = (lambda text: typer.confirm(f"{text}\nLet this leave?", default=False)) if approve else None
    with _goes_on(), own_columns(columns):
        from fedci.network.operations import run_site

        run_site(kit, data, typer.echo, ask, linkage_key=linkage_key, wait=wait, policy=policy, keep=store, apart=apart)


@site_app.command("answer")
def site_answer(
        request: Annotated[Path, typer.Argument(metavar="REQUEST", help="The coordinator's file.")],
        kit: KitFolder, data: SiteData,
        out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="For the answer; without it, beside the "
                                                 "request.")] = None,
        approve: Annotated[bool, typer.Option("--approve", help="Ask here before a phase sends anything.")] = False,
        linkage_key: LinkageKey = None, store: StoreFolder = None, apart: Apart = "", policy: SitePolicy = None,
        columns: OwnColumns = None, as_json: Json = False) -> None:
    """Answer one request that came as a file, with a file: what the policy allows, sealed for the coordinator.

    Example: `fedci site answer request-3.fedci --kit lyon --data cohort.csv --out answer-3.fedci --approve`

    Killed, or the answer lost? The same command writes the same file. `fedci ledger lyon` shows what left.
    """
    from fedci.mail.answering import answer

    ask = (lambda text: typer.confirm(f"{text}\nLet this leave?", default=False, err=as_json)) if approve else None
    with _goes_on(), own_columns(columns):
        told = answer(kit, data, request, out, ask, linkage_key=linkage_key, policy=policy, keep=store, apart=apart)
    if as_json:
        typer.echo(told_as_json({name: str(part) if name == "out" else part for name, part in vars(told).items()}))
        return
    typer.echo(f"step       {told.step} of run {told.run}: {told.phase} ({told.request})")
    typer.echo(f"refused    {told.refused}" if told.refused else f"leaves     {told.leaves}")
    if told.refused:
        typer.echo(f"tells      the coordinator: {told.leaves}")
    if told.people:
        typer.echo(f"effects    of your people: {told.people}")
    typer.echo(f"written    {told.out}: send it to the coordinator. Then wait for the next request; after the last one "
               f"none comes")


@coordinator_app.command("next")
def coordinator_next(
        kit: KitFolder,
        answers: Annotated[Path | None, typer.Argument(metavar="ANSWERS", help="The folder with the sites' files, old "
                                                       "ones too; none at the first time.")] = None,
        out: Annotated[Path, typer.Option("--out", metavar="DIR", help="For the requests, a folder for each site.")] =
        Path("requests"),
        result: Annotated[Path | None, typer.Option("--result", metavar="DIR", help="For the result, when there is "
                                                    "one; without it, in the kit.")] = None,
        force: Force = False,
        new_run: Annotated[bool, typer.Option("--new-run", help="Begin anew: the study must allow it (runs), and no "
                                              "answer so far counts.")] = False,
        without: Annotated[list[str] | None, typer.Option("--without", metavar="NAME", help="With --new-run: a site "
                                                          "that stays away, where the study has a quorum.")] = None,
        as_json: Json = False) -> None:
    """Where the sites may not connect: take their answers, and write the next requests, or the result.

    Example: `fedci coordinator next --kit coordinator answers --out requests --result result`

    Run it as often as you like: without new answers it writes the same requests, to the bit, and says who is missing
    (exit code 4).
    """
    from fedci.mail.asking import check_progress, go_on

    place = check_folder(result, force) if result else kit / "out" / "result"
    with _goes_on():
        stands = go_on(kit, answers, out, place, new_run, tuple(without or ()))
    for name, reason in stands.refused.items():
        typer.echo(f"refused    {name}: {reason}", err=as_json)
    if stands.old:
        typer.echo(f"old        {stands.old} answers to earlier steps were left alone", err=as_json)
    if stands.result is not None:
        _show_result(stands.result, as_json)
        return
    if as_json:
        typer.echo(told_as_json({name: part for name, part in vars(stands).items() if name != "requests"}
                                | {"requests": {site: str(path) for site, path in stands.requests.items()}}))
    check_progress(stands)
    if as_json:
        return
    typer.echo(f"step       {stands.step} of run {stands.run}: {stands.phase} ({stands.request})")
    if stands.round:
        typer.echo(f"round      {stands.round}")
    for site, path in stands.requests.items():
        typer.echo(f"written    {path}: send it to {site}{'' if site in stands.missing else ' (its answer is here)'}")
    typer.echo(f"waiting    for {', '.join(stands.missing)}: put their files into one folder, and run "
               f"`fedci coordinator next` with it")


def _show_result(place: Path, as_json: bool) -> None:
    from fedci.result.result import Result

    result = Result.load(place)
    typer.echo(told_as_json({"out": str(place), **result.plain()}) if as_json else result_in_words(result, place))


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
    _for_network(kit, "coordinator")
    place = check_folder(out, force) if out else kit / "out" / "result"
    with _goes_on():
        from fedci.network.operations import run_coordinator
        from fedci.study.study import Study

        run_coordinator(kit, Study.read(study), place, partial(typer.echo, err=as_json), deadline, wait)
    _show_result(place, as_json)
