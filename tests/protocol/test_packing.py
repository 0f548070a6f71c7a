"""Named sums as one vector: there and back, in another unit, and as large as is said."""

import numpy as np
import pytest

from fedci.privacy import secure_sum
from fedci.protocol import packing

SUMS = {"gradient": np.arange(6.0).reshape(2, 3), "failed": np.array(1.0), "people": np.array([40.0, 21.0, 19.0])}
SHAPES = {name: part.shape for name, part in SUMS.items()}


def test_a_vector_of_sums_comes_apart_as_it_was_put_together():
    back = packing.unflatten(packing.flat(SUMS), SHAPES)
    assert back.keys() == SUMS.keys()
    for name, part in SUMS.items():
        np.testing.assert_array_equal(back[name], part)


def test_the_order_is_that_of_the_names_whatever_the_order_of_the_sums():
    np.testing.assert_array_equal(packing.flat(SUMS), packing.flat(dict(reversed(SUMS.items()))))
    np.testing.assert_array_equal(packing.flat(SUMS)[1:7], np.arange(6.0))


@pytest.mark.parametrize("name, power", [("cate_mean", 1), ("ite_sd", 1), ("cate_var", 2), ("people", 0)])
def test_a_unit_enters_means_once_variances_twice_and_counts_not_at_all(name, power):
    assert packing.rescaled({name: np.array(3.0)}, 10.0)[name] == 3.0 * 10.0**power


@pytest.mark.parametrize("wide", [False, True])
def test_a_masked_answer_has_its_numbers_and_the_checks(wide):
    """Numbers of any size take two integers each."""
    values = packing.flat(SUMS)
    assert packing.masked_size(SHAPES, wide) == len(secure_sum.encode(values, 3, wide)) + secure_sum.CHECKS


def test_the_jitter_is_summed_beside_the_answers():
    assert packing.with_jitter(SHAPES) == SHAPES | {packing.JITTERED: ()}
