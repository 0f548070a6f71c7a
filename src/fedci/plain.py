"""Words from others, as they may reach a screen, a log, a result or a page: printable, on one line, bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

LONGEST = 500
"""Characters of one saying: the reason of a refusal, a warning."""
MOST = 50
"""Sayings of one party at a time."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|$)|[ -/]*[0-~]?)|\x9b[0-?]*[ -/]*[@-~]",
                       re.DOTALL)
"""What a terminal takes for an order: colours, titles, moves of the cursor."""


class Shown:
    """What people look at in a terminal or a notebook: `repr` is within a screen, and shows nobody's row."""

    def shown(self) -> str:
        """The object in words, on a few lines."""
        raise NotImplementedError(f"{type(self).__name__} has no words of its own")

    def __repr__(self) -> str:
        return self.shown()

    def _repr_html_(self) -> str:
        """For notebooks: the same words, as they stand."""
        return f"<pre>{escape(self.shown())}</pre>"


def named(names: Iterable[str], most: int = 8) -> str:
    """A list of names as a line has room for it."""
    given = list(names)
    return ", ".join(given[:most]) + (f" and {len(given) - most} more" if len(given) > most else "")


def printable(text: str) -> str:
    """Without orders to a terminal and without letters that nobody sees (control, bidirectional, zero width, halves of
    surrogates); all white space is one blank."""
    return " ".join("".join(letter if letter.isprintable() else " " if letter.isspace() else ""
                            for letter in _SEQUENCE.sub("", text)).split())


def plain(text: str, longest: int = LONGEST) -> str:
    """The words of another party as they may be shown, so long at most; an ellipsis ends what was longer."""
    cut = text[:8 * longest]  # no work on what is not shown
    words = printable(cut)
    return words if len(words) <= longest and len(cut) == len(text) else f"{words[:longest - 2].rstrip()} …"


def all_plain(texts: Iterable[str]) -> list[str]:
    """So many of them at most, and how many there are beside."""
    given = list(texts)
    shown = [plain(text) for text in given[:MOST]]
    return shown if len(given) <= MOST else [*shown, f"and {len(given) - MOST} more"]
