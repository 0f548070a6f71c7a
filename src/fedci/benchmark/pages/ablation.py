"""What each ingredient of FedCI brings: the default beside itself with one ingredient changed, as two tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedci.benchmark.pages.markdown import NONE, Notes, in_words, number, plus_minus, share, table, title
from fedci.benchmark.pages.summary import OURS, Group, Summaries, Summary, paired_to_ours, select
from fedci.benchmark.pages.tables import error_cell, usual_count
from fedci.benchmark.run.methods import ABLATIONS

PROTOCOL, MODE = "P2", "fed"


def ingredient_table(summaries: Summaries) -> str:
    """√PEHE of each variant and, below it, its paired difference to FedCI."""
    ours = _ours(summaries)
    usual, notes = usual_count(ours), Notes()
    above = (f"√PEHE of federated fits under P2: mean ± standard error over {usual} replications, or [n]; *in italics "
             f"below it, the variant's − FedCI's over the replications both have*: above 0 where FedCI is better. On "
             f"IHDP, where a few replications carry the mean, the medians in parentheses. All variants, FedCI as well, "
             f"ran by commands of their own: where those are of an earlier day, FedCI's figures differ a little from "
             f"those of the data sets' pages.\n\n")
    text = _table(ours, lambda group: _errors(summaries, group, usual, notes))
    return above + text + notes.lines() if ours else ""


def ingredient_coverage_table(summaries: Summaries) -> str:
    ours = [s for s in _ours(summaries) if s.of("coverage").count]
    above = "Coverage of the 95% intervals of CATE, mean over the same replications.\n\n"
    return above + _table(ours, lambda group: _coverage(summaries.get(group))) if ours else ""


def _ours(summaries: Summaries) -> list[Summary]:
    return [s for s in select(summaries, protocol=PROTOCOL, mode=MODE) if s.group.method in (OURS, *ABLATIONS)]


def _table(ours: Sequence[Summary], cell: Callable[[Group], str]) -> str:
    """Rows: FedCI, then the variants in their own order. Columns: each data set with each number of sources."""
    columns = list(dict.fromkeys((s.group.dataset, s.group.sources) for s in ours))
    methods = [method for method in (OURS, *ABLATIONS) if any(s.group.method == method for s in ours)]
    rows = [[method, *(cell(Group(dataset, PROTOCOL, method, MODE, sources)) for dataset, sources in columns)]
            for method in methods]
    return table(["", *(f"{title(dataset)}, {in_words(sources)}" for dataset, sources in columns)], rows)


def _errors(summaries: Summaries, group: Group, usual: int, notes: Notes) -> str:
    """'1.43 ± 0.07 (1.38)<br>*+0.66 ± 0.06 (+0.61)*'."""
    median = group.dataset.startswith("ihdp")
    text = error_cell(summaries, group, "pehe", usual, set(), notes, median)
    return text if group.method == OURS else text + _difference(summaries, group, usual, median)


def _difference(summaries: Summaries, group: Group, usual: int, median: bool) -> str:
    difference = paired_to_ours(summaries, group, "pehe")
    if difference is None:
        return ""
    middle = f" ({'+' if difference.median > 0 else ''}{number(difference.median)})" if median else ""
    count = f" [{difference.count}]" if difference.count != usual else ""
    return f"<br>*{plus_minus(difference.difference, difference.se, sign='+')}{middle}{count}*"


def _coverage(summary: Summary | None) -> str:
    return share(summary.of("coverage").mean) if summary and summary.of("coverage").count else NONE
