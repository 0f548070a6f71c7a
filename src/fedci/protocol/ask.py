"""A step made of what is asked of all sites (`model.family.Ask`), and the shapes of what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from fedci.effect import weights_of
from fedci.model.family import Ask, Family, Sums
from fedci.protocol.messages import Base, Step
from fedci.protocol.requests import REQUESTS, Shapes


def step_of(ask: Ask, base: Base, previous: Sums) -> Step:
    return Step(*base, ask.name, dict(previous))


MEASURED: Mapping[str, tuple[str, Callable[[np.ndarray], int]]] = {
    "columns": ("columns", int),
    "arms": ("arms", int),
    "x_mean": ("columns", len),
    "slots": ("sites", int),
    "centre": ("covariates", len),
    "correlations": ("correlations", len),
    "phi_roots": ("draws", len),
    "thetas": ("draws", len),
    "betas": ("draws", lambda betas: math.prod(betas.shape[:2])),
    "completing": ("draws", len),
    "told_draws": ("draws", int),
    "groups": ("groups", int),
    "along": ("along", int),
    "rule": ("leaves", len),
    "cutoffs": ("cutoffs", len),
    "levels": ("levels", int),
}
"""Array that is asked → the size of the answer that it gives; draws of β, where it has any, in place of θ's."""


def sizes(arrays: Mapping[str, np.ndarray], model: Family | None = None) -> dict[str, int]:
    """The named sizes (`requests.SIZES`) of what answers a request with these arrays."""
    measured = {size: length(arrays[name]) for name, (size, length) in MEASURED.items() if name in arrays}
    follows = {"described": measured["columns"] + 3} if "columns" in measured else {}
    if model is not None and "stage" in arrays:
        follows |= model.dictionary(int(arrays["stage"]))
    return model_sizes(model) | measured | follows


@lru_cache(maxsize=64)
def model_sizes(model: Family | None) -> dict[str, int]:
    """Those that a model gives; one without β has no basis."""
    if model is None:
        return {}
    return {"parameters": model.size, "basis": model.columns, "products": model.columns * (model.columns + 1) // 2,
            "arms": model.arms, "populations": len(weights_of(model.arms)), "intervals": max(model.intervals, 1),
            "completed": model.described + 1, "completed_products": (model.described + 1) * (model.described + 2) // 2}


def shapes(model: Family | None, ask: Ask, averaged: bool = False) -> Shapes:
    """Of each named sum that answers; `averaged`: effects are told as of one draw."""
    row, measured = REQUESTS[ask.name], sizes(ask.arrays, model)
    return row.shapes(measured | {"draws": 1} if averaged and row.averaged else measured)
