"""A site's own people: a row each, with the ends of their intervals."""

import numpy as np
import pytest

from fedci.effect import Effect
from fedci.errors import UsageError
from fedci.result import individual


@pytest.mark.parametrize("value", [-1.0, 1.0, float("nan"), 3.0])
def test_a_correlation_is_within_its_bounds(value):
    individual.check_correlation(None)
    individual.check_correlation(0.99)
    with pytest.raises(UsageError, match="is outside"):
        individual.check_correlation(value)


def test_the_columns_of_an_effect_are_its_own():
    effect = Effect(np.array([[1.0, 2.0]]), np.array([[4.0, 9.0]]))
    columns = individual._columns("cate", effect, 0.1)
    assert list(columns) == ["cate", "cate_sd", "cate_low", "cate_high"]
    np.testing.assert_allclose(columns["cate_sd"], [2.0, 3.0], rtol=1e-12)
    np.testing.assert_array_equal(columns["cate_low"], effect.interval(0.1)[0])
