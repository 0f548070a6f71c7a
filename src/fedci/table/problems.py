"""Everything that keeps a source out of a study, not the first problem only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fedci.errors import FedciError
from fedci.study import origin
from fedci.study.coding import Codings, sources
from fedci.study.study import Study
from fedci.table import roles
from fedci.table.columns import check_header, column_names, read_columns
from fedci.table.dependence import check_design, check_types
from fedci.table.design import checked_block
from fedci.table.recode import coded
from fedci.table.source import Source
from fedci.table.times import outcome_time, within_horizon
from fedci.table.values import Column, collecting

T = TypeVar("T")


def problems(study: Study, source: Source) -> list[FedciError]:
    """Everything that keeps this source out of the study, not the first problem only; empty: `source.read` works."""
    tried = _Tried(f"site {source.name!r}")
    most = study.policy.max_file_bytes
    wanted = sources(source.columns, study.reads())
    tried(study.check_site, source.name)
    tried(origin.check, study, source._origins(study))
    names = tried(column_names, source.data, most, wanted)
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
    """Each check of `table_of` by itself, on the columns that are there."""
    rows = len(next(iter(columns.values())).cells)
    tried(roles.check_rows, study.policy, rows)
    if rows == 0:
        return
    drop = study.rows_without == "drop"
    w, y = None, None
    if study.treatment in columns:
        w = tried(roles.treatment, study, columns[study.treatment], drop)
        w = w if tried.clean else None
    if study.outcome in columns:
        y = tried(roles.known_outcome, study, columns, drop)
        y = y if tried.clean else None
    kept = roles.kept_rows(rows, w, y) if drop else np.arange(rows)
    if drop and len(kept) < rows:
        tried(roles.check_kept, study.policy, len(kept))
    if w is not None and len(kept):
        tried(roles.check_arms, study, w[kept])
    if y is not None and len(kept):
        tried(roles.check_outcome, columns[study.outcome], study.outcome_type, y[kept])
        if all(column in columns for column in study.outcome_columns):
            tried(within_horizon, study, columns, y[kept], kept)
            tried(outcome_time, study, columns, kept)
    for control in study.diagnostics.controls:
        if control in columns:
            tried(roles.control_of, columns[control], study.outcome_type, kept)
    if study.cluster is not None and study.cluster in columns:
        tried(roles.clusters, study, columns, kept)
    if len(kept):
        tried(roles.check_level_shares, study, len(kept))
    covariates = [covariate for covariate in study.covariates if covariate.name in columns]
    blocks = {covariate: block for covariate in covariates
              if (block := tried(checked_block, study, columns[covariate.name], covariate, kept)) is not None
              and tried.clean}
    if w is not None and y is not None and len(blocks) == len(study.covariates) and len(kept):
        tried(roles.check_people, study, np.hstack(list(blocks.values())), w[kept], y[kept])
    if blocks and len(kept):
        named = [(name, "level" if covariate.type == "categorical" else covariate.type) for covariate in blocks
                 for name in covariate.design_columns()]
        tried(check_design, np.hstack(list(blocks.values())), *zip(*named, strict=True))
        tried(check_types, study, np.hstack(list(blocks.values())), *zip(*named, strict=True))
    if study.links and all(name in columns for name in study.ids):
        tried(_try_ids, study, columns)


def _try_ids(study: Study, columns: Mapping[str, Column]) -> None:
    roles.records_of(study, roles.ids_of(study, columns))
