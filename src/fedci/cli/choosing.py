"""What a decision needs beside the fit: `fedci plan` before outcomes are seen, `fedci transport` to other people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedci.cli.arguments import Alpha, Json, ResultFolder, SiteFiles
from fedci.cli.screen import as_json as told_as_json
from fedci.errors import UsageError

if TYPE_CHECKING:
    from fedci.diagnostics.planning import Plan
    from fedci.study.study import Study


PlanOf = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file; or the folder of a blinded result, of "
                                        "sites that are elsewhere.")]


def plan(study: PlanOf, site: SiteFiles = None,
         sd: Annotated[float | None, typer.Option("--sd", metavar="NUMBER", help="The outcome's assumed spread.")] =
         None,
         risk: Annotated[float | None, typer.Option("--risk", metavar="SHARE", help="Of 0 and 1, or of an event by the "
                                                    "last horizon: its assumed risk, in place of --sd.")] = None,
         explained: Annotated[float, typer.Option("--explained", metavar="SHARE", help="Of the outcome's variance, "
                                                  "what the covariates are assumed to explain.")] = 0.0,
         alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """The smallest average effect that a study would find, with and without each site; no outcome is looked at.

    Example: `fedci plan study.toml --site lyon=lyon.csv --site oslo=oslo.csv --sd 12`

    From people, arms and overlap in the tables, which need no outcomes yet, and an assumed spread of the outcome (or
    `--risk 0.2`). Over a network: run the study blinded, and `fedci plan result --sd 12`.
    """
    from fedci.study.study import Study

    if (sd is None) == (risk is None):
        raise UsageError("say what is assumed of the outcome: --sd NUMBER, or --risk SHARE of 0 and 1")
    if risk is not None and not 0.0 < risk < 1.0:
        raise UsageError(f"--risk {risk:g} is no risk: give a share between 0 and 1")
    spread = sd if sd is not None else math.sqrt((risk or 0.0) * (1.0 - (risk or 0.0)))
    if study.is_dir():
        if site:
            raise UsageError("a result knows its sites: leave --site out, or give the study file")
        outcome, found = _plans_of_result(study, spread, explained, alpha)
    else:
        asked = Study.read(study)
        outcome, found = asked.outcome, _plans_of_tables(asked, site or [], spread, explained, alpha)
    if as_json:
        typer.echo(told_as_json({"alpha": alpha, "sd": spread, "explained": explained,
                                 "plans": [one._asdict() for one in found]}))
        return
    typer.echo(f"The smallest average effect on '{outcome}' that would be found (two-sided {alpha:g}), if the "
               f"outcome's spread is {spread:.4g}{f' and {explained:.0%} of it explained' if explained else ''}:")
    for one in found:
        typer.echo(f"  {one.sites:<24} {one.untreated:>7,} untreated, {one.treated:>7,} treated (worth "
                   f"{one.effective_untreated:,.0f} and {one.effective_treated:,.0f})   power 80%: {one.mde_80:.4g}   "
                   f"power 90%: {one.mde_90:.4g}")
    typer.echo("No outcome was looked at.")


def _plans_of_tables(asked: Study, site: Sequence[str], spread: float, explained: float, alpha: float) -> list[Plan]:
    from fedci.diagnostics.planning import People, of_pair, plans
    from fedci.table.source import Source

    if not site:
        raise UsageError("give each site with --site NAME=DATA")
    paths = dict(_named(one) for one in site)
    sites = {name: People(*Source.at(asked, name, path).read_arms(asked)) for name, path in paths.items()}
    if not asked.arms:
        return plans(sites, spread, explained, alpha, asked.design.randomised)
    return [one._replace(sites=f"{arm} vs {asked.arms[0]}, {one.sites}") for k, arm in enumerate(asked.arms[1:], 1)
            for one in plans(of_pair(sites, k), spread, explained, alpha, asked.design.randomised)]


def _plans_of_result(folder: Path, spread: float, explained: float, alpha: float) -> tuple[str, list[Plan]]:
    """(the outcome, plans), from what was told before any outcome."""
    from fedci.diagnostics.planning import plans_of_told
    from fedci.result.result import Result

    result = Result.load(folder)
    known = result.diagnostics.overlap if result.diagnostics is not None else None
    people = {name: (one.rows - one.treated, one.treated) for name, one in result.outcome.layout.people.items()}
    untreated, treated = (None, None) if known is None else (known.effective_untreated, known.effective_treated)
    if result.study.design.randomised:
        untreated, treated = (float(sum(arm)) for arm in zip(*people.values(), strict=True))
    if result.many or untreated is None or treated is None:
        raise UsageError("this result does not tell how many people its comparison is worth: that is of a study of two "
                         "arms with diagnostics. Give the study file, and each site's table with --site NAME=DATA")
    return result.study.outcome, plans_of_told(people, (untreated, treated), spread, explained, alpha)


def _named(given: str) -> tuple[str, str]:
    """NAME=DATA."""
    name, sign, path = given.partition("=")
    if not (name and sign and path):
        raise UsageError(f"--site {given!r}: write NAME=DATA, such as lyon=lyon.csv")
    return name, path


def transport(result: ResultFolder,
              data: Annotated[str | None, typer.Argument(metavar="DATA", help="A file of people, or a query: it stays "
                                                         "here.")] = None,
              moments: Annotated[Path | None, typer.Option("--moments", metavar="FILE", help="In place of DATA: TOML "
                                                           "with the means and shares of a published table.")] = None,
              arm: Annotated[str | None, typer.Option("--arm", metavar="NAME", help="Of more than two arms: the one "
                                                      "that the effect is of.")] = None,
              against: Annotated[str | None, typer.Option("--against", metavar="NAME", help="With --arm: the one it "
                                                              "is compared with. Without it, the reference.")] = None,
              alpha: Alpha = 0.05, as_json: Json = False) -> None:
    """The average effect in another population, with an interval and how far its people are from the study's.

    Example: `fedci transport result registry.csv`; of a hospital that has no outcomes, at that hospital

    Of a published table 1: `fedci transport result --moments table1.toml`, with lines such as `male = 0.45`,
    `age = { mean = 71, sd = 9 }`, `stage = { II = 0.4, III = 0.2 }`.
    """
    from fedci.result import transport as transporting
    from fedci.result.result import Result
    from fedci.study.toml import parsed, text_of
    from fedci.table.source import located

    if (data is None) == (moments is None):
        raise UsageError("give a file of people, or --moments FILE with published means and shares")
    fitted = Result.load(result)
    if arm is not None:
        fitted = fitted.between(arm, against)
    elif against is not None:
        raise UsageError("--against goes with --arm: the effect is of the one compared with the other")
    found = (transporting.of_moments(fitted, parsed(text_of(moments, "table"), f"table {moments}"))
             if moments is not None else
             transporting.of_people(fitted, located(str(data), "new", fitted.study)))
    if as_json:
        typer.echo(told_as_json(found.plain(alpha)))
        return
    who = "people of nobody with these means and shares" if moments is not None else "people"
    for line in found.in_words(who, alpha):
        typer.echo(line)
