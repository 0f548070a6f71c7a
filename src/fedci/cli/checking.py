"""Before a study runs: `fedci init` proposes its file, `fedci check` reads a site's data against it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fedci.cli import parties
from fedci.cli.arguments import DataFile, Json, OwnColumns, SiteName, StudyFile
from fedci.cli.fitting import tell_queries
from fedci.cli.screen import as_json as _as_json
from fedci.errors import FedciError, UsageError

if TYPE_CHECKING:
    from fedci.study.study import Study
    from fedci.table.table import Table


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
    from fedci.table.source import located

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
    from fedci.table.problems import problems
    from fedci.table.recode import in_words
    from fedci.table.source import Source, attrition

    floors = floors_at(None, policy)
    plan = Study.read(study).under(floors.policy if floors.path else None)
    source = Source.at(plan, site or _site_named(data), data, columns)
    tell_queries([source])
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
    from fedci.site.admission import reasons, situation
    from fedci.study.policy import POLICIES

    if plan.floors is not None:
        return []
    against = reasons(situation(plan.under(POLICIES["standard"]), table, sites))
    return [f"over a network a site holds to 'standard' unless its own policy says otherwise (`fedci site policy`), "
            f"and would refuse: {'; '.join(map(str, against))}"] if against else []
