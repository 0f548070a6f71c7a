"""JSON, TOML and NumPy files that anybody may have written, read within bounds that hold before memory is taken.

    json_of, json_file     at most so many bytes, so deep, and no number that float or int64 cannot take as it is
    npz_file, npy_file     arrays that are as long as their headers say, and no longer together than the file itself
    toml_of                as deep as a person nests
    MOST_CELLS             rows × columns of a table, known from its file's metadata or its line breaks

All raise `Unreadable`, a ValueError: whoever reads a file says in words of its own what is wrong with it.
"""

from __future__ import annotations

import ast
import json
import math
import struct
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

JSON_BYTES = 64 * 2**20
"""Of a JSON file of ours: a result's facts have some kilobytes, a report's aggregates some hundreds."""
TEXT_BYTES = 64 * 2**20
NESTING = 64
LARGEST_INTEGER = 2**64
"""Beyond it neither a count nor a seed."""
NPZ_BYTES = 32 * 2**30
MEMBERS = 2**18
"""Arrays of one file: some twenty for each site of a study."""
HEADER_BYTES = 4096
"""Of an array: its type and shape in words."""
MOST_CELLS = 25 * 10**7
"""Of a table that is read whole: a hundred columns of a million people."""
MOST_COLUMNS = 10_000


class Unreadable(ValueError):
    """What was read is not what it claims to be, or is too much."""


# --- text

def text_file(path: Path, most: int = TEXT_BYTES) -> str:
    """A UTF-8 file of at most so many bytes, a pipe or a device too."""
    return _bytes_of(path, most).decode("utf-8")


def _bytes_of(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Unreadable(f"more than {most} bytes")
    return data


def json_file(path: Path, most: int = JSON_BYTES) -> Any:
    return json_of(_bytes_of(path, most))


def json_of(data: bytes | str, constant: Callable[[str], Any] | None = None) -> Any:
    """The value; `constant` is asked for NaN and ±Infinity, which are floats without it."""
    try:
        value = json.loads(data, parse_int=_integer, parse_constant=constant or float)
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    if nesting(value) > NESTING:
        raise Unreadable("nested too deeply")
    return value


def _integer(digits: str) -> int:
    """Short enough to be turned into a number at once."""
    if len(digits) > 21 or abs(int(digits)) > LARGEST_INTEGER:
        raise Unreadable("a whole number beyond 2^64")
    return int(digits)


def nesting(value: object) -> int:
    """Depth of nested lists and tables, walked without recursion."""
    depth, level = 0, [value]
    while level:
        depth += 1
        inner = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, (dict, list))]
        level = [child for children in inner for child in children]
    return depth


def toml_of(text: str) -> dict[str, Any]:
    """The tables; tomllib's own error where it is no TOML."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except (RecursionError, ValueError):  # tomllib lets int's own error through
        raise Unreadable("nested too deeply, or a number of thousands of digits") from None
    if nesting(tables) > NESTING:
        raise Unreadable("nested too deeply")
    return tables


# --- arrays

def npz_file(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file of ours, which is not compressed: its members are no longer than the file, overlapping or
    not, so nothing can unfold to more than was stored."""
    size = path.stat().st_size  # OSError where there is none
    try:
        with ZipFile(path) as file:
            members = file.infolist()
            if (len(members) > MEMBERS or size > NPZ_BYTES or sum(member.file_size for member in members) > size
                    or any(member.compress_type != ZIP_STORED for member in members)):
                raise Unreadable("compressed, or larger than its file")
            arrays = {}
            for member in members:
                with file.open(member) as part:
                    arrays[member.filename.removesuffix(".npy")] = _array(part, member.file_size)
            return arrays
    except (BadZipFile, NotImplementedError, RuntimeError, EOFError, MemoryError, KeyError, OverflowError,
            struct.error, zlib.error, OSError):  # what a damaged directory of a zip file leads to
        raise Unreadable("not a whole file of arrays") from None


def npy_file(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        return _array(file, path.stat().st_size)


def _array(file: IO[bytes], size: int) -> np.ndarray:
    """Of exactly the bytes that are there. Headers are read here: NumPy first takes the memory that one claims."""
    dtype, shape, fortran, begun = _header(file)
    count = math.prod(shape)
    if count * dtype.itemsize != size - begun:
        raise Unreadable("an array is not as long as its header says")
    try:
        data = file.read(size - begun)
    except MemoryError:
        raise Unreadable("an array does not fit into memory") from None
    if len(data) != size - begun:
        raise Unreadable("an array is cut short")
    array = np.frombuffer(bytearray(data), dtype, count) if count else np.zeros(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """(type, shape, whether columns come first, bytes of the header) of NumPy's formats 1 and 2."""
    magic = file.read(8)
    wide = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}.get(magic)
    if wide is None:
        raise Unreadable("not an array")
    length = int.from_bytes(file.read(wide), "little")
    if length > HEADER_BYTES:
        raise Unreadable("an array's header is too long")
    try:
        header = ast.literal_eval(file.read(length).decode("latin1").strip())
        dtype, shape, fortran = np.dtype(header["descr"]), header["shape"], header["fortran_order"]
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError):
        raise Unreadable("an array's header is none") from None
    sound = (dtype.kind in "biufSU" and isinstance(header["descr"], str) and isinstance(fortran, bool)
             and isinstance(shape, tuple) and len(shape) <= 16
             and all(type(n) is int and 0 <= n < 2**48 for n in shape))
    if not sound:
        raise Unreadable("an array of objects, or of an impossible shape")
    return dtype, shape, fortran, 8 + wide + length
