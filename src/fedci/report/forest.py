"""The forest plot of subgroups as journals print it: groups under their definition, people or risks, intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from fedci.report.plots import tip
from fedci.report.svg import Plot, number, spread

ROW = 22
LEFT, RIGHT = 236, 416
"""Between which the intervals are drawn; left of it names and people, right of it numbers."""
LARGEST, LEAST = 6.0, 2.0
"""Half the side of a square: its area goes with the people."""
LABEL = 26
"""Characters of a name."""


class Row(NamedTuple):
    """Of a group; of everybody; or, without people, the head of a definition."""

    name: str
    people: int = 0
    mean: float = 0.0
    low: float = 0.0
    high: float = 0.0
    arms: str = ""
    """Risks, or rates, without and with treatment."""
    p: float | None = None
    """Of a head: of the largest difference within the definition."""


def forest(rows: Sequence[Row], overall: Row, label: str, arms: str = "", level: str = "95%") -> Markup:
    """`arms`: the head of the column of risks; '' of numbers."""
    shown = [row for row in rows if row.people] + [overall]
    low, high = spread([row.low for row in shown], [row.high for row in shown], zero=_near_zero(shown))
    lines = [*rows, overall]
    plot = Plot(f"Effects in subgroups: {label}", (low, high), (-0.8, len(lines) + 0.4),
                height=ROW * (len(lines) + 1) + 66, left=LEFT, x_label=label)
    plot.right = RIGHT
    plot.x_axis()
    plot.rule_x(0.0)
    plot.rule_x(overall.mean, "mean")
    _heads(plot, len(lines) - 0.2, arms, level)
    most = max(row.people for row in shown)
    for k, row in enumerate(lines):
        y = len(lines) - 1 - k
        if not row.people:
            plot.label(8, plot.at_y(y) + 4, _cut(row.name), "start", "strong")
            if row.p is not None:
                plot.label(552, plot.at_y(y) + 4, f"p {_p(row.p)}", "end", "tick")
            continue
        last = row is overall
        said = tip(row.name, row.mean, row.low, row.high, row.people)
        plot.label(8 if last else 20, plot.at_y(y) + 4, _cut(row.name), "start", "strong" if last else "")
        plot.label(LEFT - 8, plot.at_y(y) + 4, row.arms or f"{row.people:,}", "end", "tick")
        plot.span(row.low, row.high, y, said, "b" if last else "a")
        if last:
            plot.diamond(row.mean, y, said)
        else:
            _square(plot, row.mean, y, said, max(LARGEST * math.sqrt(row.people / most), LEAST))
        plot.label(552, plot.at_y(y) + 4, f"{number(row.mean)} ({number(row.low)} to {number(row.high)})", "end",
                   "tick")
    return plot.svg()


def _near_zero(rows: Sequence[Row]) -> bool:
    """Further away, zero would squeeze the intervals."""
    low, high = min(row.low for row in rows), max(row.high for row in rows)
    return min(abs(low), abs(high)) < 2.0 * (high - low) or low <= 0.0 <= high


def _heads(plot: Plot, y: float, arms: str, level: str) -> None:
    for x, text, anchor in ((8, "subgroup", "start"), (LEFT - 8, arms or "people", "end"),
                            (552, f"effect ({level} interval)", "end")):
        plot.label(x, plot.at_y(y) + 2, text, anchor, "name")


def _square(plot: Plot, x: float, y: float, said: str, half: float) -> None:
    plot.add('<rect class="dot a" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" data-tip="{}"/>',
             plot.at_x(x) - half, plot.at_y(y) - half, 2 * half, 2 * half, said)


def _cut(name: str) -> str:
    return name if len(name) <= LABEL else f"{name[:LABEL - 1]}…"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"
