"""The words and numbers of the tables in Markdown: titles, labels, means with their errors, footnotes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fedci.benchmark.pages.summary import LIMIT, main_mode

ERRORS = {"pehe": "√PEHE", "ate_error": "ATE error"}
TITLES = {"data-1": "DATA-1", "data-2": "DATA-2", "ihdp": "IHDP, contiguous thirds", "ihdp-shuffled": "IHDP, shuffled",
          "ihdp-sites": "IHDP, the trial's sites", "ihdp-causalrff": "IHDP, as CausalRFF cut it",
          "ihdp-missing": "IHDP, missing values", "heterogeneous": "Heterogeneous sites", "overlap": "Poor overlap",
          "linear": "Linear", "steps": "Steps", "many-directions": "Many directions", "own-surfaces": "Own surfaces",
          "interactions": "Interactions", "null": "No effect"}
VARIATIONS = {"std": "standard deviation 2", "per-replication": "parameters drawn anew in each replication"}
NONE = "–"
LONGEST_REASON = 160


def title(dataset: str) -> str:
    """'data-1/std/200-rows' → 'DATA-1, standard deviation 2, 200 rows'."""
    name, *variations = dataset.split("/")
    return ", ".join([TITLES.get(name, name), *(VARIATIONS.get(text, text.replace("-", " ")) for text in variations)])


def label(method: str, mode: str) -> str:
    """'BART, com'; the parametric limit, which is fitted on combined rows, has one mode."""
    if method == LIMIT:
        return "parametric limit" if mode == main_mode(LIMIT) else f"parametric limit, {mode}"
    return f"{method}, {mode}"


def in_words(sources: int) -> str:
    return "1 source" if sources == 1 else f"{sources} sources"


def number(value: float, decimals: int | None = None) -> str:
    """Three digits or so."""
    if math.isnan(value):
        return NONE
    if abs(value) >= 1e5:
        return f"{value:.2g}".replace("-", "−")
    return f"{value:.{_decimals(value) if decimals is None else decimals}f}".replace("-", "−")


def _decimals(size: float) -> int:
    return 3 - sum(abs(size) >= limit for limit in (0.0995, 9.995, 99.95))


def plus_minus(mean: float, se: float, sign: str = "") -> str:
    """'1.60 ± 0.05', both with the decimals of the larger, or more if the error would read 0; one replication has no
    standard error."""
    if math.isnan(mean):
        return NONE
    prefix = sign if mean > 0 else ""
    if math.isnan(se):
        return prefix + number(mean)
    decimals = _decimals(max(abs(mean), se))
    while 0 < se < 0.5 * 10**-decimals and decimals < 4:
        decimals += 1
    return f"{prefix}{number(mean, decimals)} ± {number(se, decimals)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def reason(text: str) -> str:
    """A package's error message on one line of a table."""
    line = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON - 1] + "…"


class Notes:
    """Footnotes of one table; the same text has one mark."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return _superscript(self.texts.index(text) + 1)

    def lines(self) -> str:
        """A line each below the table."""
        return "".join(f"\n{_superscript(number)} {text}\n" for number, text in enumerate(self.texts, start=1))


def _superscript(value: int) -> str:
    return str(value).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def share(value: float) -> str:
    return f"{value:.2f}"


def listed(sources: Sequence[int]) -> str:
    """'1 / 3 / 5 sources'."""
    return " / ".join(map(str, sources)) + (" source" if list(sources) == [1] else " sources")
