"""A request made of what is asked of all sites (`model.family.Ask`), and the shapes of what they answer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedci.diagnostics import fit
from fedci.model.family import Ask, Family, Shapes, Sums, shapes_of
from fedci.protocol.messages import DIAGNOSTICS, TYPES, AskDiagnostic, Message


def diagnostic(kind: str, arrays: Mapping[str, np.ndarray]) -> Ask:
    """A diagnostic that is summed over sites."""
    return Ask(f"AskDiagnostic.{kind}", dict(arrays))


def request_of(ask: Ask, base: tuple, index: int, previous: Sums) -> Message:
    """The request to the site of this index."""
    arrays = {name: np.asarray(part) for name, part in ask.arrays.items()}
    message, _, kind = ask.name.partition(".")
    if kind in DIAGNOSTICS:
        return AskDiagnostic(*base, kind, arrays)
    own = {"g": arrays["g"][:, index]} if "g" in arrays else {}
    return TYPES[message](*base, **arrays | own, previous=dict(previous))


def arrays_of(request: Message) -> dict[str, np.ndarray]:
    """The arrays that a request of the fit asks with."""
    return {name: part for name, part in vars(request).items() if isinstance(part, np.ndarray)}


def shapes(model: Family, ask: Ask, averaged: bool = False) -> Shapes:
    """Of each named sum that answers a request with these arrays; `averaged`: effects are told as of one draw."""
    if ask.name.partition(".")[2] in DIAGNOSTICS:
        return diagnostic_shapes(ask.arrays)
    given = model.gives(ask.name, shapes_of(ask.arrays))
    if averaged and "cate_mean" in given:
        return {name: (1, *shape[1:]) if name.endswith(("_mean", "_var")) else shape for name, shape in given.items()}
    return given


def diagnostic_shapes(arrays: Mapping[str, np.ndarray]) -> Shapes:
    """Of the sums that answer a diagnostic with these arrays: calibration has `edges`, the propensity model none."""
    if "edges" in arrays:
        bins = len(arrays["edges"]) + 1
        return {"sites": (), "places": (fit.PLACES,), "places_hidden": (fit.PLACES,), "places_whole": (fit.PLACES,),
                "bins": (bins, 4), "line": (6,), "treated_share": (2,)}
    size = len(arrays["coefficients"])
    return {"log_likelihood": (), "gradient": (size,), "hessian": (size, size)}


SITE_SHAPES = {"effect": (3,), "residuals": (2, 3)}
"""Of what a site tells of itself beside a masked diagnostic."""
