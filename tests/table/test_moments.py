"""The four moments, and the moments of all rows from the moments of each site."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fedci.table.moments import Moments, describe, pool, round_digits


def sample(n: int = 40, seed: int = 0) -> np.ndarray:
    """Three columns, each skewed and long-tailed in its own way."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.standard_normal(n), rng.exponential(2.0, n) - 5, rng.integers(0, 2, n)])


# ── describe ────────────────────────────────────────────────────────────────────────────────────────────────


def test_moments_are_scipys_population_moments():
    """Divided by n (bias=True), kurtosis in excess of the normal's."""
    x = sample()
    values, count = describe(x)
    expected = [x.mean(0), x.var(0, ddof=0), stats.skew(x, bias=True), stats.kurtosis(x, fisher=True, bias=True)]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(count, 40)


def test_missing_values_are_left_out():
    x = sample()
    x[[3, 5, 8], 1] = np.nan
    x[:, 2] = np.nan
    values, count = describe(x)
    np.testing.assert_array_equal(count, [40, 37, 0])
    seen = x[~np.isnan(x[:, 1]), 1][:, None]
    np.testing.assert_allclose(values[:, 1], describe(seen).values[:, 0], rtol=1e-13)
    np.testing.assert_array_equal(values[:, 2], 0.0)


@pytest.mark.parametrize("value", [0.0, 0.1, -7e9, 1e-200])
@pytest.mark.parametrize("n", [1, 3, 10, 77])
def test_a_constant_column_has_no_shape(n, value):
    values, _ = describe(np.full((n, 1), value))
    np.testing.assert_allclose(values[0, 0], value, rtol=1e-15)
    np.testing.assert_array_equal(values[2:], 0.0)


@pytest.mark.parametrize("pooled", [False, True])
def test_a_constant_column_has_no_variance(pooled):
    parts = [np.full((n, 1), 0.1) for n in (3, 7, 10, 11)]
    moments = pool([describe(part) for part in parts]) if pooled else describe(np.vstack(parts))
    assert moments.values[1, 0] == 0.0


def exact(column) -> list[float]:
    """The four moments in rational arithmetic."""
    v = [Fraction(value) for value in column]
    mean = sum(v) / len(v)
    m2, m3, m4 = (float(sum((x - mean) ** k for x in v) / len(v)) for k in (2, 3, 4))
    return [float(mean), m2, m3 / m2**1.5, m4 / m2**2 - 3]


@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e8])
def test_digits_survive_a_mean_far_above_the_spread(ratio):
    """The one-pass form keeps none of them at 1e8. Here the mean's own rounding, 1e-16·ratio of a spread, remains."""
    column = ratio + np.random.default_rng(0).exponential(1.0, 50)
    np.testing.assert_allclose(describe(column[:, None]).values[:, 0], exact(column), rtol=1e-15 * ratio + 1e-13)


# ── pool ────────────────────────────────────────────────────────────────────────────────────────────────────

numbers = st.floats(-100, 100).map(lambda v: round(v, 3))


@given(rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40),
       cuts=st.sets(st.integers(0, 40), max_size=5))
def test_pooled_moments_are_those_of_all_rows(rows, cuts):
    """For any split, empty parts included."""
    x = np.array(rows)
    together = describe(x)
    # A spread of less than 1e-4 of the mean leaves too few digits in the parts for 1e-12.
    assume((together.values[1] > (1e-4 * abs(x).max(0)) ** 2).all())
    parts = [describe(part) for part in np.split(x, sorted(cut for cut in cuts if cut <= len(x)))]
    pooled = pool(parts)
    np.testing.assert_array_equal(pooled.count, together.count)
    magnitude = np.stack([abs(x).max(0), together.values[1], *(np.ones((2, 2)) + abs(together.values[2:]))])
    # Shifting a part's third and fourth moments by δ loses (|δ|/sd)^4 of their digits; |δ| ≤ 1e2 sd in what is left.
    assert (abs(pooled.values - together.values) <= 1e-12 * magnitude).all()


def test_pooling_ignores_the_order_of_the_parts_up_to_rounding():
    parts = [describe(sample(n, seed)) for seed, n in enumerate((5, 9, 30))]
    np.testing.assert_allclose(pool(parts).values, pool(parts[::-1]).values, rtol=1e-13)


def test_pooling_one_part_returns_it():
    part = describe(sample())
    np.testing.assert_allclose(pool([part]).values, part.values, rtol=1e-14, atol=1e-14)


def test_pooling_nothing_is_empty():
    empty = Moments(np.zeros((4, 2)), np.zeros(2, int))
    np.testing.assert_array_equal(pool([empty, empty]).values, 0.0)


# ── what leaves a site ──────────────────────────────────────────────────────────────────────────────────────


@given(st.floats(-1e12, 1e12).filter(lambda v: v == 0 or abs(v) > 1e-12), st.integers(1, 17))
def test_rounded_to_significant_digits(value, digits):
    rounded = float(round_digits(np.array([value]), digits)[0])
    assert rounded == float(f"{value:.{digits - 1}e}")
    assert abs(rounded - value) <= 0.5 * 10.0 ** (1 - digits) * abs(value) * (1 + 1e-9)


def test_rounding_can_be_off_and_keeps_zero():
    values = np.array([[0.0, np.pi], [-1e-9 * np.e, 2.0**60]])
    assert round_digits(values, None) is values
    np.testing.assert_array_equal(round_digits(values, 3), [[0.0, 3.14], [-2.72e-9, 1.15e18]])
