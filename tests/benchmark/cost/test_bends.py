"""What the prior of `default` says of bends: the numbers that a fit from noised sums adds to people's effects."""

import numpy as np
import pytest

from fedci.benchmark.cost.bends import of_prior
from fedci.model.shared.noised_family import BEND, WITHIN


@pytest.mark.slow  # the benchmark measures the same on more draws
def test_bends_are_as_large_as_is_said_and_grow_as_is_said():
    """Shares of 60 draws have an sd of 0.6, so their mean one of 0.08: within 3 of these. People far out bend more than
    those in the middle, by as much as q, to a factor 2."""
    bends = of_prior(5, 60)
    said = BEND * np.maximum(bends.q, WITHIN)
    assert abs(bends.shares.mean() - said.mean()) < 0.24
    far, near = bends.q > np.quantile(bends.q, 0.8), bends.q < np.quantile(bends.q, 0.4)
    ratio = (bends.at[far].mean() / said[far].mean()) / (bends.at[near].mean() / said[near].mean())
    assert 0.5 < ratio < 2.0
