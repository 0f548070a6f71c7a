"""Curves and tables of the scale: `python -m fedci.benchmark.pages.scale_page benchmarks/results/scale PAGE`.

The part of the page between its two marks is made anew from fits.csv, rounds.csv, peers.csv and hot.csv; the figures go
into the folder `figures` beside the page. The same tables give the same bytes.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedci.benchmark.pages.figures import BLUE, GREEN, GREY, ORANGE, PURPLE, STYLE
from fedci.errors import UsageError

BEGIN, END = "<!-- scale: begin -->", "<!-- scale: end -->"
Row = dict[str, Any]
"""Column → number, or text where it is none."""
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)


def read(folder: Path, name: str) -> list[Row]:
    path = folder / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> str | int | float:
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() and "." not in text else value


def plain(fits: Sequence[Row]) -> list[Row]:
    """Default options; of a size on a device the newest."""
    newest = {(row["device"], row["cores"], row["sites"], row["rows"]): row for row in fits if row["options"] == "{}"}
    return [newest[key] for key in sorted(newest)]


def lines(fits: Sequence[Row], along: str, fixed: str) -> list[tuple[str, list[Row]]]:
    """(name, fits in order) for each device and value of `fixed` with two sizes at least."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in plain(fits):
        groups.setdefault((row["device"], row["cores"], row[fixed]), []).append(row)
    return [(f"{place(row := group[0])}, {row[fixed]:,} {'sites' if fixed == 'sites' else 'rows a site'}",
             sorted(group, key=lambda row: row[along]))
            for group in groups.values() if len(group) > 1]


def place(row: Row) -> str:
    if row["device"] != "cpu":
        return row["device"]
    return f"{row['cores']} core{'s' if row['cores'] > 1 else ''}"


def exponent(fits: Sequence[Row], along: str, what: str) -> float:
    """Between the smallest size and the largest."""
    first, last = fits[0], fits[-1]
    return math.log(last[what] / first[what]) / math.log(last[along] / first[along])


def draw(folder: Path, fits: list[Row], rounds: list[Row]) -> list[tuple[str, str]]:
    """(file name, caption) of each figure drawn."""
    import matplotlib
    from matplotlib.figure import Figure

    made = []
    with matplotlib.rc_context(STYLE):
        for name, along, fixed, what, label, caption in (
                ("scale-rows-seconds", "rows", "sites", "seconds", "seconds, with compilation", "Rows and seconds"),
                ("scale-rows-memory", "rows", "sites", "GiB", "peak GiB of the process, all sites in it",
                 "Rows and memory"),
                ("scale-sites-seconds", "sites", "rows", "seconds", "seconds, with compilation", "Sites and seconds")):
            curves = lines(fits, along, fixed)
            if not curves:
                continue
            figure = Figure(figsize=(6.4, 3.6), layout="constrained")
            panel = figure.subplots()
            for colour, (label_of, part) in zip(COLOURS, curves, strict=False):
                panel.loglog([row[along] for row in part], [row[what] for row in part], "o-", color=colour,
                             label=label_of)
            panel.set(xlabel="rows a site" if along == "rows" else "sites", ylabel=label)
            panel.legend(frameon=False)
            _save(figure, folder / f"{name}.svg")
            made.append((name, caption))
        traces = _traces(rounds)
        if traces:
            figure = Figure(figsize=(6.4, 3.6), layout="constrained")
            panel = figure.subplots()
            for colour, (name, numbers, gaps) in zip(COLOURS, traces, strict=False):
                panel.semilogy(numbers, gaps, ".-", color=colour, label=name)
            panel.axhline(0.1, color=GREY, linestyle=":")
            panel.set(xlabel="round", ylabel="nats a site below the best", ylim=(1e-3, None))
            panel.legend(frameon=False)
            _save(figure, folder / "scale-rounds-objective.svg")
            made.append(("scale-rounds-objective", "Rounds and objective, of the rounds that look at everyone"))
    return made


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def _traces(rounds: list[Row]) -> list[tuple[str, list[int], np.ndarray]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rounds:
        if row["options"] == "{}" and not row["few"]:
            groups.setdefault((row["sites"], row["rows"], row["device"]), []).append(row)
    traces = []
    for (sites, rows, device), part in sorted(groups.items(), key=str):
        start = max(i for i, row in enumerate(part) if not i or row["round"] < part[i - 1]["round"])
        part = part[start:]  # the newest run
        best = np.maximum.accumulate([row["objective"] for row in part])
        where = "" if device == "cpu" else f", {device}"
        traces.append((f"{sites} × {rows:,}{where}", [row["round"] for row in part], (best[-1] - best) / sites + 1e-12))
    return traces[:len(COLOURS)]


HEAD = ("where", "seconds", "of it effects", "a round (s)", "rounds (of them on few people)",
        "within 0.1 nat a site after", "error (P2)", "peak GiB", "MB a site")


def _row(name: str, row: Row) -> str:
    cells = (name, place(row), f"{row['seconds']:.0f}", f"{row['effects']:.0f}", f"{row['a round']:.2f}",
             f"{row['rounds']} ({row['first']})", str(row["to 0.1"]), f"{row['error']:.3g}", f"{row['GiB']:.1f}",
             f"{row['MB a site']:.0f}")
    return "| " + " | ".join(cells) + " |"


def _head(first: str) -> list[str]:
    return ["| " + " | ".join((first, *HEAD)) + " |", "|" + "---|" * (len(HEAD) + 1)]


def tables(fits: list[Row], peers: list[Row], hot: list[Row]) -> list[str]:
    text = [*_head("sites × rows"), *(_row(f"{row['sites']} × {row['rows']:,}", row) for row in plain(fits))]
    changed = [row for row in fits if row["options"] != "{}"]
    if changed:
        text += ["", "With other options:", "", *_head("sites × rows, options")]
        text += [_row(f"{row['sites']} × {row['rows']:,} `{row['options']}`", row) for row in changed]
    growth = [f"{name}: seconds grow with the power {exponent(part, 'rows', 'seconds'):.2f} of the rows and memory "
              f"with {exponent(part, 'rows', 'GiB'):.2f}, from {part[0]['rows']:,} to {part[-1]['rows']:,} rows a site"
              for name, part in lines(fits, "rows", "sites")]
    growth += [f"{name}: seconds grow with the power {exponent(part, 'sites', 'seconds'):.2f} of the sites, from "
               f"{part[0]['sites']} to {part[-1]['sites']}" for name, part in lines(fits, "sites", "rows")]
    text += ["", *(f"- {line}." for line in growth + _ratios(fits, changed)), ""]
    if peers:
        text += _peers(fits, peers)
    if hot:
        text += ["One core, one site of 10,000 rows, one draw (`python -m fedci.benchmark.cost.hot`; operations of "
                 "matrix products only):", "", "| kernel | ms | GFLOP/s | of the limit |", "|---|---|---|---|"]
        newest = {row["kernel"]: row for row in hot}
        text += [f"| {row['kernel']} | {row['ms']:.1f} | {row['GFLOP/s']:.1f} | {100 * row['of the limit']:.0f} % |"
                 for row in newest.values()]
        text.append("")
    return text


def _ratios(fits: list[Row], changed: list[Row]) -> list[str]:
    """The default beside other options at the same size in the same place."""
    ours = {(row["device"], row["cores"], row["sites"], row["rows"]): row for row in plain(fits)}
    both = ((row, ours.get((row["device"], row["cores"], row["sites"], row["rows"]))) for row in changed)
    return [f"{place(row)}, {row['sites']} × {row['rows']:,}: the default's error is "
            f"{own['error'] / row['error']:.2f} times that with `{row['options']}`, its seconds "
            f"{own['seconds'] / row['seconds']:.2f} times" for row, own in both if own]


def _peers(fits: list[Row], peers: list[Row]) -> list[str]:
    text = ["The forests of econml on the same rows in one table, with the same cores, in the same run (`--peers`): "
            "CausalForestDML as the package has it, DMLOrthoForest with fewer trees (200), penalties chosen once, and "
            "asked about 500 people only:", "",
            "| sites × rows | method | seconds | error (P2) | times the seconds of FedCI | times its error |",
            "|---|---|---|---|---|---|"]
    ours = {(row["sites"], row["rows"]): row for row in plain(fits) if row["device"] == "cpu"}
    for row in {(row["method"], row["sites"], row["rows"]): row for row in peers}.values():
        size = row["sites"], row["rows"]
        if size not in ours:
            continue
        own, limit = ours[size], row["limit"]
        if math.isinf(row["seconds"]):
            cells = f"over {limit:.0f} (given up) | – | over {limit / own['seconds']:.1f} | –"
        else:
            cells = (f"{row['seconds']:.0f} | {row['error']:.3g} | {row['seconds'] / own['seconds']:.2f} | "
                     f"{row['error'] / own['error']:.1f}")
        text.append(f"| {size[0]} × {size[1]:,} | {row['method']} | {cells} |")
    return [*text, ""]


def write(folder: Path, page: Path) -> None:
    fits = read(folder, "fits")
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not fits or not begin or not end:
        raise UsageError(f"nothing to make the page from: {folder} needs fits.csv (python -m fedci.benchmark.cost."
                         f"scale --out {folder}) and the page the marks {BEGIN} and {END}")
    made = draw(page.parent / "figures", fits, read(folder, "rounds"))
    body = [*tables(fits, read(folder, "peers"), read(folder, "hot")),
            *(f"![{caption}](figures/{name}.svg)\n" for name, caption in made)]
    page.write_text(before + begin + "\n\n" + "\n".join(body) + "\n" + end + after, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
