"""What would leave a site that takes part in a study: moments number by number, each later sum by name and size.

    handshake   the warnings about the data, in words
    linkage     a keyed token for each person, if the study links
    moments     four numbers for each column, cut as the policy says
    fit         the sums of each round, at most `optimiser.rounds` times
    effects     sums over people for each draw
    design, checks   what the diagnostics need
    refuters    moments, fit and effects once more for each, of rows that the site changes

The moments are those of the same function that answers the coordinator; a test compares the rest with a real run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedci.effect import CORRELATIONS, POPULATIONS, sum_shapes
from fedci.errors import FedciError
from fedci.protocol import refuting
from fedci.study.options import FitOptions
from fedci.study.study import Study
from fedci.table.moments import Moments, SiteMoments, describe_site
from fedci.table.table import Table

if TYPE_CHECKING:
    from fedci.model.family import Family

MOMENT_NAMES = ("mean", "variance", "skewness", "kurtosis")


@dataclass(frozen=True)
class Told:
    """One column as its moments would be told; without numbers where the policy keeps them."""

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
    moments: tuple[Told, ...]
    sums: tuple[Sum, ...]

    def plain(self) -> dict:
        """As JSON holds it."""
        return {"site": self.site, "warnings": list(self.warnings), "moments": [asdict(one) for one in self.moments],
                "sums": [asdict(one) | {"shape": list(one.shape), "numbers": one.numbers} for one in self.sums]}


def release(study: Study, table: Table, options: FitOptions | None = None) -> Release:
    """What would leave, if every round that the options allow were asked for. DisclosureError where the site would
    refuse the model's sums."""
    options = options or study.fit_options()
    told = describe_site(table.x, table.w, table.y, table.kinds, study.policy)
    linkage = [Sum("linkage", "tokens", (table.rows, 2), 1, "a keyed token for each person, in random order")]
    sums = [*(linkage if study.links else ()), *_moment_sums(told), *_later_sums(study, table, told, options)]
    moments = list(_told(study, table, told))
    if study.policy.epsilon is None:
        for name in refuting.wanted(study):
            more = _refuter(study, table, options, name)
            moments += [replace(one, column=f"{one.column} [{name}]") for one in more.moments if one not in moments]
            sums += [replace(one, phase=f"{name}: {one.phase}") for one in more.sums]
    return Release(table.site, table.warnings, tuple(moments), tuple(sums))


def _refuter(study: Study, table: Table, options: FitOptions, name: str) -> Release:
    """Nothing where the refuter would be refused: its part of the people is too small."""
    try:
        changed, _ = refuting.changed(study, table, np.arange(table.rows), name)
    except FedciError:
        return Release(table.site, (), (), ())
    return release(refuting.plan(study, name), changed, refuting.options_of(options))


def _told(study: Study, table: Table, told: SiteMoments) -> Iterator[Told]:
    for c, name in enumerate(table.columns):
        yield _line(name, told.x, c, bool(told.suppressed[c]))
    yield _line(f"{study.outcome} (untreated)", told.y[0], 0)
    yield _line(f"{study.outcome} (treated)", told.y[1], 0)
    yield _line(study.treatment, told.w, 0)


def _line(name: str, moments: Moments, c: int, kept_back: bool = False) -> Told:
    values = [None] * 4 if kept_back else [float(value) for value in moments.values[:, c]]
    return Told(name, int(moments.count[c]), *values, kept_back=kept_back)


def _moment_sums(told: SiteMoments) -> Iterator[Sum]:
    parts = {"x": told.x, "y0": told.y[0], "y1": told.y[1], "w": told.w}
    for name, part in parts.items():
        yield Sum("moments", name, part.values.shape, 1, "mean, variance, skewness, kurtosis")
        yield Sum("moments", f"{name}_count", part.count.shape, 1, "how many people they are over")
    yield Sum("moments", "suppressed", told.suppressed.shape, 1, "which columns are kept back")
    yield Sum("moments", "incomplete", told.incomplete.shape, 1, "which columns have missing values")


def _later_sums(study: Study, table: Table, told: SiteMoments, options: FitOptions) -> Iterator[Sum]:
    """By the model's own count of its parameters; other sites' missing values may add columns to it."""
    from fedci.model.families import model_of
    from fedci.site.limits import check_statistics

    described = len(table.columns)
    model = model_of(options.model, described + int(told.incomplete.sum()), described, 2)
    cohort = len(study.sites) if study.policy.secures(len(study.sites)) else 1
    check_statistics(study, table.site, table.rows, model, cohort)
    yield from _fit_sums(model, options)
    if study.diagnostics.enabled and study.policy.epsilon is None:
        yield from _diagnostic_sums(model.covariates, max(len(study.sites), 2))


def _diagnostic_sums(columns: int, sites: int) -> Iterator[Sum]:
    """What each kind may tell at most (docs/diagnostics.md)."""
    from fedci.diagnostics import balance, fit, overlap, propensity

    both, asked, arms = columns + sites, propensity.STARTS * propensity.STEPS, (len(balance.WEIGHTINGS), 2)
    yield Sum("design", "log_likelihood", (), asked, "of the propensity model")
    yield Sum("design", "gradient", (both,), asked, "its slope")
    yield Sum("design", "hessian", (both, both), asked, "its curvature")
    yield Sum("design", "mean", (*arms, columns), 1, "covariates in each arm, by weighting")
    yield Sum("design", "variance", (*arms, columns), 1, "and their variance")
    yield Sum("design", "size", (*arms, columns), 1, "over how many people's weight")
    yield Sum("design", "told", (len(balance.WEIGHTINGS), columns), 1, "which of these are told")
    for name in ("weight", "square"):
        yield Sum("design", name, arms, 1, f"sum of the {'weights' if name == 'weight' else 'squared weights'}")
    for name, wide in (("counts", overlap.BINS), ("totals", overlap.GROUPS)):
        hidden = {"counts": "hidden", "totals": "totals_hidden"}[name]
        yield Sum("design", name, (2, wide), 1, "people by preference score; small counts hidden")
        yield Sum("design", hidden, (2, wide), 1, "which counts are hidden")
    for name, what in (("mean", "covariates of people whose treatment was all but decided"),
                       ("size", "over how many of them"), ("told", "which of these are told")):
        yield Sum("design", f"where_{name}", (columns,), 1, what)
    yield Sum("checks", "effect", (3,), 1, "people, sum and squares of doubly robust effects")
    yield Sum("checks", "residuals", (2, 3), 1, "people, sum and squares of residuals in each arm")
    yield Sum("checks", "places", (fit.PLACES,), 1, "outcomes by predictive probability; small counts hidden")
    yield Sum("checks", "places_hidden", (fit.PLACES,), 1, "which counts are hidden")
    yield Sum("checks", "bins", (fit.CALIBRATION_BINS, 4), 1, "predicted and observed outcomes; small bins hidden")
    yield Sum("checks", "bins_hidden", (fit.CALIBRATION_BINS,), 1, "which bins are hidden")
    yield Sum("checks", "line", (6,), 1, "sums of the calibration line")
    yield Sum("checks", "treated_share", (2,), 1, "people, and sum of their propensities")


MEANINGS = {
    "AskStatistics": {"gram": "products of the basis columns, weighted", "cross": "basis columns times the outcome",
                      "square": "the outcome's square, weighted", "log_det": "size of the site's own covariance",
                      "failed": "whether the numbers ran away"},
    "PullBack": {"gradient": "slope of the objective in the model's parameters"},
    "Evaluate": {"objective": "the site's part of the objective", "gradient": "its slope in the model's parameters",
                 "phi_roots": "its slope in the draws of Φ", "sigma_roots": "its slope in the draws of Σ",
                 "failed": "whether the numbers ran away"},
}


def _fit_sums(model: Family, options: FitOptions) -> Iterator[Sum]:
    for name, asked, times in model.questions(options):
        shapes = model.gives(name, asked | {"correlations": (len(CORRELATIONS),)})
        if "cate_mean" in shapes:
            yield from _effect_sums(shapes["cate_mean"][0])
        else:
            yield from (Sum("fit", part, shape, times, MEANINGS[name][part]) for part, shape in shapes.items())


def _effect_sums(draws: int) -> Iterator[Sum]:
    over = "over " + ", ".join(population.who for population in POPULATIONS)
    means = {"cate_mean": f"sum of expected effects, {over}", "cate_var": f"its variance, {over}",
             "ite_mean": f"sum of realised effects, {over}", "ite_var": f"its variance, {over}",
             "ite_sd": "sum of the people's standard deviations", "people": "how many people"}
    for name, shape in sum_shapes(draws, len(CORRELATIONS)).items():
        yield Sum("effects", name, shape, 1, means[name])


def totals(sums: tuple[Sum, ...]) -> Mapping[tuple[str, str], tuple[tuple[int, ...], int, str]]:
    """(phase, name) → (largest shape, numbers in all, meaning)."""
    found: dict[tuple[str, str], tuple[tuple[int, ...], int, str]] = {}
    for one in sums:
        shape, numbers, _ = found.get((one.phase, one.name), ((), 0, ""))
        found[one.phase, one.name] = max(shape, one.shape, key=np.prod), numbers + one.numbers, one.meaning
    return found
