"""The families by name: the one place that knows them all."""

from __future__ import annotations

from functools import lru_cache

from fedci.model.family import Family
from fedci.model.paper.paper_family import PaperFamily
from fedci.model.shared.shared_family import SharedFamily
from fedci.study.options import ModelOptions, SharedOptions

FAMILIES: dict[str, type[Family]] = {"paper": PaperFamily, "shared": SharedFamily}


@lru_cache(maxsize=256)
def model_of(options: ModelOptions | SharedOptions, covariates: int, described: int, sites: int,
             outcome: str = "numeric", intervals: int = 0) -> Family:
    """The one model of these values in this process: comparing it with itself costs nothing. `covariates` of people:
    of a time to an event x has the interval's place beside them."""
    return FAMILIES[options.family](options=options, covariates=covariates + (outcome == "survival"),
                                    described=described, sites=sites, outcome=outcome, intervals=intervals)
