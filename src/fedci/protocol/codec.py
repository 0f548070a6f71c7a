"""Messages as bytes: typed, versioned, size-checked; no pickle, nothing executable.

    bytes = b"FCI2" | header length (u32, big endian) | header (JSON, UTF-8) | arrays (raw, little endian) | check
    check = the first 8 bytes of the SHA-256 of all before: damage on the way is found (lies are TLS's part)
    header = {"type", "fields": {…}, "arrays": [[name, dtype, shape], …]}

All shapes are checked against the bytes that came before an array is made.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np

from fedci.bounded import json_of, nesting
from fedci.errors import MessageError
from fedci.protocol.messages import TYPES, Message, Reply

MAGIC = b"FCI2"
CHECK_BYTES = 8
MAX_BYTES = 16 * 2**20
MAX_NESTING = 8
MAX_ARRAYS = 256
DTYPES = {"<f8": 8, "<i8": 8, "|b1": 1}
NAMED = "dict[str, np.ndarray]"
"""The type of a field of named arrays: they travel as arrays named FIELD/NAME."""
PLAIN = "dict[str, Any]"
"""Of a field of JSON."""
KINDS: Mapping[str, type] = {
    "str": str, "int": int, PLAIN: dict, "np.ndarray": np.ndarray, NAMED: dict}
"""The types of fields, as messages spell them."""


def encode(message: Message) -> bytes:
    """The message as bytes; MessageError when it is too large."""
    plain, arrays = {}, {}
    for part in fields(message):
        value = getattr(message, part.name)
        if isinstance(value, np.ndarray):
            arrays[part.name] = value
        elif part.type == NAMED:
            arrays |= {f"{part.name}/{name}": np.asarray(array) for name, array in value.items()}
        else:
            plain[part.name] = value
    arrays = {name: _portable(name, array) for name, array in arrays.items()}
    header = json.dumps({"type": type(message).__name__, "fields": plain,
                         "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()]}).encode()
    data = sealed(b"".join([MAGIC, struct.pack(">I", len(header)), header, *(a.tobytes() for a in arrays.values())]))
    if len(data) > MAX_BYTES:
        raise MessageError(f"a {type(message).__name__} of {len(data):,} bytes is over the limit of {MAX_BYTES:,}; "
                           f"use fewer draws or a smaller mean function")
    return data


def sealed(data: bytes) -> bytes:
    """The bytes, and their check."""
    return data + hashlib.sha256(data).digest()[:CHECK_BYTES]


def _portable(name: str, array: np.ndarray) -> np.ndarray:
    kind = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "|b1"}.get(array.dtype.kind)
    if kind is None:
        raise MessageError(f"the array {name!r} of type {array.dtype} cannot be sent: use float64, int64 or bool")
    return np.asarray(array, dtype=kind, order="C")


def decode(data: bytes) -> Message:
    """The message in `data`; MessageError says what is wrong with anything else."""
    if len(data) > MAX_BYTES:
        raise MessageError(f"a message of {len(data):,} bytes is over the limit of {MAX_BYTES:,}")
    if data[:4] != MAGIC or len(data) < 8 + CHECK_BYTES:
        raise MessageError("not a message of this version of fedci: the opening bytes differ")
    if hashlib.sha256(memoryview(data)[:-CHECK_BYTES]).digest()[:CHECK_BYTES] != data[-CHECK_BYTES:]:
        raise MessageError("the message was damaged on its way: its check differs")
    data = data[:-CHECK_BYTES]
    (length,) = struct.unpack(">I", data[4:8])
    header = _header(data[8:8 + length], length)
    arrays = _arrays(header["arrays"], data[8 + length:])
    return _message(header, arrays)


def _header(data: bytes, length: int) -> dict[str, Any]:
    if len(data) != length:
        raise MessageError("the message is cut short in its header")
    try:
        header = json_of(data, _no_constant)
    except ValueError:
        raise MessageError("the header of the message is not JSON") from None
    shape_is_right = (isinstance(header, dict) and header.keys() == {"type", "fields", "arrays"}
                      and isinstance(header["type"], str) and isinstance(header["fields"], dict)
                      and isinstance(header["arrays"], list) and len(header["arrays"]) <= MAX_ARRAYS)
    if not shape_is_right or nesting(header["fields"]) > MAX_NESTING:
        raise MessageError("the header of the message does not have the form of one")
    return header


def _no_constant(word: str) -> NoReturn:
    """NaN and Infinity are no JSON."""
    raise ValueError(word)


def _arrays(declared: list[Any], data: bytes) -> dict[str, np.ndarray]:
    arrays, at = {}, 0
    for entry in declared:
        name, dtype, shape = _declaration(entry)
        size = math.prod(shape) * DTYPES[dtype]
        if at + size > len(data):
            raise MessageError(f"the message is cut short in the array {name!r}")
        array = np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
        arrays[name] = array
        at += size
    if at != len(data) or len(arrays) != len(declared):
        raise MessageError("the message carries more bytes or names than it declares")
    return arrays


def _declaration(entry: Any) -> tuple[str, str, tuple[int, ...]]:
    well_formed = (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str)
                   and isinstance(entry[1], str) and entry[1] in DTYPES
                   and isinstance(entry[2], list) and len(entry[2]) <= MAX_NESTING
                   and all(type(n) is int and 0 <= n <= MAX_BYTES for n in entry[2])
                   and math.prod(max(n, 1) for n in entry[2]) <= MAX_BYTES)
    if not well_formed:
        raise MessageError("an array of the message is not declared as name, type and shape")
    return entry[0], entry[1], tuple(entry[2])


def _message(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Message:
    cls = TYPES.get(header["type"])
    if cls is None:
        raise MessageError("the message is of a type this version does not know")
    given = dict(header["fields"])
    named: dict[str, dict[str, np.ndarray]] = {part.name: {} for part in fields(cls) if part.type == NAMED}
    if named.keys() & given.keys():
        raise MessageError("the sums of a message must be arrays named sums/…, and nothing else may be one")
    for name, array in arrays.items():
        holder, slash, rest = name.partition("/")
        if holder in named and slash:
            named[holder][rest] = array
        elif cls is Reply:
            raise MessageError("the sums of a Reply must be arrays named sums/…, and nothing else may be one")
        else:
            given[name] = array
    given |= named
    expected = {part.name: str(part.type) for part in fields(cls)}
    if given.keys() != expected.keys():
        raise MessageError(f"a {cls.__name__} must carry exactly {', '.join(expected)}")
    for name, value in given.items():
        _check_field(cls, name, expected[name], value)
    return cls(**given)


def _check_field(cls: type[Message], name: str, kind: str, value: Any) -> None:
    fits = isinstance(value, KINDS[kind]) and not isinstance(value, bool)
    if not fits:
        word = "dict" if kind == PLAIN else kind
        raise MessageError(f"the field {name!r} of a {cls.__name__} must be of type {word}")
    arrays = value.values() if kind == NAMED else [value] if isinstance(value, np.ndarray) else []
    for array in arrays:
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise MessageError(f"an array {name!r} of a {cls.__name__} holds NaN or infinity")
