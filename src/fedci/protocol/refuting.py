"""What a refuter changes: the study, in the same way at the coordinator and at every site; the rows, at the site alone.

    placebo            treatment shuffled            random-cause       one more covariate, of pure noise
    subset             80% of each arm               negative-control   the study's other outcome
    control-K          the K-th of the study's many negative controls, from 1

A refuter is a run of its own, named after the study's: the handshake says which refuter, the site changes its rows,
and the rest is the protocol as it is. Changes are drawn from (the study's seed, refuter, site): a coordinator chooses
none of them, so it cannot ask for one subset after the other and take their sums apart.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from fedci.diagnostics.refuters import SUBSET
from fedci.errors import DisclosureError, SiteError, UsageError
from fedci.study.covariate import Covariate
from fedci.study.options import FitOptions
from fedci.study.sections import REFUTERS, Linkage
from fedci.study.study import Study
from fedci.table.table import Table, restricted

CONTROL, MANY = "negative-control", "control-"
SUFFIX = re.compile(rf"-(?:{'|'.join(REFUTERS)}|{CONTROL}|{MANY}[0-9]{{1,3}})$")
"""Of the name of a refuter's run."""
NOISE = "random cause"
DRAWS = 128
"""Of the posterior, at most: an average effect needs no more."""
STREAM = 7
"""Of the seeds: apart from those of the fit."""


def wanted(study: Study) -> tuple[str, ...]:
    """The refuters that the study asks for, in their order."""
    asked = study.diagnostics
    return (*asked.refute, *((CONTROL,) if asked.negative_control else ()),
            *(f"{MANY}{k}" for k in range(1, len(asked.negative_controls) + 1)))


def control_of(study: Study, name: str) -> str | None:
    """The column of one of the many negative controls, by the refuter's name; None of any other."""
    number = name.removeprefix(MANY)
    if not name.startswith(MANY) or not number.isdecimal():
        return None
    columns = study.diagnostics.negative_controls
    return columns[int(number) - 1] if 1 <= int(number) <= len(columns) else None


def check_wanted(study: Study, site: str, name: str) -> None:
    """What a site asks of a handshake that names a refuter."""
    if name and study.policy.epsilon is not None:
        raise DisclosureError(f"site '{site}': a refuter is a study without an account of its own, and this study "
                              f"promises differential privacy: none is run")
    if name and study.noises_sums:
        raise DisclosureError(f"site '{site}': a refuter is one more study of the same people, and this one tells all "
                              f"that its policy's sum_noise lets be told of them: none is run")
    if name and name not in wanted(study):
        raise SiteError(f"site '{site}': the study does not ask for this refuter. Name it in diagnostics.refute")


def run_of(run: str, name: str) -> str:
    return f"{run}-{name}"


def is_refuters(run: str) -> bool:
    """Whether a run bears the name of a refuter's."""
    return SUFFIX.search(run) is not None


def behind(run: str) -> str:
    """The run of the study, by the name of a run that may be a refuter's."""
    return SUFFIX.sub("", run)


def study_run(run: str, name: str) -> str:
    """The run of the study that a refuter's run belongs to."""
    return run.removesuffix(f"-{name}") if name else run


def plan(study: Study, name: str) -> Study:
    """The refuter's study; without a name, the study itself. Who stays where was found before: no linkage."""
    changes: dict[str, dict[str, Any]] = {"random-cause": {"covariates": (*study.covariates, Covariate(name=NOISE))},
                                          CONTROL: {"outcome": study.diagnostics.negative_control}}
    many = control_of(study, name)
    change = {"outcome": many} if many is not None else changes.get(name, {})
    return study.refuted(ids=(), linkage=Linkage(), **change) if name else study


def options_of(options: FitOptions) -> FitOptions:
    draws = min(options.prediction.draws, DRAWS)
    return options.model_copy(update={"prediction": options.prediction.model_copy(update={"draws": draws})})


def changed(study: Study, table: Table, rows: np.ndarray, name: str) -> tuple[Table, np.ndarray]:
    """(the refuter's table, which rows of the site's whole table it holds); `rows`: those of `table`."""
    if name == "subset":
        part = _part(table, _generator(study, table.site, name))
        return restricted(study, table, part, f"with {100 * SUBSET:.0f}% of the people"), rows[part]
    if name == CONTROL:
        return _of_control(table), rows
    if control_of(study, name) is not None:
        return _of_many(table, int(name.removeprefix(MANY)) - 1), rows
    change = {"placebo": _shuffled, "random-cause": _with_noise}
    return change[name](table, _generator(study, table.site, name)) if name else table, rows


def _generator(study: Study, site: str, name: str) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((study.seed, STREAM, REFUTERS.index(name), *site.encode())))


def _of_control(table: Table) -> Table:
    if table.control is None:
        raise UsageError(f"site '{table.site}': the table was read without the study's negative control. Read it again")
    return replace(table, y=table.control, added=table.control_added)


def _of_many(table: Table, place: int) -> Table:
    if place >= len(table.controls):
        raise UsageError(f"site '{table.site}': the table was read without the study's negative controls. Read it "
                         f"again")
    added = table.controls_added[place] if table.controls_added else 0.0
    return replace(table, y=table.controls[place], added=added)


def _shuffled(table: Table, rng: np.random.Generator) -> Table:
    return replace(table, w=rng.permutation(table.w))


def _with_noise(table: Table, rng: np.random.Generator) -> Table:
    column = rng.standard_normal((table.rows, 1))
    return replace(table, x=np.hstack([table.x, column]), missing=np.hstack([table.missing, np.isnan(column)]),
                   columns=(*table.columns, NOISE), kinds=(*table.kinds, "numeric"))


def _part(table: Table, rng: np.random.Generator) -> np.ndarray:
    """So many of each arm that none is left without people."""
    arms = [np.flatnonzero(table.w == arm) for arm in range(table.arms)]
    return np.sort(np.concatenate([rng.choice(arm, int(np.ceil(SUBSET * len(arm))), replace=False) for arm in arms]))
