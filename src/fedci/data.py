"""A site's table: from a file or a frame to arrays that fit the study, or an error a person can act on.

    Source ─► bytes ─► columns by name ─► cells as numbers ─► x [n, d], w [n], y [n] ─► checks ─► Table

Columns are taken by name, so their order never matters. Messages name the site, the column and a row (1 is
the first row of data), and never show a cell: whoever reads a log may not be allowed to read the data.
"""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedci.errors import DataError, FedciError, SizeError, SourceError, UsageError
from fedci.options import nearest
from fedci.privacy.policy import Policy
from fedci.study import Covariate, Study, check_site_id

if TYPE_CHECKING:
    import pandas as pd

MISSING_WORDS = ("", ".", "na", "n/a", "<na>", "nan", "null", "none")
"""Cells that mean 'no value', in any case of letters: what R, SAS, Stata, pandas and SQL write."""
NUMBER = r"^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
DECIMAL_COMMA = r"^[+-]?\d*,\d+$"
BESIDE_QUOTES = np.frombuffer(b',\r\n"', np.uint8)
"""What may stand outside a quotation mark: the cell's border, or another mark where one inside is doubled."""
LARGEST = 1e75
"""Largest magnitude of a value: its fourth power, which the kurtosis needs, must stay a float64."""
SAME = 1e-10
"""Two columns coincide when 1 − |correlation| is below this."""
DEPENDENT = 1e-12
"""Columns depend linearly when an eigenvalue of their correlation matrix is below this."""
CONSTANT = 1e-12
"""A column is constant when its spread, relative to its largest magnitude, is rounding."""
SCALE_RATIO = 1e8
"""Standard deviations further apart than this are a mistake in units."""
EMPTY = "the file is empty. Export the table again, with a header"
CSV_BLOCK_BYTES = 16 * 2**20
"""Rows longer than this cannot be read."""


@dataclass(frozen=True, eq=False)
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

    @property
    def rows(self) -> int:
        return len(self.w)

    @property
    def treated(self) -> int:
        return int(self.w.sum())


@dataclass(frozen=True, eq=False)
class Source:
    """A site's data by the site's name: a pandas frame, or the path of a .csv or .parquet file."""

    name: str
    data: pd.DataFrame | str | Path

    def __post_init__(self):
        check_site_id(self.name)

    def read(self, study: Study) -> Table:
        """Everything the study asks of this site, checked; the first problem as one error."""
        study.check_site(self.name)
        wanted = (study.treatment, study.outcome, *(c.name for c in study.covariates), *study.ids)
        with _told_of(f"site {self.name!r}"):
            return _table(study, self.name, self._columns(study, wanted))

    def read_people(self, study: Study) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(x [p, d], w [p], y [p]) of people outside the fit: any number of them, nothing of theirs leaves."""
        wanted = (study.treatment, study.outcome, *(c.name for c in study.covariates))
        with _told_of(f"site {self.name!r}"):
            columns = self._columns(study, wanted)
            w, y = _treatment(columns[study.treatment]), _finite_outcome(columns[study.outcome])
            return _design(study, columns)[0], w, y

    def _columns(self, study: Study, wanted: Sequence[str]) -> dict[str, _Column]:
        if not isinstance(self.data, str | os.PathLike):
            return _from_frame(self.data, wanted)
        path = Path(self.data)
        with _told_of(str(path)):
            _check_file(path, study.policy.max_file_bytes)
            read = {".csv": _from_csv, ".parquet": _from_parquet}.get(path.suffix.lower())
            if read is None:
                raise SourceError("the file is neither .csv nor .parquet. Export it as one of them")
            return read(path, wanted)


def design_columns(study: Study) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and kinds of the d design columns; a categorical A, B, C becomes levels `stage=B`, `stage=C`."""
    named = [(name, "level" if covariate.type == "categorical" else covariate.type)
             for covariate in study.covariates for name in covariate.design_columns()]
    names, kinds = zip(*named, strict=True)
    return names, kinds


def design_matrix(study: Study, frame: pd.DataFrame, site: str) -> tuple[np.ndarray, np.ndarray]:
    """x [n, d] and missing [n, d] from a frame with the study's covariates; other columns are ignored."""
    with _told_of(f"site {site!r}"):
        return _design(study, _from_frame(frame, [c.name for c in study.covariates]))


def design_from(study: Study, X: Any, site: str) -> tuple[np.ndarray, np.ndarray]:
    """As `design_matrix`; X may also be an array [p, number of covariates] in the study's order."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return design_matrix(study, X, site)
    names = [c.name for c in study.covariates]
    coded = [c.name for c in study.covariates if c.type == "categorical"]
    if coded:
        raise UsageError(f"X is an array, but {_quoted(coded)} is categorical. "
                         f"Pass a DataFrame with the columns {_quoted(names)}")
    return design_matrix(study, pd.DataFrame(_two_dimensional(X, len(names)), columns=names), site)


def constant_columns(table: Table) -> tuple[str, ...]:
    """Design columns with one value only. At one site that is no error; at every site it is."""
    return tuple(name for name, column in zip(table.columns, table.x.T, strict=True) if _is_constant(column))


@contextmanager
def _told_of(place: str) -> Iterator[None]:
    """Puts the place before every error of the block, so that each check need only know its own part."""
    try:
        yield
    except FedciError as error:
        raise type(error)(f"{place}: {error}") from None
    except MemoryError:
        raise SizeError(f"{place}: the table does not fit into memory. Keep only the study's columns in it, "
                        "or use a larger machine") from None


# ── reading: bytes and frames to columns ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class _Column:
    """One column as it was read."""

    name: str
    cells: pa.ChunkedArray

    def error(self, problem: str) -> DataError:
        return DataError(f"column {self.name!r} {problem}")


def _from_frame(frame: Any, wanted: Sequence[str]) -> dict[str, _Column]:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise SourceError(f"got {type(frame).__name__}, needs a pandas DataFrame or the path of a file")
    _check_header(list(frame.columns), wanted)
    return {name: _Column(name, _plain(_arrow(frame[name]))) for name in wanted}


def _arrow(series: pd.Series) -> pa.ChunkedArray:
    """The series in Arrow's own type; objects of several types become text, and are judged as text."""
    try:
        cells = pa.array(series, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        gone = series.isna().to_numpy()
        cells = pa.array([_as_text(item) for item in series], pa.large_string(), mask=gone)
    return cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])


def _as_text(item: Any) -> str:
    return str(item).encode("utf-8", "backslashreplace").decode()


def _plain(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without dictionary coding, and text as one type."""
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    is_text = pa.types.is_string(kind) or pa.types.is_string_view(kind)
    try:
        return cells.cast(pa.large_string() if is_text else kind)
    except pa.ArrowException:  # a rare type: whoever needs numbers or text of it refuses it by name
        return cells


def _from_parquet(path: Path, wanted: Sequence[str]) -> dict[str, _Column]:
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_header(file.schema_arrow.names, wanted)
            table = file.read(columns=list(wanted))
        return {name: _Column(name, _plain(table.column(name))) for name in wanted}
    except (pa.ArrowException, OSError, ValueError, KeyError):  # the reader's own words may quote cells
        raise SourceError("the file is not a whole Parquet file. Export it again") from None


def _from_csv(path: Path, wanted: Sequence[str]) -> dict[str, _Column]:
    data = _bytes(path)
    _check_text(data)
    header = _header(data)
    _check_delimiter(header, wanted)
    _check_header(header, wanted)
    if b"\n" not in data and b"\r" not in data:  # a header alone, which Arrow takes for a broken block
        table = pa.table({name: pa.array([], pa.string()) for name in wanted})
    else:
        table = _parsed_csv(data, wanted)
    return {name: _Column(name, _plain(table.column(name))) for name in wanted}


def _check_file(path: Path, max_bytes: int) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise SourceError("the file does not exist. Check the path") from None
    except (OSError, ValueError):
        raise SourceError("the file cannot be reached. Check the path and its permissions") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a plain file"
        raise SourceError(f"this is {kind}. Give the path of a .csv or .parquet file")
    if status.st_size == 0:
        raise SourceError(EMPTY)
    if status.st_size > max_bytes:
        raise SizeError(f"the file has {status.st_size} bytes, policy.max_file_bytes is {max_bytes}. "
                        "Keep only the study's columns, or agree on more")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as problem:
        reason = (problem.strerror or "no reason given").lower()
        raise SourceError(f"the file cannot be read: {reason}. Check its permissions") from None


def _check_text(data: bytes) -> None:
    """UTF-8, and quotation marks in pairs around whole cells: else rows would vanish into one cell."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError("the file is UTF-16. Save it as UTF-8")
    if (place := data.find(b"\0")) >= 0:
        raise SourceError(f"line {_line(data, place)} holds a NUL byte: the file is damaged, or UTF-16. "
                          "Export it as CSV in UTF-8")
    try:
        data.isascii() or data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise SourceError(f"line {_line(data, problem.start)} is not UTF-8. "
                          "Save the file as UTF-8 (in Excel: 'CSV UTF-8')") from None
    if (place := _stray_quote(data)) is not None:
        raise SourceError(f"line {_line(data, place)} has a quotation mark that does not close, or opens no "
                          "whole cell. Quote whole cells, and double the marks inside")


def _line(data: bytes, place: int) -> int:
    """Line of the file, from 1."""
    return data.count(b"\n", 0, place) + 1


def _stray_quote(data: bytes) -> int | None:
    """Place of the first quotation mark that breaks the rule: marks 1, 3, 5, … open a cell and 2, 4, 6, …
    close it, and outside of each is the cell's border or, where a mark in a cell is doubled, another mark."""
    if b'"' not in data:
        return None
    byte = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    marks = np.flatnonzero(byte == ord('"'))
    outside = marks + np.where(np.arange(len(marks)) % 2, 1, -1)
    stray = ~np.isin(byte[outside], BESIDE_QUOTES)
    stray[-1] |= len(marks) % 2 == 1
    return int(marks[np.argmax(stray)]) - 1 if stray.any() else None


def _header(data: bytes) -> list[str]:
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline=""))
    try:
        return next(line for line in lines if line)
    except StopIteration:
        raise SourceError(EMPTY) from None
    except csv.Error:
        raise SourceError("the first line is no header. Export the file as CSV, with a header") from None


def _check_delimiter(header: list[str], wanted: Sequence[str]) -> None:
    found = len(set(header) & set(wanted))
    for delimiter, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        split = {cell.strip().strip('"') for cell in ",".join(header).split(delimiter)}
        if len(split & set(wanted)) > found:
            raise SourceError(f"the columns are separated by {name}. Export with commas and decimal points")


def _check_header(header: Sequence[Any], wanted: Sequence[str]) -> None:
    """Every wanted column once. A header that has none of them may be data, so nothing of it is shown."""
    counts = {name: list(header).count(name) for name in wanted}
    repeated = [name for name, count in counts.items() if count > 1]
    absent = [name for name, count in counts.items() if count == 0]
    if repeated:
        raise SourceError(f"column {_quoted(repeated)} stands more than once. Rename or remove the copies")
    if len(absent) == len(wanted):
        raise DataError(f"none of the columns {_quoted(absent)} is in the table. Is there a header?")
    if absent:
        unused = [str(name) for name in header if name not in wanted]
        raise DataError(f"column {_quoted(absent)} is missing{nearest(absent[0], unused) or '.'} "
                        "Rename it in the table, or correct the study")


def _parsed_csv(data: bytes, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns as text, so that what is wrong with a cell can be told; empty cells are null."""
    import pyarrow.csv as arrow_csv

    ragged = []
    try:
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            # one thread: only then does Arrow number the rows it refuses
            arrow_csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
            arrow_csv.ParseOptions(newlines_in_values=b'"' in data,
                                   invalid_row_handler=lambda row: ragged.append(row) or "error"),
            arrow_csv.ConvertOptions(include_columns=wanted, null_values=[""], strings_can_be_null=True,
                                     column_types=dict.fromkeys(wanted, pa.large_string())))
    except pa.ArrowException:  # its words quote the row
        raise SourceError(_why_not_csv(ragged)) from None


def _why_not_csv(ragged: list) -> str:
    if not ragged:
        return "the file cannot be read as CSV. Export it again"
    row = ragged[0]
    return (f"line {row.number} has {row.actual_columns} cells, the header has {row.expected_columns}. "
            "Quote cells that hold a comma, and write decimals with a point")


# ── cells: columns to numbers ───────────────────────────────────────────────────────────────────────────────


def _numbers(column: _Column, remedy: str, truth_words: bool = False) -> np.ndarray:
    """[n] float64, NaN where missing. With `truth_words`, true and false are 1 and 0."""
    kind = column.cells.type
    if pa.types.is_large_string(kind):
        values = _read_numbers(column, remedy, truth_words)
    elif pa.types.is_boolean(kind):
        values = column.cells.cast(pa.uint8()).cast(pa.float64())
    elif _is_number(kind):
        values = column.cells.cast(pa.float64(), safe=False)
    else:
        raise column.error(f"holds {_kind_of(kind)} where numbers are needed; {remedy}")
    values = values.to_numpy()
    _refuse_rows(column, np.abs(values) > LARGEST, f"that are infinite or beyond ±{LARGEST:g}",
                 "leave unknown values empty, or change the unit")
    return values


def _is_number(kind: pa.DataType) -> bool:
    is_kind = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in is_kind)


def _kind_of(kind: pa.DataType) -> str:
    """In one word: the full name of a nested type can hold keys, which are data."""
    return "dates" if pa.types.is_temporal(kind) else f"the type {str(kind).partition('<')[0]}"


def _read_numbers(column: _Column, remedy: str, truth_words: bool) -> pa.ChunkedArray:
    try:
        return column.cells.cast(pa.float64())
    except pa.ArrowInvalid:  # some cell needs a closer look: blanks, words for missing, or a mistake
        pass
    text = _without_missing_words(column.cells)
    if truth_words:
        low = pc.utf8_lower(text)
        text = pc.if_else(pc.equal(low, "true"), "1", pc.if_else(pc.equal(low, "false"), "0", text))
    unread = pc.fill_null(pc.invert(pc.match_substring_regex(text, NUMBER)), False)
    if pc.any(unread).as_py():
        raise _unread(column, text, unread, remedy)
    return text.cast(pa.float64())


def _without_missing_words(cells: pa.ChunkedArray, kept: Sequence[str] = ()) -> pa.ChunkedArray:
    """Trimmed, and null where the cell says that there is no value; words in `kept` are values."""
    text = pc.utf8_trim_whitespace(cells)
    gone = pc.is_in(pc.utf8_lower(text), pa.array(MISSING_WORDS, text.type))
    if kept:
        gone = pc.and_(gone, pc.invert(pc.is_in(text, pa.array(kept, text.type))))
    return pc.if_else(gone, pa.scalar(None, text.type), text)


def _unread(column: _Column, text: pa.ChunkedArray, unread: pa.ChunkedArray, remedy: str) -> DataError:
    rows = _rows(unread.to_numpy())
    if pc.all(pc.match_substring_regex(text.filter(unread), DECIMAL_COMMA)).as_py():
        return column.error(f"writes decimals with a comma in {rows}. Export it with decimal points")
    return column.error(f"holds text in {rows}; {remedy}")


def _zeros_and_ones(column: _Column, remedy: str) -> np.ndarray:
    """[n] of 0, 1 and NaN, from 0 and 1 or true and false. Other words could be read either way round."""
    values = _numbers(column, remedy, truth_words=True)
    _refuse_rows(column, ~(np.isnan(values) | (values == 0) | (values == 1)), "other than 0 and 1", remedy)
    return values


def _level_codes(column: _Column, levels: Sequence[str]) -> np.ndarray:
    """[n] float64: position among the study's levels, NaN where missing."""
    text = _without_missing_words(_words(column), kept=levels)
    codes = pc.index_in(text, pa.array(levels, text.type))
    unseen = pc.and_(pc.is_null(codes), pc.is_valid(text)).to_numpy()
    if unseen.any():
        raise column.error(f"holds a level that the study does not have in {_rows(unseen)}. "
                           f"Its levels are {', '.join(levels)}. Recode the cells, or add the level")
    return codes.cast(pa.float64()).to_numpy()


def _words(column: _Column) -> pa.ChunkedArray:
    """The cells as text: 1 and 1.0 are '1'."""
    try:
        return column.cells.cast(pa.large_string())
    except pa.ArrowException:  # its words may quote cells
        kind = _kind_of(column.cells.type)
        raise column.error(f"holds {kind} where text is needed. Export it as text") from None


def _refuse_rows(column: _Column, bad: np.ndarray, what: str, remedy: str) -> None:
    if bad.any():
        raise column.error(f"holds values {what} in {_rows(bad)}. {remedy[0].upper()}{remedy[1:]}")


def _rows(bad: np.ndarray) -> str:
    """'3 rows (first: row 17)': how many, and where to look."""
    return f"{_count(bad.sum(), 'row')} (first: row {int(np.argmax(bad)) + 1})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


# ── the design: one block of columns for each covariate ─────────────────────────────────────────────────────


def _design(study: Study, columns: Mapping[str, _Column]) -> tuple[np.ndarray, np.ndarray]:
    blocks = []
    for covariate in study.covariates:
        block = _block(columns[covariate.name], covariate)
        _check_missing(columns[covariate.name], np.isnan(block[:, 0]), allowed=study.imputes(covariate))
        blocks.append(block)
    x = np.hstack(blocks)
    return x, np.isnan(x)


def _block(column: _Column, covariate: Covariate) -> np.ndarray:
    """[n, 1], or for a categorical [n, levels − 1]; NaN across the row where the value is missing."""
    if covariate.type == "categorical":
        codes = _level_codes(column, covariate.levels)[:, None]
        indicators = (codes == np.arange(1, len(covariate.levels))).astype(float)
        return np.where(np.isnan(codes), np.nan, indicators)
    if covariate.type == "binary":
        return _zeros_and_ones(column, "code it 1 for yes and 0 for no")[:, None]
    values = _numbers(column, "the study says it is numeric. Correct the cells, or declare it categorical")
    if covariate.range:
        low, high = covariate.range
        _refuse_rows(column, (values < low) | (values > high), f"outside the range [{low:g}, {high:g}]",
                     "leave unknown values empty instead of writing a code, or correct the range")
    return values[:, None]


def _check_missing(column: _Column, gone: np.ndarray, allowed: bool) -> None:
    if gone.any() and not allowed:
        raise column.error(f"has {_count(gone.sum(), 'missing value')}; the study requires it. "
                           f'Drop the rows, or set missing = "impute" for {column.name!r}.')


def _two_dimensional(X: Any, width: int) -> np.ndarray:
    try:
        array = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise UsageError("X is no array of numbers. Pass one, or a DataFrame with the covariates") from None
    if array.ndim != 2 or array.shape[1] != width:
        raise UsageError(f"X has the shape {array.shape}, needs [rows, {width}]: "
                         "one column for each covariate, in the study's order")
    return array


# ── the table: what only a whole site shows ─────────────────────────────────────────────────────────────────


def _table(study: Study, site: str, columns: Mapping[str, _Column]) -> Table:
    rows = len(columns[study.treatment].cells)
    _check_rows(study.policy, rows)
    w = _treatment(columns[study.treatment])
    arm_warnings = _check_arms(study.policy, columns[study.treatment], w)
    y = _outcome(columns[study.outcome])
    _check_level_shares(study, rows)
    x, missing = _design(study, columns)
    names, kinds = design_columns(study)
    warnings = [f"site {site!r}: {warning}" for warning in (*arm_warnings, *_check_design(x, names, kinds))]
    return Table(site, x, missing, w, y, names, kinds, _ids(study, columns), tuple(warnings))


def _check_rows(policy: Policy, rows: int) -> None:
    if rows == 0:
        raise SizeError("the table has a header but no rows. Export it again")
    if rows < policy.min_rows:
        raise SizeError(f"the table has {_count(rows, 'row')}, the policy {policy.name!r} needs "
                        f"{policy.min_rows}. Add rows, or leave the site out")


def _treatment(column: _Column) -> np.ndarray:
    w = _zeros_and_ones(column, "code the treatment 1 for treated and 0 for not")
    _check_known(column, np.isnan(w), "treatment")
    return w


def _outcome(column: _Column) -> np.ndarray:
    y = _finite_outcome(column)
    if _is_constant(y):
        raise column.error("is constant, so no effect can be seen in it. Check the export, or the study")
    return y


def _finite_outcome(column: _Column) -> np.ndarray:
    y = _numbers(column, "the outcome must be numeric. Correct the cells")
    _check_known(column, np.isnan(y), "outcome")
    return y


def _check_known(column: _Column, gone: np.ndarray, role: str) -> None:
    if gone.any():
        raise column.error(f"has no value in {_rows(gone)}; without its {role} a row cannot be used. "
                           "Drop the rows")


def _check_arms(policy: Policy, column: _Column, w: np.ndarray) -> list[str]:
    """Both arms, each large enough. One alone, where that is allowed, is a warning."""
    rows_of = {"treated": int(w.sum()), "untreated": int((1 - w).sum())}
    present = [arm for arm, rows in rows_of.items() if rows]
    if len(present) == 1 and not policy.allow_single_arm:
        raise column.error(f"has only {present[0]} rows, and both arms are needed. "
                           "Leave the site out, or set allow_single_arm = true in [policy]")
    for arm in present:
        if rows_of[arm] < policy.min_arm_rows:
            raise SizeError(f"column {column.name!r} has {_count(rows_of[arm], f'{arm} row')}, the policy "
                            f"{policy.name!r} needs {policy.min_arm_rows}. Add rows, or leave the site out")
    alone = present if len(present) == 1 else []
    return [f"all rows are {arm}; effects here rest on the other sites" for arm in alone]


def _check_level_shares(study: Study, rows: int) -> None:
    most = int(study.policy.max_level_share * rows)
    for covariate in study.covariates:
        count = len(covariate.levels or ())
        if count > most:
            raise DataError(f"column {covariate.name!r} has {count} levels in the study; for {rows} rows "
                            f"policy.max_level_share allows {most}. Merge levels, or add rows")


def _ids(study: Study, columns: Mapping[str, _Column]) -> pd.DataFrame | None:
    """Text as it stands, leading zeros kept. Floating-point numbers have lost digits, and are refused."""
    if not study.ids:
        return None
    import pandas as pd

    for name in study.ids:
        if pa.types.is_floating(columns[name].cells.type):
            raise columns[name].error("holds ids as floating-point numbers, which lose digits. Store text")
    return pd.DataFrame({name: _words(columns[name]).to_pandas() for name in study.ids})


def _check_design(x: np.ndarray, names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Columns that repeat each other or live on different scales; what is no error comes back as warnings."""
    constant = np.array([_is_constant(column) for column in x.T])
    two_valued = np.array([_is_two_valued(column) for column in x.T]) & ~constant
    numeric = np.array([kind == "numeric" for kind in kinds]) & ~constant
    many_valued = numeric & ~two_valued
    _check_scales(x[:, numeric], _picked(names, numeric))
    _check_dependence(x[:, many_valued], _picked(names, many_valued))
    return [f"column {name!r} is constant here" for name in _picked(names, constant)] + [
        f"columns {first!r} and {second!r} coincide here"
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
        raise DataError(f"columns {_quoted(involved)} depend on each other: one is computed from the rest. "
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
