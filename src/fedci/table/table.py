"""A site's table: from a file or a frame to arrays that fit the study, or an error a person can act on.

    Source ─► bytes or rows ─► columns by name ─► cells as numbers ─► x [n, d], w [n], y [n] ─► checks ─► Table

Columns are taken by name, so their order never matters. Messages name the site, the column and a row (1 is
the first row of data), and never show a cell: whoever reads a log may not be allowed to read the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from fedci.errors import DataError, FedciError, SizeError, UsageError
from fedci.plain import Shown, named
from fedci.study import origin
from fedci.study.coding import Codings, sources
from fedci.study.identity import records
from fedci.study.origin import Origin, Origins
from fedci.study.policy import Policy
from fedci.study.study import Study, check_site_id
from fedci.table.alike import Picked, correlation, ends, holds_only, spreads
from fedci.table.cdm import Attrition, attrition_of, select_of
from fedci.table.columns import ANY_SIZE, check_header, column_names, read_columns
from fedci.table.database import SCHEME, SHARED_QUERY, Query, kind_at, query_at
from fedci.table.design import checked_block, design, design_columns
from fedci.table.recode import coded, own_columns, read_coded
from fedci.table.times import checked_count, outcome_time, within_horizon, without_time
from fedci.table.values import (
    MISSING_WORDS,
    Column,
    collecting,
    count,
    level_codes,
    numbers,
    quoted,
    refuse,
    row_list,
    told_of,
    without_missing_words,
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
COPIES = 0.1
"""Share of rows that repeat another in every column, from which on people seem to stand there more than once."""
MANY_VALUES = 12
"""A column with more distinct values than this is a measurement: rows that agree in it too are no chance."""
SCALE_RATIO = 1e8
"""Standard deviations further apart than this are a mistake in units."""


class Dropped(NamedTuple):
    """Rows that a study with rows_without = "drop" leaves out, by what they lack."""

    treatment: int = 0
    untreated: int = 0
    """Without their outcome, untreated."""
    treated: int = 0
    """Without their outcome, treated."""

    @property
    def outcome(self) -> int:
        return self.untreated + self.treated

    def in_words(self) -> str:
        """'' where there are none."""
        return ", ".join(f"{count(number, 'row')} without {what}" for number, what in (
            (self.treatment, "treatment"), (self.outcome, "outcome")) if number)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Table(Shown):
    """What a site fits with: n rows, d design columns, in the units of the data."""

    site: str
    x: np.ndarray
    """[n, d] float64; NaN where `missing`."""
    missing: np.ndarray
    """[n, d] bool; true only where the study imputes."""
    w: np.ndarray
    """[n] float64: 1 treated, 0 not; of more arms the place of each person's among the study's."""
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
    controls: tuple[np.ndarray, ...] = ()
    """Each [n]: the study's many negative controls, in its order."""
    controls_added: tuple[float, ...] = ()
    """The same of `controls`; empty: 0 of each."""
    lines: np.ndarray | None = None
    """[n] where the rows stand in the site's file, from 0; none: as they are."""
    cluster: np.ndarray | None = None
    """[n] the number of each person's cluster within the site, where the study names them."""
    dropped: Dropped = Dropped()
    """Rows of the file that are not here."""
    time: np.ndarray | None = None
    """[n] of a time to an event how long a person was followed, of a count over how long it was counted."""
    origins: Origins = field(default_factory=dict)
    """Columns of the study that come from others of the site's table, or not as they stand there."""

    def origin(self, column: str) -> Origin:
        """Of a column of the study."""
        return origin.at(self.origins, column)

    arms: int = 2
    """How many the study has."""

    @property
    def rows(self) -> int:
        return len(self.w)

    @property
    def treated(self) -> int:
        """Who did not get the reference."""
        return self.rows - self.by_arm[0]

    @property
    def by_arm(self) -> tuple[int, ...]:
        """People in each arm."""
        return tuple(int((self.w == arm).sum()) for arm in range(self.arms))

    def shown(self) -> str:
        return (f"Table of site '{self.site}': {self.rows} rows, {self.treated} treated, {len(self.columns)} design "
                f"columns: {named(self.columns)}")

    def take(self, rows: np.ndarray) -> Table:
        """Only these rows, in this order."""
        ids = None if self.ids is None else self.ids.iloc[rows].reset_index(drop=True)
        control, time = (None if part is None else part[rows] for part in (self.control, self.time))
        return replace(self, x=self.x[rows], missing=self.missing[rows], w=self.w[rows], y=self.y[rows], ids=ids,
                       control=control, controls=tuple(part[rows] for part in self.controls), time=time,
                       lines=None if self.lines is None else self.lines[rows],
                       cluster=None if self.cluster is None else self.cluster[rows])


@dataclass(frozen=True, eq=False, repr=False)
class Source(Shown):
    """A site's data by the site's name: a pandas frame, the path of a .csv or .parquet file, or a query."""

    name: str
    data: pd.DataFrame | str | Path | Query
    columns: Codings = field(default_factory=dict)
    """What the site calls its columns (`columns.toml`); empty: as the study does."""

    def __post_init__(self) -> None:
        check_site_id(self.name)

    @classmethod
    def at(cls, study: Study, name: str, place: str | Path, columns: Path | None = None) -> Source:
        """From what an operator types: a path, `sql:FILE` with a query, or `sql:` for the study's query; and the site's
        own `columns.toml`, by its path or by FEDCI_COLUMNS."""
        check_site_id(name)
        return cls(name, located(str(place), name, study), own_columns(name, study, columns))

    def shown(self) -> str:
        """Where the data are; of a frame its size, and no cell."""
        data = (str(self.data) if isinstance(self.data, str | Path) else self.data.place
                if isinstance(self.data, Query) else f"{len(self.data)} rows × {len(self.data.columns)} columns")
        own = f", {len(self.columns)} columns under the site's own names" if self.columns else ""
        return f"Source '{self.name}': {data}{own}"

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
            origin.check(study, self._origins(study))
            table = replace(_table(study, self.name, self._read(study, study.columns)), origins=self._origins(study))
            return table if self._shared is None or _from_cdm(study) else _in_an_order(table)

    @property
    def _shared(self) -> str | None:
        """The study's own query, where it makes the table."""
        return self.data.text if isinstance(self.data, Query) and self.data.place == SHARED_QUERY else None

    def _origins(self, study: Study) -> Origins:
        return origin.of_study(study, self.columns, self._shared)

    def _read(self, study: Study, names: Sequence[str]) -> dict[str, Column]:
        """These columns of the study, as its codings and the site's own make them."""
        return read_coded(self.data, study, names, study.policy.max_file_bytes, self.columns)

    def read_arms(self, study: Study) -> tuple[np.ndarray, np.ndarray]:
        """(x [n, d], w [n]) of a study that is planned: nothing of outcomes is read, and they need not be there."""
        study.check_site(self.name)
        drop = study.rows_without == "drop"
        with told_of(f"site {self.name!r}"):
            columns = self._read(study, (study.treatment, *(c.name for c in study.covariates)))
            w = _treatment(study, columns[study.treatment], drop)
            known = ~np.isnan(w)
            return design(study, columns)[0][known], w[known]

    def read_people(self, study: Study) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(x [p, d], w [p], y [p]) of people outside the fit: any number of them, nothing of theirs leaves."""
        wanted = (study.treatment, study.outcome, *(c.name for c in study.covariates))
        with told_of(f"site {self.name!r}"):
            columns = self._read(study, wanted)
            w = _treatment(study, columns[study.treatment])
            y = _finite_outcome(columns[study.outcome], study.outcome_type)
            return design(study, columns)[0], w, y


def _from_cdm(study: Study) -> bool:
    return study.source is not None and study.source.omop is not None


def _in_an_order(table: Table) -> Table:
    """By what the rows hold: a query that another wrote could give them in a new order each time, and where outcomes
    repeat a person's noise goes by the order."""
    parts = [table.x, table.w, table.y, table.time, table.control, table.cluster]
    numbers = np.column_stack([part for part in parts if part is not None])
    ids = [] if table.ids is None else [np.unique(table.ids[name].astype(str), return_inverse=True)[1]
                                        for name in table.ids]
    order = np.lexsort((*ids, *numbers.T))
    lines = np.arange(table.rows) if table.lines is None else table.lines
    return replace(table, lines=lines).take(order)


def located(place: str, site: str, study: Study | None = None) -> Path | Query:
    """A path, or a query, from what an operator types."""
    if not place.startswith(SCHEME):
        return Path(place)
    return query_at(place, site, lambda: _shared_query(study, site))


def _shared_query(study: Study | None, site: str) -> str | None:
    """The study's own query; or the one that its cohorts and concepts make, in the words of the site's database."""
    if study is None or study.source is None:
        return None
    if study.source.omop is None:
        return study.source.query
    return select_of(study.source.omop, study.treatment, study.outcome, kind_at(site))


def attrition(study: Study, source: Source) -> Attrition | None:
    """Of a study from an OMOP common data model, where the source is its query: how many people stand in each cohort.
    Shown at the site, and told to nobody."""
    omop = study.source.omop if study.source else None
    if omop is None or not isinstance(source.data, Query) or source.data.place != SHARED_QUERY:
        return None
    counted = Query(attrition_of(omop, kind_at(source.name)), source.name, "the study's attrition")
    with told_of(f"site {source.name!r}"):
        rows = next(iter(counted.chunks(None, 1, ANY_SIZE)))
    return Attrition(*(int(column.cells[0].as_py()) for column in rows.values()))


def absolute(place: str | Path) -> str:
    """The same place for a process in another folder; the study's own query stays what it is."""
    path = str(place).removeprefix(SCHEME)
    if str(place).startswith(SCHEME):
        return f"{SCHEME}{Path(path).resolve() if path else ''}"
    return str(Path(path).resolve())


def problems(study: Study, source: Source) -> list[FedciError]:
    """Everything that keeps this source out of the study, not the first problem only; empty: `source.read` works."""
    tried = _Tried(f"site {source.name!r}")
    most = study.policy.max_file_bytes
    wanted = sources(source.columns, study.reads())
    tried(study.check_site, source.name)
    tried(origin.check, study, source._origins(study))
    names = tried(column_names, source.data, most)
    if names is not None:
        tried(check_header, names, wanted)
    present = [name for name in wanted if (names or ()).count(name) == 1]
    read = tried(read_columns, source.data, present, most) if present else None
    if read is not None:
        own = _tried_codings(source.columns, read, study.reads(), tried)
        if columns := _tried_codings(study.coding, own, study.columns, tried):
            _try_columns(study, columns, tried)
    return tried.faults


class _Tried:
    """Checks one by one, each as far as it goes; what they find is kept, in the words of `place`."""

    def __init__(self, place: str):
        self.place, self.faults = place, list[FedciError]()
        self.clean = True
        """Whether the last check found nothing: then what it made is the table's, with nothing put in its place."""

    def __call__(self, check: Callable[..., T], *given: Any) -> T | None:
        made, before = None, len(self.faults)
        with collecting() as found:
            try:
                made = check(*given)
            except FedciError as problem:
                found.append(problem)
        known = {fault.message for fault in self.faults}
        told = [type(problem)(f"{self.place}: {problem}") for problem in found]
        self.faults += [problem for problem in told if problem.message not in known]
        self.clean = len(self.faults) == before and not found
        return made


def _tried_codings(codings: Codings, read: Mapping[str, Column], names: Sequence[str],
                   tried: _Tried) -> dict[str, Column]:
    """Each column by itself, as far as what it is made from is there and its coding works."""
    there = [name for name in names if set(sources(codings, (name,))) <= set(read)]
    made = {name: tried(coded, codings, read, (name,)) for name in there}
    return {name: column[name] for name, column in made.items() if column is not None}


def _try_columns(study: Study, columns: Mapping[str, Column],
                 tried: _Tried) -> None:
    """Each check of `_table` by itself, on the columns that are there."""
    rows = len(next(iter(columns.values())).cells)
    tried(_check_rows, study.policy, rows)
    if rows == 0:
        return
    drop = study.rows_without == "drop"
    w, y = None, None
    if study.treatment in columns:
        w = tried(_treatment, study, columns[study.treatment], drop)
        w = w if tried.clean else None
    if study.outcome in columns:
        y = tried(_known_outcome, study, columns, drop)
        y = y if tried.clean else None
    kept = _kept(rows, w, y) if drop else np.arange(rows)
    if drop and len(kept) < rows:
        tried(_check_rows, study.policy, len(kept))
    if w is not None and len(kept):
        tried(_check_arms, study, w[kept])
    if y is not None and len(kept):
        tried(_check_outcome, columns[study.outcome], study.outcome_type, y[kept])
        if all(column in columns for column in study.outcome_columns):
            tried(within_horizon, study, columns, y[kept], kept)
            tried(outcome_time, study, columns, kept)
    for control in study.diagnostics.controls:
        if control in columns:
            tried(_control, columns[control], study.outcome_type, kept)
    if study.cluster is not None and study.cluster in columns:
        tried(_clusters, study, columns, kept)
    tried(_check_level_shares, study, len(kept))
    covariates = [covariate for covariate in study.covariates if covariate.name in columns]
    blocks = {covariate: block for covariate in covariates
              if (block := tried(checked_block, study, columns[covariate.name], covariate, kept)) is not None
              and tried.clean}
    if w is not None and y is not None and len(blocks) == len(study.covariates) and len(kept):
        tried(_check_people, study, np.hstack(list(blocks.values())), w[kept], y[kept])
    if blocks and len(kept):
        named = [(name, "level" if covariate.type == "categorical" else covariate.type) for covariate in blocks
                 for name in covariate.design_columns()]
        tried(_check_design, np.hstack(list(blocks.values())), *zip(*named, strict=True))
        tried(_check_types, study, np.hstack(list(blocks.values())), *zip(*named, strict=True))
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
        warnings = _check_arms(study, table.w[rows])
        _check_varies(study.outcome, table.y[rows])
        _check_level_shares(study, len(rows))
    new = [f"site {table.site!r}: {when} {warning}" for warning in warnings]
    return replace(table.take(rows), warnings=(*table.warnings, *new))


def size_problems(study: Study, by_arm: Sequence[int]) -> list[FedciError]:
    """What keeps a table with so many rows of each arm out of the study, each by the check that reading it makes."""
    w, rows, faults = np.repeat(np.arange(len(by_arm), dtype=float), by_arm), sum(by_arm), []
    for check, given in ((_check_rows, (study.policy, rows)), (_check_arms, (study, w)),
                         (_check_level_shares, (study, rows))):
        try:
            check(*given)
        except FedciError as problem:
            faults.append(problem)
    return faults


# ── the table: what only a whole site shows ─────────────────────────────────────────────────────────────────


def _table(study: Study, site: str, columns: dict[str, Column]) -> Table:
    """Of the study's columns, which it spends."""
    rows, drop = len(columns[study.treatment].cells), study.rows_without == "drop"
    _check_rows(study.policy, rows)
    w = _treatment(study, columns[study.treatment], drop)
    y = _known_outcome(study, columns, drop)
    kept = _kept(rows, w, y)
    dropped = _dropped(w, y)
    w, y = w[kept], y[kept]
    with told_of("without the rows that are dropped") if len(kept) < rows else nullcontext():
        _check_rows(study.policy, len(kept))
    arm_warnings = _check_arms(study, w)
    _check_outcome(columns[study.outcome], study.outcome_type, y)
    y = within_horizon(study, columns, y, kept)
    _check_level_shares(study, len(kept))
    x, missing = design(study, columns, kept if len(kept) < rows else None, columns)
    names, kinds = design_columns(study)
    _check_types(study, x, names, kinds)
    copy_warnings = _check_people(study, x, w, y)
    warnings = [f"site {site!r}: {warning}" for warning in (
        *arm_warnings, *_one_outcome(study, w, y), *copy_warnings, *_check_design(x, names, kinds))]
    control, ids = study.diagnostics.negative_control, _ids(study, columns)
    return Table(site=site, x=x, missing=missing, w=w, y=y, columns=names, kinds=kinds,
                 ids=None if ids is None else ids.iloc[kept].reset_index(drop=True), warnings=tuple(warnings),
                 control=_control(columns[control], study.outcome_type, kept) if control else None,
                 controls=tuple(_control(columns[name], study.outcome_type, kept)
                                for name in study.diagnostics.negative_controls),
                 lines=kept if len(kept) < rows else None, dropped=dropped, cluster=_clusters(study, columns, kept),
                 time=outcome_time(study, columns, kept), arms=study.arm_count)


def _clusters(study: Study, columns: Mapping[str, Column], kept: np.ndarray) -> np.ndarray | None:
    """[n] numbers of clusters, in the order of their names; nobody outside the site learns them."""
    if study.cluster is None:
        return None
    column, most = columns[study.cluster], int(getattr(study.fit_options().model, "exact_rows", 0))
    names = without_missing_words(words(column)).to_numpy()[kept]
    gone = np.array([name is None for name in names], bool)
    if gone.any():
        refuse(column.error(f"names no cluster in {count(int(gone.sum()), 'row')}. Name one for each person, or drop "
                            f"the rows"))
    if len(kept) > most:
        raise SizeError(f"{len(kept)} rows, and with clusters at most model.exact_rows = {most} can be computed on. "
                        f"Set exact_rows = {len(kept)} or more under [model] of the study: time grows with its cube")
    return np.unique(np.where(gone, "", names).astype(str), return_inverse=True)[1].astype(np.int64)


def _kept(rows: int, w: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
    """Rows whose treatment and outcome are known, as far as they could be read."""
    gone = [np.isnan(part) for part in (w, y) if part is not None]
    return np.flatnonzero(~np.any([np.zeros(rows, bool), *gone], axis=0))


def _dropped(w: np.ndarray, y: np.ndarray) -> Dropped:
    without = np.isnan(y)
    return Dropped(int(np.isnan(w).sum()), *(int((without & some).sum()) for some in (w == 0, w > 0)))


def copies(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[n] rows that repeat an earlier one in every column; none where too few do, or no column is a measurement: then
    they agree by chance."""
    if len(y) == 0 or not any(len(np.unique(column)) > MANY_VALUES for column in (y, *x.T)):
        return np.zeros(len(y), bool)
    again = np.ones(len(y), bool)
    again[np.unique(_row_hash((*x.T, w, y)), return_index=True)[1]] = False
    return again if again.mean() >= COPIES else np.zeros(len(y), bool)


def _row_hash(columns: Sequence[np.ndarray]) -> np.ndarray:
    """[n] 64 bits of each row: equal rows have equal ones, and others, among a million, in one table of ten million."""
    weights = np.random.default_rng(0).integers(2**63, 2**64, len(columns), dtype=np.uint64) | np.uint64(1)
    total = np.zeros(len(columns[0]), np.uint64)
    for column, weight in zip(columns, weights, strict=True):
        bits = np.ascontiguousarray(np.nan_to_num(column, nan=-1e300) + 0.0).view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        total += (bits ^ (bits >> np.uint64(29))) * weight
    return total


def _check_people(study: Study, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> list[str]:
    """The policy's limits are of people: whoever stands in the table four times counts once."""
    again = copies(x, w, y)
    if not again.any():
        return []
    with told_of(f"{count(int(again.sum()), 'row')} repeat another in all columns of the study; without them"):
        _check_rows(study.policy, int((~again).sum()))
        _check_arms(study, w[~again])
    if again.sum() < max(study.policy.min_cell, 1):
        return []
    return ["many rows repeat another in all columns of the study. If people stand in the table more than once, "
            "intervals are too narrow: keep one row of each"]


def _check_rows(policy: Policy, rows: int) -> None:
    if rows == 0:
        raise SizeError("the table has a header but no rows. Export it again")
    if rows < policy.min_rows:
        raise SizeError(f"the table has {count(rows, 'row')}, the policy needs "
                        f"{policy.min_rows}. Add rows, or leave the site out")


def _treatment(study: Study, column: Column, drop: bool = False) -> np.ndarray:
    """[n]; NaN where it is missing and such rows are dropped."""
    w = (level_codes(column, study.arms, "an arm", "name it in arms, or drop its rows (values = …, missing_codes = …)")
         if study.arms else zeros_and_ones(column, "code the treatment 1 for treated and 0 for not"))
    if not drop:
        _check_known(column, np.isnan(w), "treatment")
    return w


def _check_outcome(column: Column, kind: str, y: np.ndarray) -> None:
    _check_varies(column.name, y)
    if kind == "numeric" and np.isin(y, (0.0, 1.0)).all():
        raise column.error(f"holds 0 and 1 only, and the study takes its outcome for a number. Write outcome = "
                           f'{{ name = "{column.name}", type = "binary" }} in the study: effects are then differences '
                           f"of risks. A negative control has the type of the outcome")


def _control(column: Column, kind: str, kept: np.ndarray) -> np.ndarray:
    """A negative control of the rows that stay: it must be known of all of them."""
    y = _finite_outcome(column, kind, drop=True)[kept]
    _check_known(column, np.isnan(y), "negative control")
    _check_outcome(column, kind, y)
    return y


def _one_outcome(study: Study, w: np.ndarray, y: np.ndarray) -> list[str]:
    """Arms without an event, or without anybody spared: their risk rests on the model and on other sites."""
    if study.outcome_type not in ("binary", "survival"):
        return []
    return [f"all {word} rows {ONE_OUTCOME}" for arm, word in enumerate(_arm_words(study))
            if (w == arm).any() and np.ptp(y[w == arm]) == 0]


def _check_varies(name: str, y: np.ndarray) -> None:
    if _is_constant(y):
        raise DataError(f"column {name!r} is constant, so no effect can be seen in it. Check the export, or the study")


def _known_outcome(study: Study, columns: Mapping[str, Column], drop: bool) -> np.ndarray:
    """[n] of all rows; where rows are dropped, NaN without an outcome, or without the time that belongs to it."""
    y = _finite_outcome(columns[study.outcome], study.outcome_type, drop)
    return without_time(study, columns, y) if drop else y


def _finite_outcome(column: Column, kind: str, drop: bool = False) -> np.ndarray:
    y = (zeros_and_ones(column, "code a binary outcome 1 where it happened and 0 where it did not")
         if kind in ("binary", "survival") else numbers(column, "the outcome must be numeric. Correct the cells"))
    if not drop:
        _check_known(column, np.isnan(y), "outcome")
    return checked_count(column, y) if kind == "count" else y


def _check_known(column: Column, gone: np.ndarray, role: str) -> None:
    if gone.any():
        refuse(column.error(f"has no value in {row_list(gone)}; without its {role} a row cannot be used. "
                            'Drop the rows, or set rows_without = "drop" in the study'))


def _arm_words(study: Study) -> tuple[str, ...]:
    return tuple(f"'{arm}'" for arm in study.arms) or ("untreated", "treated")


def _check_arms(study: Study, w: np.ndarray) -> list[str]:
    """All arms, each large enough. One alone (of more than two, one that is missing), where that is allowed, is a
    warning."""
    policy, name = study.policy, study.treatment
    if study.arms:
        return _check_many_arms(study, w)
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


def _check_many_arms(study: Study, w: np.ndarray) -> list[str]:
    policy, name = study.policy, study.treatment
    rows_of = {arm: int((w == place).sum()) for place, arm in enumerate(study.arms)}
    absent = [arm for arm, rows in rows_of.items() if not rows]
    if absent and not policy.allow_single_arm:
        raise DataError(f"column {name!r}: nobody got {quoted(absent)}, and the study has the arms "
                        f"{quoted(study.arms)}, each of which every site needs. Check the spelling, leave the site or "
                        f"the arm out; or agree on a [policy] of the name \"custom\" with allow_single_arm = true, "
                        f"which each site has to allow by itself")
    for arm, rows in rows_of.items():
        if rows and rows < policy.min_arm_rows:
            raise SizeError(f"column {name!r} has {count(rows, 'row')} of the arm {arm!r}, the policy needs "
                            f"{policy.min_arm_rows}. Add rows, or leave the site out")
    return [f"nobody got {arm!r}; what it does rests on the other sites" for arm in absent]


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
    low, high = ends(x)
    constant = ~(high - low > CONSTANT * np.maximum(np.abs(low), np.abs(high)))  # NaN: all are missing
    two_valued = holds_only(x, low, high) & ~constant
    numeric = np.array([kind == "numeric" for kind in kinds]) & ~constant
    many_valued = numeric & ~two_valued
    _check_scales(Picked(x, numeric), _picked(names, numeric))
    _check_dependence(Picked(x, many_valued), _picked(names, many_valued))
    return [f"column {name!r} {IS_CONSTANT}" for name in _picked(names, constant)] + [
        f"columns {first!r} and {second!r} {COINCIDE}"
        for first, second in _coinciding(correlation(Picked(x, two_valued), CONSTANT), _picked(names, two_valued))]


def _check_types(study: Study, x: np.ndarray, names: Sequence[str], kinds: Sequence[str]) -> None:
    """Noise on sums hides two values of a numeric column the less the rarer one of them is: they stand the further
    apart in its sds."""
    if not study.noises_sums:
        return
    for name, kind, column in zip(names, kinds, x.T, strict=True):
        if kind == "numeric" and _is_two_valued(column) and not _is_constant(column):
            refuse(DataError(f"column {name!r} holds two values and is called numeric, and noise on sums "
                             f"(policy.sum_noise) hides less of such a column. Write type = \"binary\" in the study, "
                             f"with values that say which is 0 and which 1"))


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


def _check_scales(x: Picked, names: Sequence[str]) -> None:
    if not names:
        return
    spread = spreads(x)
    small, large = int(np.argmin(spread)), int(np.argmax(spread))
    if spread[large] > SCALE_RATIO * spread[small]:
        raise DataError(f"columns {names[small]!r} and {names[large]!r} differ in spread by more than "
                        f"{SCALE_RATIO:g} times. Give one of them in another unit")


def _check_dependence(x: Picked, names: Sequence[str]) -> None:
    """Numeric columns that another one, or several together, determine exactly."""
    found = correlation(x, CONSTANT)
    for first, second in _coinciding(found, names):
        raise DataError(f"columns {first!r} and {second!r} say the same: one is the other, perhaps in "
                        "another unit. Remove one from the study")
    if found is None:
        return
    eigenvalues, vectors = np.linalg.eigh(found)
    if eigenvalues[0] < DEPENDENT:
        involved = _picked(names, np.abs(vectors[:, 0]) > 1e-4)  # rounding leaves about 1e-8 in the others
        raise DataError(f"columns {quoted(involved)} depend on each other: one is computed from the rest. "
                        "Remove one from the study")


def _coinciding(found: np.ndarray | None, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns with |correlation| = 1."""
    if found is None:
        return []
    return [(names[i], names[j]) for i, j in combinations(range(len(names)), 2) if abs(found[i, j]) > 1 - SAME]
