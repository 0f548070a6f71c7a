"""A site's rows of an outcome that is no number, as they are computed on: all at once, or in blocks where many."""

from __future__ import annotations

import numpy as np
from jaxtyping import Array

from fedci.model import padding
from fedci.model.rows import Rows, on_device
from fedci.model.shared import inducing as inducing_inputs
from fedci.model.shared.latent import LatentRows
from fedci.model.shared.latent_blocks import LatentBlocks
from fedci.model.shared.shared import SharedModel
from fedci.model.shared.sparse import Blocks

FEW_BLOCKS = 4
"""From there on an even number of them."""


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
    cut = _padded(inducing_inputs.cut(x, w, y, u, index, model.kernel, model.options.inducing, inducing=inducing,
                                      arms=model.arms), len(y))
    row = np.asarray(cut.row)
    return LatentBlocks(cut, on_device(np.append(more, 1.0)[row]), on_device(flips))


def _padded(cut: Blocks, nobody: int) -> Blocks:
    """With blocks of nobody, so that sites of like size share their programs, whatever the sizes of their arms: to
    compile them takes longer than a fit of some hundred people. `nobody`: what stands for padding in `row`."""
    count = cut.arm.shape[0]
    step = max(2 ** ((count - 1).bit_length() - 3), 2 if count > FEW_BLOCKS else 1)
    more = -count % step

    def grown(part: Array, value: float = 0) -> Array:
        return on_device(np.pad(np.asarray(part), [(0, more), *((0, 0),) * (part.ndim - 1)], constant_values=value))

    return cut._replace(x=grown(cut.x), y=grown(cut.y), mask=grown(cut.mask), arm=grown(cut.arm),
                        row=grown(cut.row, nobody), weight=grown(cut.weight, 1.0)) if more else cut
