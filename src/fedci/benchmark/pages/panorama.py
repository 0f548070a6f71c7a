"""The picture over all data sets: FedCI's error relative to each peer's, and beside it how often intervals hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedci.benchmark.pages.figures import BLUE, GREY, ORANGE, STYLE, save
from fedci.benchmark.pages.markdown import in_words, title
from fedci.benchmark.pages.standing import Peer, Standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "panorama"
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)
NOMINAL = 0.95


def draw(folder: Path, standings: Sequence[Standing]) -> list[str]:
    """SVG and PNG; the names of the pictures drawn."""
    import matplotlib

    if not standings:
        return []
    with matplotlib.rc_context(STYLE):
        save(panorama(standings), folder / NAME)
    return [NAME]


def panorama(standings: Sequence[Standing]) -> Figure:
    """A row for each data set, the first on top."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.8, 0.36 * len(standings) + 1.7), layout="constrained")
    errors, coverage = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    rows = range(len(standings))
    errors.set_yticks(rows, [f"{title(s.ours.group.dataset)} ({in_words(s.ours.group.sources)})" for s in standings])
    errors.set_ylim(len(standings) - 0.4, -0.6)
    for row, standing in zip(rows, standings, strict=True):
        _error_row(errors, row, standing)
        _coverage_row(coverage, row, standing)
    _error_axis(errors)
    _coverage_axis(coverage)
    figure.legend(*errors.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _colour(standing: Standing) -> tuple[str, str]:
    """And the shape: neither says it alone."""
    return (ORANGE, "D") if standing.loses else (BLUE, "o")


def _error_row(panel: Axes, row: int, standing: Standing) -> None:
    colour, marker = _colour(standing)
    others = [peer.relative for peer in standing.peers[1:]]
    panel.plot(others, [row] * len(others), "|", color=GREY, markersize=8, alpha=0.7)
    panel.errorbar(standing.best.relative, row, xerr=_bar(standing.best), color=colour, marker=marker, markersize=6,
                   linewidth=1.6, capsize=3)
    _beside(panel, row, standing.best.method)


def _beside(panel: Axes, row: float, text: str) -> None:
    panel.annotate(text, (1.0, row), xycoords=("axes fraction", "data"), va="center", fontsize=8, xytext=(4, 0),
                   textcoords="offset points", annotation_clip=False)


def _bar(peer: Peer) -> float:
    return 0.0 if math.isnan(peer.relative_se) else peer.relative_se


def _error_axis(panel: Axes) -> None:
    panel.set_xscale("log")
    low, _ = panel.get_xlim()
    shown = [tick for tick in TICKS if tick >= low]
    panel.set_xticks(shown, [f"{tick:g}" for tick in shown])
    panel.set_xticks([], minor=True)
    panel.axvline(1, color="black", linewidth=1)
    _beside(panel, -0.9, "best peer:")
    panel.set_title("√PEHE of federated FedCI ÷ peer's", loc="left")
    panel.set_xlabel(" ")
    for place, side, words in ((0.93, "right", "← FedCI better"), (1.07, "left", "worse →")):
        panel.annotate(words, (place, 0), xycoords=("data", "axes fraction"), ha=side, xytext=(0, -30),
                       textcoords="offset points", annotation_clip=False)
    panel.plot([], [], "o", color=BLUE, label="FedCI, ahead of the best peer")
    panel.plot([], [], "D", color=ORANGE, label="FedCI, behind the best peer")
    panel.plot([], [], "|", color=GREY, label="left: FedCI ÷ each other peer; right: each peer")


def _coverage_row(panel: Axes, row: int, standing: Standing) -> None:
    colour, marker = _colour(standing)
    theirs = [mean for peer in standing.peers if not math.isnan(mean := peer.summary.of("coverage").mean)]
    panel.plot(theirs, [row] * len(theirs), "|", color=GREY, markersize=8, alpha=0.7)
    if standing.coverage.count:
        panel.plot(standing.coverage.mean, row, marker, color=colour, markersize=6)


def _coverage_axis(panel: Axes) -> None:
    panel.axvline(NOMINAL, color="black", linewidth=1)
    panel.set_title("coverage of 95% intervals", loc="left")
    panel.set_xlabel("share of test people; line: 0.95")
    panel.set_xlim(right=1.02)
    panel.tick_params(axis="y", left=False, labelleft=False)
