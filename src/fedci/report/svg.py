"""A small kit for plots as inline SVG: scales, axes, marks. What a mark means stands in its `data-tip`, for the hover.

All text is escaped; colours and sizes are classes of report.css, so that dark mode and print are the style's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

WIDTH = 560
TICKS = 5


def number(value: float) -> str:
    """Short enough for a label."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """About so many round numbers within [low, high]."""
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= raw)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


class Plot:
    """Marks in data coordinates, drawn into a box of WIDTH × height units."""

    def __init__(self, title: str, x: tuple[float, float], y: tuple[float, float], height: int = 260, left: int = 56,
                 x_label: str = "", y_label: str = ""):
        self.title, self.height, self.left = title, height, left
        self.x_low, self.x_high = _widened(*x)
        self.y_low, self.y_high = _widened(*y)
        self.right, self.top, self.bottom = WIDTH - 14, 26 if y_label else 14, height - (52 if x_label else 34)
        self.x_label, self.y_label = x_label, y_label
        self.parts: list[Markup] = []

    # --- coordinates

    def at_x(self, value: float) -> float:
        return self.left + (value - self.x_low) / (self.x_high - self.x_low) * (self.right - self.left)

    def at_y(self, value: float) -> float:
        return self.bottom - (value - self.y_low) / (self.y_high - self.y_low) * (self.bottom - self.top)

    def _points(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        return " ".join(f"{self.at_x(x):.1f},{self.at_y(y):.1f}" for x, y in zip(xs, ys, strict=True))

    def add(self, markup: str, *values: object) -> None:
        """`markup` is ours; values are escaped into it."""
        self.parts.append(Markup(markup).format(*values))

    # --- marks

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str = "a") -> None:
        self.add('<polyline class="line {}" points="{}"/>', kind, self._points(xs, ys))

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], kind: str = "a") -> None:
        self.add('<polygon class="band {}" points="{}"/>', kind,
                 self._points([*xs, *reversed(xs)], [*low, *reversed(high)]))

    def dot(self, x: float, y: float, tip: str, kind: str = "a", size: float = 4) -> None:
        self.add('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="{}" data-tip="{}"/>', kind, self.at_x(x),
                 self.at_y(y), size, tip)

    def diamond(self, x: float, y: float, tip: str, kind: str = "b", size: float = 7) -> None:
        cx, cy = self.at_x(x), self.at_y(y)
        self.add('<polygon class="dot {}" points="{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}" '
                 'data-tip="{}"/>', kind, cx - size, cy, cx, cy - size, cx + size, cy, cx, cy + size, tip)

    def span(self, low: float, high: float, y: float, tip: str, kind: str = "a") -> None:
        """A horizontal interval."""
        self.add('<line class="span {}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" data-tip="{}"/>', kind,
                 self.at_x(max(low, self.x_low)), self.at_x(min(high, self.x_high)), self.at_y(y), self.at_y(y), tip)

    def upright(self, x: float, low: float, high: float, tip: str, kind: str = "a") -> None:
        """A vertical interval."""
        self.add('<line class="span {}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" data-tip="{}"/>', kind,
                 self.at_x(x), self.at_x(x), self.at_y(low), self.at_y(high), tip)

    def bar(self, x0: float, x1: float, y: float, tip: str, kind: str = "a") -> None:
        """From zero to y."""
        top, base = sorted((self.at_y(y), self.at_y(0.0)))
        self.add('<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" data-tip="{}"/>', kind,
                 self.at_x(x0), top, max(self.at_x(x1) - self.at_x(x0) - 0.6, 0.3), base - top, tip)

    def sense(self, x: float, tip: str, width: float) -> None:
        """An unseen strip that tells what stands above x."""
        self.add('<rect class="sense" x="{:.1f}" y="{}" width="{:.1f}" height="{:.1f}" data-tip="{}"/>',
                 self.at_x(x) - width / 2, self.top, width, self.bottom - self.top, tip)

    def rule_x(self, x: float, kind: str = "zero") -> None:
        if self.x_low <= x <= self.x_high:
            self.add('<line class="rule {0}" x1="{1:.1f}" x2="{1:.1f}" y1="{2}" y2="{3}"/>', kind, self.at_x(x),
                     self.top, self.bottom)

    def rule_y(self, y: float, kind: str = "zero") -> None:
        if self.y_low <= y <= self.y_high:
            self.add('<line class="rule {0}" x1="{1}" x2="{2}" y1="{3:.1f}" y2="{3:.1f}"/>', kind, self.left,
                     self.right, self.at_y(y))

    def label(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> None:
        """Text at a place of the box, not of the data."""
        self.add('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>', kind, x, y, anchor, text)

    def row_label(self, y: float, text: str, kind: str = "") -> None:
        """A name left of the axis, cut where it would leave the box."""
        short = text if len(text) <= 16 else f"{text[:15]}…"
        self.label(self.left - 8, self.at_y(y) + 4, short, "end", kind)

    # --- the whole

    def x_axis(self) -> None:
        for value in ticks(self.x_low, self.x_high):
            x = self.at_x(value)
            self.add('<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>', x, self.top, self.bottom)
            self.label(x, self.bottom + 17, number(value), "middle", "tick")
        self.add('<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>', self.left, self.right, self.bottom)
        if self.x_label:
            self.label((self.left + self.right) / 2, self.bottom + 42, self.x_label, "middle", "name")

    def y_axis(self) -> None:
        for value in ticks(self.y_low, self.y_high, 4):
            y = self.at_y(value)
            self.add('<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>', self.left, self.right, y)
            self.label(self.left - 6, y + 4, number(value), "end", "tick")
        if self.y_label:
            self.label(self.left, self.top - 8, self.y_label, "start", "name")

    def svg(self) -> Markup:
        body = Markup("").join(self.parts)
        return Markup('<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}" '
                      'preserveAspectRatio="xMidYMid meet"><title>{}</title>{}</svg>').format(
            WIDTH, self.height, self.title, self.title, body)


def _widened(low: float, high: float) -> tuple[float, float]:
    """A scale needs some width."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    return (low, high) if high > low else (low - 0.5 * abs(low) - 0.5, high + 0.5 * abs(high) + 0.5)


def spread(*groups: Sequence[float | None], margin: float = 0.06, zero: bool = False) -> tuple[float, float]:
    """A range that holds all the finite numbers, and a margin."""
    values = [float(v) for group in groups for v in group if v is not None and math.isfinite(v)]
    values += [0.0] if zero or not values else []
    low, high = min(values), max(values)
    wide = (high - low) * margin
    return low - wide, high + wide

