"""The families by name: the one place that knows them all."""

from __future__ import annotations

from functools import lru_cache

from fedci.model.family import Family
from fedci.model.paper.paper_family import PaperFamily
from fedci.model.shared.few_family import FewFamily
from fedci.model.shared.noised_family import NoisedFamily
from fedci.model.shared.shared_family import SharedFamily
from fedci.study.options import ModelOptions, SharedOptions

FAMILIES: dict[tuple[str, str], type[Family]] = {
    ("paper", "gradients"): PaperFamily, ("shared", "gradients"): SharedFamily, ("shared", "products"): FewFamily}
"""By the family and what its rounds tell."""


@lru_cache(maxsize=256)
def model_of(options: ModelOptions | SharedOptions, covariates: int, described: int, sites: int,
             outcome: str = "numeric", intervals: int = 0, arms: int = 2) -> Family:
    """The one model of these values in this process: comparing it with itself costs nothing. `covariates` of people:
    of a time to an event x has the interval's place beside them."""
    kind = NoisedFamily if options.sum_noise else FAMILIES[options.family, options.rounds_tell]
    return kind(options=options, covariates=covariates + (outcome == "survival"), described=described, sites=sites,
                outcome=outcome, intervals=intervals, arms=arms)
