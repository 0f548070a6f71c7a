"""Table and curves of what privacy costs: `python -m fedci.benchmark.pages.privacy_page benchmarks/results/privacy
PAGE`.

The part of the page between its two marks is made anew from the cells of `cost.standard_cost` (standard*.csv); the
figures go into the folder `figures` beside the page. The same cells give the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedci.benchmark.cost import kept
from fedci.benchmark.cost.noise_cost import NONE
from fedci.benchmark.cost.standard_cost import DELTA, SIMULATION, STANDARD, Cell, Way
from fedci.benchmark.pages.figures import BLUE, GREEN, ORANGE, PURPLE, STYLE
from fedci.errors import UsageError

BEGIN, END = "<!-- privacy: begin -->", "<!-- privacy: end -->"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
Z95 = 1.959963984540054
SHOWN = {SIMULATION: "`simulation`", STANDARD._replace(s=NONE, delta=0.0): "straight, no noise",
         STANDARD._replace(s=NONE): "straight, noise on outcomes", STANDARD._replace(delta=0.0): "noise on sums",
         STANDARD: "**`standard`**: both"}
HEAD = ("data", "people", "policy", "fits", "√PEHE", "of the own averages", "of the average", "its sd", "it held",
        "coverage", "rounds", "MB a site")
Line = tuple[str, list[float], list[float]]
"""A name, places, values."""


def way(cell: Cell) -> Way:
    return Way(*cell[2:5])


def of(cells: Sequence[Cell], data: str) -> dict[Way, list[Cell]]:
    """By how they were fitted; of the replications that have a cell of `standard`."""
    found: dict[Way, list[Cell]] = {}
    for cell in sorted((cell for cell in cells if cell.data == data), key=lambda cell: cell.replication):
        found.setdefault(way(cell), []).append(cell)
    return found


def table(cells: Sequence[Cell]) -> list[str]:
    """Means over replications; × the mean of `simulation` on the same people."""
    lines = ["| " + " | ".join(HEAD) + " |", "|---|---|---|" + "---:|" * (len(HEAD) - 3)]
    for data in dict.fromkeys(cell.data for cell in cells):
        ways = of(cells, data)
        for one, words in SHOWN.items():
            if some := ways.get(one):
                lines.append(_row(words, some, ways.get(SIMULATION, [])))
    return lines


def _row(words: str, some: Sequence[Cell], base: Sequence[Cell]) -> str:
    first = some[0]
    errors = [_beside(some, base, field) for field in ("pehe", "own")]
    average = _beside(some, base, "ate_error") if np.isfinite(first.ate_error) else _moved(some, base)
    cells = (first.data, f"{first.sites} sites, {first.people:,}", words, str(len(some)), *errors, average,
             _beside(some, base, "ate_sd"), _held(some), _mean(some, "covered", "{:.2f}"),
             _mean(some, "rounds", "{:.0f}"), _mean(some, "MB", "{:.2g}"))
    return "| " + " | ".join(cells) + " |"


def _beside(some: Sequence[Cell], base: Sequence[Cell], field: str) -> str:
    """The mean, and how many times that of the same replications there."""
    own = {cell.replication: getattr(cell, field) for cell in base}
    both = [(getattr(cell, field), own[cell.replication]) for cell in some if cell.replication in own]
    mean = _mean(some, field, "{:.3g}")
    if mean == "–" or not both or way(some[0]) == SIMULATION:
        return mean
    ours, theirs = np.mean(both, axis=0)
    return f"{mean} (× {ours / theirs:.2f})"


def _moved(some: Sequence[Cell], base: Sequence[Cell]) -> str:
    """Of an average whose truth nobody knows: how far from `simulation`, in that one's sds."""
    if not base or way(some[0]) == SIMULATION:
        return f"{some[0].ate:.3g} itself"
    return f"{some[0].ate:.3g} itself, {(some[0].ate - base[0].ate) / base[0].ate_sd:+.2f} sd"


def _held(some: Sequence[Cell]) -> str:
    """In how many replications the average's interval held the truth."""
    if not np.isfinite([cell.ate_error for cell in some]).all():
        return "–"
    return f"{sum(cell.ate_error <= Z95 * cell.ate_sd for cell in some)} of {len(some)}"


def _mean(some: Sequence[Cell], field: str, form: str) -> str:
    value = float(np.mean([getattr(cell, field) for cell in some]))
    return form.format(value) if np.isfinite(value) else "–"


# --- curves


def along(cells: Sequence[Cell], field: str, place: Callable[[Way], float | None]) -> list[Line]:
    """For each kind of data: the mean of a field at each place, × that at the least, over the same replications."""
    lines = []
    for data in dict.fromkeys(cell.data for cell in cells):
        at = {where: {cell.replication: float(getattr(cell, field)) for cell in some}
              for one, some in of(cells, data).items() if (where := place(one)) is not None}
        places = sorted(at)
        shared = sorted(set.intersection(*(set(values) for values in at.values()))) if at else []
        if len(places) < 2 or not shared:
            continue
        means = [float(np.mean([at[where][replication] for replication in shared])) for where in places]
        if np.isfinite(means).all():
            lines.append((data, places, [mean / means[0] for mean in means]))
    return lines


def on_sums(one: Way) -> float | None:
    """Its s, of those with the outcome noise of `standard`."""
    if one.policy != STANDARD.policy or one.delta != DELTA:
        return None
    return 0.0 if one.s == NONE else one.s


def on_outcomes(one: Way) -> float | None:
    """Its δ, of those with the noise on sums of `standard`."""
    return one.delta if one.policy == STANDARD.policy and one.s == STANDARD.s else None


def draw(folder: Path, cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """(file name, caption) of each figure drawn."""
    import matplotlib
    from matplotlib.figure import Figure

    made = []
    with matplotlib.rc_context(STYLE):
        for name, place, label, usual, caption in (
                ("privacy-noise-on-sums", on_sums, "s, noise on sums", STANDARD.s, "Noise on sums, and errors"),
                ("privacy-noise-on-outcomes", on_outcomes, "δ, noise on outcomes", DELTA,
                 "Noise on outcomes, and errors")):
            if not along(cells, "ate_sd", place):
                continue
            figure = Figure(figsize=(7.2, 3.4), layout="constrained")
            for panel, field, title in zip(figure.subplots(1, 2), ("pehe", "ate_sd"),
                                           ("error of people's effects", "sd of the average"), strict=True):
                _panel(panel, along(cells, field, place), usual)
                panel.set(xlabel=label, ylabel="× that without", title=title)
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
            made.append((name, caption))
    return made


def _panel(panel: Any, lines: Sequence[Line], usual: float) -> None:
    panel.axvline(usual, color="#BBBBBB", linestyle=":")
    for colour, (data, places, values) in zip(COLOURS, lines, strict=False):
        panel.plot(places, values, "o-", color=colour, label=data)
    if lines:
        panel.legend(frameon=False)


def write(folder: Path, page: Path) -> None:
    cells = [cell for path in sorted(folder.glob("standard*.csv")) for cell in kept.read(path, Cell)]
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not cells or not begin or not end:
        raise UsageError(f"nothing to make the page from: {folder} needs standard.csv (python -m fedci.benchmark.cost."
                         f"standard_cost --out {folder}/standard.csv) and the page the marks {BEGIN} and {END}")
    body = [*table(cells), "",
            *(f"![{caption}](figures/{name}.svg)\n" for name, caption in draw(page.parent / "figures", cells))]
    page.write_text(before + begin + "\n\n" + "\n".join(body) + "\n" + end + after, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
