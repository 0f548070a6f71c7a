"""The design: x [n, d] from columns by name, one block for each covariate; NaN where a value is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.errors import UsageError
from fedci.study.covariate import Covariate
from fedci.study.study import Study
from fedci.table.columns import from_frame
from fedci.table.recode import coded
from fedci.table.values import Column, count, level_codes, numbers, quoted, refuse, refuse_rows, told_of, zeros_and_ones

if TYPE_CHECKING:
    import pandas as pd


def design_columns(study: Study) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and kinds of the d design columns; a categorical A, B, C becomes levels `stage=B`, `stage=C`."""
    named = [(name, "level" if covariate.type == "categorical" else covariate.type)
             for covariate in study.covariates for name in covariate.design_columns()]
    names, kinds = zip(*named, strict=True)
    return names, kinds


def design_chunk(study: Study, columns: Mapping[str, Column], place: str) -> np.ndarray:
    """x [n, d] from columns that were read; `place` stands before every error."""
    with told_of(place):
        return design(study, columns)[0]


def design_matrix(study: Study, frame: pd.DataFrame, site: str) -> tuple[np.ndarray, np.ndarray]:
    """x [n, d] and missing [n, d] from a frame as a site has it, with the columns that the study's covariates are read
    from; others are ignored."""
    names = [c.name for c in study.covariates]
    with told_of(f"site {site!r}"):
        return design(study, coded(study.coding, from_frame(frame, study.reads(names)), names))


def design_from(study: Study, X: Any, site: str) -> tuple[np.ndarray, np.ndarray]:
    """As `design_matrix`; X may also be an array [p, number of covariates] in the study's order."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return design_matrix(study, X, site)
    names = [c.name for c in study.covariates]
    coded = [c.name for c in study.covariates if c.type == "categorical"]
    if coded:
        raise UsageError(f"X is an array, but {quoted(coded)} is categorical. "
                         f"Pass a DataFrame with the columns {quoted(names)}")
    with told_of(f"site {site!r}"):  # numbers as the study means them: nothing is left to recode
        return design(study, from_frame(pd.DataFrame(_two_dimensional(X, len(names)), columns=names), names))


def design(study: Study, columns: Mapping[str, Column], kept: np.ndarray | None = None,
           spent: dict[str, Column] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Of the rows `kept` (none: of all). Covariates go out of `spent` once they were read: a large table is then not
    held twice."""
    widths = [len(covariate.design_columns()) for covariate in study.covariates]
    x, at = np.empty((0, sum(widths))), 0
    for covariate, width in zip(study.covariates, widths, strict=True):
        block = checked_block(study, columns[covariate.name], covariate, kept)
        if spent is not None:
            del spent[covariate.name]
        x = x if at else np.empty((len(block), sum(widths)))
        x[:, at:at + width] = block
        at += width
    return x, np.isnan(x)


def checked_block(study: Study, column: Column, covariate: Covariate, kept: np.ndarray | None = None) -> np.ndarray:
    """Cells are read in all rows, so that a message names the table's own; values may be missing in rows that go."""
    block = _block(column, covariate)
    block = block if kept is None else block[kept]
    _check_missing(column, np.isnan(block[:, 0]), allowed=study.fills(covariate))
    return block


def _block(column: Column, covariate: Covariate) -> np.ndarray:
    """[n, 1], or for a categorical [n, levels − 1]; NaN across the row where the value is missing."""
    if covariate.type == "categorical":
        levels = covariate.levels or ()
        codes = level_codes(column, levels)[:, None]
        indicators = (codes == np.arange(1, len(levels))).astype(float)
        return np.where(np.isnan(codes), np.nan, indicators)
    if covariate.type == "binary":
        return zeros_and_ones(column, "code it 1 for yes and 0 for no; or say in the study what each cell means: "
                                      "values = { yes = 1, no = 0 }")[:, None]
    values = numbers(column, "the study says it is numeric. Correct the cells, or declare it categorical")
    if covariate.range:
        low, high = covariate.range
        values = refuse_rows(column, values, (values < low) | (values > high), f"outside the range [{low:g}, {high:g}]",
                             "name a code for 'unknown' in missing_codes, leave the cells empty, or correct the range")
    return values[:, None]


def _check_missing(column: Column, gone: np.ndarray, allowed: bool) -> None:
    if gone.any() and not allowed:
        refuse(column.error(f"has {count(gone.sum(), 'missing value')}; the study requires it. "
                            f'Drop the rows, or set missing = "impute" for {column.name!r}.'))


def _two_dimensional(X: Any, width: int) -> np.ndarray:
    try:
        array = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise UsageError("X is no array of numbers. Pass one, or a DataFrame with the covariates") from None
    if array.ndim != 2 or array.shape[1] != width:
        raise UsageError(f"X has the shape {array.shape}, needs [rows, {width}]: "
                         "one column for each covariate, in the study's order")
    return array
