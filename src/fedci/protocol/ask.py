"""One thing asked of all sites, and the shapes of what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedci.diagnostics import fit
from fedci.effect import sum_shapes
from fedci.model.law import AnyModel
from fedci.model.shared import evidence
from fedci.protocol.messages import AskDiagnostic, Evaluate, Message, PullBack

Sums = Mapping[str, np.ndarray]
"""Named sums over all sites."""


class Ask(NamedTuple):
    """A request without its addressee. 'g' [L, m, 2] has a part for each site; all else is the same for all."""

    kind: type[Message]
    arrays: dict[str, np.ndarray]

    def to(self, base: tuple, index: int, previous: Sums) -> Message:
        """The request to the site of this index."""
        arrays = {name: np.asarray(part) for name, part in self.arrays.items()}
        own = {"g": arrays["g"][:, index]} if "g" in arrays else {}
        return self.kind(*base, **arrays | own, previous=dict(previous))


class AskOf(NamedTuple):
    """A diagnostic that is summed over sites, as an `Ask`: the same for all of them."""

    diagnostic: str
    arrays: dict[str, np.ndarray]
    kind = AskDiagnostic

    def to(self, base: tuple, index: int, previous: Sums) -> Message:
        return AskDiagnostic(*base, self.diagnostic, dict(self.arrays))


def shapes(model: AnyModel, kind: type[Message], arrays: Mapping[str, np.ndarray],
           averaged: bool = False) -> dict[str, tuple[int, ...]]:
    """Of each named sum that answers a request with these arrays; `averaged`: effects are told as of one draw."""
    if kind is Evaluate:
        roots = arrays["phi_roots"].shape
        return {"objective": (), "gradient": arrays["theta"].shape, "phi_roots": roots, "sigma_roots": roots,
                "failed": ()}
    if kind is AskDiagnostic:
        return diagnostic_shapes(arrays)
    if kind is PullBack:
        return {"gradient": arrays["thetas"].shape}
    if "correlations" not in arrays:
        return evidence.shapes(model, len(arrays["thetas"])) | {"failed": ()}
    draws = arrays["betas"].shape[0] * arrays["betas"].shape[1] if "betas" in arrays else len(arrays["phi_roots"])
    return sum_shapes(1 if averaged else draws, len(arrays["correlations"]))


def diagnostic_shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Of the sums that answer a diagnostic with these arrays: calibration has `edges`, the propensity model none."""
    if "edges" in arrays:
        bins = len(arrays["edges"]) + 1
        return {"sites": (), "places": (fit.PLACES,), "places_hidden": (fit.PLACES,), "places_whole": (fit.PLACES,),
                "bins": (bins, 4), "line": (6,), "treated_share": (2,)}
    size = len(arrays["coefficients"])
    return {"log_likelihood": (), "gradient": (size,), "hessian": (size, size)}


SITE_SHAPES = {"effect": (3,), "residuals": (2, 3)}
"""Of what a site tells of itself beside a masked diagnostic."""
