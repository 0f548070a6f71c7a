"""The text of a study file: read from disk, parsed to tables, and tables as TOML again (Python only reads it)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedci.bounded import Unreadable, toml_of
from fedci.errors import StudyError

MAX_STUDY_BYTES = 2**20
"""A study file is written by hand; a larger one is the wrong file."""


def parsed(text: str, place: str) -> dict[str, Any]:
    try:
        return toml_of(text)
    except tomllib.TOMLDecodeError as problem:
        remedy = ("Its name is a table's: the study file comes first, the data after it"
                  if place.endswith((".csv", ".parquet")) else "docs/study.md has an example")
        raise StudyError(f"{place} is not TOML: {problem}. {remedy}") from None
    except Unreadable as problem:
        raise StudyError(f"{place} is no study: {problem}. See docs/study.md") from None


def text_of(path: Path, what: str = "study file") -> str:
    """The text of a file, which messages call `what`; Windows editors put a byte-order mark first, which is dropped."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_STUDY_BYTES + 1)
        if len(data) > MAX_STUDY_BYTES:
            raise StudyError(f"{what} {path} is larger than {MAX_STUDY_BYTES} bytes. Is it the data?")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StudyError(f"{what} {path} is not UTF-8 text. Save it again as UTF-8") from None
    except (OSError, ValueError) as problem:
        raise StudyError(f"{what} {path} cannot be read: {reason(problem)}. Check the path") from None


def reason(problem: Exception) -> str:
    """The system's words for it, without the path that the message has already."""
    return (getattr(problem, "strerror", None) or str(problem)).lower()


def lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{toml_key(key)} = {_value(value)}\n" for key, value in table.items())


def toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    match value:
        case None:
            return '"none"'
        case bool():
            return str(value).lower()
        case float():
            return repr(float(value))
        case int():
            return str(int(value))
        case str():  # JSON's escapes are TOML's, but for DEL, which JSON leaves as it is
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            return "{ " + ", ".join(f"{toml_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
        case _:
            return "[" + ", ".join(_value(item) for item in value) + "]"
