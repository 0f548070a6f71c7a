"""What would leave a site that takes part in a study: moments number by number, each later sum by name and size.

    handshake   the warnings about the data, in words
    linkage     a keyed token for each person, if the study links
    moments     four numbers for each column, cut as the policy says
    fit         the sums of each round, at most `optimiser.rounds` times
    effects     sums over people for each draw
    design, checks   what the diagnostics need
    refuters    moments, fit and effects once more for each, of rows that the site changes

The moments are those of the same function that answers the coordinator; all else follows from the rows of
`protocol.requests`, and a test compares it with a real run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.effect import CORRELATIONS
from fedci.errors import FedciError
from fedci.protocol import refuting
from fedci.protocol.requests import REQUESTS, Request, Sizes
from fedci.study.options import FitOptions
from fedci.study.study import Study
from fedci.table.moments import Moments, SiteMoments, describe_site
from fedci.table.table import Table

if TYPE_CHECKING:
    from fedci.model.family import Family

MOMENT_NAMES = ("mean", "variance", "skewness", "kurtosis")


@dataclass(frozen=True, kw_only=True)
class ColumnMoments:
    """One column as its moments would leave; without numbers where the policy keeps them."""

    column: str
    rows: int
    mean: float | None
    variance: float | None
    skewness: float | None
    kurtosis: float | None
    kept_back: bool = False


@dataclass(frozen=True)
class Sum:
    """An array that would leave: in one answer, and how many such answers there are at most."""

    phase: str
    name: str
    shape: tuple[int, ...]
    times: int
    meaning: str

    @property
    def numbers(self) -> int:
        return math.prod(self.shape) * self.times


@dataclass(frozen=True)
class Release:
    """Everything that would leave one site."""

    site: str
    warnings: tuple[str, ...]
    moments: tuple[ColumnMoments, ...]
    sums: tuple[Sum, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"site": self.site, "warnings": list(self.warnings), "moments": [asdict(line) for line in self.moments],
                "sums": [asdict(part) | {"shape": list(part.shape), "numbers": part.numbers} for part in self.sums]}


def release(study: Study, table: Table, options: FitOptions | None = None) -> Release:
    """What would leave, if every round that the options allow were asked for. DisclosureError where the site would
    refuse the model's sums."""
    options = options or study.fit_options()
    described = describe_site(table.x, table.w, table.y, table.kinds, study.policy)
    model = _model(study, table, described, options)
    sums = list(_sums(study, options, model, _sizes(study, table, model)))
    moments = list(_column_moments(study, table, described))
    if study.policy.epsilon is None:
        for name in refuting.wanted(study):
            more = _refuter(study, table, options, name)
            moments += [replace(line, column=f"{line.column} [{name}]") for line in more.moments if line not in moments]
            sums += [replace(part, phase=f"{name}: {part.phase}") for part in more.sums]
    return Release(table.site, table.warnings, tuple(moments), tuple(sums))


def _refuter(study: Study, table: Table, options: FitOptions, name: str) -> Release:
    """Nothing where the refuter would be refused: its part of the people is too small."""
    try:
        changed, _ = refuting.changed(study, table, np.arange(table.rows), name)
    except FedciError:
        return Release(table.site, (), (), ())
    return release(refuting.plan(study, name), changed, refuting.options_of(options))


def _column_moments(study: Study, table: Table, described: SiteMoments) -> Iterator[ColumnMoments]:
    for c, name in enumerate(table.columns):
        yield _line(name, described.x, c, bool(described.suppressed[c]))
    yield _line(f"{study.outcome} (untreated)", described.y[0], 0)
    yield _line(f"{study.outcome} (treated)", described.y[1], 0)
    yield _line(study.treatment, described.w, 0)


def _line(name: str, moments: Moments, c: int, kept_back: bool = False) -> ColumnMoments:
    values = [None] * 4 if kept_back else [float(value) for value in moments.values[:, c]]
    return ColumnMoments(column=name, rows=int(moments.count[c]), kept_back=kept_back,
                         **dict(zip(MOMENT_NAMES, values, strict=True)))


def _model(study: Study, table: Table, described: SiteMoments, options: FitOptions) -> Family:
    """As far as the site knows it: other sites' missing values may add columns."""
    from fedci.model.families import model_of
    from fedci.site.limits import check_statistics

    columns = len(table.columns)
    model = model_of(options.model, columns + int(described.incomplete.sum()), columns, 2)
    cohort = len(study.sites) if study.policy.secures(len(study.sites)) else 1
    check_statistics(study, table.site, table.rows, model, cohort)
    return model


def _sizes(study: Study, table: Table, model: Family) -> dict[str, int]:
    """By the model's own count of its parameters."""
    from fedci.protocol.ask import model_sizes

    return model_sizes(model) | {
        "people": table.rows, "columns": len(table.columns), "covariates": model.covariates,
        "coefficients": model.covariates + max(len(study.sites), 2), "correlations": len(CORRELATIONS)}


def _sums(study: Study, options: FitOptions, model: Family, sizes: Sizes) -> Iterator[Sum]:
    """In one answer and at most so often, request by request."""
    for request in REQUESTS.values():
        if _is_asked(request, study, model):
            for draws, times in request.occasions(options):
                for array in request.answer:
                    shape = array.at({**sizes, "draws": draws})
                    yield Sum(request.phase, array.name, shape, times, array.meaning)


def _is_asked(request: Request, study: Study, model: Family) -> bool:
    """Whether this study, with this model, asks it at all."""
    if request.phase == "linkage":
        return study.links
    if request.kind:
        return study.diagnostics.enabled and study.policy.epsilon is None
    return request.draws is None or request.name in model.asks


def totals(sums: tuple[Sum, ...]) -> Mapping[tuple[str, str], tuple[tuple[int, ...], int, str]]:
    """(phase, name) → (largest shape, numbers in all, meaning)."""
    largest: dict[tuple[str, str], tuple[tuple[int, ...], int, str]] = {}
    for part in sums:
        shape, numbers, _ = largest.get((part.phase, part.name), ((), 0, ""))
        largest[part.phase, part.name] = max(shape, part.shape, key=np.prod), numbers + part.numbers, part.meaning
    return largest
