"""Columns of cells by name, from a frame, a file or a query. Messages never show a cell."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedci.bounded import MOST_CELLS, MOST_COLUMNS
from fedci.errors import DataError, SizeError, SourceError
from fedci.study.options import nearest
from fedci.table.values import Column, quoted, told_of

if TYPE_CHECKING:
    import pandas as pd

BESIDE_QUOTES = np.frombuffer(b',\r\n"', np.uint8)
"""What may stand outside a quotation mark: the cell's border, or another mark where one inside is doubled."""
IS_THERE_A_HEADER = ("Is there a header in the first line, with the names that the study has? What a site calls its "
                     "own it can say in columns.toml")
RENAME = "Rename {0} in the table, name {0} in the site's columns.toml, or correct the study"
EMPTY = "the file is empty. Export the table again, with a header"
CSV_BLOCK_BYTES = 16 * 2**20
"""Rows longer than this cannot be read."""
STREAM_BLOCK_BYTES = 2**20
CHUNK_ROWS = 16384
MOST_LETTERS = 2**32
"""Of one column of words."""
ANY_SIZE = 2**63
Reader = TypeVar("Reader", bound=Callable[..., Any])


@runtime_checkable
class Asked(Protocol):
    """A table that is no file and no frame: it is asked for its columns (a query on a database)."""

    def names(self) -> list[str]: ...

    def chunks(self, wanted: Sequence[str] | None, rows: int, max_bytes: int) -> Iterator[dict[str, Column]]:
        """The wanted columns (none: all), so many rows at a time, one chunk at least."""
        ...


def read_columns(data: Any, wanted: Sequence[str] | None, max_bytes: int) -> dict[str, Column]:
    """The wanted columns (none: all) of a frame, of a .csv or .parquet file of at most `max_bytes`, or of a query."""
    if isinstance(data, Asked):
        return _joined(list(data.chunks(wanted, CHUNK_ROWS, max_bytes)))
    if not isinstance(data, str | os.PathLike):
        return from_frame(data, wanted)
    path, read = _readable(data, max_bytes, {".csv": _from_csv, ".parquet": _from_parquet})
    with told_of(str(path)):
        return read(path, wanted)


def read_chunks(data: Any, wanted: Sequence[str], rows: int = 4096) -> Iterator[dict[str, Column]]:
    """As `read_columns`, about so many rows at a time and of any size: for what is not a fit. One chunk at least."""
    if isinstance(data, Asked):
        yield from data.chunks(wanted, rows, ANY_SIZE)
    elif not isinstance(data, str | os.PathLike):
        whole = from_frame(data, wanted)
        count = len(next(iter(whole.values())).cells)
        for start in range(0, max(count, 1), rows):
            yield {name: Column(name, column.cells.slice(start, rows)) for name, column in whole.items()}
    else:
        path, read = _readable(data, ANY_SIZE, {".csv": _csv_chunks, ".parquet": _parquet_chunks})
        with told_of(str(path)):
            yield from read(path, wanted, rows)


def column_names(data: Any, max_bytes: int, wanted: Sequence[str] = ()) -> list[str]:
    """The names in the header, in its order; of a file with other delimiters than commas, judged by the names that are
    wanted, an error."""
    if isinstance(data, Asked):
        return data.names()
    if not isinstance(data, str | os.PathLike):
        return trimmed([str(name) for name in data.columns])
    path, read = _readable(data, max_bytes, {".csv": _csv_names, ".parquet": _parquet_names})
    with told_of(str(path)):
        names = read(path)
        if read is _csv_names:
            _check_delimiter(names, wanted)
        return trimmed(names)


def trimmed(header: Sequence[Any]) -> list[Any]:
    """Without the blanks around names, which exports of fixed width leave."""
    return [name.strip() if isinstance(name, str) else name for name in header]


def spelt(header: Sequence[Any], wanted: Sequence[str] | None) -> dict[str, Any]:
    """Wanted column (none: all) → as the header spells it."""
    names = trimmed(header)
    return {name: header[names.index(name)] for name in check_header(names, wanted)}


def count_rows(data: Any) -> int | None:
    """About how many rows there are, for a progress bar; none: nobody knows before they are read."""
    if isinstance(data, Asked):
        return None
    if not isinstance(data, str | os.PathLike):
        return len(data)
    path, count_in = _readable(data, ANY_SIZE, {".csv": _csv_rows, ".parquet": _parquet_rows})
    return count_in(path)


def _csv_rows(path: Path) -> int:
    with path.open("rb") as file:
        return max(sum(part.count(b"\n") for part in iter(lambda: file.read(STREAM_BLOCK_BYTES), b"")) - 1, 1)


def _parquet_rows(path: Path) -> int:
    with _parquet(path) as file:
        return file.metadata.num_rows


def _readable(data: str | os.PathLike[str], max_bytes: int, readers: Mapping[str, Reader]) -> tuple[Path, Reader]:
    """The file's path and the reader of its kind."""
    path = Path(data)
    with told_of(str(path)):
        _check_file(path, max_bytes)
        read = readers.get(path.suffix.lower())
        if read is None:
            raise SourceError("the file is neither .csv nor .parquet. Export it as one of them")
    return path, read


def _joined(chunks: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """The chunks below each other; where a column is text in some and numbers in others, it is text."""
    return {name: Column(name, _one_type([chunk[name].cells for chunk in chunks])) for name in chunks[0]}


def _one_type(parts: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    kinds = {part.type for part in parts if not pa.types.is_null(part.type)} or {parts[0].type}
    kind = kinds.pop() if len(kinds) == 1 else pa.large_string()
    return pa.chunked_array([chunk for part in parts for chunk in part.cast(kind).chunks], kind)


# ── bytes and frames to columns ────────────────────────────────────────────────────────────────────────────


def from_frame(frame: Any, wanted: Sequence[str] | None) -> dict[str, Column]:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise SourceError(f"got {type(frame).__name__}, needs a pandas DataFrame or the path of a file")
    named = spelt([name if isinstance(name, str) else str(name) for name in frame.columns], wanted)
    places = {str(name): place for place, name in enumerate(frame.columns)}
    return {name: Column(name, _plain(_arrow(frame.iloc[:, places[own]]))) for name, own in named.items()}


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


@contextmanager
def _parquet(path: Path) -> Iterator[pa.parquet.ParquetFile]:
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            words = [field.name for field in file.schema_arrow if _is_text(field.type)]
        with pyarrow.parquet.ParquetFile(path, read_dictionary=words, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, KeyError):  # the reader's own words may quote cells
        raise SourceError("the file is not a whole Parquet file. Export it again") from None


def _from_parquet(path: Path, wanted: Sequence[str] | None) -> dict[str, Column]:
    with _parquet(path) as file:
        named = spelt(file.schema_arrow.names, wanted)
        check_cells(_rows_said(file.metadata), len(named))
        table = file.read(columns=list(named.values()))
        _check_unfolded(table)
        return {name: Column(name, _plain(table.column(own))) for name, own in named.items()}


def check_cells(rows: int, columns: int) -> None:
    """Before they are read: a file of a megabyte can hold sixty million rows."""
    if rows * columns > MOST_CELLS:
        raise SizeError(f"the table has {rows} rows of {columns} columns, more than the {MOST_CELLS} cells that are "
                        f"read at once. Keep only the study's people and columns")


def _rows_said(metadata: pa.parquet.FileMetaData) -> int:
    """The file's own count may lie: its groups of rows are what is read."""
    return max(metadata.num_rows, sum(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)))


def _check_unfolded(table: pa.Table) -> None:
    """A word that a file stores once can stand in every row: how long they are together is known before they unfold."""
    for column in table.columns:
        long = sum(pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
                   for chunk in column.chunks if pa.types.is_dictionary(chunk.type) and _is_text(chunk.dictionary.type))
        if long > MOST_LETTERS:
            raise SizeError(f"a column holds more than {MOST_LETTERS} letters. Keep ids and levels short")


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)


def _parquet_names(path: Path) -> list[str]:
    with _parquet(path) as file:
        return file.schema_arrow.names


def _parquet_chunks(path: Path, wanted: Sequence[str], rows: int) -> Iterator[dict[str, Column]]:
    with _parquet(path) as file:
        named = spelt(file.schema_arrow.names, wanted)
        empty = file.schema_arrow.empty_table() if file.metadata.num_rows == 0 else None
        for part in [empty] if empty is not None else file.iter_batches(rows, columns=list(named.values())):
            table = pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part
            yield {name: Column(name, _plain(table.column(own))) for name, own in named.items()}


def _csv_names(path: Path) -> list[str]:
    with path.open("rb") as file:
        start = file.read(STREAM_BLOCK_BYTES)
    _check_not_utf16(start)
    return _header(start.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").encode())


def _csv_chunks(path: Path, wanted: Sequence[str], rows: int) -> Iterator[dict[str, Column]]:
    """Block by block. A cell may not hold a line break here, so that no stray quotation mark can swallow rows."""
    import pyarrow.csv as arrow_csv

    header = _csv_names(path)
    _check_delimiter(header, wanted)
    named = spelt(header, wanted)
    ragged: list[Any] = []
    try:
        with arrow_csv.open_csv(
                path, arrow_csv.ReadOptions(use_threads=False, block_size=STREAM_BLOCK_BYTES),
                arrow_csv.ParseOptions(invalid_row_handler=_noting(ragged)),
                _as_text_columns(list(named.values()))) as reader:
            for batch in reader:
                table = pa.Table.from_batches([batch])
                for start in range(0, max(batch.num_rows, 1), rows):
                    part = table.slice(start, rows)
                    yield {name: Column(name, _plain(part.column(own))) for name, own in named.items()}
    except pa.ArrowException:  # its words quote the row
        raise SourceError(_why_not_csv(ragged)) from None


def _from_csv(path: Path, wanted: Sequence[str] | None) -> dict[str, Column]:
    data = _bytes(path)
    _check_text(data)
    header = _header(data)
    _check_delimiter(header, wanted)
    named = spelt(header, wanted)
    check_cells(data.count(b"\n") or data.count(b"\r"), len(named))
    if b"\n" not in data and b"\r" not in data:  # a header alone, which Arrow takes for a broken block
        table = pa.table({own: pa.array([], pa.string()) for own in named.values()})
    else:
        table = _parsed_csv(data, list(named.values()))
    return {name: Column(name, _plain(table.column(own))) for name, own in named.items()}


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
    _check_not_utf16(data)
    if (place := data.find(b"\0")) >= 0:
        raise SourceError(f"line {_line(data, place)} holds a NUL byte: the file is damaged, or UTF-16. "
                          "Export it as CSV in UTF-8")
    try:
        data.isascii() or data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise SourceError(f"line {_line(data, problem.start)} is not UTF-8. "
                          "Save the file as UTF-8 (in Excel: 'CSV UTF-8')") from None
    if (stray := _stray_quote(data)) is not None:
        raise SourceError(f"line {_line(data, stray)} has a quotation mark that does not close, or opens no "
                          "whole cell. Quote whole cells, and double the marks inside")


def _check_not_utf16(data: bytes) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError("the file is UTF-16. Save it as UTF-8")


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


def _check_delimiter(header: list[str], wanted: Sequence[str] | None) -> None:
    """By the wanted columns; where none are said, by how many cells the header has."""
    for delimiter, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        split = [cell.strip().strip('"') for cell in ",".join(header).split(delimiter)]
        found, matching = ((len(split), len(header)) if wanted is None else
                           (len(set(split) & set(wanted)), len(set(trimmed(header)) & set(wanted))))
        if found > matching:
            raise SourceError(f"the columns are separated by {name}. Export with commas and decimal points")


def check_header(header: Sequence[Any], wanted: Sequence[str] | None) -> Sequence[str]:
    """Every wanted column (none: all) once. A header that has none of them may be data, so nothing of it is shown."""
    if len(header) > MOST_COLUMNS:
        raise SizeError(f"the table has {len(header)} columns, at most {MOST_COLUMNS} can be read. Keep only the "
                        f"study's")
    wanted = [str(name) for name in header] if wanted is None else wanted
    counts = {name: list(header).count(name) for name in wanted}
    repeated = [name for name, count in counts.items() if count > 1]
    absent = [name for name, count in counts.items() if count == 0]
    if repeated:
        raise SourceError(f"column {quoted(repeated)} stands more than once. Rename or remove the copies")
    if len(absent) == len(wanted):
        raise DataError(f"none of the columns {quoted(absent)} is in the table{_other_letters(header, absent)}. "
                        f"{IS_THERE_A_HEADER}")
    if absent:
        unused = [str(name) for name in header if name not in wanted]
        named, it = ((f"column {quoted(absent)} is", "it") if len(absent) == 1 else
                     (f"columns {quoted(absent)} are", "them"))
        raise DataError(f"{named} missing{nearest(absent[0], unused) or '.'} {RENAME.format(it)}")
    return wanted


def _other_letters(header: Sequence[Any], absent: Sequence[str]) -> str:
    """Said where the header has the names but for capital letters: then it is one."""
    written = {str(name).casefold(): str(name) for name in header}
    name = next((name for name in absent if name.casefold() in written), None)
    return "" if name is None else f": it writes {written[name.casefold()]!r}, and the study {name!r}"


def _parsed_csv(data: bytes, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns as text, so that what is wrong with a cell can be told; empty cells are null."""
    import pyarrow.csv as arrow_csv

    ragged: list[Any] = []
    try:
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            # one thread: only then does Arrow number the rows it refuses
            arrow_csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
            arrow_csv.ParseOptions(newlines_in_values=b'"' in data, invalid_row_handler=_noting(ragged)),
            _as_text_columns(wanted))
    except pa.ArrowException:  # its words quote the row
        raise SourceError(_why_not_csv(ragged)) from None


def _noting(ragged: list[Any]) -> Callable[[Any], str]:
    """What Arrow asks about a row of the wrong length: it is noted, and an error."""
    def handler(row: Any) -> str:
        ragged.append(row)
        return "error"

    return handler


def _as_text_columns(wanted: Sequence[str]) -> pa.csv.ConvertOptions:
    import pyarrow.csv as arrow_csv

    return arrow_csv.ConvertOptions(include_columns=wanted, null_values=[""], strings_can_be_null=True,
                                    column_types=dict.fromkeys(wanted, pa.large_string()))


def _why_not_csv(ragged: list[Any]) -> str:
    if not ragged:
        return "the file cannot be read as CSV. Export it again"
    row = ragged[0]
    told = f"line {row.number} has {row.actual_columns} cells, the header has {row.expected_columns}. "
    if row.number == 2 and row.expected_columns <= 2 < row.actual_columns:
        return told + "Remove what stands above the names of the columns (a title, 'sep=,'): the first line is theirs"
    return told + "Quote cells that hold a comma, and write decimals with a point"
