"""`fedci predict`: effects for new people, from a file to a file that only its owner can read, chunk by chunk.

    RESULT (arrays.npz: θ, β, units; no rows) ─┬─ nothing else            people at a hospital outside the study
                                               ├─ RESULT/sites/NAME       people at that site, its rows are there
                                               └─ the site's own table    the same, where only the site has the rows

A site's own function f^s is learnt from its rows, so effects *at a site* need them; they are checked against the
moments that the site told, so that another table is not taken by mistake.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedci.bounded import npy_file
from fedci.effect import Effect, check_alpha
from fedci.errors import OutputError, UsageError
from fedci.files import plain_cell, private_file
from fedci.result.result import Result
from fedci.result.storage import fitted_people
from fedci.site.people import SIZES, lines_of
from fedci.study.options import nearest
from fedci.table import small_cells
from fedci.table.columns import ANY_SIZE, column_names
from fedci.table.design import design_chunk
from fedci.table.recode import coded_chunks, own_columns
from fedci.table.source import Source
from fedci.table.table import restricted
from fedci.table.values import Column, told_of, words

ROWS = 4096
"""People at a time: bounds the memory whatever the file's length."""
HEADER = ("effect", "sd", "low", "high")
RISKS, RATES = ("risk_untreated", "risk_treated"), ("rate_untreated", "rate_treated")
"""Beside these, where the outcome is 0 and 1 and the effect a difference of risks."""
DIGITS = 10
MOST_DIGITS = 17
"""Of a double."""


@dataclass(frozen=True)
class Written:
    """What was written where."""

    path: Path
    people: int
    mean: float
    """Of the effects written."""


def with_rows(result: Result, site: str, source: Source, rows: np.ndarray | None = None) -> Result:
    """The result with the people of `site`, read from its own table as at the study (`rows`: those linkage left)."""
    table = source.read(result.study)
    if rows is None:
        rows = np.arange(table.rows)
    elif len(rows) and rows.max() >= table.rows:
        raise _other_rows(site)
    else:
        table = restricted(result.study, table, rows)
    told = result.outcome.layout.people[site].counts
    if (table.rows, *table.by_arm[1:]) != told and not result.study.policy.noises("moments"):
        raise _other_rows(site)
    table = small_cells.merged(table, result.study.policy.min_cell)
    jitter = max(result.outcome.options.model.jitter, result.outcome.fit.jitters.get(site, 0.0))
    people = fitted_people(result.study, result.outcome, table, lines_of(table, rows), jitter)
    return replace(result, people={**result.people, site: people})


def _other_rows(site: str) -> UsageError:
    return UsageError(f"these are not the rows with which site '{site}' took part: there are other numbers of "
                      f"people, or of treated. Give the table of the study; if linkage left people out, also --kit")


def kept_at(result: Result, site: str, kit: Path | None) -> np.ndarray | None:
    """The rows that linkage left at the site, from its kit; none where nobody was left out."""
    left = result.outcome.excluded.get(site, 0)
    if not left:
        return None
    if kit is None:
        raise UsageError(f"linkage left {left} people of site '{site}' out, and only its kit knows whom: add --kit DIR")
    path = kit / "run" / f"kept-{result.outcome.run}.npy"
    try:
        return npy_file(path)
    except (OSError, ValueError):
        raise UsageError(f"the kit '{kit}' does not hold {path.name}: it took no part in this run") from None


def check_site(result: Result, site: str | None) -> None:
    """Say what is needed before anything is read."""
    if site is None or site in result.people:
        return
    if site not in result.sites:
        raise UsageError(f"there is no site {site!r} in this study{nearest(site, result.sites) or '.'} It has "
                         f"{', '.join(result.sites)}. Leave --site out for people at another hospital")
    raise UsageError(f"effects at site '{site}' need its rows, and this result does not hold them. At the site, add "
                     f"--rows TABLE (the table it took part with); elsewhere, leave --site out: effects are then those "
                     f"at a hospital outside the study, with wider intervals")


def predict_file(result: Result, data: Any, out: Path, site: str | None = None, alpha: float = 0.05,
                 outcome_noise: bool = False, keep: Sequence[str] = (), force: bool = False,
                 progress: Callable[[int], None] | None = None) -> Written:
    """Effect, sd and interval for each row of `data`, in its order; columns in `keep` are carried over as they are."""
    check_alpha(alpha)
    check_site(result, site)
    _check_keep(result, data, keep)
    temporary = _fresh(out, force)
    people, total = 0, 0.0
    try:
        with private_file(temporary, "w") as file:
            writer = csv.writer(file)
            writer.writerow(["row", *map(plain_cell, keep), *_header(result)])
            for start, effects, more, carried in _effects(result, data, site, outcome_noise, keep):
                effect = effects[0]
                columns = [column for one in effects for column in (one.mean, one.sd, *one.interval(alpha))]
                numbers = np.column_stack([*columns, *more])
                writer.writerows([start + k + 1, *map(plain_cell, cells), *(f"{value:.{DIGITS}g}" for value in row)]
                                 for k, (row, cells) in enumerate(zip(numbers, carried, strict=True)))
                people, total = people + len(numbers), total + float(np.sum(effect.mean))
                if progress:
                    progress(people)
        temporary.replace(out)
    except OSError as problem:
        raise OutputError(f"'{out}' cannot be written: {problem.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return Written(out, people, total / people if people else float("nan"))


def _fresh(out: Path, force: bool) -> Path:
    """Where the file is made before it takes its place."""
    if out.exists() and not force:
        raise OutputError(f"'{out}' is there already: choose another --out, or replace it with --force")
    if not out.absolute().parent.is_dir():
        raise OutputError(f"'{out}': its folder does not exist; choose another --out")
    temporary = out.with_name(f".{out.name}.new")
    temporary.unlink(missing_ok=True)
    return temporary


def _check_keep(result: Result, data: Any, keep: Sequence[str]) -> None:
    if keep and (absent := [name for name in keep if name not in column_names(data, ANY_SIZE)]):
        raise UsageError(f"--keep {absent[0]!r}: the table has no such column")
    if clash := set(keep) & {"row", *_header(result)}:
        raise UsageError(f"--keep {sorted(clash)[0]!r}: the output has a column of that name. Rename yours")


def _header(result: Result) -> tuple[str, ...]:
    """Of more than two arms the effect of each against the reference, and its sd and interval."""
    if result.many:
        return tuple(f"{name} {arm}" for arm in result.study.arms[1:] for name in HEADER)
    return HEADER + (RISKS if result.of_risks else RATES if result.of_rates else ())


def _effects(result: Result, data: Any, site: str | None, outcome_noise: bool,
             keep: Sequence[str]) -> Iterator[tuple[int, list[Effect], list[np.ndarray], list[list[str]]]]:
    """(first row, effects of each contrast, columns beside them, carried cells) of each chunk."""
    study, start = result.study, 0
    wanted = [covariate.name for covariate in study.covariates]
    own = own_columns(site or "new", study)
    for chunk in coded_chunks(data, study, wanted, keep, ROWS, own):
        rows = len(next(iter(chunk.values())).cells)
        if rows == 0:
            continue
        x = design_chunk(study, chunk, "new people", start)
        with told_of("new people"):
            carried = [_cells(chunk[f"={name}"]) for name in keep]
        effects, more = _at(result, _same_shape(x, start), site, outcome_noise)
        effects = [Effect(effect.means[:, :rows], effect.variances[:, :rows]) for effect in effects]
        yield start, effects, [part[:rows] for part in more], [[cells[k] for cells in carried] for k in range(rows)]
        start += rows


def designs(result: Result, data: Any) -> Iterator[np.ndarray]:
    """[rows, d] of each chunk of people whose treatment and outcome nobody asks for."""
    study, start = result.study, 0
    wanted = [covariate.name for covariate in study.covariates]
    for chunk in coded_chunks(data, study, wanted, (), ROWS, own_columns("new", study)):
        rows = len(next(iter(chunk.values())).cells)
        if rows:
            yield design_chunk(study, chunk, "new people", start)
        start += rows
    if not start:
        raise UsageError("the table of people has no rows: give at least one person")


def _at(result: Result, x: np.ndarray, site: str | None, outcome_noise: bool) -> tuple[list[Effect], list[np.ndarray]]:
    if result.many:
        return [result.between(arm).effects_at(x, site, outcome_noise) for arm in result.study.arms[1:]], []
    if result.of_numbers or outcome_noise:
        return [result.effects_at(x, site, outcome_noise)], []
    risks = result.rates_at(x, site)
    return [risks.difference], [risks.of_untreated.mean, risks.of_treated.mean]


def _same_shape(x: np.ndarray, start: int) -> np.ndarray:
    """A later chunk that is short is filled up to the size of the others: another would be compiled, which takes
    longer."""
    short = 0 if start == 0 else SIZES[-2] + 1 - len(x)
    return np.vstack([x, np.repeat(x[-1:], short, axis=0)]) if short > 0 else x


def _cells(column: Column) -> list[str]:
    return ["" if cell is None else cell for cell in words(column).to_pylist()]
