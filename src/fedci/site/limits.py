"""What a site checks before it computes: the options, its memory, the units, how many people carry a sum, the shapes.

Each check returns nothing, or raises an error that names the site and the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from fedci.errors import DisclosureError, HandshakeError, MessageError, SiteError, StudyError
from fedci.model import padding
from fedci.model.families import model_of
from fedci.model.family import Family, FirstStage, Shapes
from fedci.protocol import refuting, stages
from fedci.protocol.messages import Prepare
from fedci.site.prepared import Units
from fedci.study.options import FitOptions, preset_names
from fedci.study.study import Study
from fedci.table.moments import small_cells
from fedci.table.table import Table

UNITS_SLACK = 1.1
"""Units are pooled from moments of four digits, and suppressed cells are not in them."""


def check_options(site: str, study: Study, options: FitOptions, refuter: str) -> None:
    """The options are the coordinator's to send, and the study's to say; a preset may be chosen."""
    policy, rounds = study.policy, options.optimiser.rounds
    if rounds > policy.max_rounds:
        raise DisclosureError(f"site '{site}': {rounds} rounds were asked for, the policy allows {policy.max_rounds}. "
                              f"Lower optimiser.rounds")
    of_study = _options_of(study)
    allowed = [refuting.options_of(preset) for preset in of_study] if refuter else of_study
    if policy.check_trajectory and options not in allowed:
        raise HandshakeError(f"site '{site}': the options of the fit are not the study's, nor those of a shipped "
                             f"preset with the study's changes. Put them into the study file")


def _options_of(study: Study) -> list[FitOptions]:
    """Of each shipped preset that the study allows, with the study's changes."""
    presets = []
    for name in preset_names():
        with suppress(StudyError):
            presets.append(study.fit_options(name))
    return presets


def check_memory(table: Table, options: FitOptions) -> None:
    """As many indicators of missing values as columns, at most."""
    rows, d = len(table.y), table.x.shape[1]
    need, remedy = model_of(options.model, 2 * d, d, 1).memory_needed(rows, options.optimiser.draws)
    padding.check_memory(table.site, rows, need, remedy)


def check_unchanged(site: str, before: Prepare | None, request: Prepare) -> None:
    given = {**vars(before), "round": request.round} if before else vars(request)
    if not all(np.array_equal(given[name], value) for name, value in vars(request).items()):
        raise SiteError(f"site '{site}': the units of this run were given before, and are not changed")


def check_units(table: Table, study: Study, options: FitOptions, units: Units, people: int) -> None:
    """Pooled units make Σ_s n_s (variance + mean²) = n of every column, so no site's part of it is more. Units that
    blow a column up would turn the start's random weights into ones that tell people apart."""
    if not options.model.standardise or study.policy.noises("moments"):
        return
    x, described = table.x, ~small_cells(table.x, table.kinds, study.policy.min_cell)
    columns = np.column_stack([units.covariates(x)[:, :x.shape[1]][:, described], units.outcome(table.y)])
    if not (np.square(columns).sum(0) <= UNITS_SLACK * max(people, len(x))).all():
        raise DisclosureError(f"site '{table.site}': the common units are not those of all sites' people: they blow a "
                              f"column up. Stop the study, and ask the coordinator")


def first_stage(site: str, options: FitOptions, request: Prepare) -> FirstStage:
    """The one that was asked for, if these options allow it."""
    first, least = FirstStage(request.few_rows, request.few_people), options.optimiser.first_rows
    if first != FirstStage() and not (first.rows in stages.choices(least) and 0 < first.people <= request.people):
        raise MessageError(f"site '{site}': a first stage with {first.rows} people of a site, {first.people} of all, "
                           f"is none that optimiser.first_rows = {least} allows")
    return first


def check_statistics(study: Study, site: str, rows: int, model: Family, cohort: int = 1) -> None:
    """Nearly as many columns of T (model `shared`), or parameters, as people: sums may tell rows apart. With a `cohort`
    only the sum over so many sites leaves, and of the others the site knows the policy's minimum."""
    policy, people = study.policy, rows + (cohort - 1) * study.policy.min_rows
    limit, where = policy.statistics_per_row, "in the clear" if cohort == 1 else "in a sum of all sites"
    if model.size > policy.max_parameters_per_row * people:
        raise DisclosureError(
            f"site '{site}': the model has {model.size} parameters for {people} people; the policy allows "
            f"{policy.max_parameters_per_row:g} for each {where}. Use a smaller model or more people; or, if every "
            f"site consents, raise policy.max_parameters_per_row in the study")
    if model.columns > limit * people:
        raise DisclosureError(
            f"site '{site}': the model 'shared' would send sums over {model.columns} columns of {people} people; the "
            f"policy allows {limit:g} columns per person {where}. Use fewer covariates or model.knots, more people, or "
            f"the preset 'paper'.")


# --- of a request, before anything is computed


def check_asked(site: str, model: Family, name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """A question of this study's model, with arrays of the right shapes."""
    expected = model.takes(name, arrays)
    if expected is None:
        raise SiteError(f"site '{site}' does not answer a {name} in this study: its model is "
                        f"'{model.options.family}'")
    check_arrays(site, arrays, expected)


def check_arrays(site: str, arrays: Mapping[str, np.ndarray], expected: Shapes) -> None:
    for name, shape in expected.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64:
            raise MessageError(f"site '{site}': {name} has shape {array.shape} and type {array.dtype}, needs {shape} "
                               f"and float64")
