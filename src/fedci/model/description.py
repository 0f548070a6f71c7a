"""What both models are to the rest: a frozen description that is a key of compiled functions, and the names of θ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedci.model import kernels
from fedci.study.options import ModelOptions, SharedOptions

Theta = dict


@dataclass(frozen=True)
class Description:
    """Equal descriptions share one compilation. Make one with `structure.model_of`."""

    options: ModelOptions | SharedOptions
    covariates: int
    """d, the columns of x."""
    described: int
    """Columns of x whose moments enter x̃ (indicators of missing values do not)."""
    sites: int
    """m."""

    @cached_property
    def _hash(self) -> int:
        return hash((self.options.model_dump_json(), self.covariates, self.described, self.sites))

    def __hash__(self) -> int:
        """Computed once: JAX asks for it at every call of a compiled function."""
        return self._hash

    @property
    def kernel(self) -> kernels.Kernel:
        return kernels.build(self.options.kernel)


def names_of(shapes: Theta) -> list[str]:
    """'mean.weight[3,1]', … in the order of the vector."""
    return [name + (f"[{','.join(map(str, index))}]" if leaf.shape else "")
            for name, leaf in _named(shapes) for index in np.ndindex(leaf.shape)]


def _named(tree: Theta, prefix: str = "") -> Iterator:
    for key in sorted(tree):
        if isinstance(tree[key], dict):
            yield from _named(tree[key], f"{prefix}{key}.")
        else:
            yield prefix + key, tree[key]
