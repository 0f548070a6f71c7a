"""Named sums as one vector: there and back, in another unit, and as large as is said."""

import numpy as np
import pytest

from fedci.model.family import Ask
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
    units = packing.units_of(None, Ask("AskEffects", {}), 10.0, 50)
    assert packing.from_units({name: np.array(3.0)}, units)[name] == 3.0 * 10.0**power
    assert packing.in_units({name: np.array(3.0 * 10.0**power)}, units)[name] == 3.0


@pytest.mark.parametrize("form", [secure_sum.BOUNDED, secure_sum.COMPACT, secure_sum.RELATIVE, secure_sum.WIDE,
                                  secure_sum.RAW])
def test_a_masked_answer_has_its_numbers_and_the_checks(form):
    """An integer for each number and each part of its form; eight of 40 bits travel in five."""
    values = packing.flat(SUMS)
    numbers = secure_sum.with_checks(secure_sum.encode(values, 3, form), bytes(32), False)
    assert packing.integers(SHAPES, form) == len(form) * len(values) == len(numbers) - secure_sum.CHECKS
    assert packing.masked_size(SHAPES, form) == len(secure_sum.narrowed(numbers, form))
    share = 5 / 8 if form == secure_sum.COMPACT else 1
    assert packing.masked_size(SHAPES, form) == np.ceil(share * len(form) * len(values)) + secure_sum.CHECKS


def test_sums_in_the_datas_own_units_are_raw_and_gradients_bounded_only_where_data_are_standardised(make):
    standardised, own = (make.model(sites=2, standardise=flag) for flag in (True, False))
    for name in ("AskMeans", "AskSpreads"):
        assert packing.form_of(None, name) == secure_sum.RAW
    assert packing.form_of(standardised, "Evaluate") == secure_sum.BOUNDED
    assert packing.form_of(standardised, "AskStatistics") == secure_sum.COMPACT
    assert packing.form_of(own, "Evaluate") == packing.form_of(own, "AskStatistics") == secure_sum.WIDE


def test_the_jitter_is_summed_beside_the_answers():
    assert packing.with_jitter(SHAPES) == SHAPES | {packing.JITTERED: ()}
