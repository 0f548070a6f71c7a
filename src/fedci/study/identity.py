"""Who a row is about, in one spelling: the rule that makes two sites write the same person as the same bytes.

    field   NFKC → casefold → without control, format and space characters, until nothing changes
    date    by the input format that the study declares → ISO 8601
    record  length (u32, big endian) | field in UTF-8, for each field in the study's order

docs/linkage.md has test vectors. Messages name a column and a row, and never show an id.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from fedci.errors import DataError

RULE = "fedci-ids-1"
"""Name of the rule above; part of a study's hash, so that two parties cannot follow different ones."""
TEXT = "text"
"""The kind of a field that is no date; a date's kind is its input format, which holds a % and so is never this."""
DROPPED = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Unicode categories: control, format (zero-width marks), spaces."""
UNNAMED = frozenset({"Cn", "Cs"})
"""Not assigned in this Python's Unicode, or half a surrogate pair: another version may fold it differently."""
PARTS = {"%Y": r"(?P<Y>[0-9]{4})", "%m": r"(?P<m>[0-9]{1,2})", "%d": r"(?P<d>[0-9]{1,2})"}
LIKE_A_DATE = re.compile(r"\s*(0?[1-9]|[12][0-9]|3[01])([./-])(0?[1-9]|[12][0-9]|3[01])\2([0-9]{2}){1,2}\s*", re.ASCII)
"""Day and month, or month and day: nobody can tell."""


def normalise(fields: Sequence[str], kinds: Sequence[str]) -> bytes:
    """The record of one person; ValueError says what is wrong with a field, without showing it."""
    return b"".join(_prefixed(_reader(kind)(field)) for field, kind in zip(fields, kinds, strict=True))


def records(columns: Mapping[str, Sequence[Any]], dates: Mapping[str, str]) -> list[bytes]:
    """One record for each row of the id columns, each person once; the first problem as a DataError."""
    fields = [_column(name, values, dates.get(name, TEXT)) for name, values in columns.items()]
    people = fields[0] if len(fields) == 1 else [b"".join(row) for row in zip(*fields, strict=True)]
    _check_once(people, list(columns))
    return people


def check_format(form: str) -> str:
    """A date's input format: year, month and day as numbers, in any order; ValueError for any other."""
    if sorted(re.findall("%.?", form)) != sorted(PARTS) or re.search("[0-9]", form):
        raise ValueError('a date is written with %Y, %m and %d once each, such as "%d.%m.%Y"')
    return form


# ── one field ───────────────────────────────────────────────────────────────────────────────────────────────


def _prefixed(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(4, "big") + data


def _reader(kind: str) -> Callable[[str], str]:
    return _text if kind == TEXT else lambda value: _date(value, kind)


def _text(value: str) -> str:
    if value.isascii() and value.isalnum():  # most ids; the rest of the rule does no more to them
        return value.lower()
    while (folded := _folded(value)) != value:  # a dropped mark may leave an accent to be composed
        value = folded
    if not value:
        raise ValueError("no id")
    return value


def _folded(value: str) -> str:
    _check_named(value)
    return "".join(c for c in unicodedata.normalize("NFKC", value).casefold() if unicodedata.category(c) not in DROPPED)


def _check_named(value: str) -> None:
    if any(unicodedata.category(c) in UNNAMED for c in value):
        raise ValueError(f"characters that Unicode {unicodedata.unidata_version} does not name")


def _date(value: str, form: str) -> str:
    line = _line(value)
    try:
        if match := _pattern(form).fullmatch(line):
            return date(int(match["Y"]), int(match["m"]), int(match["d"])).isoformat()
    except ValueError:  # the 31st of February
        pass
    raise ValueError(f"no date of the form {form}" if line else "no id")


def _line(value: str) -> str:
    """NFKC, no control or format characters, single spaces: full-width digits and stray marks do no harm."""
    _check_named(value)
    signs = (c for c in unicodedata.normalize("NFKC", value) if unicodedata.category(c) not in {"Cc", "Cf"})
    return " ".join("".join(signs).split())


@lru_cache
def _pattern(form: str) -> re.Pattern[str]:
    """One or two digits for day and month; exactly two where numbers touch, or 1112000 could be read two ways."""
    pieces = [piece for piece in re.split("(%[Ymd])", _line(form)) if piece]
    touching = any(a in PARTS and b in PARTS for a, b in zip(pieces, pieces[1:], strict=False))
    pattern = "".join(PARTS.get(piece, re.escape(piece)) for piece in pieces)
    return re.compile(pattern.replace("{1,2}", "{2}") if touching else pattern)


# ── a column ────────────────────────────────────────────────────────────────────────────────────────────────


def _column(name: str, values: Sequence[Any], kind: str) -> list[bytes]:
    if kind == TEXT and len(values) and all(isinstance(v, str) and LIKE_A_DATE.fullmatch(v) for v in values):
        raise DataError(f"column {name!r} holds dates, and day and month cannot be told apart. Say how they are "
                        f'written: dates = {{ {name} = "%d.%m.%Y" }} under [linkage] of the study')
    read = _reader(kind)
    try:
        return [_prefixed(read(value)) for value in values]
    except (ValueError, AttributeError, TypeError):  # the latter two: a missing cell is no text
        raise _column_error(name, values, read) from None


def _column_error(name: str, values: Sequence[Any], read: Callable[[str], str]) -> DataError:
    problems = [_problem(value, read) for value in values]
    first = next(row for row, problem in enumerate(problems) if problem)
    rows = problems.count(problems[first])
    return DataError(f"column {name!r} has {problems[first]} in {rows} row{'s' if rows > 1 else ''} (first: row "
                     f"{first + 1}); linkage needs every id. Correct them, drop the rows, or set enabled = false "
                     "under [linkage] of the study")


def _problem(value: Any, read: Callable[[str], str]) -> str | None:
    try:
        return None if isinstance(value, str) and read(value) else "no id"
    except ValueError as problem:
        return str(problem)


def _check_once(people: list[bytes], names: Sequence[str]) -> None:
    if len(set(people)) == len(people):
        return
    seen: dict[bytes, int] = {}
    again = [(seen[record], row) for row, record in enumerate(people) if seen.setdefault(record, row) != row]
    first, second = again[0]
    raise DataError(f"{len(again)} row{'s repeat' if len(again) > 1 else ' repeats'} the id ({', '.join(names)}) of an "
                    f"earlier one (first: rows {first + 1} and {second + 1}). A person stands once at a site: drop "
                    "the copies, or add a column to ids")
