"""One thing asked of all sites, and the shapes of what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fedci.model.law import AnyModel
from fedci.protocol.messages import Message
from fedci.protocol.requests import REQUESTS, Shapes

Sums = Mapping[str, np.ndarray]
"""Named sums over all sites."""
POPULATIONS = ("all", "treated", "control")
"""Whom an average effect is over: ATE, ATT, ATC."""


class Ask(NamedTuple):
    """A request without its addressee. 'g' [L, m, 2] has a part for each site; all else is the same for all."""

    name: str
    """Of a row of `protocol.requests`."""
    arrays: dict[str, np.ndarray]

    def to(self, base: tuple, index: int, previous: Sums) -> Message:
        """The request to the site of this index."""
        row = REQUESTS[self.name]
        if row.kind:
            return row.message(*base, row.kind, dict(self.arrays))
        arrays = {name: np.asarray(part) for name, part in self.arrays.items()}
        own = {"g": arrays["g"][:, index]} if "g" in arrays else {}
        return row.message(*base, **arrays | own, previous=dict(previous))


MEASURED: Mapping[str, tuple[str, Callable[[np.ndarray], int]]] = {
    "centre": ("covariates", len),
    "coefficients": ("coefficients", len),
    "correlations": ("correlations", len),
    "phi_roots": ("draws", len),
    "thetas": ("draws", len),
    "betas": ("draws", lambda betas: math.prod(betas.shape[:2])),
}
"""Array that is asked → the size of the answer that it gives; draws of β, where it has any, in place of θ's."""


def sizes(arrays: Mapping[str, np.ndarray], model: AnyModel | None = None) -> dict[str, int]:
    """The named sizes (`requests.SIZES`) of what answers a request with these arrays."""
    return model_sizes(model) | {size: length(arrays[name]) for name, (size, length) in MEASURED.items()
                                 if name in arrays}


def model_sizes(model: AnyModel | None) -> dict[str, int]:
    """Those that a model gives; one without β has no basis."""
    if model is None:
        return {}
    basis = getattr(model, "columns", 0)
    return {"parameters": model.size, "basis": basis, "products": basis * (basis + 1) // 2,
            "populations": len(POPULATIONS)}


def shapes(model: AnyModel, ask: Ask, averaged: bool = False) -> Shapes:
    """Of each named sum that answers; `averaged`: effects are told as of one draw."""
    row, measured = REQUESTS[ask.name], sizes(ask.arrays, model)
    return row.summed_shapes(measured | {"draws": 1} if averaged and row.averaged else measured)
