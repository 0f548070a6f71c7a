"""The paper's four figures, measured here, each as SVG and PNG; the same rows give the same bytes.

    fedci-by-sources    FedCI federated, on combined rows and at each source alone, on DATA-1
    inter-dependency    FedCI with and without its inter-dependency component, on DATA-1
    ate-data-2          the estimated ATE of source 1 as sources are added, DATA-2
    ate-ihdp            the same, IHDP

A figure whose rows are absent is not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedci.benchmark.pages.markdown import ERRORS, in_words, number
from fedci.benchmark.pages.published import FEDCI_PROTOCOL, published
from fedci.benchmark.pages.summary import OURS, PAPER, Group, Summaries, find
from fedci.benchmark.run.cells import SiteEffect
from fedci.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6E6E6E"
"""Okabe and Ito's palette: distinct to colour-blind readers too."""
DATASET = "data-1"
PROTOCOLS = {"P1": "P1, imputation", "P2": "P2, expected effects"}
STYLE = {"svg.hashsalt": "fedci", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 9.5,
         "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10, "axes.edgecolor": "#444444",
         "axes.grid": True, "axes.axisbelow": True, "grid.color": "#E6E6E6", "grid.linewidth": 0.8}
DODGE = 0.06
"""Sources by which the lines of a panel stand apart, so that their bars do not hide each other."""
LABEL_GAP = 0.085
"""Least distance between the labels of two lines, as a share of the panel's height."""


class Line(NamedTuple):
    """A method in a mode and how it is drawn."""

    method: str
    mode: str
    name: str
    colour: str
    marker: str = "o"
    dashes: str = "-"


MODES = (
    Line(OURS, "loc", "each source alone", ORANGE, "s"),
    Line(OURS, "com", "combined rows", GREEN, "^"),
    Line(OURS, "fed", "federated", BLUE),
)
INTER_DEPENDENCY = (
    Line(PAPER, "fed", "paper, with", PURPLE, "D"),
    Line("FedCI (paper, no inter-dependency)", "fed", "paper, without", GREY, "v", "--"),
    Line(OURS, "fed", "default, with", BLUE),
    Line("FedCI (no inter-dependency)", "fed", "default, without", ORANGE, "s", "--"),
)
FIGURES = {
    "fedci-by-sources": "FedCI federated, on combined rows and at each source alone, DATA-1 (mean and standard error)",
    "inter-dependency": "FedCI with and without the inter-dependency component, DATA-1 (mean and standard error)",
    "ate-data-2": "Estimated ATE of source 1 of DATA-2 as sources are added, replication 0 (dotted: the truth)",
    "ate-ihdp": "Estimated ATE of source 1 of IHDP as sources are added, replication 0 (dotted: the truth)",
}
"""Captions by file name."""


def draw(folder: Path, summaries: Summaries, effects: Sequence[SiteEffect]) -> list[str]:
    """Draw what the rows allow into `folder`; the names of the figures drawn."""
    _check_installed()
    import matplotlib

    with matplotlib.rc_context(STYLE):
        made = {"fedci-by-sources": error_figure(summaries, MODES),
                "inter-dependency": error_figure(summaries, INTER_DEPENDENCY),
                "ate-data-2": effect_figure(effects, "data-2"), "ate-ihdp": effect_figure(effects, "ihdp")}
        drawn = {name: figure for name, figure in made.items() if figure is not None}
        for name, figure in drawn.items():
            save(figure, folder / name)
    return list(drawn)


def _check_installed() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("figures need matplotlib, not installed here: pip install 'fedci[report]'") from None


def save(figure: Figure, path: Path) -> None:
    """`path`.svg and `path`.png, without a date or a version in them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    figure.savefig(path.with_suffix(".png"), dpi=160, metadata={"Software": None})


# --- errors over the number of sources

def error_figure(summaries: Summaries, lines: Sequence[Line]) -> Figure | None:
    """Rows: protocols; columns: √PEHE and ATE error. A protocol needs two lines to compare."""
    from matplotlib.figure import Figure

    shown = [protocol for protocol in PROTOCOLS if len(_present(summaries, lines, protocol)) > 1]
    if not shown:
        return None
    figure = Figure(figsize=(8.6, 3.0 * len(shown) + 0.2), layout="constrained")
    panels = figure.subplots(len(shown), len(ERRORS), squeeze=False)
    for protocol, row in zip(shown, panels, strict=True):
        for error, panel in zip(ERRORS, row, strict=True):
            _error_panel(panel, summaries, _present(summaries, lines, protocol), protocol, error)
            panel.set_title(f"{ERRORS[error]} under {PROTOCOLS[protocol]}", loc="left")
    for panel in panels[-1]:
        panel.set_xlabel("number of sources")
    return figure


def _present(summaries: Summaries, lines: Iterable[Line], protocol: str) -> list[Line]:
    groups = list(summaries)
    return [line for line in lines
            if any(group[:4] == (DATASET, protocol, line.method, line.mode) and summaries[group].done
                   for group in groups)]


def _error_panel(panel: Axes, summaries: Summaries, lines: Sequence[Line], protocol: str, error: str) -> None:
    sources = sorted({group.sources for group in summaries if group[:2] == (DATASET, protocol)})
    ends = []
    for position, line in enumerate(lines):
        groups = [Group(DATASET, protocol, line.method, line.mode, count) for count in sources]
        points = [(count, summary.of(error)) for count, summary in zip(sources, (find(summaries, g) for g in groups),
                                                                       strict=True) if summary and summary.done]
        x = [count + DODGE * (position - (len(lines) - 1) / 2) for count, _ in points]
        means, bars = [error_at.mean for _, error_at in points], [np.nan_to_num(error_at.se) for _, error_at in points]
        panel.errorbar(x, means, bars, color=line.colour, marker=line.marker, linestyle=line.dashes, markersize=5,
                       linewidth=1.6, capsize=3)
        ends.append((means[-1], line.name, line.colour))
    if protocol == FEDCI_PROTOCOL:
        ends.append(_published_points(panel, error))
    panel.set_ylim(bottom=0)
    panel.set_xticks(sources)
    panel.set_xlim(min(sources) - 0.3, max(sources) + 0.3)
    _end_labels(panel, ends)


def _published_points(panel: Axes, error: str) -> tuple[float, str, str]:
    """The paper's FedCI as open circles."""
    rows = [row for row in published().values() if (row.dataset, row.method) == (DATASET, OURS)]
    means, bars = ([float(row.of(error)[part] or 0) for row in rows] for part in (0, 1))
    panel.errorbar([row.sources for row in rows], means, bars, color="black", marker="o", markerfacecolor="white",
                   linestyle="none", markersize=5, linewidth=1, capsize=3)
    return means[-1], "published", "black"


def _end_labels(panel: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Each line's name at its right end, moved apart where two would overlap."""
    low, high = panel.get_ylim()
    ordered = sorted(ends)
    places = spread([(value - low) / (high - low) for value, _, _ in ordered], LABEL_GAP)
    for place, (_, name, colour) in zip(places, ordered, strict=True):
        panel.annotate(name, (1.0, place), xycoords="axes fraction", color=colour, va="center",
                       xytext=(4, 0), textcoords="offset points", annotation_clip=False)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Rising places at least `gap` apart: clusters that overlap are spaced evenly about their mean."""
    clusters = [[place] for place in places]
    centres = list(places)
    position = 0
    while position < len(clusters) - 1:
        reach = gap * (len(clusters[position]) + len(clusters[position + 1])) / 2
        if centres[position + 1] - centres[position] >= reach - 1e-12:
            position += 1
            continue
        clusters[position] += clusters.pop(position + 1)
        centres.pop(position + 1)
        centres[position] = sum(clusters[position]) / len(clusters[position])
        position = max(position - 1, 0)
    return [centre + gap * (k - (len(cluster) - 1) / 2) for cluster, centre in zip(clusters, centres, strict=True)
            for k in range(len(cluster))]


# --- the distribution of an ATE

def effect_figure(effects: Sequence[SiteEffect], dataset: str, replication: int = 0) -> Figure | None:
    """N(mean, sd²) of the ATE of source 1; a row for each preset, a panel for each number of sources."""
    from matplotlib.figure import Figure

    chosen = [e for e in effects if (e.dataset, e.replication) == (dataset, replication)]
    methods = [method for method in (OURS, PAPER) if any(e.method == method for e in chosen)]
    if not methods:
        return None
    sources = sorted({e.sources for e in chosen if e.method in methods})
    figure = Figure(figsize=(2.9 * len(sources) + 0.4, 2.4 * len(methods) + 0.3), layout="constrained")
    panels = figure.subplots(len(methods), len(sources), squeeze=False, sharex="row")
    for method, row in zip(methods, panels, strict=True):
        own = {e.sources: e for e in chosen if e.method == method}
        for count, panel in zip(sources, row, strict=True):
            _effect_panel(panel, own.get(count), list(own.values()))
            panel.set_title(_effect_title(count, own.get(count)), loc="left")
        row[0].set_ylabel(_preset(method))
    for panel in panels[-1]:
        panel.set_xlabel(f"ATE of source 1 (truth {number(chosen[0].truth)})")
    return figure


def _preset(method: str) -> str:
    return {OURS: "FedCI", PAPER: "FedCI, preset 'paper'"}[method]


def _effect_title(count: int, effect: SiteEffect | None) -> str:
    return in_words(count) + (f": {number(effect.mean)}, sd {number(effect.sd)}" if effect else "")


def _effect_panel(panel: Axes, effect: SiteEffect | None, row: Sequence[SiteEffect]) -> None:
    """The density with its 95% interval shaded, on the scale of the whole row."""
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.set_xlim(*_range(row))
    panel.set_ylim(0, 1.12 / (min(_sd(e) for e in row) * math.sqrt(2 * math.pi)))
    if effect is None:
        panel.text(0.5, 0.5, "not run", transform=panel.transAxes, ha="center", color=GREY)
        return
    x = np.linspace(*_range(row), 400)
    panel.plot(x, _density(x, effect), color=BLUE, linewidth=1.6)
    inside = np.linspace(effect.low, effect.high, 200)
    panel.fill_between(inside, _density(inside, effect), color=BLUE, alpha=0.22, linewidth=0)
    panel.axvline(effect.truth, color="black", linestyle=":", linewidth=1.6)


def _density(x: np.ndarray, effect: SiteEffect) -> np.ndarray:
    z = (x - effect.mean) / _sd(effect)
    return np.exp(-0.5 * z**2) / (_sd(effect) * math.sqrt(2 * math.pi))


def _sd(effect: SiteEffect) -> float:
    return max(effect.sd, 1e-9)


def _range(row: Sequence[SiteEffect]) -> tuple[float, float]:
    low = min(min(e.mean - 3.5 * _sd(e), e.truth) for e in row)
    high = max(max(e.mean + 3.5 * _sd(e), e.truth) for e in row)
    margin = 0.04 * (high - low)
    return low - margin, high + margin
