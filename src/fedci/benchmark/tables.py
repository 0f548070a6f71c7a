"""Summaries as Markdown tables, each function one table; and all of them in one CSV file."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedci.benchmark.published import BASELINE_PROTOCOL, BLOCKS, FEDCI_PROTOCOL, Published, published
from fedci.benchmark.published import METHODS as PAPER_METHODS
from fedci.benchmark.published import numbers_of_sources as published_sources
from fedci.benchmark.summary import (
    FIGURES,
    LIMIT,
    OURS,
    PAPER,
    Group,
    Statistic,
    Summaries,
    Summary,
    find,
    is_baseline,
    is_ours,
    main_mode,
    names,
    numbers_of_sources,
    paired_to_ours,
    repeats,
    rows_of,
    select,
)

ERRORS = {"pehe": "√PEHE", "ate_error": "ATE error"}
TITLES = {"data-1": "DATA-1", "data-2": "DATA-2", "ihdp": "IHDP, contiguous thirds", "ihdp-shuffled": "IHDP, shuffled",
          "ihdp-sites": "IHDP, the trial's sites", "heterogeneous": "Heterogeneous sites", "overlap": "Poor overlap",
          "linear": "Linear", "steps": "Steps", "many-directions": "Many directions", "own-surfaces": "Own surfaces",
          "interactions": "Interactions", "null": "No effect"}
VARIATIONS = {"std": "standard deviation 2", "per-replication": "parameters drawn anew in each replication"}
NOMINAL = 0.05
NONE = "–"
LONGEST_REASON = 160
UPPER_BOUND = ("econml's interval of the ATE is an upper bound (the root mean square of the people's standard errors): "
               "it is wide, and hardly ever leaves 0 out.")


# --- words and numbers

def title(dataset: str) -> str:
    """'data-1/std/200-rows' → 'DATA-1, standard deviation 2, 200 rows'."""
    name, *variations = dataset.split("/")
    return ", ".join([TITLES.get(name, name), *(VARIATIONS.get(text, text.replace("-", " ")) for text in variations)])


def label(method: str, mode: str) -> str:
    """'BART, com'; the parametric limit, which is fitted on combined rows, has one mode."""
    if method == LIMIT:
        return "parametric limit" if mode == main_mode(LIMIT) else f"parametric limit, {mode}"
    return f"{method}, {mode}"


def in_words(sources: int) -> str:
    return "1 source" if sources == 1 else f"{sources} sources"


def number(value: float, decimals: int | None = None) -> str:
    """Three digits or so."""
    if math.isnan(value):
        return NONE
    if abs(value) >= 1e5:
        return f"{value:.2g}".replace("-", "−")
    return f"{value:.{_decimals(value) if decimals is None else decimals}f}".replace("-", "−")


def _decimals(size: float) -> int:
    return 3 - sum(abs(size) >= limit for limit in (0.0995, 9.995, 99.95))


def plus_minus(mean: float, se: float, sign: str = "") -> str:
    """'1.60 ± 0.05', both with the decimals of the larger, or more if the error would read 0; one replication has no
    standard error."""
    if math.isnan(mean):
        return NONE
    prefix = sign if mean > 0 else ""
    if math.isnan(se):
        return prefix + number(mean)
    decimals = _decimals(max(abs(mean), se))
    while 0 < se < 0.5 * 10**-decimals and decimals < 4:
        decimals += 1
    return f"{prefix}{number(mean, decimals)} ± {number(se, decimals)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def reason(text: str) -> str:
    """A package's error message on one line of a table."""
    line = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return line if len(line) <= LONGEST_REASON else line[:LONGEST_REASON - 1] + "…"


class Notes:
    """Footnotes of one table; the same text has one mark."""

    def __init__(self):
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return _superscript(self.texts.index(text) + 1)

    def lines(self) -> str:
        """A line each below the table."""
        return "".join(f"\n{_superscript(number)} {text}\n" for number, text in enumerate(self.texts, start=1))


def _superscript(value: int) -> str:
    return str(value).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


# --- what the tables of errors share

def usual_count(found: Iterable[Summary], figure: str = "pehe") -> int:
    """The number of replications most cells have; the larger of two that tie."""
    counts = Counter(summary.of(figure).count for summary in found)
    counts.pop(0, None)
    return max(counts, key=lambda count: (counts[count], count), default=0)


def leaders(candidates: Iterable[Summary], figure: str, places: int) -> set[Group]:
    """The groups with the least means."""
    means = {summary.group: summary.of(figure).mean for summary in candidates}
    known = [group for group, mean in means.items() if not math.isnan(mean)]
    return set(sorted(known, key=means.get)[:places])


def _text(found: Statistic, usual: int, median: bool) -> str:
    """'1.60 ± 0.05 (1.58) [3]': mean, standard error, median and, if unusual, the number of replications."""
    middle = f" ({number(found.median)})" if median and found.count else ""
    count = f" [{found.count}]" if found.count not in (0, usual) else ""
    return plus_minus(found.mean, found.se) + middle + count


def _failure(summary: Summary) -> str:
    group, total = summary.group, summary.failures + len(summary.done)
    share = f"all {total} replications" if not summary.done else f"{summary.failures} of {total} replications"
    return f"{label(group.method, group.mode)}, {in_words(group.sources)}: failed in {share}: {reason(summary.reason)}"


def _cell(summaries: Summaries, group: Group, figure: str, usual: int, best: set[Group], notes: Notes,
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
    groups = {(row, count): Group(dataset, _paper_protocol(row[0]), *row, count) for row in rows for count in sources}
    found = [summaries[group] for group in groups.values() if group in summaries]
    if not found:
        return ""
    usual = usual_count(found)
    best = {(figure, count): leaders([s for s in found if s.group.sources == count and not repeats(summaries, s.group)],
                                     figure, 3) for figure, count in columns}

    def line(row: tuple[str, str]) -> list[str]:
        own = [summaries[groups[row, count]] for count in sources if groups[row, count] in summaries]
        return _failed_row(own, len(columns)) or [label(*row), *(
            _beside(_cell(summaries, groups[row, count], figure, usual, best[figure, count], notes),
                    _printed(groups[row, count]), figure) for figure, count in columns)]

    above = (f"Mean ± standard error over {usual} replications, or [n]; *in italics below it, what the paper printed*. "
             f"FedCI under {FEDCI_PROTOCOL}, baselines under {BASELINE_PROTOCOL}, as in the paper. "
             f"Bold: the three best measured of a column.\n\n")
    return above + table(_header(columns), map(line, rows)) + notes.lines()


def _paper_protocol(method: str) -> str:
    return FEDCI_PROTOCOL if is_ours(method) else BASELINE_PROTOCOL


def _printed(group: Group) -> Published | None:
    method = OURS if is_ours(group.method) else group.method
    return published().get((group.dataset, method, group.mode, group.sources))


def _beside(measured: str, printed: Published | None, figure: str) -> str:
    if printed is None:
        return measured
    mean, se = printed.of(figure)
    return f"{measured}<br>*{mean} ± {se}*"


# --- 2: one protocol

def protocol_table(summaries: Summaries, dataset: str, protocol: str) -> str:
    """Every method and mode under one protocol."""
    found = select(summaries, dataset=dataset, protocol=protocol)
    if not found:
        return ""
    columns, usual, notes = _columns(numbers_of_sources(found)), usual_count(found), Notes()
    rivals = [s for s in found if s.group.method != LIMIT and not repeats(summaries, s.group)]
    best = {(figure, count): leaders([s for s in rivals if s.group.sources == count], figure, 1)
            for figure, count in columns}

    def line(row: tuple[str, str]) -> list[str]:
        own = [s for s in found if (s.group.method, s.group.mode) == row]
        return _failed_row(own, len(columns)) or [label(*row), *(
            _cell(summaries, Group(dataset, protocol, *row, count), figure, usual, best[figure, count], notes, True)
            for figure, count in columns)]

    above = (f"Mean ± standard error (median) over {usual} replications, or [n]. Bold: the least mean of a column, the "
             f"parametric limit aside.\n\n")
    return above + table(_header(columns), map(line, rows_of(found))) + notes.lines()


# --- 3: differences to FedCI

def paired_table(summaries: Summaries, dataset: str, protocol: str = "P2") -> str:
    """Methods on combined rows, and FedCI's variants, minus federated FedCI."""
    found = [s for s in select(summaries, dataset=dataset, protocol=protocol)
             if s.group.mode in ("com", "fed") and (s.group.method, s.group.mode) != (OURS, "fed")]
    columns = _columns(numbers_of_sources(found))
    baselines_first = sorted(rows_of(found), key=lambda row: (row[0] == LIMIT, is_ours(row[0])))
    rows = [[label(*row), *(_difference(summaries, Group(dataset, protocol, *row, count), figure)
                            for figure, count in columns)] for row in baselines_first]
    rows = [row for row in rows if set(row[1:]) - {NONE, "= fed"}]
    above = ("Theirs − FedCI's (federated) over the replications both have, mean ± standard error: above 0 where FedCI "
             "is better. In parentheses, the replications in which it is.\n\n")
    return above + table(_header(columns), rows) if rows else ""


def _difference(summaries: Summaries, group: Group, figure: str) -> str:
    if repeats(summaries, group):
        return f"= {main_mode(group.method)}"
    found = paired_to_ours(summaries, group, figure)
    if found is None:
        return NONE
    return f"{plus_minus(found.difference, found.se, sign='+')} ({found.wins} of {found.count})"


def shortfalls(summaries: Summaries, dataset: str, protocol: str = "P2") -> str:
    """Where federated FedCI does not beat a baseline that has the combined rows, from the paired differences."""
    groups = [s.group for s in select(summaries, dataset=dataset, protocol=protocol, mode="com")
              if is_baseline(s.group.method)]
    compared = [(group, figure, paired_to_ours(summaries, group, figure)) for figure in ERRORS
                for group in sorted(groups, key=lambda group: group.sources)]
    compared = [one for one in compared if one[2] is not None]
    if not compared:
        return f"- **{title(dataset)}**: nothing to compare under {protocol}.\n"
    behind = [one for one in compared if one[2].difference <= 0]
    close = [one for one in compared if 0 < one[2].difference < 2 * one[2].se]
    return _verdict(title(dataset), behind, len(compared)) + "".join(map(_behind, behind)) + _close(close)


def _verdict(name: str, behind: Sequence, comparisons: int) -> str:
    if not behind:
        return f"- **{name}**: none; FedCI has the lower mean error in {comparisons} of {comparisons} comparisons.\n"
    return f"- **{name}**: FedCI does not beat the baseline in {len(behind)} of {comparisons} comparisons:\n"


def _behind(one: tuple) -> str:
    group, figure, found = one
    gap = "level with it" if found.difference == 0 else f"worse by {plus_minus(-found.difference, found.se)}"
    return (f"  - {ERRORS[figure]}, {in_words(group.sources)}: {group.method} {number(found.theirs)}, FedCI "
            f"{number(found.ours)}, {gap} (better in {found.wins} of {found.count} replications).\n")


def _close(close: Sequence[tuple]) -> str:
    if not close:
        return ""
    cells: dict[str, list[str]] = {}
    for group, figure, found in close:
        text = f"{group.method} ({plus_minus(found.difference, found.se, sign='+')})"
        cells.setdefault(f"{ERRORS[figure]}, {in_words(group.sources)}", []).append(text)
    listed = "; ".join(f"{cell}: {', '.join(texts)}" for cell, texts in cells.items())
    return f"  - Ahead, but by less than two standard errors. {listed}.\n"


def headline(summaries: Summaries, protocol: str = "P2") -> str:
    """√PEHE of federated FedCI, of the best baseline that has the combined rows, and of the parametric limit."""
    rows = [_headline_row(summaries, ours) for ours in select(summaries, protocol=protocol, method=OURS, mode="fed")]
    header = ["data set", "sources", "FedCI, federated", "best baseline on combined rows", "its √PEHE",
              "difference, paired", "FedCI better in", "parametric limit"]
    return table(header, rows) if rows else ""


def _headline_row(summaries: Summaries, ours: Summary) -> list[str]:
    group, usual = ours.group, len(ours.done)
    rivals = [s for s in select(summaries, dataset=group.dataset, protocol=group.protocol, sources=group.sources,
                                mode="com") if is_baseline(s.group.method)]
    best = next(iter(leaders(rivals, "pehe", 1)), None)
    limit = summaries.get(group._replace(method=LIMIT, mode="com"))
    start = [title(group.dataset), str(group.sources), _text(ours.of("pehe"), usual, False) if usual else "failed"]
    end = _text(limit.of("pehe"), usual, False) if limit else NONE
    if best is None:
        return [*start, NONE, NONE, NONE, NONE, end]
    found = paired_to_ours(summaries, best, "pehe")
    difference = [plus_minus(found.difference, found.se, sign="+"), f"{found.wins} of {found.count}"] if found else \
        [NONE, NONE]
    return [*start, best.method, _text(summaries[best].of("pehe"), usual, False), *difference, end]


# --- 4 to 6: intervals, cost, no effect

def _joined(summaries: Summaries, groups: Sequence[Group], figure: str, form=number) -> str:
    """'0.81 / 0.86 / 0.93', one for each number of sources."""
    found = [find(summaries, group) for group in groups]
    means = [summary.of(figure).mean if summary else math.nan for summary in found]
    texts = [NONE if math.isnan(mean) else form(mean) for mean in means]
    return " / ".join(texts) if set(texts) - {NONE} else NONE


def _replications(summaries: Summaries, groups: Sequence[Group]) -> str:
    """'10', or '10 / 10 / 3' where they differ."""
    counts = [len(summary.done) for summary in (find(summaries, group) for group in groups) if summary]
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))


def _listed(sources: Sequence[int]) -> str:
    """'1 / 3 / 5 sources'."""
    return " / ".join(map(str, sources)) + (" source" if list(sources) == [1] else " sources")


def _share(value: float) -> str:
    return f"{value:.2f}"


def interval_table(summaries: Summaries, dataset: str) -> str:
    """Coverage and mean width of 95% intervals of expected effects and of the ATE."""
    found = [s for s in select(summaries, dataset=dataset, protocol="P2")
             if s.of("coverage").count or s.of("ate_covered").count]
    if not found:
        return ""
    sources, notes = numbers_of_sources(found), Notes()
    rows = [_interval_row(summaries, [Group(dataset, "P2", *row, count) for count in sources], notes)
            for row in rows_of(found)]
    return table(["", f"coverage of CATE, {_listed(sources)}", "mean width", "coverage of ATE", "mean width",
                  "replications"], rows) + notes.lines()


def _with_note(method: str, mode: str, notes: Notes) -> str:
    """The label, marked where the interval of the ATE is no more than a bound."""
    bound = method.startswith("OrthoRF") or method == "CausalForestDML"
    return label(method, mode) + (notes.mark(UPPER_BOUND) if bound else "")


def _interval_row(summaries: Summaries, groups: Sequence[Group], notes: Notes) -> list[str]:
    return [_with_note(groups[0].method, groups[0].mode, notes),
            _joined(summaries, groups, "coverage", _share), _joined(summaries, groups, "width"),
            _joined(summaries, groups, "ate_covered", _share), _joined(summaries, groups, "ate_width"),
            _replications(summaries, groups)]


def realised_interval_table(summaries: Summaries, dataset: str) -> str:
    """FedCI's intervals of realised effects: P1 and P3. The ATE is that of P2."""
    found = [s for protocol in ("P1", "P3") for s in select(summaries, dataset=dataset, protocol=protocol)
             if s.of("coverage").count and is_ours(s.group.method)]
    if not found:
        return ""
    sources = numbers_of_sources(found)
    lines = dict.fromkeys((s.group.method, s.group.mode) for s in found)
    header = ["", *(text for protocol in ("P1", "P3")
                    for text in (f"{protocol}: coverage, {_listed(sources)}", "mean width")), "replications"]
    return table(header, [_realised_row(summaries, dataset, line, sources) for line in lines])


def _realised_row(summaries: Summaries, dataset: str, line: tuple[str, str], sources: Sequence[int]) -> list[str]:
    both = [[Group(dataset, protocol, *line, count) for count in sources] for protocol in ("P1", "P3")]
    return [label(*line), *(text for groups in both for text in (_joined(summaries, groups, "coverage", _share),
                                                                 _joined(summaries, groups, "width"))),
            _replications(summaries, both[0])]


def cost_table(summaries: Summaries, dataset: str, protocol: str = "P2") -> str:
    """Seconds of a fit and its predictions; rounds and, of a federated fit, kilobytes per site."""
    found = [s for s in select(summaries, dataset=dataset, protocol=protocol) if s.of("seconds").count]
    if not found:
        return ""
    sources = numbers_of_sources(found)
    rows = [_cost_row(summaries, [Group(dataset, protocol, *row, count) for count in sources])
            for row in rows_of(found)]
    return table(["", f"seconds, {_listed(sources)}", "rounds", "kB sent and received per site"], rows)


def _cost_row(summaries: Summaries, groups: Sequence[Group]) -> list[str]:
    _, _, method, mode, _ = groups[0]
    sent = _joined(summaries, groups, "bytes", lambda value: number(value / 1000)) if mode == "fed" else NONE
    return [label(method, mode), _joined(summaries, groups, "seconds"),
            _joined(summaries, groups, "rounds", lambda value: f"{value:.0f}"), sent]


def null_table(summaries: Summaries, dataset: str = "null") -> str:
    """How often a method finds an effect where there is none, beside the nominal rate."""
    found = [s for s in select(summaries, dataset=dataset, protocol="P2")
             if s.of("ate_rejects").count or s.of("coverage").count]
    if not found:
        return ""
    sources, notes = numbers_of_sources(found), Notes()
    rows = [_null_row(summaries, [Group(dataset, "P2", *row, count) for count in sources], notes)
            for row in rows_of(found)]
    header = ["", *(f"ATE interval leaves 0 out, {in_words(count)}" for count in sources), "nominal",
              f"CATE interval leaves 0 out, {' / '.join(map(str, sources))}", "replications"]
    above = ("Share of replications ± its binomial standard error. Bold: more than chance would give a method with the "
             "nominal rate (exact test at 2.5%). In mode loc a share is the mean over the sources. For the CATE, the "
             "share of people.\n\n")
    return above + table(header, rows) + notes.lines()


def _null_row(summaries: Summaries, groups: Sequence[Group], notes: Notes) -> list[str]:
    return [_with_note(groups[0].method, groups[0].mode, notes),
            *(_rejections(find(summaries, group)) for group in groups), f"{NOMINAL}",
            _joined(summaries, groups, "coverage", lambda value: _share(1 - value)),
            _replications(summaries, groups)]


def _rejections(summary: Summary | None) -> str:
    """'0.06 ± 0.02': p ± √(p(1 − p)/R)."""
    found = summary.of("ate_rejects") if summary else None
    if not found or not found.count:
        return NONE
    text = f"{_share(found.mean)} ± {_share(math.sqrt(found.mean * (1 - found.mean) / found.count))}"
    return f"**{text}**" if _tail(round(found.mean * found.count), found.count) < 0.025 else text


def _tail(least: int, count: int) -> float:
    """P(X ≥ least) for X ~ Binomial(count, nominal rate)."""
    return sum(math.comb(count, k) * NOMINAL**k * (1 - NOMINAL) ** (count - k) for k in range(least, count + 1))


# --- failures, and everything as CSV

def failure_table(summaries: Summaries) -> str:
    """Methods with replications that gave no figures, a line for each data set and mode, whatever the protocols."""
    found: dict[tuple, dict[int, Summary]] = {}
    for (dataset, _, method, mode, sources), summary in summaries.items():
        if summary.failures:
            found.setdefault((dataset, method, mode), {})[sources] = summary
    rows = [_failure_row(*key, by_sources) for key, by_sources in found.items()]
    return table(["data set", "method", "sources: failed of all", "first reason"], rows) if rows else "None.\n"


def _failure_row(dataset: str, method: str, mode: str, by_sources: dict[int, Summary]) -> list[str]:
    counts = [f"{sources}: {s.failures} of {s.failures + len(s.done)}" for sources, s in sorted(by_sources.items())]
    return [title(dataset), label(method, mode), ", ".join(counts), reason(next(iter(by_sources.values())).reason)]


def write_csv(path: Path, summaries: Summaries) -> None:
    """One line for each data set, protocol, method, mode and number of sources: all the figures of all the tables."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Group._fields, "replications", "failures", *(name for name, _ in _csv_figures(None, None)),
                         "reason"])
        for group, summary in summaries.items():
            figures = [_csv_number(value) for _, value in _csv_figures(summaries, summary)]
            writer.writerow([*group, len(summary.done), summary.failures, *figures, " ".join(summary.reason.split())])


def _csv_figures(summaries: Summaries | None, summary: Summary | None) -> list[tuple[str, float]]:
    """(column, value): means, standard errors and medians of the errors, paired differences, published figures, and
    means of the rest; without a summary, the names alone matter."""
    found = []
    for figure in FIGURES:
        one = summary.of(figure) if summary else Statistic(math.nan, math.nan, math.nan, 0)
        found.append((figure, one.mean))
        if figure in ERRORS:
            found += [(f"{figure}_se", one.se), (f"{figure}_median", one.median)]
            found += _csv_paired(summaries, summary, figure) + _csv_published(summary, figure)
    return found


def _csv_paired(summaries: Summaries | None, summary: Summary | None, figure: str) -> list[tuple[str, float]]:
    one = paired_to_ours(summaries, summary.group, figure) if summary else None
    values = (one.difference, one.se, one.wins, one.count) if one else (math.nan,) * 4
    columns = ("minus_fedci", "minus_fedci_se", "fedci_wins", "common_replications")
    return [(f"{figure}_{name}", value) for name, value in zip(columns, values, strict=True)]


def _csv_published(summary: Summary | None, figure: str) -> list[tuple[str, float]]:
    """Beside the protocol the paper used."""
    same = summary and summary.group.protocol == _paper_protocol(summary.group.method)
    one = _printed(summary.group) if same else None
    mean, se = map(float, one.of(figure)) if one else (math.nan, math.nan)
    return [(f"{figure}_published", mean), (f"{figure}_published_se", se)]


def _csv_number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


# --- which tables there are

def datasets(summaries: Summaries) -> list[str]:
    return names(summaries.values(), "dataset")


def protocols(summaries: Summaries) -> list[str]:
    return sorted(names(summaries.values(), "protocol"))


def null_datasets(summaries: Summaries) -> list[str]:
    return [dataset for dataset in datasets(summaries) if dataset.split("/")[0] == "null"]
