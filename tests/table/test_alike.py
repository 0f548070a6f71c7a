"""What columns are to each other is the same whether a table is looked at as a whole or in parts."""

import numpy as np
import pytest

from fedci.table import alike
from fedci.table.alike import Picked, correlation, ends, holds_only, spreads


def table(rows=1000) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 5))
    x[:, 1] = 2.0 * x[:, 0] + 3.0
    x[:, 2] = rng.integers(0, 2, rows)
    x[rng.uniform(size=rows) < 0.2, 3] = np.nan
    x[:, 4] = np.nan
    return x


@pytest.mark.parametrize("part", [64, 1000, 10**6])
def test_parts_say_what_the_whole_says(part, monkeypatch):
    monkeypatch.setattr(alike, "PART", part)
    x = table()
    low, high = ends(x)
    np.testing.assert_array_equal(low[:4], np.nanmin(x[:, :4], 0))
    np.testing.assert_array_equal(high[:4], np.nanmax(x[:, :4], 0))
    assert np.isnan(low[4])
    assert holds_only(x, low, high).tolist() == [False, False, True, False, True]
    some = Picked(x, np.array([True, True, True, True, False]))
    np.testing.assert_allclose(spreads(some), np.nanstd(x[:, :4], 0), rtol=1e-12)
    complete = x[~np.isnan(x[:, 3]), :4]
    np.testing.assert_allclose(correlation(some, 1e-12), np.corrcoef(complete.T), atol=1e-12)
    assert correlation(Picked(x, np.array([False, False, True, False, True])), 1e-12) is None
