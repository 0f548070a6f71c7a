"""The words beside an answer: the form of every note that a site may send, which the table of requests names."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from fedci.privacy.secure_sum import SHARE_BYTES

MOST_PEOPLE = 10**9
MOST_WORDS = 10_000
"""Of a site."""
TAG_BYTES = 16
"""By which what is sealed is longer."""


@dataclass(frozen=True)
class NoteForm:
    """Of a note, wherever it stands."""

    says: str
    fits: Callable[[Any, str, Collection[str]], bool]
    """(the note, the site that sent it, all sites) → whether it has the form."""


def _is_hex(value: Any, size: int) -> bool:
    """Of so many bytes, in small letters."""
    return isinstance(value, str) and len(value) == 2 * size and set(value) <= set("0123456789abcdef")


def _hex(size: int, empty: bool = False) -> NoteForm:
    return NoteForm(f"{size} bytes in hexadecimal", lambda value, *_: _is_hex(value, size) or (empty and value == ""))


def _hex_by_site(size: int, itself: bool) -> NoteForm:
    def fits(value: Any, site: str, sites: Collection[str]) -> bool:
        whom = set(sites) if itself else set(sites) - {site}
        return isinstance(value, dict) and value.keys() == whom and all(_is_hex(one, size) for one in value.values())

    return NoteForm(f"{size} bytes in hexadecimal for every {'' if itself else 'other '}site", fits)


def _is_number(value: Any, most: float) -> bool:
    return type(value) in (int, float) and 0 <= value <= most  # NaN is neither


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_WORDS and all(isinstance(one, str) for one in value)


_COUNT = NoteForm(f"a whole number from 0 to {MOST_PEOPLE}",
              lambda value, *_: type(value) is int and _is_number(value, MOST_PEOPLE))
NOTES: dict[str, NoteForm] = {
    "warnings": NoteForm("a list of sentences", lambda value, *_: _are_words(value)),
    "people": _COUNT,
    "excluded": _COUNT,
    "fingerprint": _hex(16),
    "public": _hex(32),
    "signature": _hex(64, empty=True),
    "wrapped": _hex_by_site(32 + TAG_BYTES, itself=False),
    "shares": _hex_by_site(SHARE_BYTES + TAG_BYTES, itself=True),
    "opened": _hex_by_site(SHARE_BYTES, itself=True),
    "jitter": NoteForm("a number from 0 to 1", lambda value, *_: _is_number(value, 1.0)),
}
"""The form of every note that a row names; one name has one form."""
