"""Tables of errors against the truth: the paper's layout, each protocol, differences to FedCI; and of failures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fedci.benchmark.pages.markdown import (
    ERRORS,
    NONE,
    Notes,
    in_words,
    label,
    number,
    plus_minus,
    reason,
    table,
    title,
)
from fedci.benchmark.pages.published import BASELINE_PROTOCOL, BLOCKS, FEDCI_PROTOCOL, Published, published
from fedci.benchmark.pages.published import METHODS as PAPER_METHODS
from fedci.benchmark.pages.published import OTHERS as OTHER_PAPERS
from fedci.benchmark.pages.published import numbers_of_sources as published_sources
from fedci.benchmark.pages.published import others as other_datasets
from fedci.benchmark.pages.standing import peers
from fedci.benchmark.pages.summary import (
    LIMIT,
    OURS,
    PAPER,
    Group,
    Paired,
    Statistic,
    Summaries,
    Summary,
    common,
    find,
    is_baseline,
    is_ours,
    main_mode,
    numbers_of_sources,
    paired_to_ours,
    repeats,
    rows_of,
    select,
)

# --- what the tables of errors share

def usual_count(summaries: Iterable[Summary], figure: str = "pehe") -> int:
    """The number of replications most cells have; the larger of two that tie."""
    counts = Counter(summary.of(figure).count for summary in summaries)
    counts.pop(0, None)
    return max(counts, key=lambda count: (counts[count], count), default=0)


def leaders(candidates: Iterable[Summary], figure: str, places: int) -> set[Group]:
    """The groups with the least means."""
    means = {summary.group: summary.of(figure).mean for summary in candidates}
    known = [group for group, mean in means.items() if not math.isnan(mean)]
    return set(sorted(known, key=lambda group: means[group])[:places])


def _text(statistic: Statistic, usual: int, median: bool) -> str:
    """'1.60 ± 0.05 (1.58) [3]': mean, standard error, median and, if unusual, the number of replications."""
    middle = f" ({number(statistic.median)})" if median and statistic.count else ""
    count = f" [{statistic.count}]" if statistic.count not in (0, usual) else ""
    return plus_minus(statistic.mean, statistic.se) + middle + count


def _failure(summary: Summary) -> str:
    group, total = summary.group, summary.failures + len(summary.done)
    share = f"all {total} replications" if not summary.done else f"{summary.failures} of {total} replications"
    return f"{label(group.method, group.mode)}, {in_words(group.sources)}: failed in {share}: {reason(summary.reason)}"


def error_cell(summaries: Summaries, group: Group, figure: str, usual: int, best: set[Group], notes: Notes,
          median: bool = False) -> str:
    """Mean ± standard error, bold for the best, a footnote where replications failed."""
    if repeats(summaries, group):
        return f"= {main_mode(group.method)}"
    summary = find(summaries, group)
    if summary is None:
        return NONE
    mark = notes.mark(_failure(summary)) if summary.failures else ""
    if not summary.done:
        return f"failed{mark}"
    text = _text(summary.of(figure), usual, median)
    return (f"**{text}**" if summary.group in best else text) + mark


def _failed_row(own: Sequence[Summary], width: int) -> list[str] | None:
    """The row of a method that failed wherever it was run."""
    if not own or any(summary.done for summary in own):
        return None
    total, group = sum(summary.failures for summary in own), own[0].group
    text = f"failed every time ({total} of {total}): {reason(own[0].reason)}"
    return [label(group.method, group.mode), text, *[""] * (width - 1)]


def _columns(sources: Iterable[int]) -> list[tuple[str, int]]:
    return [(figure, count) for figure in ERRORS for count in sources]


def _header(columns: Iterable[tuple[str, int]]) -> list[str]:
    return ["", *(f"{ERRORS[figure]}, {in_words(count)}" for figure, count in columns)]


# --- 1: the paper's layout

def paper_table(summaries: Summaries, dataset: str) -> str:
    """The paper's rows and columns; in each cell the measured figure and, below it in italics, the published one."""
    sources = published_sources(dataset)
    columns, notes = _columns(sources), Notes()
    rows = [(method, mode) for mode in BLOCKS for method in PAPER_METHODS] + [(PAPER, "fed"), (OURS, "fed")]
    groups = {(row, count): Group(dataset, paper_protocol(row[0]), *row, count) for row in rows for count in sources}
    present = [summaries[group] for group in groups.values() if group in summaries]
    if not present:
        return ""
    usual = usual_count(present)
    once = [s for s in present if not repeats(summaries, s.group)]
    best = {(figure, count): leaders([s for s in once if s.group.sources == count], figure, 3)
            for figure, count in columns}

    def line(row: tuple[str, str]) -> list[str]:
        own = [summaries[groups[row, count]] for count in sources if groups[row, count] in summaries]
        return _failed_row(own, len(columns)) or [label(*row), *(
            _beside(error_cell(summaries, groups[row, count], figure, usual, best[figure, count], notes),
                    printed(groups[row, count]), figure) for figure, count in columns)]

    above = (f"Mean ± standard error over {usual} replications, or [n]; *in italics below it, what the paper printed*. "
             f"FedCI under {FEDCI_PROTOCOL}, baselines under {BASELINE_PROTOCOL}, as in the paper. "
             f"Bold: the three best measured of a column.\n\n")
    return above + table(_header(columns), map(line, rows)) + notes.lines()


def paper_protocol(method: str) -> str:
    return FEDCI_PROTOCOL if is_ours(method) else BASELINE_PROTOCOL


def printed(group: Group) -> Published | None:
    method = OURS if is_ours(group.method) else group.method
    return published().get((group.dataset, method, group.mode, group.sources))


def _beside(measured: str, printed: Published | None, figure: str) -> str:
    return measured if printed is None else f"{measured}<br>*{as_printed(printed, figure)}*"


def as_printed(printed: Published, figure: str) -> str:
    mean, se = printed.of(figure)
    return f"{mean}" if se is None else f"{mean} ± {se}"


def other_paper_table(summaries: Summaries, dataset: str, protocol: str = "P2") -> str:
    """What another paper printed of its own method on this data set, and below it what was measured here."""
    name, sources = other_datasets().get(dataset, ""), published_sources(dataset)
    present = [s for s in select(summaries, dataset=dataset, protocol=protocol)
               if s.group.mode == main_mode(s.group.method) and s.group.sources in sources]
    if not name or not present:
        return ""
    columns, usual, notes = _columns(sources), usual_count(present), Notes()
    best = {(figure, count): leaders([s for s in present if s.group.sources == count and s.group.method != LIMIT],
                                     figure, 1) for figure, count in columns}
    theirs = [f"*{name}, fed*", *(f"*{as_printed(published()[dataset, name, 'fed', count], figure)}*"
                                  for figure, count in columns)]
    rows = [[label(*row), *(error_cell(summaries, Group(dataset, protocol, *row, count), figure, usual,
                                       best[figure, count], notes, median=True) for figure, count in columns)]
            for row in rows_of(present)]
    above = (f"*In italics, what was printed of {name} ({OTHER_PAPERS[name]})*, a federated method, on the same people "
             f"cut in the same way; {name} was not run here. Below it, measured here: mean ± standard error (median) "
             f"over {usual} replications, or [n]. Bold: the least mean measured of a column, the parametric limit "
             f"aside.\n\n")
    return above + table(_header(columns), [theirs, *rows]) + notes.lines()


# --- 2: one protocol

def protocol_table(summaries: Summaries, dataset: str, protocol: str) -> str:
    """Every method and mode under one protocol."""
    present = select(summaries, dataset=dataset, protocol=protocol)
    if not present:
        return ""
    columns, usual, notes = _columns(numbers_of_sources(present)), usual_count(present), Notes()
    rivals = [s for s in present if s.group.method != LIMIT and not repeats(summaries, s.group)]
    best = {(figure, count): leaders([s for s in rivals if s.group.sources == count], figure, 1)
            for figure, count in columns}

    def line(row: tuple[str, str]) -> list[str]:
        own = [s for s in present if (s.group.method, s.group.mode) == row]
        return _failed_row(own, len(columns)) or [label(*row), *(
            error_cell(summaries, Group(dataset, protocol, *row, count), figure, usual, best[figure, count], notes,
                       median=True) for figure, count in columns)]

    above = (f"Mean ± standard error (median) over {usual} replications, or [n]. Bold: the least mean of a column, the "
             f"parametric limit aside.\n\n")
    return above + table(_header(columns), map(line, rows_of(present))) + notes.lines()


# --- 3: differences to FedCI

def paired_table(summaries: Summaries, dataset: str, protocol: str = "P2") -> str:
    """Methods on combined rows, and FedCI's variants, minus federated FedCI."""
    present = [s for s in select(summaries, dataset=dataset, protocol=protocol)
               if s.group.mode in ("com", "fed") and (s.group.method, s.group.mode) != (OURS, "fed")]
    columns = _columns(numbers_of_sources(present))
    baselines_first = sorted(rows_of(present), key=lambda row: (row[0] == LIMIT, is_ours(row[0])))
    rows = [[label(*row), *(_difference(summaries, Group(dataset, protocol, *row, count), figure)
                            for figure, count in columns)] for row in baselines_first]
    rows = [row for row in rows if set(row[1:]) - {NONE, "= fed"}]
    above = ("Theirs − FedCI's (federated) over the replications both have, mean ± standard error: above 0 where FedCI "
             "is better. In parentheses, the replications in which it is.\n\n")
    return above + table(_header(columns), rows) if rows else ""


def _difference(summaries: Summaries, group: Group, figure: str) -> str:
    if repeats(summaries, group):
        return f"= {main_mode(group.method)}"
    difference = paired_to_ours(summaries, group, figure)
    if difference is None:
        return NONE
    return f"{plus_minus(difference.difference, difference.se, sign='+')} ({difference.wins} of {difference.count})"


class Compared(NamedTuple):
    """A baseline beside federated FedCI."""

    group: Group
    figure: str
    paired: Paired


def shortfalls(summaries: Summaries, dataset: str, protocol: str = "P2") -> str:
    """Where federated FedCI does not beat a baseline that has the combined rows, from the paired differences."""
    groups = [s.group for s in select(summaries, dataset=dataset, protocol=protocol, mode="com")
              if is_baseline(s.group.method)]
    compared = [Compared(group, figure, paired) for figure in ERRORS
                for group in sorted(groups, key=lambda group: group.sources)
                if (paired := paired_to_ours(summaries, group, figure)) is not None]
    if not compared:
        return f"- **{title(dataset)}**: nothing to compare under {protocol}.\n"
    behind = [rival for rival in compared if rival.paired.difference <= 0]
    close = [rival for rival in compared if 0 < rival.paired.difference < 2 * rival.paired.se]
    return _verdict(title(dataset), behind, len(compared)) + "".join(map(_behind, behind)) + _close(close)


def _verdict(name: str, behind: Sequence[Compared], comparisons: int) -> str:
    if not behind:
        return f"- **{name}**: none; FedCI has the lower mean error in {comparisons} of {comparisons} comparisons.\n"
    return f"- **{name}**: FedCI does not beat the baseline in {len(behind)} of {comparisons} comparisons:\n"


def _behind(rival: Compared) -> str:
    group, figure, pair = rival
    gap = "level with it" if pair.difference == 0 else f"worse by {plus_minus(-pair.difference, pair.se)}"
    return (f"  - {ERRORS[figure]}, {in_words(group.sources)}: {group.method} {number(pair.theirs)}, FedCI "
            f"{number(pair.ours)}, {gap} (better in {pair.wins} of {pair.count} replications).\n")


def _close(close: Sequence[Compared]) -> str:
    if not close:
        return ""
    cells: dict[str, list[str]] = {}
    for group, figure, pair in close:
        text = f"{group.method} ({plus_minus(pair.difference, pair.se, sign='+')})"
        cells.setdefault(f"{ERRORS[figure]}, {in_words(group.sources)}", []).append(text)
    listed = "; ".join(f"{cell}: {', '.join(texts)}" for cell, texts in cells.items())
    return f"  - Ahead, but by less than two standard errors. {listed}.\n"


def headline(summaries: Summaries, protocol: str = "P2") -> str:
    """√PEHE of federated FedCI, of the best baseline that has the combined rows, and of the parametric limit."""
    rows = [_headline_row(summaries, ours) for ours in select(summaries, protocol=protocol, method=OURS, mode="fed")]
    header = ["data set", "sources", "FedCI, federated", "best baseline on combined rows", "its √PEHE",
              "FedCI's on the same replications", "FedCI ÷ baseline", "difference, paired", "FedCI better in",
              "replications compared", "parametric limit"]
    return table(header, rows) if rows else ""


def _headline_row(summaries: Summaries, ours: Summary) -> list[str]:
    group, usual = ours.group, len(ours.done)
    limit = summaries.get(group._replace(method=LIMIT, mode="com"))
    start = [title(group.dataset), str(group.sources), _text(ours.of("pehe"), usual, False) if usual else "failed"]
    end = _text(limit.of("pehe"), usual, False) if limit else NONE
    return [*start, *_best_baseline(summaries, ours), end]


def _best_baseline(summaries: Summaries, ours: Summary) -> list[str]:
    """Name, its √PEHE and ours, ratio, difference, wins and replications, all over the replications both have: one
    that was run on a few easy ones is held against FedCI on those."""
    rivals = peers(summaries, ours)
    if not rivals:
        return [NONE] * 7
    best, difference = rivals[0], rivals[0].paired
    both = common(best.summary, ours, "pehe")
    means = [plus_minus(*summary.over("pehe", both)[:2]) for summary in (best.summary, ours)]
    return [best.method, *means, plus_minus(best.relative, best.relative_se),
            plus_minus(difference.difference, difference.se, sign="+"),
            f"{difference.wins} of {difference.count}", f"{difference.count} of {len(ours.done)}"]


# --- failures

def failure_table(summaries: Summaries) -> str:
    """Methods with replications that gave no figures, a line for each data set and mode, whatever the protocols."""
    failures: dict[tuple[str, str, str], dict[int, Summary]] = {}
    for (dataset, _, method, mode, sources), summary in summaries.items():
        if summary.failures:
            failures.setdefault((dataset, method, mode), {})[sources] = summary
    rows = [_failure_row(dataset, method, mode, by_sources)
            for (dataset, method, mode), by_sources in failures.items()]
    return table(["data set", "method", "sources: failed of all", "first reason"], rows) if rows else "None.\n"


def _failure_row(dataset: str, method: str, mode: str, by_sources: dict[int, Summary]) -> list[str]:
    counts = [f"{sources}: {s.failures} of {s.failures + len(s.done)}" for sources, s in sorted(by_sources.items())]
    return [title(dataset), label(method, mode), ", ".join(counts), reason(next(iter(by_sources.values())).reason)]
