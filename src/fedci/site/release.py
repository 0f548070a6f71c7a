"""What would leave a site that takes part in a study: its columns' part number by number, each sum by name and size.

    handshake   the warnings about the data, in words
    linkage     a keyed token for each person, if the study links
    moments     sums of each column and of its squares; for a model that compares sites, four moments
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
from fedci.plain import Shown
from fedci.protocol import course, refuting
from fedci.protocol.requests import COMPLETION, MEANS, MOMENTS, OWN, REQUESTS, Request, Sizes
from fedci.study.options import FitOptions
from fedci.study.study import Study
from fedci.table import small_cells
from fedci.table.moments import Moments, describe
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


@dataclass(frozen=True, repr=False)
class Release(Shown):
    """Everything that would leave one site."""

    site: str
    warnings: tuple[str, ...]
    moments: tuple[ColumnMoments, ...]
    sums: tuple[Sum, ...]

    def shown(self) -> str:
        return (f"Release of site '{self.site}': {len(self.moments)} columns, {len(self.sums)} sums, at most "
                f"{self.told_per_person:,.3g} numbers per person; .plain() has all of it")

    @property
    def told_per_person(self) -> float:
        """Numbers that would leave at most, over the site's people: the more of them, the more can be solved for."""
        people = max((line.rows for line in self.moments), default=0)
        return sum(part.numbers for part in self.sums) / max(people, 1)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"site": self.site, "numbers_told_per_person": self.told_per_person, "warnings": list(self.warnings),
                "moments": [asdict(line) for line in self.moments],
                "sums": [asdict(part) | {"shape": list(part.shape), "numbers": part.numbers} for part in self.sums]}


def release(study: Study, table: Table, options: FitOptions | None = None, sites: int = 0) -> Release:
    """What would leave, if every round that the options allow were asked for and so many sites took part (0: those
    that the study names, or two). Whether the site would let it: `site.admission`."""
    options, sites = options or study.fit_options(), sites or len(study.sites) or 2
    table = small_cells.merged(table, study.policy.min_cell)
    model = _model(study, table, options, sites)
    gaps = int(np.isnan(table.x).any(0).sum())
    sums = list(_sums(study, options, model, _sizes(table.rows, len(table.columns), model, gaps)))
    moments = list(_column_moments(study, table, model))
    if study.policy.epsilon is None and not model.noises_sums:
        for name in refuting.wanted(study):
            more = _refuter(study, table, options, name, sites)
            moments += [replace(line, column=f"{line.column} [{name}]") for line in more.moments if line not in moments]
            sums += [replace(part, phase=f"{name}: {part.phase}") for part in more.sums]
    return Release(table.site, table.warnings, tuple(moments), tuple(sums))


def numbers_told(study: Study, options: FitOptions, model: Family, people: int, columns: int, gaps: int = 0) -> int:
    """In all sums of a study and its refuters, if every round that the options allow were asked for."""
    exact = study.policy.epsilon is None and not model.noises_sums
    names = ("", *(refuting.wanted(study) if exact else ()))
    return sum(_numbers(study, options, model, people, columns, gaps, name) for name in names)


def _numbers(study: Study, options: FitOptions, model: Family, people: int, columns: int, gaps: int,
             refuter: str) -> int:
    """Of the study, or of a refuter of it, which may have a column more."""
    plan, how = refuting.plan(study, refuter), refuting.options_of(options) if refuter else options
    if more := len(plan.covariates) - len(study.covariates):
        columns, model = columns + more, replace(model, covariates=model.covariates + more,
                                               described=model.described + more)
    return sum(part.numbers for part in _sums(plan, how, model, _sizes(people, columns, model, gaps)))


def _refuter(study: Study, table: Table, options: FitOptions, name: str, sites: int) -> Release:
    """Nothing where the refuter would be refused: its part of the people is too small."""
    try:
        changed, _ = refuting.changed(study, table, np.arange(table.rows), name)
    except FedciError:
        return Release(table.site, (), (), ())
    return release(refuting.plan(study, name), changed, refuting.options_of(options), sites)


def _column_moments(study: Study, table: Table, model: Family) -> Iterator[ColumnMoments]:
    """Mean and variance, as they enter the sums; the shape only for a model that compares sites by it."""
    x, shown = describe(table.x), 4 if model.needs_moments else 2
    for c, (name, away) in enumerate(zip(table.columns, small_cells.withheld(table.x, table.w, study.policy.min_cell),
                                         strict=True)):
        yield _line(name, x, c, shown, bool(away))
    for arm, word in enumerate(study.arms or ("untreated", "treated")):
        yield _line(f"{study.outcome} ({word})", describe(table.y[table.w == arm][:, None]), 0, shown)
    yield _line(study.treatment, describe(table.w[:, None]), 0, shown)


def _line(name: str, moments: Moments, c: int, shown: int, kept_back: bool = False) -> ColumnMoments:
    values = [None if kept_back or k >= shown else float(value) for k, value in enumerate(moments.values[:, c])]
    return ColumnMoments(column=name, rows=int(moments.count[c]), kept_back=kept_back,
                         **dict(zip(MOMENT_NAMES, values, strict=True)))


def _model(study: Study, table: Table, options: FitOptions, sites: int) -> Family:
    """As far as the site knows it: other sites' missing values may add columns."""
    from fedci.model.families import model_of

    columns = len(table.columns)
    marked = 0 if study.completes else int(np.isnan(table.x).any(0).sum())
    return model_of(options.model, columns + marked, columns, sites,
                    study.outcome_type, study.most_intervals, study.arm_count)


def _sizes(people: int, columns: int, model: Family, gaps: int) -> dict[str, int]:
    """By the model's own count of its parameters; `gaps`: columns that lack values, which the diagnostics mark."""
    from fedci.protocol.ask import model_sizes

    return model_sizes(model) | {
        "people": people, "columns": columns, "covariates": columns + gaps,
        "sites": model.sites, "described": columns + 3, "correlations": len(CORRELATIONS)}


def _sums(study: Study, options: FitOptions, model: Family, sizes: Sizes) -> Iterator[Sum]:
    """In one answer and at most so often, request by request."""
    for request in REQUESTS.values():
        if _is_asked(request, study, model):
            for draws, times in request.occasions(options):
                here = {**sizes, "draws": draws, "groups": len(study.groups), "levels": study.levels,
                        **course.decisions_sizes(study),
                        **model.dictionary(draws)}
                for array in (*request.answer, *(() if request.averaged else request.own)):
                    yield Sum(request.phase, array.name, array.at(here), times, array.meaning)
            told = study.policy.site_effects and not model.noises_sums
            if request.averaged and told and study.policy.secures(sizes["sites"]):
                for array in request.own:
                    yield Sum(request.phase, OWN + array.name, array.at({**sizes, "draws": 1}), 1,
                              f"the site's own, averaged over draws: {array.meaning}")


def _is_asked(request: Request, study: Study, model: Family) -> bool:
    """Whether this study, with this model, asks it at all."""
    if request.phase == "linkage":
        return study.links
    if request.kind:
        exact = study.policy.epsilon is None and not model.noises_sums
        return study.diagnostics.enabled and exact and request.asks(study) and study.arm_count == 2
    if request.name in (MEANS, MOMENTS):
        return (request.name == MOMENTS) == course.asks_moments_at_once(study, model.options)
    if request.name == "AskDescription":
        return model.needs_moments
    if request.name == COMPLETION:
        return study.completes
    if request.name in ("AskTimes", "AskExposure"):
        return study.outcome_type == "survival" if request.name == "AskTimes" else study.exposure is not None
    return request.draws is None or request.name in model.asks


def totals(sums: tuple[Sum, ...]) -> Mapping[tuple[str, str], tuple[tuple[int, ...], int, str]]:
    """(phase, name) → (largest shape, numbers in all, meaning)."""
    largest: dict[tuple[str, str], tuple[tuple[int, ...], int, str]] = {}
    for part in sums:
        shape, numbers, _ = largest.get((part.phase, part.name), ((), 0, ""))
        largest[part.phase, part.name] = max(shape, part.shape, key=np.prod), numbers + part.numbers, part.meaning
    return largest
