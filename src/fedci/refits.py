"""Refuters: the study fitted again, in this one process, on data changed at every site (docs/diagnostics.md).

The same model, optimiser and seed; DRAWS posterior draws at most, and no diagnostics of the new fits. The changes are
drawn from (seed, refuter, place of the site), so the same study is refuted by the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedci.data import Source, Table
from fedci.diagnostics.refute import SUBSET, Refuter, refuter
from fedci.errors import FedciError
from fedci.estimands import Effect, average
from fedci.federation.coordinator import Outcome, Round, run_study
from fedci.federation.engine import InProcessEngine
from fedci.federation.site import Site
from fedci.study import REFUTERS, Covariate, Linkage, Study

DRAWS = 128
NOISE = "random cause"
STREAM = 7
"""Of the seeds: apart from those of the fit."""


def refuted(study: Study, outcome: Outcome, sites: Mapping[str, Site], sources: Sequence[Source],
            progress: Callable[[Round], None] | None = None) -> Outcome:
    """The outcome with the refuters that the study asks for; one that cannot be fitted becomes a note."""
    rows, notes = [], []
    for name in wanted(study):
        try:
            rows.append(_row(study, outcome, name, _changed(study, outcome.seed, name, sites, sources), progress))
        except FedciError as problem:
            notes.append(f"the refuter '{name}' could not be fitted: {problem}")
    return _with(outcome, tuple(rows), tuple(notes))


def wanted(study: Study) -> tuple[str, ...]:
    asked = study.diagnostics
    return (*asked.refute, *(("negative-control",) if asked.negative_control else ()))


def not_run(study: Study, outcome: Outcome) -> Outcome:
    """For a study over a network, where sites answer for the rows they have and for no others."""
    notes = tuple(f"the refuter '{name}' was not run: it changes rows at the sites, and is fitted where all rows are "
                  f"in one process (`fedci run`, `FedCI.fit`)" for name in wanted(study))
    return _with(outcome, (), notes) if notes else outcome


def _with(outcome: Outcome, rows: tuple[Refuter, ...], notes: tuple[str, ...]) -> Outcome:
    found = outcome.diagnostics
    return replace(outcome, diagnostics=found.model_copy(update={"refuters": rows, "notes": found.notes + notes}))


def _row(study: Study, outcome: Outcome, name: str, changed: tuple[Study, list[Table]], progress) -> Refuter:
    plan, tables = changed
    prediction = outcome.options.prediction
    options = outcome.options.model_copy(update={
        "prediction": prediction.model_copy(update={"draws": min(prediction.draws, DRAWS)})})
    engine = InProcessEngine({table.site: Site(plan, table) for table in tables})
    new = run_study(engine, plan, options, outcome.seed, progress)
    own, found = _average(outcome), _average(new)
    low, high = found.interval()
    control = study.diagnostics.negative_control
    return refuter(name, found.mean, found.sd, low, high, new.fit.verdict, own.mean, own.sd,
                   about=f"'{control}'" if control else "")


def _average(outcome: Outcome) -> Effect:
    sums = list(outcome.effects.sums.values())
    people = sum(int(s["people"][0]) for s in sums)
    return average([Effect(s["cate_mean"][:, 0], s["cate_var"][:, 0]) for s in sums], people)


def _changed(study: Study, seed: int, name: str, sites: Mapping[str, Site], sources: Sequence[Source]):
    """(the study, the tables) of a refuter; people whom linkage left out stay out."""
    plain = {"ids": (), "linkage": Linkage()}
    if name == "negative-control":
        plan = study.refuted(**plain, outcome=study.diagnostics.negative_control)
        return plan, [source.read(plan).take(sites[source.name].kept) for source in sources]
    extra = {"covariates": (*study.covariates, Covariate(name=NOISE))} if name == "random-cause" else {}
    change = {"placebo": _shuffled, "random-cause": _with_noise, "subset": _part}[name]
    place = REFUTERS.index(name)
    tables = [change(sites[site].table, np.random.default_rng(np.random.SeedSequence((seed, STREAM, place, s))))
              for s, site in enumerate(sorted(sites))]
    return study.refuted(**plain, **extra), tables


def _shuffled(table: Table, rng: np.random.Generator) -> Table:
    return replace(table, w=rng.permutation(table.w))


def _with_noise(table: Table, rng: np.random.Generator) -> Table:
    column = rng.standard_normal((table.rows, 1))
    return replace(table, x=np.hstack([table.x, column]), missing=np.hstack([table.missing, np.isnan(column)]),
                   columns=(*table.columns, NOISE), kinds=(*table.kinds, "numeric"))


def _part(table: Table, rng: np.random.Generator) -> Table:
    """So many of each arm that none is left without people."""
    arms = [np.flatnonzero(table.w == arm) for arm in (0, 1)]
    return table.take(np.sort(np.concatenate([rng.choice(arm, int(np.ceil(SUBSET * len(arm))), replace=False)
                                              for arm in arms])))
