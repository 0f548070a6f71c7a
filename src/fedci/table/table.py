"""A site's table: from a file or a frame to arrays that fit the study, or an error a person can act on.

    Source ─► bytes or rows ─► columns by name ─► cells as numbers ─► x [n, d], w [n], y [n] ─► checks ─► Table

Columns are taken by name, so their order never matters. Messages name the site, the column and a row (1 is
the first row of data), and never show a cell: whoever reads a log may not be allowed to read the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from fedci.errors import DataError, FedciError, SizeError, UsageError
from fedci.study.identity import records
from fedci.study.policy import Policy
from fedci.study.study import Study, check_site_id
from fedci.table.columns import check_header, column_names, read_columns
from fedci.table.database import SCHEME, Query, query_at
from fedci.table.design import checked_block, design, design_columns
from fedci.table.times import checked_count, outcome_time, within_horizon
from fedci.table.values import (
    MISSING_WORDS,
    Column,
    count,
    numbers,
    quoted,
    row_list,
    told_of,
    words,
    zeros_and_ones,
)

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
SAME = 1e-10
"""Two columns coincide when 1 − |correlation| is below this."""
DEPENDENT = 1e-12
"""Columns depend linearly when an eigenvalue of their correlation matrix is below this."""
CONSTANT = 1e-12
"""A column is constant when its spread, relative to its largest magnitude, is rounding."""
IS_CONSTANT, COINCIDE, ONE_OUTCOME = "is constant here", "coincide here", "have the same outcome here"
"""Said at the site alone: where it is not said, somebody stands apart, perhaps one person."""
SCALE_RATIO = 1e8
"""Standard deviations further apart than this are a mistake in units."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """What a site fits with: n rows, d design columns, in the units of the data."""

    site: str
    x: np.ndarray
    """[n, d] float64; NaN where `missing`."""
    missing: np.ndarray
    """[n, d] bool; true only where the study imputes."""
    w: np.ndarray
    """[n] float64: 1 treated, 0 not."""
    y: np.ndarray
    """[n] float64."""
    columns: tuple[str, ...]
    """Names of the d design columns."""
    kinds: tuple[str, ...]
    """numeric, binary or level, for each design column."""
    ids: pd.DataFrame | None
    """The study's id columns as text; none when the study names none."""
    warnings: tuple[str, ...]
    """What is unusual but no error, one sentence each."""
    control: np.ndarray | None = None
    """[n] float64: the outcome that treatment cannot change, where the study names one."""
    added: float = 0.0
    """Variance of the noise that y holds (`site.outcome_noise`), in its unit squared."""
    control_added: float = 0.0
    """The same of `control`."""
    time: np.ndarray | None = None
    """[n] of a time to an event how long a person was followed, of a count over how long it was counted."""

    @property
    def rows(self) -> int:
        return len(self.w)

    @property
    def treated(self) -> int:
        return int(self.w.sum())

    def take(self, rows: np.ndarray) -> Table:
        """Only these rows, in this order."""
        ids = None if self.ids is None else self.ids.iloc[rows].reset_index(drop=True)
        control, time = (None if part is None else part[rows] for part in (self.control, self.time))
        return replace(self, x=self.x[rows], missing=self.missing[rows], w=self.w[rows], y=self.y[rows], ids=ids,
                       control=control, time=time)


@dataclass(frozen=True, eq=False)
class Source:
    """A site's data by the site's name: a pandas frame, the path of a .csv or .parquet file, or a query."""

    name: str
    data: pd.DataFrame | str | Path | Query

    def __post_init__(self) -> None:
        check_site_id(self.name)

    @classmethod
    def at(cls, study: Study, name: str, place: str | Path) -> Source:
        """From what an operator types: a path, `sql:FILE` with a query, or `sql:` for the study's query."""
        check_site_id(name)
        return cls(name, located(str(place), name, study))

    @property
    def query(self) -> str:
        """What a database is asked, for its operator to read first; '' of a file or a frame."""
        if not isinstance(self.data, Query):
            return ""
        with told_of(f"site {self.name!r}"):
            return self.data.shown()

    def read(self, study: Study) -> Table:
        """Everything the study asks of this site, checked; the first problem as one error."""
        study.check_site(self.name)
        with told_of(f"site {self.name!r}"):
            return _table(study, self.name, read_columns(self.data, _wanted(study), study.policy.max_file_bytes))

    def read_people(self, study: Study) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(x [p, d], w [p], y [p]) of people outside the fit: any number of them, nothing of theirs leaves."""
        wanted = (study.treatment, study.outcome, *(c.name for c in study.covariates))
        with told_of(f"site {self.name!r}"):
            columns = read_columns(self.data, wanted, study.policy.max_file_bytes)
            w, y = _treatment(columns[study.treatment]), _finite_outcome(columns[study.outcome], study.outcome_type)
            return design(study, columns)[0], w, y


def located(place: str, site: str, study: Study | None = None) -> Path | Query:
    """A path, or a query, from what an operator types."""
    if not place.startswith(SCHEME):
        return Path(place)
    return query_at(place, site, study.source.query if study and study.source else None)


def absolute(place: str | Path) -> str:
    """The same place for a process in another folder; the study's own query stays what it is."""
    path = str(place).removeprefix(SCHEME)
    if str(place).startswith(SCHEME):
        return f"{SCHEME}{Path(path).resolve() if path else ''}"
    return str(Path(path).resolve())


def _wanted(study: Study) -> tuple[str, ...]:
    """The columns that a study needs of a table."""
    control = study.diagnostics.negative_control
    return (study.treatment, *study.outcome_columns, *(c.name for c in study.covariates), *study.ids,
            *((control,) if control else ()))


def problems(study: Study, source: Source) -> list[FedciError]:
    """Everything that keeps this source out of the study, not the first problem only; empty: `source.read` works."""
    faults: list[FedciError] = []

    def tried(check: Callable[..., T], *given: Any) -> T | None:
        try:
            with told_of(f"site {source.name!r}"):
                return check(*given)
        except FedciError as problem:
            faults.append(problem)
        return None

    most = study.policy.max_file_bytes
    wanted = _wanted(study)
    tried(study.check_site, source.name)
    names = tried(column_names, source.data, most)
    if names is not None:
        tried(check_header, names, wanted)
    present = [name for name in wanted if (names or ()).count(name) == 1]
    columns = tried(read_columns, source.data, present, most) if present else None
    if columns is not None:
        _try_columns(study, columns, tried)
    return faults


def _try_columns(study: Study, columns: Mapping[str, Column],
                 tried: Callable[..., Any]) -> None:
    """Each check of `_table` by itself, on the columns that are there."""
    rows = len(next(iter(columns.values())).cells)
    tried(_check_rows, study.policy, rows)
    if rows == 0:
        return
    if study.treatment in columns:
        w = tried(_treatment, columns[study.treatment])
        if w is not None:
            tried(_check_arms, study.policy, study.treatment, w)
    if study.outcome in columns:
        y = tried(_outcome, columns[study.outcome], study.outcome_type)
        if y is not None and all(column in columns for column in study.outcome_columns):
            tried(within_horizon, study, columns, y)
            tried(outcome_time, study, columns)
    control = study.diagnostics.negative_control
    if control is not None and control in columns:
        tried(_outcome, columns[control], study.outcome_type)
    tried(_check_level_shares, study, rows)
    covariates = [covariate for covariate in study.covariates if covariate.name in columns]
    blocks = {covariate: block for covariate in covariates
              if (block := tried(checked_block, study, columns[covariate.name], covariate)) is not None}
    if blocks:
        named = [(name, "level" if covariate.type == "categorical" else covariate.type) for covariate in blocks
                 for name in covariate.design_columns()]
        tried(_check_design, np.hstack(list(blocks.values())), *zip(*named, strict=True))
    if study.links and all(name in columns for name in study.ids):
        tried(_try_ids, study, columns)


def _try_ids(study: Study, columns: Mapping[str, Column]) -> None:
    _records(study, _ids(study, columns))


def id_records(study: Study, table: Table) -> list[bytes]:
    """One record for each row, as linkage needs them: none missing, each person once."""
    with told_of(f"site {table.site!r}"):
        return _records(study, table.ids)


def _records(study: Study, ids: pd.DataFrame | None) -> list[bytes]:
    if ids is None:
        raise UsageError("the study names no ids, and linkage needs them. Name the columns in ids")
    if len(study.ids) == 1:  # with several columns such a word may be a name
        _check_id_words(ids[study.ids[0]])
    return records({name: ids[name].to_numpy(object) for name in study.ids}, study.linkage.dates)


def _check_id_words(ids: pd.Series) -> None:
    gone = ids.isna() | ids.str.strip().str.lower().isin(MISSING_WORDS)
    if gone.any():
        raise DataError(f"column {ids.name!r} has no id in {row_list(gone.to_numpy())}; linkage needs every id. "
                        "Correct them, drop the rows, or set enabled = false under [linkage] of the study")


def restricted(study: Study, table: Table, rows: np.ndarray, when: str = "after linkage") -> Table:
    """The rows that linkage (or a refuter) leaves, which must meet the policy again; new warnings stand after the
    old."""
    with told_of(f"site {table.site!r}: {when}"):
        if not len(rows):
            raise SizeError(f"everyone is excluded: all {table.rows} people stay at other sites. "
                            "Leave the site out, or raise linkage.keep in the study")
        _check_rows(study.policy, len(rows))
        warnings = _check_arms(study.policy, study.treatment, table.w[rows])
        _check_varies(study.outcome, table.y[rows])
        _check_level_shares(study, len(rows))
    new = [f"site {table.site!r}: {when} {warning}" for warning in warnings]
    return replace(table.take(rows), warnings=(*table.warnings, *new))


def size_problems(study: Study, rows: int, treated: int) -> list[FedciError]:
    """What keeps a table with so many rows out of the study, each by the check that reading it makes."""
    w, faults = np.repeat([1.0, 0.0], [treated, rows - treated]), []
    for check, given in ((_check_rows, (study.policy, rows)), (_check_arms, (study.policy, study.treatment, w)),
                         (_check_level_shares, (study, rows))):
        try:
            check(*given)
        except FedciError as problem:
            faults.append(problem)
    return faults


# ── the table: what only a whole site shows ─────────────────────────────────────────────────────────────────


def _table(study: Study, site: str, columns: Mapping[str, Column]) -> Table:
    rows = len(columns[study.treatment].cells)
    _check_rows(study.policy, rows)
    w = _treatment(columns[study.treatment])
    arm_warnings = _check_arms(study.policy, study.treatment, w)
    y = within_horizon(study, columns, _outcome(columns[study.outcome], study.outcome_type))
    _check_level_shares(study, rows)
    x, missing = design(study, columns)
    names, kinds = design_columns(study)
    warnings = [f"site {site!r}: {warning}" for warning in (
        *arm_warnings, *_one_outcome(study, w, y), *_check_design(x, names, kinds))]
    control = study.diagnostics.negative_control
    return Table(site=site, x=x, missing=missing, w=w, y=y, columns=names, kinds=kinds, ids=_ids(study, columns),
                 warnings=tuple(warnings), control=_outcome(columns[control], study.outcome_type) if control else None,
                 time=outcome_time(study, columns))


def _check_rows(policy: Policy, rows: int) -> None:
    if rows == 0:
        raise SizeError("the table has a header but no rows. Export it again")
    if rows < policy.min_rows:
        raise SizeError(f"the table has {count(rows, 'row')}, the policy needs "
                        f"{policy.min_rows}. Add rows, or leave the site out")


def _treatment(column: Column) -> np.ndarray:
    w = zeros_and_ones(column, "code the treatment 1 for treated and 0 for not")
    _check_known(column, np.isnan(w), "treatment")
    return w


def _outcome(column: Column, kind: str) -> np.ndarray:
    y = _finite_outcome(column, kind)
    _check_varies(column.name, y)
    if kind == "numeric" and np.isin(y, (0.0, 1.0)).all():
        raise column.error(f"holds 0 and 1 only, and the study takes its outcome for a number. Write outcome = "
                           f'{{ name = "{column.name}", type = "binary" }} in the study: effects are then differences '
                           f"of risks. A negative control has the type of the outcome")
    return y


def _one_outcome(study: Study, w: np.ndarray, y: np.ndarray) -> list[str]:
    """Arms without an event, or without anybody spared: their risk rests on the model and on other sites."""
    if study.outcome_type not in ("binary", "survival"):
        return []
    return [f"all {word} rows {ONE_OUTCOME}" for arm, word in ((0, "untreated"), (1, "treated"))
            if (w == arm).any() and np.ptp(y[w == arm]) == 0]


def _check_varies(name: str, y: np.ndarray) -> None:
    if _is_constant(y):
        raise DataError(f"column {name!r} is constant, so no effect can be seen in it. Check the export, or the study")


def _finite_outcome(column: Column, kind: str) -> np.ndarray:
    y = (zeros_and_ones(column, "code a binary outcome 1 where it happened and 0 where it did not")
         if kind in ("binary", "survival") else numbers(column, "the outcome must be numeric. Correct the cells"))
    _check_known(column, np.isnan(y), "outcome")
    return checked_count(column, y) if kind == "count" else y


def _check_known(column: Column, gone: np.ndarray, role: str) -> None:
    if gone.any():
        raise column.error(f"has no value in {row_list(gone)}; without its {role} a row cannot be used. "
                           "Drop the rows")


def _check_arms(policy: Policy, name: str, w: np.ndarray) -> list[str]:
    """Both arms, each large enough. One alone, where that is allowed, is a warning."""
    rows_of = {"treated": int(w.sum()), "untreated": int((1 - w).sum())}
    present = [arm for arm, rows in rows_of.items() if rows]
    if len(present) == 1 and not policy.allow_single_arm:
        raise DataError(f"column {name!r} has only {present[0]} rows, and both arms are needed. "
                        "Leave the site out; or agree on a [policy] of the name \"custom\" with allow_single_arm = "
                        "true, which each site has to allow by itself")
    for arm in present:
        if rows_of[arm] < policy.min_arm_rows:
            raise SizeError(f"column {name!r} has {count(rows_of[arm], f'{arm} row')}, the policy needs "
                            f"{policy.min_arm_rows}. Add rows, or leave the site out")
    alone = present if len(present) == 1 else []
    return [f"all rows are {arm}; effects here rest on the other sites" for arm in alone]


def _check_level_shares(study: Study, rows: int) -> None:
    most, at_all = int(study.policy.max_level_share * rows), study.policy.max_levels
    for covariate in study.covariates:
        count = len(covariate.levels or ())
        if count > at_all:  # of a site that allows fewer than the study
            raise DataError(f"column {covariate.name!r} has {count} levels in the study; this site's policy.max_levels "
                            f"is {at_all}. Merge levels")
        if count > most:
            raise DataError(f"column {covariate.name!r} has {count} levels in the study; for {rows} rows "
                            f"policy.max_level_share allows {most}. Merge levels, or add rows")


def _ids(study: Study, columns: Mapping[str, Column]) -> pd.DataFrame | None:
    """Text as it stands, leading zeros kept. Floating-point numbers have lost digits, and are refused."""
    if not study.ids:
        return None
    import pandas as pd

    for name in study.ids:
        if pa.types.is_floating(columns[name].cells.type):
            raise columns[name].error("holds ids as floating-point numbers, which lose digits. Store text")
    return pd.DataFrame({name: words(columns[name]).to_pandas() for name in study.ids})


def _check_design(x: np.ndarray, names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Columns that repeat each other or live on different scales; what is no error comes back as warnings."""
    constant = np.array([_is_constant(column) for column in x.T])
    two_valued = np.array([_is_two_valued(column) for column in x.T]) & ~constant
    numeric = np.array([kind == "numeric" for kind in kinds]) & ~constant
    many_valued = numeric & ~two_valued
    _check_scales(x[:, numeric], _picked(names, numeric))
    _check_dependence(x[:, many_valued], _picked(names, many_valued))
    return [f"column {name!r} {IS_CONSTANT}" for name in _picked(names, constant)] + [
        f"columns {first!r} and {second!r} {COINCIDE}"
        for first, second in _coinciding(x[:, two_valued], _picked(names, two_valued))]


def _picked(names: Sequence[str], chosen: np.ndarray) -> list[str]:
    return [name for name, keep in zip(names, chosen, strict=True) if keep]


def _is_constant(values: np.ndarray) -> bool:
    """Also true when all values are missing."""
    known = values[~np.isnan(values)]
    return known.size == 0 or bool(np.ptp(known) <= CONSTANT * np.abs(known).max())


def _is_two_valued(values: np.ndarray) -> bool:
    """As an indicator is, whatever the study calls it: two of them may coincide at a small site by chance."""
    known = values[~np.isnan(values)]
    return known.size == 0 or bool(((known == known.min()) | (known == known.max())).all())


def _check_scales(x: np.ndarray, names: Sequence[str]) -> None:
    if not names:
        return
    spread = np.nanstd(x, axis=0)
    small, large = int(np.argmin(spread)), int(np.argmax(spread))
    if spread[large] > SCALE_RATIO * spread[small]:
        raise DataError(f"columns {names[small]!r} and {names[large]!r} differ in spread by more than "
                        f"{SCALE_RATIO:g} times. Give one of them in another unit")


def _check_dependence(x: np.ndarray, names: Sequence[str]) -> None:
    """Numeric columns that another one, or several together, determine exactly."""
    for first, second in _coinciding(x, names):
        raise DataError(f"columns {first!r} and {second!r} say the same: one is the other, perhaps in "
                        "another unit. Remove one from the study")
    correlation = _correlation(x)
    if correlation is None:
        return
    eigenvalues, vectors = np.linalg.eigh(correlation)
    if eigenvalues[0] < DEPENDENT:
        involved = _picked(names, np.abs(vectors[:, 0]) > 1e-4)  # rounding leaves about 1e-8 in the others
        raise DataError(f"columns {quoted(involved)} depend on each other: one is computed from the rest. "
                        "Remove one from the study")


def _coinciding(x: np.ndarray, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns with |correlation| = 1."""
    correlation = _correlation(x)
    if correlation is None:
        return []
    return [(names[i], names[j]) for i, j in combinations(range(len(names)), 2)
            if abs(correlation[i, j]) > 1 - SAME]


def _correlation(x: np.ndarray) -> np.ndarray | None:
    """[d, d] over the complete rows; none where they cannot tell: n ≤ d, or a column is constant in them."""
    complete = x[~np.isnan(x).any(axis=1)]
    if x.shape[1] < 2 or len(complete) <= x.shape[1]:
        return None
    centred = complete - complete.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    if (spread <= CONSTANT * np.abs(complete).max(axis=0)).any():
        return None
    centred /= spread
    return centred.T @ centred
