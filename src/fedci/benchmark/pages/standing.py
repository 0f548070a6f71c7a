"""Where FedCI stands on a data set: its √PEHE relative to that of each peer who has the combined rows, its coverage.

    r = ō / t̄          ours over theirs, means over the R replications both have; below 1 where FedCI is better
    se(r) = sd(o − r·t) / (√R·t̄)

The ratio has no units, so replications on different scales, and peers that were run on fewer of them, can be compared.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedci.benchmark.pages.summary import (
    OURS,
    Paired,
    Statistic,
    Summaries,
    Summary,
    common,
    datasets,
    is_baseline,
    paired,
    select,
)

PROTOCOL = "P2"


class Peer(NamedTuple):
    """A baseline on the combined rows beside federated FedCI, over common replications."""

    summary: Summary
    paired: Paired
    relative: float
    relative_se: float

    @property
    def method(self) -> str:
        return self.summary.group.method


class Standing(NamedTuple):
    ours: Summary
    peers: tuple[Peer, ...]
    """From the best: the one to which FedCI's relative error is greatest."""
    coverage: Statistic
    """Of the 95% intervals of expected effects, over the most replications there are."""

    @property
    def best(self) -> Peer:
        return self.peers[0]

    @property
    def loses(self) -> bool:
        return self.best.relative >= 1


def relative_error(theirs: Summary, ours: Summary, figure: str = "pehe") -> tuple[float, float]:
    """(r, se(r)) over common replications, of which there must be one; one has no standard error."""
    both = common(theirs, ours, figure)
    t, o = (np.array([summary.values(figure)[replication] for replication in both]) for summary in (theirs, ours))
    r = float(o.mean() / t.mean())
    se = float((o - r * t).std(ddof=1) / (math.sqrt(len(both)) * t.mean())) if len(both) > 1 else math.nan
    return r, se


def peers(summaries: Summaries, ours: Summary) -> tuple[Peer, ...]:
    """The best first."""
    rivals = [summary for summary in select(summaries, dataset=ours.group.dataset, protocol=ours.group.protocol,
                                            sources=ours.group.sources, mode="com")
              if is_baseline(summary.group.method)]
    compared = [Peer(theirs, difference, *relative_error(theirs, ours)) for theirs in rivals
                if (difference := paired(theirs, ours, "pehe"))]
    return tuple(sorted(compared, key=lambda peer: -peer.relative))


def standings(summaries: Summaries, many: Summaries) -> list[Standing]:
    """One for each data set with peers, at its greatest number of sources; `many`: runs for the coverage alone."""
    compared = [_standing(summaries, many, dataset) for dataset in datasets(summaries)]
    return [standing for standing in compared if standing is not None]


def _standing(summaries: Summaries, many: Summaries, dataset: str) -> Standing | None:
    ours = select(summaries, dataset=dataset, protocol=PROTOCOL, method=OURS, mode="fed")
    for summary in sorted(ours, key=lambda summary: -summary.group.sources):
        if rivals := peers(summaries, summary):
            repeated = many.get(summary.group, summary)
            return Standing(summary, rivals, max(summary.of("coverage"), repeated.of("coverage"),
                                                 key=lambda statistic: statistic.count))
    return None
