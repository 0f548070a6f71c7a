"""A site's rows in the study's common units, arranged as the model computes on them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedci.model import padding
from fedci.model.law import AnyModel
from fedci.model.paper import elbo
from fedci.model.shared.inducing import Blocks, cut
from fedci.model.shared.shared import SharedModel
from fedci.protocol import stages


@dataclass(frozen=True)
class Units:
    """How this study's rows become the model's: pooled centre and spread, and indicators of missing values."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float
    indicators: np.ndarray

    def covariates(self, x: np.ndarray) -> np.ndarray:
        """[n, d] raw, NaN where missing → [n, d + indicators]: centred, missing set to the pooled mean, flags added."""
        missing = np.isnan(x)
        scaled = np.where(missing, 0.0, (x - self.x_mean) / self.x_sd)
        return np.hstack([scaled, missing[:, self.indicators].astype(float)])

    def outcome(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_mean) / self.y_sd


@dataclass(frozen=True)
class Prepared:
    """The site once it knows the common units."""

    model: AnyModel
    units: Units
    arrays: elbo.SiteArrays | Blocks
    """Its rows; in blocks where they are many."""
    few: dict[int, elbo.SiteArrays | Blocks] = field(default_factory=dict)
    """At most so many of them, for the first stage; all of a small site's."""


def arrange(model: AnyModel, x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int):
    """The rows (model units) as the model computes on them: exactly, or in blocks above model.exact_rows."""
    if isinstance(model, SharedModel) and len(y) > model.options.exact_rows:
        return cut(x, w, y, u, index, model.kernel, model.options.inducing)
    return padding.pad_site(x, w, y, u, index)


def arrange_few(model: AnyModel, x: np.ndarray, w: np.ndarray, y: np.ndarray, arrays, rows: int):
    """Of a large site's rows those that a stage looks at, with the same inducing inputs."""
    some = stages.chosen(w, rows)
    if not isinstance(arrays, Blocks) or len(some) == len(y):
        return arrays
    x, w, y, u, index = x[some], w[some], y[some], np.asarray(arrays.u), int(arrays.index)
    if len(some) <= model.options.exact_rows:
        return padding.pad_site(x, w, y, u, index)
    return cut(x, w, y, u, index, model.kernel, 0, inducing=np.asarray(arrays.inducing))
