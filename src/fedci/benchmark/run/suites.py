"""The data sets of the benchmark by name, each with the numbers of sources its tables report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from fedci.benchmark.run.cells import MODES
from fedci.benchmark.run.oracle import FORMULAS
from fedci.errors import UsageError
from fedci.study.options import nearest
from fedci.synthetic import datasets, ihdp
from fedci.synthetic.datasets import SEED, Sizes, Split, combined

NAMES = ("data-1", "data-2", "ihdp", "ihdp-shuffled", "ihdp-sites", "ihdp-causalrff", "ihdp-missing", "heterogeneous",
         "overlap", "linear", "steps", "many-directions", "own-surfaces", "interactions", "null")
PAPER_SETS = {"data-1": "DATA-1", "data-2": "DATA-2"}
GENERATORS = {"heterogeneous": datasets.heterogeneous, "overlap": datasets.overlap, "linear": datasets.linear,
              "steps": datasets.steps, "many-directions": datasets.many_directions,
              "own-surfaces": datasets.own_surfaces, "interactions": datasets.interactions, "null": datasets.null}


Reading = Literal["variance", "std"]
Parameters = Literal["once", "per-replication"]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a user asks for: a name, and how the paper's ambiguities are read."""

    name: str
    reading: Reading = "variance"
    """N(m, 2·I) of the paper: variance 2 or standard deviation 2."""
    parameters: Parameters = "once"
    rows: int = 50
    """Training records a source, of the generators."""
    folder: str | None = None
    """Where the IHDP files lie."""
    seed: int = SEED

    @property
    def label(self) -> str:
        """The name in tables: a variation has its own, so that it never mixes with another."""
        variations: list[str] = [self.reading] * (self.reading != "variance")
        variations += [self.parameters] * (self.parameters != "once")
        variations += [f"{self.rows}-rows"] * (self.rows != 50) + [f"seed-{self.seed}"] * (self.seed != SEED)
        return "/".join([self.name, *variations])


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A data set: replications of several sources with known truth."""

    label: str
    load: Callable[[int], list[Split]]
    """Replication → its sources."""
    counts: tuple[int, ...]
    """Numbers of sources in the tables."""
    most: int
    """Sources there are."""
    replications: int | None = None
    """How many there are; None: as many as one likes."""
    form: tuple[str, str] | None = None
    """(generator, reading) for the parametric limit."""
    everywhere: bool = False
    """Whether the test people of all sources are scored, also of those that are not fitted."""

    @property
    def modes(self) -> tuple[str, ...]:
        """A source alone says nothing of the people of others."""
        return tuple(mode for mode in MODES if mode != "loc") if self.everywhere else MODES


def suite(choice: Choice) -> Suite:
    """By name, with what was chosen checked."""
    if choice.name not in NAMES:
        raise UsageError(f"no data set {choice.name!r}{nearest(choice.name, NAMES)} Known: {', '.join(NAMES)}.")
    if choice.name.startswith("ihdp"):
        return _ihdp(choice)
    if choice.name in PAPER_SETS:
        return _paper(choice)
    _refuse_variations(choice, {"reading": "variance", "parameters": "once"})
    load = partial(GENERATORS[choice.name], seed=choice.seed, sizes=_sizes(choice))
    form = (choice.name, "variance") if choice.name in FORMULAS else None
    return Suite(label=choice.label, load=load, counts=(1, 3, 5), most=5, form=form)


def _paper(choice: Choice) -> Suite:
    name = PAPER_SETS[choice.name]
    load = partial(datasets.synthetic, name, reading=choice.reading, parameters=choice.parameters, seed=choice.seed,
                   sizes=_sizes(choice))
    return Suite(label=choice.label, load=load, counts=(1, 3, 5), most=5, form=(name, choice.reading))


def _sizes(choice: Choice) -> Sizes:
    if choice.rows < 2:
        raise UsageError(f"--rows {choice.rows}: a source needs at least 2 records to fit on")
    return Sizes(5, choice.rows, datasets.PAPER_SIZES.test, datasets.PAPER_SIZES.validation)


def _ihdp(choice: Choice) -> Suite:
    _refuse_variations(choice, {"reading": "variance", "parameters": "once", "rows": 50})
    if choice.name == "ihdp-sites":
        return Suite(label=choice.label, load=partial(ihdp.trial_sites, folder=choice.folder, seed=choice.seed),
                     counts=(8,), most=8, replications=10)
    if choice.name == "ihdp-causalrff":
        return Suite(label=choice.label, load=partial(ihdp.causalrff, folder=choice.folder), counts=(1, 2, 3), most=3,
                     replications=10, form=("IHDP", "variance"))
    if choice.name == "ihdp-missing":
        return Suite(label=choice.label, load=partial(ihdp.incomplete, folder=choice.folder), counts=(2, 4, 6), most=6,
                     replications=10, everywhere=True)
    load = partial(ihdp.thirds, folder=choice.folder, shuffled=choice.name == "ihdp-shuffled", seed=choice.seed)
    return Suite(label=choice.label, load=load, counts=(1, 2, 3), most=3, replications=10, form=("IHDP", "variance"))


def _refuse_variations(choice: Choice, fixed: dict[str, Any]) -> None:
    for name, value in fixed.items():
        if getattr(choice, name) != value:
            raise UsageError(f"--{name} {getattr(choice, name)}: the data set {choice.name} has no such variation; "
                             f"it is for {', '.join(PAPER_SETS)}")


def is_binary(splits: Sequence[Split]) -> np.ndarray:
    """[d] which covariates are 0 or 1 for everyone fitted on: a study calls them binary, and may keep constant ones."""
    return np.asarray(np.isin(combined([split.train for split in splits]).x, (0.0, 1.0)).all(0))


def varying(splits: Sequence[Split]) -> np.ndarray:
    """[d] which covariates are not constant over the rows fitted on."""
    x = combined([split.train for split in splits]).x
    missing = np.isnan(x)
    return np.where(missing, -np.inf, x).max(0) > np.where(missing, np.inf, x).min(0)


def incomplete(splits: Sequence[Split]) -> np.ndarray:
    """[d] which covariates have missing values, NaN, among the people fitted on or asked about."""
    return np.isnan(combined([part for split in splits for part in (split.train, split.test)]).x).any(0)
