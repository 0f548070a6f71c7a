"""From rows of a benchmark to means, standard errors and paired differences.

    cells ─► summarise ─► {Group: Summary} ─► Summary.of("pehe")   mean, sd/√R, median, R
                                          └─► paired(theirs, ours) difference over common replications
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fedci.benchmark.run.cells import MODES, PROTOCOLS, Cell, latest

FIGURES = ("pehe", "ate_error", "coverage", "width", "ate_covered", "ate_width", "ate_rejects", "seconds", "rounds",
           "bytes")
OURS, PAPER, LIMIT = "FedCI", "FedCI (paper)", "oracle"
METHODS = (OURS, "FedCI (classic)", PAPER, "FedCI (no inter-dependency)", "FedCI (classic, no inter-dependency)",
           "FedCI (paper, no inter-dependency)", "BART", "X-Learner", "R-Learner", "OrthoRF",
           "OrthoRF (global residuals)", "CEVAE", "BART-T", "ps-BART", "BCF", "CausalForestDML",
           "GP T-learner", "GP T-learner (ARD)", "ridge T-learner")
"""The order of rows; methods not named here follow by name, the limit comes last."""
DATASETS = ("data-1", "data-2", "ihdp", "ihdp-shuffled", "ihdp-sites", "ihdp-causalrff", "ihdp-missing",
            "heterogeneous", "overlap", "linear", "steps", "many-directions", "own-surfaces", "interactions", "null")
"""The order of tables; a variation ('data-1/std') follows its data set."""


class Group(NamedTuple):
    """What all replications of a figure share."""

    dataset: str
    protocol: str
    method: str
    mode: str
    sources: int


class Statistic(NamedTuple):
    """Over R replications: mean, standard error sd/√R (sd with R − 1; NaN for one), median and R."""

    mean: float
    se: float
    median: float
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of figures


class Paired(NamedTuple):
    """Theirs − ours over the replications both have: above 0 where ours is better."""

    difference: float
    se: float
    wins: int
    """Replications in which ours is strictly better."""
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of figures
    ours: float
    theirs: float
    """Means over the same replications."""
    median: float
    """Of the differences."""


@dataclass(frozen=True)
class Summary:
    """The replications of a group: those with figures, and how many have none."""

    group: Group
    done: Mapping[int, Cell]
    """By replication."""
    failures: int = 0
    reason: str = ""
    """Of the first failure."""
    known: dict[str, Statistic] = field(default_factory=dict, compare=False, repr=False)
    """What `of` has computed: tables ask for the same figure many times."""

    def values(self, figure: str) -> dict[int, float]:
        """By replication, where the method has such an output."""
        figures = {replication: getattr(cell, figure) for replication, cell in self.done.items()}
        return {replication: value for replication, value in figures.items() if not math.isnan(value)}

    def of(self, figure: str) -> Statistic:
        if figure not in self.known:
            self.known[figure] = statistic(self.values(figure).values())
        return self.known[figure]

    def over(self, figure: str, replications: Iterable[int]) -> Statistic:
        """Of these replications alone."""
        values = self.values(figure)
        return statistic(values[replication] for replication in replications)


Summaries = Mapping[Group, Summary]


def statistic(values: Iterable[float]) -> Statistic:
    a = np.array(sorted(values), float)
    if not len(a):
        return Statistic(math.nan, math.nan, math.nan, 0)
    se = a.std(ddof=1) / math.sqrt(len(a)) if len(a) > 1 else math.nan
    return Statistic(float(a.mean()), float(se), float(np.median(a)), len(a))


def common(theirs: Summary, ours: Summary, figure: str) -> list[int]:
    """The replications in which both have the figure."""
    return sorted(theirs.values(figure).keys() & ours.values(figure).keys())


def paired(theirs: Summary, ours: Summary, figure: str) -> Paired | None:
    """None without a common replication."""
    both = common(theirs, ours, figure)
    if not both:
        return None
    a, b = theirs.values(figure), ours.values(figure)
    difference = statistic(a[replication] - b[replication] for replication in both)
    wins = sum(a[replication] > b[replication] for replication in both)
    return Paired(difference.mean, difference.se, wins, difference.count, ours.over(figure, both).mean,
                  theirs.over(figure, both).mean, difference.median)


def summarise(cells: Iterable[Cell]) -> dict[Group, Summary]:
    """Summaries in the order of the tables, of the latest row of each key.

    A method that fails gives one row, not one for each protocol: it is counted wherever the method would have had
    figures.
    """
    cells = latest(cells)
    done: dict[Group, dict[int, Cell]] = defaultdict(dict)
    for cell in (cell for cell in cells if not cell.failed):
        done[_group(cell, cell.protocol)][cell.replication] = cell
    failed: dict[Group, dict[int, str]] = defaultdict(dict)
    for cell in (cell for cell in cells if cell.failed):
        for protocol in _protocols_of_failure(cell, done):
            failed[_group(cell, protocol)][cell.replication] = cell.failed
    groups = sorted(done.keys() | failed.keys(), key=_order)
    return {group: _summary(group, done.get(group, {}), failed.get(group, {})) for group in groups}


def _summary(group: Group, done: Mapping[int, Cell], failed: Mapping[int, str]) -> Summary:
    return Summary(group, done, len(failed), failed[min(failed)] if failed else "")


def _group(cell: Cell, protocol: str) -> Group:
    return Group(cell.dataset, protocol, cell.method, cell.mode, cell.sources)


def _protocols_of_failure(cell: Cell, done: Collection[Group]) -> set[str]:
    """Its own, and of those reported on the data set: P2 and P3, which ask any method, and what the method answered
    elsewhere (P1 needs a model of the outcomes, which FedCI always has)."""
    reported = {group.protocol for group in done if group.dataset == cell.dataset}
    answered = {"P2", "P3"} | {group.protocol for group in done if group.method == cell.method}
    return {cell.protocol} | reported & (set(PROTOCOLS) if is_ours(cell.method) else answered)


def is_ours(method: str) -> bool:
    """FedCI and its variants: no baselines."""
    return method.startswith(OURS)


def is_baseline(method: str) -> bool:
    return not is_ours(method) and method != LIMIT


def _order(group: Group) -> tuple[Any, ...]:
    return (dataset_order(group.dataset), group.protocol, method_order(group.method), mode_order(group.mode),
            group.sources)


def dataset_order(dataset: str) -> tuple[int, str]:
    name = dataset.split("/")[0]
    return (DATASETS.index(name) if name in DATASETS else len(DATASETS), dataset)


def method_order(method: str) -> tuple[int, str]:
    place = METHODS.index(method) if method in METHODS else len(METHODS)
    return (place + (method == LIMIT), method)


def mode_order(mode: str) -> tuple[int, str]:
    return (MODES.index(mode) if mode in MODES else len(MODES), mode)


def main_mode(method: str) -> str:
    return "fed" if is_ours(method) else "com"


def repeats(summaries: Summaries, group: Group) -> bool:
    """With one source all modes are the same fit: the others repeat the main one."""
    main = group._replace(mode=main_mode(group.method))
    return group.sources == 1 and group != main and main in summaries


def find(summaries: Summaries, group: Group) -> Summary | None:
    """The group's summary; with one source, that of the same fit in another mode where it was not run in this one."""
    if group in summaries or group.sources != 1:
        return summaries.get(group)
    others = (group._replace(mode=mode) for mode in (main_mode(group.method), *MODES))
    return next((summaries[other] for other in others if other in summaries), None)


def paired_to_ours(summaries: Summaries, group: Group, figure: str) -> Paired | None:
    """A group against federated FedCI on the same data set, protocol and number of sources."""
    theirs, ours = find(summaries, group), find(summaries, group._replace(method=OURS, mode="fed"))
    return paired(theirs, ours, figure) if theirs and ours else None


def select(summaries: Summaries, **wanted: str | int) -> list[Summary]:
    """Those whose group has the wanted values, in order: select(summaries, dataset="data-1", protocol="P2")."""
    return [summary for group, summary in summaries.items()
            if all(getattr(group, name) == value for name, value in wanted.items())]


def names(summaries: Iterable[Summary], part: str) -> list[Any]:
    """Values of one part of the groups ('dataset', 'sources', …), each once, in order."""
    return list(dict.fromkeys(getattr(summary.group, part) for summary in summaries))


def rows_of(summaries: Iterable[Summary]) -> list[tuple[str, str]]:
    """(method, mode), each once, in order."""
    return list(dict.fromkeys((summary.group.method, summary.group.mode) for summary in summaries))


def numbers_of_sources(summaries: Iterable[Summary]) -> list[int]:
    return sorted(names(summaries, "sources"))


def datasets(summaries: Summaries) -> list[str]:
    return names(summaries.values(), "dataset")


def protocols(summaries: Summaries) -> list[str]:
    return sorted(names(summaries.values(), "protocol"))


def null_datasets(summaries: Summaries) -> list[str]:
    return [dataset for dataset in datasets(summaries) if dataset.split("/")[0] == "null"]
