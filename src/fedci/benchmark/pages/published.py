"""The figures the paper printed: its three full tables, DATA-1, DATA-2 and IHDP, as data (`published.csv`)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

METHODS = ("BART", "X-Learner", "R-Learner", "OrthoRF", "CEVAE")
BLOCKS = ("loc", "agg", "com")
"""The paper's order of rows: a block for each mode, the five baselines within it; FedCI last."""
FEDCI_PROTOCOL, BASELINE_PROTOCOL = "P1", "P3"
"""FedCI saw the outcome of a test person, the baselines did not."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One row of a table at one number of sources: mean and standard error over 10 replications.

    Decimals keep the digits as printed (18.0 ± 0.4). With one source all modes of a baseline are the same fit; the
    paper prints it once, in mode com.
    """

    dataset: str
    method: str
    mode: str
    sources: int
    pehe: Decimal
    pehe_se: Decimal
    ate_error: Decimal
    ate_se: Decimal

    def of(self, figure: str) -> tuple[Decimal, Decimal]:
        """(mean, standard error) of 'pehe' or 'ate_error'."""
        return {"pehe": (self.pehe, self.pehe_se), "ate_error": (self.ate_error, self.ate_se)}[figure]


@cache
def published() -> dict[tuple[str, str, str, int], Published]:
    """By (data set, method, mode, number of sources)."""
    text = (resources.files("fedci.benchmark.pages") / "published.csv").read_text(encoding="utf-8")
    rows = [_row(line) for line in csv.DictReader(text.splitlines())]
    return {(row.dataset, row.method, row.mode, row.sources): row for row in rows}


def _row(line: dict[str, str]) -> Published:
    figures = {name: Decimal(line[name]) for name in ("pehe", "pehe_se", "ate_error", "ate_se")}
    return Published(dataset=line["dataset"], method=line["method"], mode=line["mode"], sources=int(line["sources"]),
                     **figures)


def datasets() -> tuple[str, ...]:
    return tuple(dict.fromkeys(dataset for dataset, *_ in published()))


def numbers_of_sources(dataset: str) -> tuple[int, ...]:
    """1, 3, 5 or, for IHDP, 1, 2, 3; none for a data set the paper does not have."""
    return tuple(sorted({sources for name, _, _, sources in published() if name == dataset}))
