"""A site's data by the site's name: a frame, a file or a query, and the table that a study makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedci.plain import Shown
from fedci.study import origin
from fedci.study.coding import Codings
from fedci.study.origin import Origins
from fedci.study.site_name import check_site_id
from fedci.study.study import Study
from fedci.table import roles
from fedci.table.cdm import Attrition, attrition_of, select_of
from fedci.table.columns import ANY_SIZE
from fedci.table.database import SCHEME, SHARED_QUERY, Query, kind_at, query_at
from fedci.table.design import design
from fedci.table.recode import own_columns, read_coded
from fedci.table.table import Table, table_of
from fedci.table.values import Column, told_of

if TYPE_CHECKING:
    import pandas as pd


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
            table = replace(table_of(study, self.name, self._read(study, study.columns)), origins=self._origins(study))
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
            w = roles.treatment(study, columns[study.treatment], drop)
            known = ~np.isnan(w)
            return design(study, columns)[0][known], w[known]

    def read_people(self, study: Study) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(x [p, d], w [p], y [p]) of people outside the fit: any number of them, nothing of theirs leaves."""
        wanted = (study.treatment, study.outcome, *(c.name for c in study.covariates))
        with told_of(f"site {self.name!r}"):
            columns = self._read(study, wanted)
            w = roles.treatment(study, columns[study.treatment])
            y = roles.finite_outcome(columns[study.outcome], study.outcome_type)
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
