"""How often the 95% intervals of federated FedCI hold the truth over many replications, as a table and in words."""

from __future__ import annotations

from collections.abc import Sequence

from scipy.special import betaincinv

from fedci.benchmark.pages.markdown import NONE, in_words, number, plus_minus, reason, share, table, title
from fedci.benchmark.pages.summary import OURS, Statistic, Summaries, Summary, select

WITHIN = ("data-1", "data-2")
"""The model can take the form of these."""
BEYOND = ("steps", "many-directions", "own-surfaces", "interactions")
"""And cannot take the form of these."""
LOW, HIGH = 0.93, 0.97
"""Where the coverage should lie on the former."""
LEAST = 0.90
"""What it should reach on the latter."""
ABOVE = """\
Federated FedCI under P2. Coverage of CATE: the share of test people whose 95% interval holds their expected effect,
mean ± standard error over replications. Coverage of ATE: the share of replications whose 95% interval of the average
expected effect of the people fitted on holds it, [in brackets its exact 95% binomial interval (Clopper-Pearson)].
"""


def coverage_table(summaries: Summaries) -> str:
    """A row for each data set and number of sources; below it what is not as it should be."""
    ours = select(summaries, protocol="P2", method=OURS, mode="fed")
    header = ["data set", "sources", "coverage of CATE", "mean width", "coverage of ATE", "√PEHE", "replications"]
    words = [text for text in (_within(ours), _beyond(ours), _failures(ours)) if text]
    return "\n".join([ABOVE, table(header, map(_row, ours)), *words]) if ours else ""


def _row(summary: Summary) -> list[str]:
    pehe, failed = summary.of("pehe"), f" ({summary.failures} failed)" if summary.failures else ""
    return [title(summary.group.dataset), str(summary.group.sources), _mean_share(summary.of("coverage")),
            number(summary.of("width").mean), _share_of_replications(summary.of("ate_covered")),
            plus_minus(pehe.mean, pehe.se), f"{len(summary.done)}{failed}"]


def _mean_share(coverage: Statistic) -> str:
    """'0.948 ± 0.004'; one replication has no standard error."""
    error = f" ± {number(coverage.se, 3)}" if coverage.count > 1 else ""
    return number(coverage.mean, 3) + error


def _share_of_replications(coverage: Statistic) -> str:
    """'0.95 [0.89, 0.98]'."""
    if not coverage.count:
        return NONE
    low, high = binomial_interval(round(coverage.mean * coverage.count), coverage.count)
    return f"{share(coverage.mean)} [{share(low)}, {share(high)}]"


def binomial_interval(successes: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a probability: each end leaves (1 − level)/2 beyond what was seen."""
    tail = (1 - level) / 2
    low = float(betaincinv(successes, count - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, count - successes, 1 - tail)) if successes < count else 1.0
    return low, high


def _within(ours: Sequence[Summary]) -> str:
    asked = _with_coverage(ours, WITHIN)
    outside = [s for s in asked if not LOW <= _coverage(s) <= HIGH]
    if not asked:
        return ""
    start = f"On {' and '.join(map(title, WITHIN))} the coverage of CATE lies outside {LOW:.2f}-{HIGH:.2f} in"
    if not outside:
        return f"{start} none of {len(asked)} rows.\n"
    return f"{start} {len(outside)} of {len(asked)} rows: {_named(outside)}.\n"


def _beyond(ours: Sequence[Summary]) -> str:
    asked = _with_coverage(ours, BEYOND)
    reached = [s for s in asked if _coverage(s) >= LEAST]
    missed = [s for s in asked if _coverage(s) < LEAST]
    parts = [f"{words} {LEAST:.2f} on {_named(some)}"
             for words, some in (("at least", reached), ("below", missed)) if some]
    return f"On data of a form beyond the model's reach the coverage of CATE is {'; '.join(parts)}.\n" if asked else ""


def _failures(ours: Sequence[Summary]) -> str:
    failed = [s for s in ours if s.failures]
    texts = (f"{_place(s)}: {reason(s.reason)}" for s in failed)
    return f"First reason of the replications that failed. {'; '.join(texts)}.\n" if failed else ""


def _with_coverage(ours: Sequence[Summary], datasets: Sequence[str]) -> list[Summary]:
    return [s for s in ours if s.group.dataset in datasets and s.of("coverage").count]


def _coverage(summary: Summary) -> float:
    """Without what adding up leaves in the last digits, so that a mean of 0.93 is no less than 0.93."""
    return round(summary.of("coverage").mean, 9)


def _named(ours: Sequence[Summary]) -> str:
    return ", ".join(f"{_place(s)} ({number(s.of('coverage').mean, 3)})" for s in ours)


def _place(summary: Summary) -> str:
    return f"{title(summary.group.dataset)} with {in_words(summary.group.sources)}"
