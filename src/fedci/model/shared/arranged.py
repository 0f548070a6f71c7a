"""A site's rows of an outcome that is no number, as they are computed on: all at once, or in blocks where many."""

from __future__ import annotations

import numpy as np

from fedci.model import padding
from fedci.model.rows import Rows, on_device
from fedci.model.shared import inducing as inducing_inputs
from fedci.model.shared.latent import LatentRows
from fedci.model.shared.latent_blocks import LatentBlocks
from fedci.model.shared.shared import SharedModel


def arranged(model: SharedModel, x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int, flips: float,
             more: np.ndarray | None = None, inducing: np.ndarray | None = None, blocks: bool = False,
             cluster: np.ndarray | None = None) -> Rows:
    """`more`: `likelihood.Told.more`, without it as of 0 and 1. `blocks`: however few there are. People in clusters
    are computed on all at once."""
    more = np.ones(len(y)) if more is None else more
    if cluster is not None or (not blocks and len(y) <= model.options.exact_rows):
        rows = padding.pad_site(x, w, y, u, index, cluster=cluster)
        return LatentRows(rows, on_device(np.pad(more, (0, rows.y.shape[0] - len(y)), constant_values=1.0)),
                          on_device(flips))
    cut = inducing_inputs.cut(x, w, y, u, index, model.kernel, model.options.inducing, inducing=inducing,
                              arms=model.arms)
    row = np.asarray(cut.row)
    return LatentBlocks(cut, on_device(np.append(more, 1.0)[row]), on_device(flips))
