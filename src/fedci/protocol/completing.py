"""What is missing, as all parties learn its law: a few sums over completed people before the fit (`model.completion`).

    AskCompletion(one law)       → Σ r, Σ rrᵀ of the people that it completes       until its beginning is forgotten
    AskCompletion(law 1 … K)     → the same for each, of its own copy               until that of each other is

Each party draws the next laws from the sums, by the study's seed: none of them travels.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

import numpy as np

from fedci.model import completion
from fedci.model.completion import MIXING, Completion, Gaps
from fedci.model.family import Ask, Sums
from fedci.protocol.requests import COMPLETION
from fedci.study.options import FitOptions
from fedci.study.study import Study
from fedci.table.design import design_columns
from fedci.table.moments import Scales


class Known(Protocol):
    """What the opening, and later the result, has of it."""

    @property
    def scales(self) -> Scales: ...
    @property
    def lacking(self) -> np.ndarray:
        """[p] columns whose missing values are drawn."""
        ...
    @property
    def laws(self) -> np.ndarray:
        """[K, …] as `Gaps.packed` has them; empty before they are known, or where nothing is drawn."""
        ...
    @property
    def share(self) -> float: ...


def gaps_of(study: Study, known: Known, sites: int) -> Gaps:
    kinds, groups = design_columns(study)[1], [len(covariate.design_columns()) for covariate in study.covariates]
    two = np.array([kind != "numeric" for kind in kinds])
    mean, sd = known.scales.x_mean, known.scales.x_sd
    return Gaps(lacking=known.lacking, low=np.where(two, (0.0 - mean) / sd, np.nan),
                high=np.where(two, (1.0 - mean) / sd, np.nan), group=np.repeat(np.arange(len(groups)), groups), told=1,
                sites=sites)


def completion_of(study: Study, known: Known, sites: int, seed: int) -> Completion | None:
    """None where nothing is drawn."""
    if not known.laws.size:
        return None
    gaps = gaps_of(study, known, sites)
    return Completion(gaps, gaps.unpacked(known.laws), known.share, seed)


def explained(gaps: Gaps, laws: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """[p] how much of each column's variance the columns without gaps tell; `variances` [d] in the model's units."""
    left = np.diagonal(gaps.unpacked(laws).spread, axis1=1, axis2=2).mean(0)
    return np.clip(1.0 - left / np.maximum(variances[gaps.lacking], 1e-300), 0.0, 1.0)


def completing(study: Study, options: FitOptions, known: Known, people: np.ndarray, gone: np.ndarray, sites: int,
               seed: int) -> Generator[Ask, Sums, np.ndarray]:
    """The laws [K, …]; `people` [2] of each arm, `gone` [d] shares of missing values."""
    if not known.lacking.size:
        return np.zeros((0, 0))
    gaps, chains = gaps_of(study, known, sites), completion.copies(options)
    law = completion.first_law(gaps)
    first = completion.steps(float(gone[known.lacking].max()))
    for step in range(first + MIXING):
        told = yield Ask(COMPLETION, {"completing": gaps.packed(law), "step": np.array(step)})
        total = completion.Sums(*(np.asarray(told[name]) for name in completion.Sums._fields))
        law = completion.drawn_laws(gaps, law, total, people, 1 if step < first - 1 else chains, seed, step)
    return gaps.packed(law)
