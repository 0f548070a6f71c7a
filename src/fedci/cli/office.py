"""What a study office types: `fedci protocol` before any data are read; `status` and `service` of a party."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedci.cli import parties
from fedci.cli.arguments import Alpha, Json, ResultFolder, StudyFile
from fedci.cli.screen import as_json as told_as_json
from fedci.cli.stores import StoreFolder
from fedci.errors import OutputError

if TYPE_CHECKING:
    from fedci.network.kit import Kit
    from fedci.network.status import Status

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


# --- where a party stands, and a service that keeps it running

KitFolder = parties.KitFolder
UnitFile = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="For the unit; without it, it is shown.")]
EnvironmentFile = Annotated[Path | None, typer.Option("--environment", metavar="FILE", help="With lines such as "
                                                      "FEDCI_DATABASE_URL=…; readable by its owner alone.")]
OfUser = Annotated[bool, typer.Option("--user", help="For `systemctl --user`, without the rights of root.")]


@parties.site_app.command("status")
def site_status(kit: KitFolder, as_json: Json = False) -> None:
    """Where the run stands: the last exchange, what left so far in counts, where logs and effects are.

    Example: `fedci site status --kit lyon`
    """
    from fedci.network.status import site_status as standing

    _tell_status(standing(kit), as_json)


@parties.coordinator_app.command("status")
def coordinator_status(kit: KitFolder, as_json: Json = False) -> None:
    """Where the study stands: phase, round, who is waited for, where checkpoint and result are.

    Example: `fedci coordinator status --kit coordinator`
    """
    from fedci.network.status import coordinator_status as standing

    _tell_status(standing(kit), as_json)


def _tell_status(status: Status, as_json: bool) -> None:
    typer.echo(told_as_json(status.plain()) if as_json else "\n".join(status.in_words()))


@parties.site_app.command("service")
def site_service(kit: KitFolder, data: parties.SiteData, out: UnitFile = None, store: StoreFolder = None,
                 policy: parties.SitePolicy = None, environment: EnvironmentFile = None, user: OfUser = False,
                 as_json: Json = False) -> None:
    """A systemd unit that keeps `fedci site run` running: after a reboot, a crash, or a coordinator that was away.

    Example: `fedci site service --kit lyon --data cohort.csv --out fedci-lyon.service`
    """
    from fedci.network.kit import read
    from fedci.site.store import place
    from fedci.table.table import absolute

    own, kept = read(kit, "site"), place(store)
    words = ["site", "run", "--kit", str(own.folder), "--data", str(absolute(data)), "--store", str(kept.absolute()),
             *(["--policy", str(policy.absolute())] if policy else [])]
    _write_unit(own, words, [kept], out, environment, user, as_json)


@parties.coordinator_app.command("service")
def coordinator_service(kit: KitFolder, result: Annotated[Path, typer.Option("--result", metavar="DIR", help=(
                            "For the result."))] = Path("result"),
                        out: UnitFile = None, user: OfUser = False, as_json: Json = False) -> None:
    """A systemd unit that keeps `fedci coordinator run` running until the result is written.

    Example: `fedci coordinator service --kit coordinator --result /srv/study/result --out fedci-coordinator.service`
    """
    from fedci.network.kit import STUDY, read

    own, place = read(kit, "coordinator"), result.absolute()
    words = ["coordinator", "run", "--kit", str(own.folder), str(own.folder / STUDY), "--out", str(place), "--force"]
    _write_unit(own, words, [place.parent], out, None, user, as_json)


def _write_unit(own: Kit, words: list[str], writes: list[Path], out: Path | None, environment: Path | None,
                user: bool, as_json: bool) -> None:
    from fedci.files import make_folder, write_new
    from fedci.network.service import name_of, unit

    text, name = unit(own, words, writes, environment, user), name_of(own)
    for place in writes:  # systemd starts no unit that may write to what is not there
        make_folder(place)
    if out is not None:
        write_new(out, text, force=True)
    if as_json:
        typer.echo(told_as_json({"unit": text, "name": name, "out": str(out) if out else None}))
        return
    if out is None:
        typer.echo(text, nl=False)
        return
    where = "~/.config/systemd/user" if user else "/etc/systemd/system"
    flag = " --user" if user else ""
    typer.echo(f"Written: {out}. Put it at {where}/{name}, then: systemctl{flag} daemon-reload && systemctl{flag} "
               f"enable --now {name}. Its log: journalctl{flag} -u {name}; where it stands: fedci {own.role} status")


# --- a result, as other programs read it


def show(result: ResultFolder, alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """A result in words, or as JSON for other programs: averages with their intervals, how they were reached, warnings.

    Example: `fedci show result`, or `fedci show result --json`
    """
    from fedci.cli.screen import result_in_words
    from fedci.result.result import Result

    found = Result.load(result)
    typer.echo(told_as_json({**found.plain(alpha), "study_hash": found.study.hash(), "made": found.made,
                             "versions": dict(found.versions)}) if as_json else result_in_words(found, result))
