"""All the figures of all the tables in one CSV file."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from fedci.benchmark.pages.markdown import ERRORS
from fedci.benchmark.pages.summary import FIGURES, Group, Statistic, Summaries, Summary, paired_to_ours
from fedci.benchmark.pages.tables import paper_protocol, printed


def write(path: Path, summaries: Summaries) -> None:
    """One line for each data set, protocol, method, mode and number of sources: its figures."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Group._fields, "replications", "failures", *(name for name, _ in _figures(None, None)),
                         "reason"])
        for group, summary in summaries.items():
            figures = [_number(value) for _, value in _figures(summaries, summary)]
            writer.writerow([*group, len(summary.done), summary.failures, *figures, " ".join(summary.reason.split())])


def _figures(summaries: Summaries | None, summary: Summary | None) -> list[tuple[str, float]]:
    """(column, value): means, standard errors and medians of the errors, paired differences, published figures, and
    means of the rest; without a summary, the names alone matter."""
    cells = []
    for figure in FIGURES:
        statistic = summary.of(figure) if summary else Statistic(math.nan, math.nan, math.nan, 0)
        cells.append((figure, statistic.mean))
        if figure in ERRORS:
            cells += [(f"{figure}_se", statistic.se), (f"{figure}_median", statistic.median)]
            cells += _paired(summaries, summary, figure) + _published(summary, figure)
    return cells


def _paired(summaries: Summaries | None, summary: Summary | None, figure: str) -> list[tuple[str, float]]:
    pair = paired_to_ours(summaries, summary.group, figure) if summaries is not None and summary else None
    values = (pair.difference, pair.se, pair.wins, pair.count) if pair else (math.nan,) * 4
    columns = ("minus_fedci", "minus_fedci_se", "fedci_wins", "common_replications")
    return [(f"{figure}_{name}", value) for name, value in zip(columns, values, strict=True)]


def _published(summary: Summary | None, figure: str) -> list[tuple[str, float]]:
    """Beside the protocol the paper used."""
    same = summary is not None and summary.group.protocol == paper_protocol(summary.group.method)
    value = printed(summary.group) if summary is not None and same else None
    figures = value.of(figure) if value else (None, None)
    mean, se = (math.nan if number is None else float(number) for number in figures)
    return [(f"{figure}_published", mean), (f"{figure}_published_se", se)]


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"
