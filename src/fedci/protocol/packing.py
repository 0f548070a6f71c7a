"""Named sums as the one vector that masks hide: their order, their units, and how many integers they take."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedci.model.family import Ask, Family, Shapes
from fedci.privacy import secure_sum
from fedci.privacy.secure_sum import BOUNDED, COMPACT, RELATIVE, WIDE, Form
from fedci.protocol.requests import REQUESTS

JITTERED = "jittered"
"""Summed beside the answers: by how many steps of their ladders all sites together raised their jitter."""


def flat(sums: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(sums[name], float)) for name in sorted(sums)])


def unflatten(values: np.ndarray, shapes: Shapes) -> dict[str, np.ndarray]:
    """The named arrays of these shapes, in the order of the names."""
    named, at = {}, 0
    for name in sorted(shapes):
        size = math.prod(shapes[name])
        named[name], at = values[at:at + size].reshape(shapes[name]), at + size
    return named


def form_of(model: Family | None, request: str) -> Form:
    """How the numbers of a sum travel: those of a fit are bounded where data are standardised, and only there."""
    form = REQUESTS[request].form
    return WIDE if form in (BOUNDED, COMPACT, RELATIVE) and not (model and model.options.standardise) else form


POWERS = {"cate_mean": 1, "ite_mean": 1, "ite_sd": 1, "cate_var": 2, "ite_var": 2, "arm_mean": 1,
          "arm_cov": 2}
"""Of the outcome's unit in each sum of effects."""


def units_of(model: Family | None, ask: Ask, outcome: float, people: int) -> dict[str, np.ndarray]:
    """Of the sums that have one while they are masked, so that the range of the secure sum depends neither on whether
    an outcome is in years or in cents (`outcome`: one in model units, in its own), nor on how many people there are."""
    fitted = model.units(ask, people) if model and form_of(model, ask.name) in (BOUNDED, COMPACT, RELATIVE) else {}
    return {name: np.asarray(outcome**power) for name, power in POWERS.items()} | fitted


def in_units(sums: Mapping[str, np.ndarray], units: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: part / units[name] if name in units else part for name, part in sums.items()}


def from_units(sums: Mapping[str, np.ndarray], units: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: part * units[name] if name in units else part for name, part in sums.items()}


def masked_size(shapes: Shapes, form: Form) -> int:
    """int64 of a masked answer."""
    return secure_sum.size(integers(shapes, form), form)


def integers(shapes: Shapes, form: Form) -> int:
    """In it, without those of the check."""
    return len(form) * sum(map(math.prod, shapes.values()))


def with_jitter(shapes: Shapes) -> Shapes:
    """The shapes of what is summed under masks."""
    return dict(shapes) | {JITTERED: ()}
