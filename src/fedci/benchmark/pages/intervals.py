"""Tables of intervals, of false alarms where there is no effect, and of what a fit costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fedci.benchmark.pages.markdown import NONE, Notes, in_words, label, listed, number, share, table
from fedci.benchmark.pages.summary import (
    Group,
    Summaries,
    Summary,
    find,
    is_ours,
    numbers_of_sources,
    rows_of,
    select,
)

NOMINAL = 0.05
UPPER_BOUND = ("econml's interval of the ATE is an upper bound (the root mean square of the people's standard errors): "
               "it is wide, and hardly ever leaves 0 out.")


# --- intervals

def _joined(summaries: Summaries, groups: Sequence[Group], figure: str,
            form: Callable[[float], str] = number) -> str:
    """'0.81 / 0.86 / 0.93', one for each number of sources."""
    rows = [find(summaries, group) for group in groups]
    means = [summary.of(figure).mean if summary else math.nan for summary in rows]
    texts = [NONE if math.isnan(mean) else form(mean) for mean in means]
    return " / ".join(texts) if set(texts) - {NONE} else NONE


def _replications(summaries: Summaries, groups: Sequence[Group]) -> str:
    """'10', or '10 / 10 / 3' where they differ."""
    counts = [len(summary.done) for summary in (find(summaries, group) for group in groups) if summary]
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))


def _lines(summaries: Summaries, dataset: str, average: str,
           line: Callable[[Summaries, list[Group], Notes], list[str]]) -> tuple[list[int], list[list[str]], Notes]:
    """(numbers of sources, a line for each method with intervals of the CATE or of the `average`, footnotes)."""
    chosen = [s for s in select(summaries, dataset=dataset, protocol="P2")
              if s.of("coverage").count or s.of(average).count]
    sources, notes = numbers_of_sources(chosen), Notes()
    return sources, [line(summaries, [Group(dataset, "P2", *row, count) for count in sources], notes)
                     for row in rows_of(chosen)], notes


def interval_table(summaries: Summaries, dataset: str) -> str:
    """Coverage and mean width of 95% intervals of expected effects and of the ATE."""
    sources, rows, notes = _lines(summaries, dataset, "ate_covered", _interval_row)
    if not rows:
        return ""
    return table(["", f"coverage of CATE, {listed(sources)}", "mean width", "coverage of ATE", "mean width",
                  "replications"], rows) + notes.lines()


def _with_note(method: str, mode: str, notes: Notes) -> str:
    """The label, marked where the interval of the ATE is no more than a bound."""
    bound = method.startswith("OrthoRF") or method == "CausalForestDML"
    return label(method, mode) + (notes.mark(UPPER_BOUND) if bound else "")


def _interval_row(summaries: Summaries, groups: Sequence[Group], notes: Notes) -> list[str]:
    return [_with_note(groups[0].method, groups[0].mode, notes),
            _joined(summaries, groups, "coverage", share), _joined(summaries, groups, "width"),
            _joined(summaries, groups, "ate_covered", share), _joined(summaries, groups, "ate_width"),
            _replications(summaries, groups)]


def realised_interval_table(summaries: Summaries, dataset: str) -> str:
    """FedCI's intervals of realised effects: P1 and P3. The ATE is that of P2."""
    chosen = [s for protocol in ("P1", "P3") for s in select(summaries, dataset=dataset, protocol=protocol)
              if s.of("coverage").count and is_ours(s.group.method)]
    if not chosen:
        return ""
    sources = numbers_of_sources(chosen)
    lines = dict.fromkeys((s.group.method, s.group.mode) for s in chosen)
    header = ["", *(text for protocol in ("P1", "P3")
                    for text in (f"{protocol}: coverage, {listed(sources)}", "mean width")), "replications"]
    return table(header, [_realised_row(summaries, dataset, line, sources) for line in lines])


def _realised_row(summaries: Summaries, dataset: str, line: tuple[str, str], sources: Sequence[int]) -> list[str]:
    both = [[Group(dataset, protocol, *line, count) for count in sources] for protocol in ("P1", "P3")]
    return [label(*line), *(text for groups in both for text in (_joined(summaries, groups, "coverage", share),
                                                                 _joined(summaries, groups, "width"))),
            _replications(summaries, both[0])]


# --- false alarms

def null_table(summaries: Summaries, dataset: str = "null") -> str:
    """How often a method finds an effect where there is none, beside the nominal rate."""
    sources, rows, notes = _lines(summaries, dataset, "ate_rejects", _null_row)
    if not rows:
        return ""
    header = ["", *(f"ATE interval leaves 0 out, {in_words(count)}" for count in sources), "nominal",
              f"CATE interval leaves 0 out, {' / '.join(map(str, sources))}", "replications"]
    above = ("Share of replications ± its binomial standard error. Bold: more than chance would give a method with the "
             "nominal rate (exact test at 2.5%). In mode loc a share is the mean over the sources. For the CATE, the "
             "share of people.\n\n")
    return above + table(header, rows) + notes.lines()


def _null_row(summaries: Summaries, groups: Sequence[Group], notes: Notes) -> list[str]:
    return [_with_note(groups[0].method, groups[0].mode, notes),
            *(_rejections(find(summaries, group)) for group in groups), f"{NOMINAL}",
            _joined(summaries, groups, "coverage", lambda value: share(1 - value)),
            _replications(summaries, groups)]


def _rejections(summary: Summary | None) -> str:
    """'0.06 ± 0.02': p ± √(p(1 − p)/R)."""
    rejections = summary.of("ate_rejects") if summary else None
    if not rejections or not rejections.count:
        return NONE
    text = f"{share(rejections.mean)} ± {share(math.sqrt(rejections.mean * (1 - rejections.mean) / rejections.count))}"
    return f"**{text}**" if _tail(round(rejections.mean * rejections.count), rejections.count) < 0.025 else text


def _tail(least: int, count: int) -> float:
    """P(X ≥ least) for X ~ Binomial(count, nominal rate)."""
    return sum(math.comb(count, k) * NOMINAL**k * (1 - NOMINAL) ** (count - k) for k in range(least, count + 1))


# --- cost

def cost_table(summaries: Summaries, dataset: str, protocol: str = "P2") -> str:
    """Seconds of a fit and its predictions; rounds and, of a federated fit, kilobytes per site."""
    chosen = [s for s in select(summaries, dataset=dataset, protocol=protocol) if s.of("seconds").count]
    if not chosen:
        return ""
    sources = numbers_of_sources(chosen)
    rows = [_cost_row(summaries, [Group(dataset, protocol, *row, count) for count in sources])
            for row in rows_of(chosen)]
    return table(["", f"seconds, {listed(sources)}", "rounds", "kB sent and received per site"], rows)


def _cost_row(summaries: Summaries, groups: Sequence[Group]) -> list[str]:
    _, _, method, mode, _ = groups[0]
    sent = _joined(summaries, groups, "bytes", lambda value: number(value / 1000)) if mode == "fed" else NONE
    return [label(method, mode), _joined(summaries, groups, "seconds"),
            _joined(summaries, groups, "rounds", lambda value: f"{value:.0f}"), sent]
