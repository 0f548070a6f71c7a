"""Cells to the study's columns: what a coding says, done to columns as they were read.

    file ─► the site's own names (`columns.toml`) ─► columns that the study reads ─► its codings ─► columns of the study

A column without a coding is passed on as it is. What a coding does not expect is an error with the column and a row: a
code that nobody listed is never guessed at. Messages never show a cell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedci.study.coding import OWN_COLUMNS, Coding, Codings, check_own, read_own, sources
from fedci.study.identity import normalise
from fedci.study.study import Study
from fedci.table.columns import read_chunks, read_columns
from fedci.table.values import (
    Column,
    after_rows,
    numbers,
    refuse,
    refuse_rows,
    row_list,
    spared,
    without_missing_words,
    words,
    zeros_and_ones,
)

EPOCH = date(1970, 1, 1)
CLOCK = r"[ T]\d{2}:\d{2}(:\d{2}(\.\d*)?)?$"
"""A time of day after a date, as databases write it: days are counted, so it is cut off."""
REMEDY = "the coding computes with it. Correct the cells, or name codes in missing_codes"
COMBINED: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum": lambda x: x.sum(axis=1), "difference": lambda x: x[:, 0] - x[:, 1], "product": lambda x: x.prod(axis=1),
    "ratio": lambda x: x[:, 0] / x[:, 1], "mean": lambda x: x.mean(axis=1), "minimum": lambda x: x.min(axis=1),
    "maximum": lambda x: x.max(axis=1),
    "any": lambda x: np.where(np.nanmax(np.c_[x, np.zeros(len(x))], axis=1) == 1, 1.0, x.sum(axis=1)),
    "all": lambda x: np.where(np.nanmin(np.c_[x, np.ones(len(x))], axis=1) == 0, 0.0, x.prod(axis=1)),
}
"""x [n, k] to [n]. A missing value makes the result missing; but for any and all, where the others decide."""


def read_coded(data: Any, study: Study, names: Sequence[str], max_bytes: int, own: Codings | None = None,
               ) -> dict[str, Column]:
    """These columns of the study from a site's table."""
    own = own or {}
    read = read_columns(data, sources(own, study.reads(names)), max_bytes)
    return coded(study.coding, coded(own, read, study.reads(names)), names)


def coded_chunks(data: Any, study: Study, names: Sequence[str], keep: Sequence[str], rows: int,
                 own: Codings | None = None) -> Iterator[dict[str, Column]]:
    """As `read_coded`, about so many rows at a time; columns in `keep` come along as they stand, under '=NAME'."""
    own = own or {}
    wanted = tuple(dict.fromkeys((*sources(own, study.reads(names)), *keep)))
    start = 0
    for chunk in read_chunks(data, wanted, rows):
        with after_rows(start):
            made = coded(study.coding, coded(own, chunk, study.reads(names)), names)
        yield made | {f"={name}": chunk[name] for name in keep}
        start += len(next(iter(chunk.values())).cells)


def coded(codings: Codings, read: Mapping[str, Column], names: Sequence[str]) -> dict[str, Column]:
    """The columns `names`, each from those that were read."""
    return {name: recoded(codings[name], read, name) if name in codings else read[name] for name in names}


def own_columns(site: str, study: Study, path: Path | None = None) -> dict[str, Coding]:
    """The site's own file, by its path or by the environment; empty: its table has the study's names."""
    own = os.environ.get(f"{OWN_COLUMNS}_{site.upper().replace('-', '_')}") or os.environ.get(OWN_COLUMNS)
    place = path or (Path(own) if own else None)
    if place is None:
        return {}
    codings = read_own(place)
    check_own(codings, study.reads(), f"columns file {place}")
    return codings


# ── one column ──────────────────────────────────────────────────────────────────────────────────────────────


def recoded(coding: Coding, read: Mapping[str, Column], name: str) -> Column:
    """The column `name` as its coding says. Errors name the table's own column."""
    if not coding.changes:
        return read[name]
    own = [_uncoded(coding, read[source]) for source in (coding.columns or (coding.column or name,))]
    if coding.date and coding.since:
        values = _days(own[0], coding.date) - _days(_uncoded(coding, read[coding.since]), coding.date)
    elif coding.combine:
        values = _combined(coding, own, name)
    elif coding.computes:
        values = numbers(own[0], REMEDY)
    else:
        return Column(name, own[0].cells)
    values = values * (1.0 if coding.factor is None else coding.factor) + (coding.offset or 0.0)
    return Column(name, _cut(coding, values) if coding.cuts else _cells(values))


def _uncoded(coding: Coding, column: Column) -> Column:
    """Without codes: missing ones are null, words mean what `values`, `merge` or `treated` say."""
    if coding.missing_codes:
        column = Column(column.name, _without(column, coding.missing_codes))
    if coding.treated:
        return Column(column.name, _arms(coding, column))
    if coding.values:
        return Column(column.name, _looked_up(coding, column))
    return Column(column.name, _merged(coding, column)) if coding.merge else column


def _text(column: Column) -> pa.ChunkedArray:
    """Trimmed; a whole number as '99', also where the cell says 99.0."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(words(column)), r"^([+-]?\d+)\.0*$", r"\1")


def _without(column: Column, codes: Sequence[str]) -> pa.ChunkedArray:
    gone = pc.fill_null(pc.is_in(_text(column), pa.array(codes, pa.large_string())), False)
    return pc.if_else(gone, pa.scalar(None, column.cells.type), column.cells)


def _looked_up(coding: Coding, column: Column) -> pa.ChunkedArray:
    text = without_missing_words(_text(column), tuple(coding.values))
    places = pc.index_in(text, pa.array(list(coding.values), pa.large_string()))
    places = _refuse_unlisted(column, text, places, f"values lists {_listed(tuple(coding.values))}")
    meanings = list(coding.values.values())
    kind = pa.large_string() if any(isinstance(meaning, str) for meaning in meanings) else pa.float64()
    table = pa.array([str(meaning) if kind == pa.large_string() else meaning for meaning in meanings], kind)
    return pa.chunked_array([table.take(part) for part in places.chunks], kind)


def _arms(coding: Coding, column: Column) -> pa.ChunkedArray:
    text = without_missing_words(_text(column), (*coding.treated, *coding.untreated))
    treated = pc.is_in(text, pa.array(coding.treated, pa.large_string()))
    others = pc.unique(text.filter(pc.and_(pc.is_valid(text), pc.invert(treated)))).to_pylist()
    untreated = coding.untreated or tuple(others)
    if not coding.untreated and len(others) > 1:
        raise column.error(f"holds {len(others)} other words beside those of the treated ({_listed(coding.treated)}), "
                           "and one could be 'unknown'. Name those of the untreated in untreated, and codes for "
                           "unknown in missing_codes")
    places = pc.index_in(text, pa.array([*coding.treated, *untreated], pa.large_string()))
    _refuse_unlisted(column, text, places, f"treated and untreated list {_listed((*coding.treated, *untreated))}")
    return pc.if_else(pc.is_null(text), pa.scalar(None, pa.float64()), treated.cast(pa.float64()))


def _refuse_unlisted(column: Column, text: pa.ChunkedArray, places: pa.ChunkedArray, lists: str) -> pa.ChunkedArray:
    """The places in the list."""
    unlisted = pc.and_(pc.is_null(places), pc.is_valid(text))
    if pc.any(unlisted).as_py():
        refuse(column.error(f"holds a code that the study does not list in {row_list(unlisted.to_numpy())}; {lists}. "
                            "Add it there, or to missing_codes"))
    return pc.if_else(unlisted, pa.scalar(0, places.type), places)


def _listed(codes: Sequence[str]) -> str:
    """The study's own words, a few of them."""
    return ", ".join(codes[:12]) + (", …" if len(codes) > 12 else "")


def _merged(coding: Coding, column: Column) -> pa.ChunkedArray:
    text = _text(column)
    flat = [(code, word) for word, codes in coding.merge.items() for code in codes]
    places = pc.index_in(text, pa.array([code for code, _ in flat], pa.large_string()))
    table = pa.array([word for _, word in flat], pa.large_string())
    return pc.coalesce(pa.chunked_array([table.take(part) for part in places.chunks], pa.large_string()), text)


def _combined(coding: Coding, own: Sequence[Column], name: str) -> np.ndarray:
    of_truth = coding.combine in ("any", "all")
    parts = [zeros_and_ones(column, f"{coding.combine} is of 0 and 1. Say what codes mean in values") if of_truth else
             numbers(column, REMEDY) for column in own]
    x = np.column_stack(parts)
    if coding.combine == "ratio":
        x[:, 1] = refuse_rows(own[1], x[:, 1], x[:, 1] == 0, "of 0",
                              f"{name!r} divides by it. Name 0 in missing_codes, or correct them")
    assert coding.combine is not None
    return COMBINED[coding.combine](x)


def _days(column: Column, form: str) -> np.ndarray:
    """[n] days since 1970-01-01, NaN where missing."""
    if pa.types.is_temporal(column.cells.type):
        return column.cells.cast(pa.date32()).cast(pa.int32()).cast(pa.float64()).to_numpy()
    text = without_missing_words(pc.replace_substring_regex(words(column), CLOCK, ""))
    coded = text.combine_chunks().dictionary_encode()
    days = np.array([_day(value, form) for value in coded.dictionary.to_pylist()] + [np.nan])
    values = days[pc.fill_null(coded.indices, len(days) - 1).to_numpy(zero_copy_only=False)]
    unread = np.isnan(values) & text.is_valid().to_numpy()
    if unread.any():
        refuse(column.error(f"has no date of the form {form} in {row_list(unread)}. Correct the cells, or the form"))
    return spared(values, unread)


def _day(value: str, form: str) -> float:
    """Read as dates of linkage are: 1.2.2020 and 01.02.2020 are the same day, the 31st of February none."""
    try:
        return float((date.fromisoformat(normalise((value,), (form,))[4:].decode()) - EPOCH).days)
    except ValueError:
        return np.nan


def _cut(coding: Coding, values: np.ndarray) -> pa.ChunkedArray:
    table = np.array(coding.words_of_cuts(), object)
    picked = table[np.searchsorted(coding.cuts, np.nan_to_num(values), side="right")]
    return pa.chunked_array([pa.array(picked, pa.large_string(), mask=np.isnan(values))])


def _cells(values: np.ndarray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.float64(), from_pandas=True)])


def in_words(study: Study, own: Codings | None = None) -> list[tuple[str, str]]:
    """(column, what is done to it) of each coding, the site's own first: what `fedci check` shows."""
    site = [(name, f"here: {coding.in_words(name)}") for name, coding in (own or {}).items() if coding.changes]
    return site + [(name, coding.in_words(name)) for name, coding in study.coding.items() if coding.changes]
