"""Values of a column: its cells read as numbers, 0/1, levels or words.

Cells are read as text first, so that what is wrong with them can be said: a decimal comma, a word, a number too large.
Messages name the column and rows, and never show a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedci.errors import DataError, FedciError, SizeError

MISSING_WORDS = ("", ".", "na", "n/a", "<na>", "nan", "nat", "null", "none", "#n/a", "#na", "#nv")
"""Cells that mean 'no value', in any case of letters: what R, SAS, Stata, pandas, SQL and spreadsheets write."""
NUMBER = r"^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
DECIMAL_COMMA = r"^[+-]?\d*,\d+$"
THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+\.\d+$"
A_DATE = r"^(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})([ T].*)?$"
OF_DATES = ("make days of them in the study, by the column's keys date = \"%Y-%m-%d\" (as they are written) and "
            "since = another column of dates")
SAY_VALUES = "say in the study what its cells mean, values = { yes = 1, no = 0 }"
LARGEST = 1e75
"""Largest magnitude of a value: its fourth power, which the kurtosis needs, must stay a float64."""


@contextmanager
def told_of(place: str) -> Iterator[None]:
    """Puts the place before every error of the block, so that each check need only know its own part."""
    try:
        yield
    except FedciError as error:
        raise type(error)(f"{place}: {error}") from None
    except MemoryError:
        raise SizeError(f"{place}: the table does not fit into memory. Keep only the study's columns in it, "
                        "or use a larger machine") from None


_FOUND: ContextVar[list[FedciError] | None] = ContextVar("found", default=None)


@contextmanager
def collecting() -> Iterator[list[FedciError]]:
    """While it lasts, what is wrong with some cells is noted here, and the reader goes on with the others: so that all
    that is wrong with a table is told at once."""
    found: list[FedciError] = []
    token = _FOUND.set(found)
    try:
        yield found
    finally:
        _FOUND.reset(token)


def refuse(error: DataError) -> None:
    """Raised; or noted, and whoever calls puts something harmless in place of the cells."""
    found = _FOUND.get()
    if found is None:
        raise error
    found.append(error)


def spared(values: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """With a value of the other rows in place of the bad ones, which were told of: neither missing nor out of range."""
    good = values[~bad & ~np.isnan(values)]
    return np.where(bad, good[0] if len(good) else 0.0, values)


@dataclass(frozen=True, eq=False)
class Column:
    """One column as it was read."""

    name: str
    cells: pa.ChunkedArray

    def error(self, problem: str) -> DataError:
        return DataError(f"column {self.name!r} {problem}")


def numbers(column: Column, remedy: str, truth_words: bool = False) -> np.ndarray:
    """[n] float64, NaN where missing. With `truth_words`, true and false are 1 and 0."""
    kind = column.cells.type
    if pa.types.is_large_string(kind):
        values = _read_numbers(column, remedy, truth_words)
    elif pa.types.is_boolean(kind):
        values = column.cells.cast(pa.uint8()).cast(pa.float64())
    elif _is_number(kind):
        values = column.cells.cast(pa.float64(), safe=False)
    else:
        of_dates = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        raise column.error(f"holds {_kind_of(kind)} where numbers are needed; {OF_DATES if of_dates else remedy}")
    values = values.to_numpy()
    return refuse_rows(column, values, np.abs(values) > LARGEST, f"that are infinite or beyond ±{LARGEST:g}",
                       "leave unknown values empty, or change the unit")


def _is_number(kind: pa.DataType) -> bool:
    is_kind = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in is_kind)


def _kind_of(kind: pa.DataType) -> str:
    """In one word: the full name of a nested type can hold keys, which are data."""
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        return "durations"
    return "dates" if pa.types.is_temporal(kind) else f"the type {str(kind).partition('<')[0]}"


def _read_numbers(column: Column, remedy: str, truth_words: bool) -> pa.ChunkedArray:
    try:
        return column.cells.cast(pa.float64())
    except pa.ArrowInvalid:  # some cell needs a closer look: blanks, words for missing, or a mistake
        pass
    text = without_missing_words(column.cells)
    if truth_words:
        low = pc.utf8_lower(text)
        text = pc.if_else(pc.equal(low, "true"), "1", pc.if_else(pc.equal(low, "false"), "0", text))
    unread = pc.fill_null(pc.invert(pc.match_substring_regex(text, NUMBER)), False)
    if pc.any(unread).as_py():
        refuse(_unread(column, text, unread, remedy))
        known = text.filter(pc.and_(pc.invert(unread), pc.is_valid(text)))
        text = pc.if_else(unread, known[0] if len(known) else pa.scalar("0", text.type), text)
    return text.cast(pa.float64())


def without_missing_words(cells: pa.ChunkedArray, levels: Sequence[str] = ()) -> pa.ChunkedArray:
    """Trimmed, and null where the cell says that there is no value; words in `levels` are values."""
    text = pc.utf8_trim_whitespace(cells)
    gone = pc.is_in(pc.utf8_lower(text), pa.array(MISSING_WORDS, text.type))
    if levels:
        gone = pc.and_(gone, pc.invert(pc.is_in(text, pa.array(levels, text.type))))
    return pc.if_else(gone, pa.scalar(None, text.type), text)


def _unread(column: Column, text: pa.ChunkedArray, unread: pa.ChunkedArray, remedy: str) -> DataError:
    rows, cells = row_list(unread.to_numpy()), text.filter(unread)
    for form, problem in ((DECIMAL_COMMA, "writes decimals with a comma in {}. Export it with decimal points"),
                          (THOUSANDS, "parts thousands by a comma in {}. Export it without"),
                          (A_DATE, f"holds dates in {{}}; {OF_DATES}")):
        if pc.all(pc.match_substring_regex(cells, form)).as_py():
            return column.error(problem.format(rows))
    return column.error(f"holds text in {rows}; {remedy}")


def zeros_and_ones(column: Column, remedy: str) -> np.ndarray:
    """[n] of 0, 1 and NaN, from 0 and 1 or true and false. Other words could be read either way round."""
    values = numbers(column, remedy, truth_words=True)
    other = ~(np.isnan(values) | (values == 0) | (values == 1))
    return refuse_rows(column, values, other, "other than 0 and 1", remedy)


def level_codes(column: Column, levels: Sequence[str], what: str = "a level",
                remedy: str = "Recode the cells (values or merge, of the study or the site's columns.toml), or add the "
                              "level; letters count, capital or small") -> np.ndarray:
    """[n] float64: position among the study's levels (or arms), NaN where missing."""
    text = without_missing_words(words(column), levels=levels)
    codes = pc.index_in(text, pa.array(levels, text.type))
    unseen = pc.and_(pc.is_null(codes), pc.is_valid(text)).to_numpy()
    if unseen.any():
        refuse(column.error(f"holds {what} that the study does not have in {row_list(unseen)}. "
                            f"Its {what.split()[-1]}s are {', '.join(levels)}. {remedy[0].upper()}{remedy[1:]}"))
    return np.where(unseen, 0.0, codes.cast(pa.float64()).to_numpy())


def words(column: Column) -> pa.ChunkedArray:
    """The cells as text: 1 and 1.0 are '1'."""
    try:
        return column.cells.cast(pa.large_string())
    except pa.ArrowException:  # its words may quote cells
        kind = _kind_of(column.cells.type)
        raise column.error(f"holds {kind} where text is needed. Export it as text") from None


def refuse_rows(column: Column, values: np.ndarray, bad: np.ndarray, what: str, remedy: str) -> np.ndarray:
    """The values, if none is bad."""
    if not bad.any():
        return values
    refuse(column.error(f"holds values {what} in {row_list(bad)}. {remedy[0].upper()}{remedy[1:]}"))
    return spared(values, bad)


_BEFORE: ContextVar[int] = ContextVar("rows before", default=0)


@contextmanager
def after_rows(rows: int) -> Iterator[None]:
    """While it lasts, so many rows of the table stand before those that are looked at: messages number the table's."""
    token = _BEFORE.set(rows)
    try:
        yield
    finally:
        _BEFORE.reset(token)


def row_list(bad: np.ndarray) -> str:
    """'3 rows (first: row 17)': how many, and where to look."""
    return f"{count(bad.sum(), 'row')} (first: row {int(np.argmax(bad)) + _BEFORE.get() + 1})"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
