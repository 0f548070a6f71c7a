"""A request made of what is asked of all sites (`model.family.Ask`), and the shapes of what they answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from fedci.effect import POPULATIONS
from fedci.model.family import Ask, Family, Sums
from fedci.protocol.messages import Base, Message
from fedci.protocol.requests import REQUESTS, Shapes


def request_of(ask: Ask, base: Base, index: int, previous: Sums) -> Message:
    """The request to the site of this index."""
    row = REQUESTS[ask.name]
    made: Callable[..., Message] = row.message
    if row.kind:
        return made(*base, row.kind, dict(ask.arrays))
    arrays = {name: np.asarray(part) for name, part in ask.arrays.items()}
    own = {"g": arrays["g"][:, index]} if "g" in arrays else {}
    return made(*base, **arrays | own, previous=dict(previous))


def arrays_of(request: Message) -> dict[str, np.ndarray]:
    """The arrays that a request of the fit asks with."""
    return {name: part for name, part in vars(request).items() if isinstance(part, np.ndarray)}


MEASURED: Mapping[str, tuple[str, Callable[[np.ndarray], int]]] = {
    "centre": ("covariates", len),
    "coefficients": ("coefficients", len),
    "correlations": ("correlations", len),
    "phi_roots": ("draws", len),
    "thetas": ("draws", len),
    "betas": ("draws", lambda betas: math.prod(betas.shape[:2])),
}
"""Array that is asked → the size of the answer that it gives; draws of β, where it has any, in place of θ's."""


def sizes(arrays: Mapping[str, np.ndarray], model: Family | None = None) -> dict[str, int]:
    """The named sizes (`requests.SIZES`) of what answers a request with these arrays."""
    return model_sizes(model) | {size: length(arrays[name]) for name, (size, length) in MEASURED.items()
                                 if name in arrays}


def model_sizes(model: Family | None) -> dict[str, int]:
    """Those that a model gives; one without β has no basis."""
    if model is None:
        return {}
    return {"parameters": model.size, "basis": model.columns, "products": model.columns * (model.columns + 1) // 2,
            "populations": len(POPULATIONS)}


def shapes(model: Family, ask: Ask, averaged: bool = False) -> Shapes:
    """Of each named sum that answers; `averaged`: effects are told as of one draw."""
    row, measured = REQUESTS[ask.name], sizes(ask.arrays, model)
    return row.summed_shapes(measured | {"draws": 1} if averaged and row.averaged else measured)
