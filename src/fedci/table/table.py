"""A site's table: from a file or a frame to arrays that fit the study, or an error a person can act on.

    Source ─► bytes or rows ─► columns by name ─► cells as numbers ─► x [n, d], w [n], y [n] ─► checks ─► Table

Columns are taken by name, so their order never matters. Messages name the site, the column and a row (1 is
the first row of data), and never show a cell: whoever reads a log may not be allowed to read the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fedci.errors import FedciError, SizeError
from fedci.plain import Shown, named
from fedci.study import origin
from fedci.study.origin import Origin, Origins
from fedci.study.study import Study
from fedci.table import roles
from fedci.table.dependence import check_design, check_types
from fedci.table.design import design, design_columns
from fedci.table.roles import Dropped
from fedci.table.times import outcome_time, within_horizon
from fedci.table.values import Column, told_of

if TYPE_CHECKING:
    import pandas as pd


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


def id_records(study: Study, table: Table) -> list[bytes]:
    """One record for each row, as linkage needs them: none missing, each person once."""
    with told_of(f"site {table.site!r}"):
        return roles.records_of(study, table.ids)


def restricted(study: Study, table: Table, rows: np.ndarray, when: str = "after linkage") -> Table:
    """The rows that linkage (or a refuter) leaves, which must meet the policy again; new warnings stand after the
    old."""
    with told_of(f"site {table.site!r}: {when}"):
        if not len(rows):
            raise SizeError(f"everyone is excluded: all {table.rows} people stay at other sites. "
                            "Leave the site out, or raise linkage.keep in the study")
        roles.check_rows(study.policy, len(rows))
        warnings = roles.check_arms(study, table.w[rows])
        roles.check_varies(study.outcome, study.outcome_type, table.y[rows])
        roles.check_level_shares(study, len(rows))
    new = [f"site {table.site!r}: {when} {warning}" for warning in warnings]
    return replace(table.take(rows), warnings=(*table.warnings, *new))


def size_problems(study: Study, by_arm: Sequence[int]) -> list[FedciError]:
    """What keeps a table with so many rows of each arm out of the study, each by the check that reading it makes."""
    w, rows, faults = np.repeat(np.arange(len(by_arm), dtype=float), by_arm), sum(by_arm), []
    for check, given in ((roles.check_rows, (study.policy, rows)), (roles.check_arms, (study, w)),
                         (roles.check_level_shares, (study, rows))):
        try:
            check(*given)
        except FedciError as problem:
            faults.append(problem)
    return faults


def table_of(study: Study, site: str, columns: dict[str, Column]) -> Table:
    """Of the study's columns, which it spends."""
    rows, drop = len(columns[study.treatment].cells), study.rows_without == "drop"
    roles.check_rows(study.policy, rows)
    w = roles.treatment(study, columns[study.treatment], drop)
    y = roles.known_outcome(study, columns, drop)
    kept = roles.kept_rows(rows, w, y)
    dropped = roles.dropped_of(w, y)
    w, y = w[kept], y[kept]
    if len(kept) < rows:
        roles.check_kept(study.policy, len(kept))
    arm_warnings = roles.check_arms(study, w)
    roles.check_outcome(columns[study.outcome], study.outcome_type, y)
    y = within_horizon(study, columns, y, kept)
    roles.check_level_shares(study, len(kept))
    x, missing = design(study, columns, kept if len(kept) < rows else None, columns)
    names, kinds = design_columns(study)
    check_types(study, x, names, kinds)
    copy_warnings = roles.check_people(study, x, w, y)
    warnings = [f"site {site!r}: {warning}" for warning in (
        *arm_warnings, *roles.one_outcome(study, w, y), *copy_warnings, *check_design(x, names, kinds))]
    control, ids = study.diagnostics.negative_control, roles.ids_of(study, columns)
    return Table(site=site, x=x, missing=missing, w=w, y=y, columns=names, kinds=kinds,
                 ids=None if ids is None else ids.iloc[kept].reset_index(drop=True), warnings=tuple(warnings),
                 control=roles.control_of(columns[control], study.outcome_type, kept) if control else None,
                 controls=tuple(roles.control_of(columns[name], study.outcome_type, kept)
                                for name in study.diagnostics.negative_controls),
                 lines=kept if len(kept) < rows else None, dropped=dropped,
                 cluster=roles.clusters(study, columns, kept), time=outcome_time(study, columns, kept),
                 arms=study.arm_count)
