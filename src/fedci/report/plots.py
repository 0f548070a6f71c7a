"""The report's plots: plain numbers in, inline SVG out. Only aggregates come here: nothing of a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.special import ndtr

from fedci.effect import Effect
from fedci.report.slots import Balance, Bin, Curve, Interval, Overlap
from fedci.report.svg import Plot, number, spread

KEY = 16
"""Between two names of curves."""
POINTS = 120
ROW = 26
SERIES = ("c", "d", "e", "a", "f", "g")


def density(effect: Effect, xs: np.ndarray) -> np.ndarray:
    """Of the mixture of the draws' Gaussians, at xs; of draws alone (risks) with Silverman's width."""
    least = 1e-300 if effect.variances.any() else (1.06 * effect.sd * len(effect.means) ** -0.2) ** 2 + 1e-300
    sd = np.sqrt(np.maximum(effect.variances, least))
    z = (xs[:, None] - effect.means) / sd
    return (np.exp(-0.5 * z * z) / (sd * np.sqrt(2 * np.pi))).mean(1)


def positive(effect: Effect) -> float:
    """P(effect > 0)."""
    return float(ndtr(effect.means / np.sqrt(np.maximum(effect.variances, 1e-300))).mean())


def tip(name: str, mean: float, low: float, high: float, people: int | None = None) -> str:
    of = "" if people is None else f", {people:,} people"
    return f"{name}: {number(mean)} ({number(low)} to {number(high)}){of}"


def answer(effect: Effect, low: float, high: float, outcome: str) -> Markup:
    """The posterior of the answer: its density, its interval, and zero."""
    return densities({"ATE": effect}, f"Average effect on {outcome}", "all people", (low, high))


def densities(named: Mapping[str, Effect], label: str, title: str,
              interval: tuple[float, float] | None = None) -> Markup:
    """Posterior densities over each other; the last is the answer."""
    ends = [effect.quantile(level) for effect in named.values() for level in (0.0005, 0.9995)]
    wide = max(ends) - min(ends)
    if min(abs(min(ends)), abs(max(ends))) < 3 * wide:  # further away, zero would squeeze the curve
        ends.append(0.0)
    low, high = spread(ends, margin=0.04)
    xs = np.linspace(low, high, POINTS)
    lines = {name: density(effect, xs) for name, effect in named.items()}
    top = 1.08 * max(line.max() for line in lines.values())
    plot = Plot(f"Posterior density, {title}: {label}", (low, high), (0.0, top),
                height=230 if len(named) == 1 else max(290, 80 + KEY * len(named)), left=16, x_label=label)
    plot.x_axis()
    plot.rule_x(0.0)
    for k, (name, line) in enumerate(lines.items()):
        last = k == len(lines) - 1
        kind = "b" if last else SERIES[k % len(SERIES)]
        if last:
            least, most = interval or (low, high)  # its ends lie between the curve's places
            shaded = np.concatenate([[least], xs[(xs > least) & (xs < most)], [most]])
            plot.band(shaded.tolist(), [0.0] * len(shaded), density(named[name], shaded).tolist(), kind)
        plot.line(xs.tolist(), line.tolist(), kind if last else f"{kind} thin")
        if len(lines) > 1:
            plot.label(plot.right - 4, plot.top + KEY * (k + 1), name, "end", f"key {kind}")
    for x in xs[::3]:
        below = "; ".join(f"{name} {_below(effect, x):.0%} below" for name, effect in named.items())
        plot.sense(float(x), f"{number(float(x))}: {below}", (plot.right - plot.left) * 3 / POINTS)
    return plot.svg()


def _below(effect: Effect, x: float) -> float:
    return float(ndtr((x - effect.means) / np.sqrt(np.maximum(effect.variances, 1e-300))).mean())


def forest(rows: Sequence[Interval], overall: Interval | None, label: str,
           people: Mapping[str, int] | None = None) -> Markup:
    """An interval for each site, and for all together."""
    all_rows = [*rows, *([overall] if overall else [])]
    low, high = spread([r.low for r in all_rows], [r.high for r in all_rows], zero=True)
    height = 66 + ROW * len(all_rows)
    plot = Plot(f"Effects by site: {label}", (low, high), (-0.6, len(all_rows) - 0.4), height=height, left=132,
                x_label=label)
    plot.x_axis()
    plot.rule_x(0.0)
    if overall:
        plot.rule_x(overall.mean, "mean")
    for k, row in enumerate(all_rows):
        y, last = len(all_rows) - 1 - k, row is overall
        said = tip(row.site, row.mean, row.low, row.high, (people or {}).get(row.site))
        plot.row_label(y, row.site, "strong" if last else "")
        plot.span(row.low, row.high, y, said, "b" if last else "a")
        (plot.diamond if last else plot.dot)(row.mean, y, said)
    return plot.svg()


def curve(data: Mapping[str, Any], label: str) -> Markup:
    """The effect along a covariate with its band; for levels, an interval each."""
    low, high = spread(data["low"], data["high"], zero=True)
    name = data["covariate"]
    if data["type"] == "numeric":
        xs = data["at"]
        plot = Plot(f"Effect along {name}", (xs[0], xs[-1]), (low, high), height=236, x_label=name, y_label=label)
        plot.y_axis()
        plot.x_axis()
        plot.rule_y(0.0)
        plot.band(xs, data["low"], data["high"])
        plot.line(xs, data["effect"])
        for k, x in enumerate(xs):
            plot.sense(x, f"{name} {number(x)}: " + tip("effect", data["effect"][k], data["low"][k], data["high"][k]),
                       (plot.right - plot.left) / len(xs))
        return plot.svg()
    plot = Plot(f"Effect at each level of {name}", (-0.6, len(data["at"]) - 0.4), (low, high), height=236,
                y_label=label, x_label=name)
    plot.y_axis()
    plot.rule_y(0.0)
    for k, level in enumerate(data["at"]):
        said = tip(f"{name} = {level}", data["effect"][k], data["low"][k], data["high"][k])
        plot.upright(k, data["low"][k], data["high"][k], said)
        plot.dot(k, data["effect"][k], said)
    _level_names(plot, data["at"], name)
    return plot.svg()


ARMS = (("untreated", "without treatment", "a"), ("treated", "with treatment", "b"))


def arms(data: Mapping[str, Any], label: str) -> Markup:
    """What is expected in each arm along a covariate, with bands; for levels, an interval for each arm."""
    name, known, is_line = data["covariate"], data["arms"], data["type"] == "numeric"
    xs = data["at"] if is_line else list(range(len(data["at"])))
    ends = (xs[0], xs[-1]) if is_line else (-0.6, len(xs) - 0.4)
    top = spread([0.0], *(known[arm]["high"] for arm, _, _ in ARMS))
    plot = Plot(f"{label.capitalize()} by arm along {name}", ends, (0.0, top[1]), height=250,
                x_label=name, y_label=label)
    plot.y_axis()
    if is_line:
        plot.x_axis()
    for k, (arm, words, kind) in enumerate(ARMS):
        mean, low, high = (known[arm][part] for part in ("mean", "low", "high"))
        if is_line:
            plot.band(xs, low, high, kind)
            plot.line(xs, mean, kind)
        for j, x in enumerate(xs):
            where = x if is_line else x + 0.24 * (k - 0.5)
            said = tip(f"{name} {number(x) if is_line else data['at'][j]}, {words}", mean[j], low[j], high[j])
            if not is_line:
                plot.upright(where, low[j], high[j], said, kind)
            plot.dot(where, mean[j], said, kind, size=2 if is_line else 4)
        plot.label(plot.right - 4, plot.top + KEY * (k + 1), words, "end", f"key {kind}")
    if not is_line:
        _level_names(plot, data["at"], name)
    return plot.svg()


def _level_names(plot: Plot, levels: Sequence[str], name: str) -> None:
    """Below an axis of levels, which has no ticks of its own."""
    for k, level in enumerate(levels):
        plot.label(plot.at_x(k), plot.bottom + 17, level if len(level) <= 10 else f"{level[:9]}…", "middle", "tick")
    plot.label((plot.left + plot.right) / 2, plot.bottom + 42, name, "middle", "name")


def population(data: Mapping[str, Any], label: str) -> Markup:
    """How effects are spread: a histogram with bands."""
    edges, top = data["edges"], max(data["high"])
    plot = Plot("How effects are spread over people like the study's", (edges[0], edges[-1]), (0.0, 1.06 * top),
                height=250, x_label=label, y_label="share of people")
    plot.y_axis()
    plot.x_axis()
    for k, share in enumerate(data["share"]):
        said = (f"{number(edges[k])} to {number(edges[k + 1])}: {share:.1%} of people "
                f"({data['low'][k]:.1%} to {data['high'][k]:.1%})")
        plot.bar(edges[k], edges[k + 1], share, said)
        plot.upright((edges[k] + edges[k + 1]) / 2, data["low"][k], data["high"][k], said, "f")
    plot.rule_x(0.0)
    return plot.svg()


def love(rows: Sequence[Balance]) -> Markup:
    """|SMD| of each covariate before and after, largest first; the usual bound of 0.1."""
    shown = sorted(rows, key=lambda row: -abs(row.before))[:40]
    most = max([0.25, *(abs(v) for row in shown for v in (row.before, row.after) if v is not None)])
    plot = Plot("Balance: standardised mean differences", (0.0, 1.05 * most), (-0.6, len(shown) - 0.4),
                height=84 + 22 * len(shown), left=132, x_label="|standardised mean difference|")
    plot.x_axis()
    plot.rule_x(0.1, "mean")
    for k, row in enumerate(shown):
        y = len(shown) - 1 - k
        plot.row_label(y, row.covariate)
        plot.dot(abs(row.before), y, f"{row.covariate}, before: {number(row.before)}", "c")
        if row.after is not None:
            plot.dot(abs(row.after), y, f"{row.covariate}, after: {number(row.after)}", "b")
    plot.label(plot.right - 4, plot.bottom - 26, "before", "end", "key c")
    if any(row.after is not None for row in shown):
        plot.label(plot.right - 4, plot.bottom - 8, "after", "end", "key b")
    return plot.svg()


def overlap(scores: Overlap) -> Markup:
    """Treated above the axis, untreated below."""
    arms = [[n or 0.0 for n in part] for part in (scores.treated, scores.control)]
    treated, control = (np.array(part) / max(sum(part), 1e-300) for part in arms)
    top = 1.08 * max(treated.max(), control.max())
    plot = Plot("Overlap: preference scores of treated and untreated", (scores.edges[0], scores.edges[-1]), (-top, top),
                height=280, left=16, x_label="preference score")
    plot.x_axis()
    for k in range(len(treated)):
        where = f"{number(scores.edges[k])} to {number(scores.edges[k + 1])}"
        for sign, share, count, arm, kind in ((1, treated[k], scores.treated[k], "treated", "b"),
                                              (-1, control[k], scores.control[k], "untreated", "a")):
            share_in_words = f"{share:.1%} of the {arm}" if count is not None else f"hidden, {arm} people are few"
            tall, kind = (float(share), kind) if count is not None else (0.04 * top, "f")
            plot.bar(scores.edges[k], scores.edges[k + 1], sign * tall, f"{where}: {share_in_words}", kind)
    plot.rule_y(0.0, "axis")
    plot.label(plot.right - 4, plot.top + 14, "treated", "end", "key b")
    plot.label(plot.right - 4, plot.bottom - 8, "untreated", "end", "key a")
    return plot.svg()


def sensitivity(data: Curve, label: str) -> Markup:
    low, high = data.low or data.mean, data.high or data.mean
    plot = Plot(data.name, (min(data.x), max(data.x)), spread(low, high, zero=True), height=236, x_label=data.x_label,
                y_label=label)
    plot.y_axis()
    plot.x_axis()
    plot.rule_y(0.0)
    order = np.argsort(data.x).tolist()
    xs, mean = [data.x[k] for k in order], [data.mean[k] for k in order]
    plot.band(xs, [low[k] for k in order], [high[k] for k in order])
    plot.line(xs, mean)
    for k in order:
        said = f"{number(data.x[k])}: " + tip("effect", data.mean[k], low[k], high[k])
        plot.dot(data.x[k], data.mean[k], said, size=3)
    return plot.svg()


def survival(times: Sequence[float], arms: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
             label: str) -> Markup:
    """Curves (mean, low, high at each time) over each other, from 1 at the start, with a band each."""
    plot = Plot(f"Survival by arm: {label}", (0.0, max(times)), (0.0, 1.02), height=290, x_label=label,
                y_label="survival")
    plot.y_axis()
    plot.x_axis()
    xs = [0.0, *times]
    for k, ((name, (mean, low, high)), kind) in enumerate(zip(arms.items(), ("a", "b"), strict=False)):
        plot.band(xs, [1.0, *low.tolist()], [1.0, *high.tolist()], kind)
        plot.line(xs, [1.0, *mean.tolist()], kind)
        for x, at, least, most in zip(times, mean, low, high, strict=True):
            plot.dot(x, float(at), f"{number(x)}: " + tip(name, float(at), float(least), float(most)), kind, size=3)
        plot.label(plot.left + 10, plot.bottom - 12 - KEY * k, name, "start", kind)
    return plot.svg()


def calibration(rows: Sequence[Bin]) -> Markup:
    ends = spread([row.expected for row in rows], [row.observed for row in rows])
    plot = Plot("Calibration: expected and observed", ends, ends, height=300, x_label="expected", y_label="observed")
    plot.y_axis()
    plot.x_axis()
    plot.line(list(ends), list(ends), "f thin")
    for row in rows:
        of = "" if row.count is None else f", {row.count:,} people"
        said = f"expected {number(row.expected)}, observed {number(row.observed)}{of}"
        plot.dot(row.expected, row.observed, said, "b")
    return plot.svg()


def trace(numbers: Sequence[int], objectives: Sequence[float]) -> Markup:
    """The objective over the rounds; the first, far below, are cut off."""
    finite = [(n, v) for n, v in zip(numbers, objectives, strict=True) if np.isfinite(v)]
    values = [v for _, v in finite] or [0.0]
    finite = finite or [(1, 0.0)]
    floor = min(values[len(values) // 4:]) if len(values) > 8 else min(values)
    shown = [(n, v) for n, v in finite if v >= floor]
    plot = Plot("Convergence: objective over rounds", (shown[0][0], shown[-1][0]), spread([v for _, v in shown]),
                height=220, left=70, x_label="round", y_label="objective")
    plot.y_axis()
    plot.x_axis()
    plot.line([n for n, _ in shown], [v for _, v in shown])
    for n, v in shown:
        plot.dot(n, v, f"round {n}: {number(v)}", size=2)
    return plot.svg()
