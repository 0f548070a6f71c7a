"""What a site checks before it computes: the options, its memory, the units, how many people carry a sum, the shapes.

Each check returns nothing, or raises an error that names the site and the remedy.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from fedci.table.table import Table
from fedci.errors import DisclosureError, HandshakeError, MessageError, SiteError, StudyError
from fedci.protocol import refuting, stages
from fedci.site.prepared import Units
from fedci.protocol.messages import AskEffects, AskSharedEffects, AskStatistics, Evaluate, Prepare, PullBack
from fedci.model.shared import basis
from fedci.model import padding
from fedci.model.shared.inducing import bytes_needed
from fedci.model.law import AnyModel
from fedci.model.shared.shared import SharedModel
from fedci.table.moments import small_cells
from fedci.study.options import FitOptions, SharedOptions, preset_names
from fedci.study.study import Study

UNITS_SLACK = 1.1
"""Units are pooled from moments of four digits, and suppressed cells are not in them."""


def check_options(site: str, study: Study, options: FitOptions, refuter: str) -> None:
    """The options are the coordinator's to send, and the study's to say; a preset may be chosen."""
    policy, rounds = study.policy, options.optimiser.rounds
    if rounds > policy.max_rounds:
        raise DisclosureError(f"site '{site}': {rounds} rounds were asked for, the policy allows {policy.max_rounds}. "
                              f"Lower optimiser.rounds")
    allowed = [refuting.options_of(one) if refuter else one for one in _options_of(study)]
    if policy.check_trajectory and options not in allowed:
        raise HandshakeError(f"site '{site}': the options of the fit are not the study's, nor those of a shipped "
                             f"preset with the study's changes. Put them into the study file")


def _options_of(study: Study) -> list[FitOptions]:
    """Of each shipped preset that the study allows, with the study's changes."""
    found = []
    for name in preset_names():
        with suppress(StudyError):
            found.append(study.fit_options(name))
    return found


def check_memory(table: Table, options: FitOptions) -> None:
    n, model = len(table.y), options.model
    if isinstance(model, SharedOptions) and n > model.exact_rows:
        d = 2 * table.x.shape[1]  # as many indicators of missing values at most
        width = basis.layout_of(model, d).width + model.inducing + 1
        padding.check_memory(table.site, n, bytes_needed(n, d, width),
                             "Lower model.inducing, or run the site on a larger machine.")
    else:
        padding.check_memory(table.site, n, padding.bytes_needed(n, options.optimiser.draws),
                             "The covariance is exact: use the preset 'default', which needs memory in proportion to "
                             "the rows, lower optimiser.draws, or run the site on a larger machine.")


def check_unchanged(site: str, before: Prepare | None, request: Prepare) -> None:
    given = {**vars(before), "round": request.round} if before else vars(request)
    if not all(np.array_equal(given[name], value) for name, value in vars(request).items()):
        raise SiteError(f"site '{site}': the units of this run were given before, and are not changed")


def check_units(table: Table, study: Study, options: FitOptions, units: Units, people: int) -> None:
    """Pooled units make Σ_s n_s (variance + mean²) = n of every column, so no site's part of it is more. Units that
    blow a column up would turn the start's random weights into ones that tell people apart."""
    if not options.model.standardise or study.policy.noises("moments"):
        return
    x, told = table.x, ~small_cells(table.x, table.kinds, study.policy.min_cell)
    columns = np.column_stack([units.covariates(x)[:, :x.shape[1]][:, told], units.outcome(table.y)])
    if not (np.square(columns).sum(0) <= UNITS_SLACK * max(people, len(x))).all():
        raise DisclosureError(f"site '{table.site}': the common units are not those of all sites' people: they blow a "
                              f"column up. Stop the study, and ask the coordinator")


def first_stage(site: str, options: FitOptions, request: Prepare) -> stages.First:
    """The one that was asked for, if these options allow it."""
    few, least = stages.First(request.few_rows, request.few_people), options.optimiser.first_rows
    if few != stages.First() and not (few.rows in stages.choices(least) and 0 < few.people <= request.people):
        raise MessageError(f"site '{site}': a first stage with {few.rows} people of a site, {few.people} of all, is "
                           f"none that optimiser.first_rows = {least} allows")
    return few


def check_statistics(study: Study, site: str, rows: int, model: AnyModel, cohort: int = 1) -> None:
    """Nearly as many columns of T (model `shared`), or parameters, as people: sums may tell rows apart. With a `cohort`
    only the sum over so many sites leaves, and of the others the site knows the policy's minimum."""
    policy, people = study.policy, rows + (cohort - 1) * study.policy.min_rows
    limit, where = policy.statistics_per_row, "in the clear" if cohort == 1 else "in a sum of all sites"
    if model.size > policy.max_parameters_per_row * people:
        raise DisclosureError(
            f"site '{site}': the model has {model.size} parameters for {people} people; the policy allows "
            f"{policy.max_parameters_per_row:g} for each {where}. Use a smaller model or more people; or, if every "
            f"site consents, raise policy.max_parameters_per_row in the study")
    if isinstance(model, SharedModel) and model.columns > limit * people:
        raise DisclosureError(
            f"site '{site}': the model 'shared' would send sums over {model.columns} columns of {people} people; the "
            f"policy allows {limit:g} columns per person {where}. Use fewer covariates or model.knots, more people, or "
            f"the preset 'paper'.")


# --- of a request, before anything is computed


def check_thetas(site: str, model: AnyModel, request: AskStatistics | PullBack | AskSharedEffects) -> None:
    if not isinstance(model, SharedModel):
        raise SiteError(f"site '{site}' does not answer a {type(request).__name__} in this study: its model is not "
                        f"'shared'")
    check_arrays(site, {"thetas": request.thetas}, {"thetas": (len(np.atleast_1d(request.thetas)), model.size)})


def check_shapes(site: str, model: AnyModel, request: Evaluate | AskEffects) -> None:
    """Θ of this model, and as many Φ as Σ (and g)."""
    if isinstance(model, SharedModel):
        raise SiteError(f"site '{site}' does not answer a {type(request).__name__} in this study: its model is "
                        f"'shared'")
    draws = len(np.atleast_1d(request.phi_roots))
    expected = {"theta": (model.size,), "phi_roots": (draws, 2, 2), "sigma_roots": (draws, 2, 2)}
    expected |= {"g": (draws, 2)} if isinstance(request, AskEffects) else {}
    check_arrays(site, {name: getattr(request, name) for name in expected}, expected)


def check_arrays(site: str, arrays: dict[str, np.ndarray], expected: dict[str, tuple]) -> None:
    for name, shape in expected.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64:
            raise MessageError(f"site '{site}': {name} has shape {array.shape} and type {array.dtype}, needs {shape} "
                               f"and float64")
