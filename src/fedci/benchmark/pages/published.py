"""Printed figures as data (`published.csv`): the paper's three full tables, and other papers' on IHDP."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from fedci.benchmark.pages.summary import OURS

METHODS = ("BART", "X-Learner", "R-Learner", "OrthoRF", "CEVAE")
BLOCKS = ("loc", "agg", "com")
"""The paper's order of rows: a block for each mode, the five baselines within it; FedCI last."""
OTHERS = {"CausalRFF": "arXiv 2301.00346", "CausalFI": "arXiv 2308.13047"}
"""Federated methods of other papers, whose figures are of expected effects (P2), and where they were printed."""
FEDCI_PROTOCOL, BASELINE_PROTOCOL = "P1", "P3"
"""FedCI saw the outcome of a test person, the baselines did not."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One row of a table at one number of sources: mean and standard error over 10 replications, or what was printed
    after ±.

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
    ate_se: Decimal | None
    """None where none is at hand."""

    def of(self, figure: str) -> tuple[Decimal, Decimal | None]:
        """(mean, standard error) of 'pehe' or 'ate_error'."""
        return {"pehe": (self.pehe, self.pehe_se), "ate_error": (self.ate_error, self.ate_se)}[figure]


@cache
def published() -> dict[tuple[str, str, str, int], Published]:
    """By (data set, method, mode, number of sources)."""
    text = (resources.files("fedci.benchmark.pages") / "published.csv").read_text(encoding="utf-8")
    rows = [_row(line) for line in csv.DictReader(text.splitlines())]
    return {(row.dataset, row.method, row.mode, row.sources): row for row in rows}


def _row(line: dict[str, str]) -> Published:
    figures = {name: Decimal(line[name]) for name in ("pehe", "pehe_se", "ate_error")}
    return Published(dataset=line["dataset"], method=line["method"], mode=line["mode"], sources=int(line["sources"]),
                     ate_se=Decimal(line["ate_se"]) if line["ate_se"] else None, **figures)


def datasets() -> tuple[str, ...]:
    """The paper's."""
    return tuple(dict.fromkeys(dataset for dataset, method, *_ in published() if method == OURS))


def others() -> dict[str, str]:
    """Data set of another paper → its method."""
    return {dataset: method for dataset, method, *_ in published() if method in OTHERS}


def numbers_of_sources(dataset: str) -> tuple[int, ...]:
    """1, 3, 5 or, for IHDP, 1, 2, 3; none for a data set that no paper has."""
    return tuple(sorted({sources for name, _, _, sources in published() if name == dataset}))
