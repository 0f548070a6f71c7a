"""The table of the priors: whole, with a reason for each row, and θ filled from it entry by entry."""

import numpy as np
import pytest

from fedci.model import kernels
from fedci.model.families import model_of
from fedci.model.shared import priors
from fedci.study.options import SharedOptions

D = 3
OPTIONS = SharedOptions(family="shared", directions=2, knots=4)


def test_every_row_has_its_letter_and_its_reason():
    assert all(row.letter and row.reason for row in priors.TABLE.values())
    assert all(row.option is None or hasattr(OPTIONS, row.option) for row in priors.TABLE.values())


@pytest.mark.parametrize("column", [priors.means, priors.starts, priors.ridge, priors.sds, priors.heavy])
def test_theta_has_the_shapes_of_the_table(column):
    theta, sizes = column(OPTIONS, D), {"d": D, "K": 2}
    assert theta.keys() == priors.TABLE.keys()
    for part, row in priors.TABLE.items():
        if row.shape != ("k",):
            assert theta[part].shape == tuple(sizes.get(length, length) for length in row.shape)


@pytest.mark.parametrize("part", [part for part, row in priors.TABLE.items() if row.shape != ("k",)])
def test_each_entry_is_the_tables(part):
    row = priors.TABLE[part]
    start, ridge = (row.mean if value is None else value for value in (row.start, row.ridge))
    for column, value in ((priors.means, row.mean), (priors.starts, start), (priors.ridge, ridge),
                          (priors.sds, row.sd)):
        found = column(OPTIONS, D)[part]
        np.testing.assert_array_equal(found, np.broadcast_to(value, found.shape))


def test_the_scales_of_k_lie_around_where_k_starts():
    start = kernels.build(OPTIONS.kernel).init(D)
    for part, value in priors.means(OPTIONS, D)["kernel"].items():
        np.testing.assert_array_equal(value, start[part])


def test_only_directions_have_heavy_tails_and_only_where_the_option_says_so():
    heavy = {part for part, value in priors.heavy(OPTIONS, D).items() if part != "kernel" and value.any()}
    assert heavy == {"directions"}
    assert not priors.heavy(OPTIONS.model_copy(update={"tails": None}), D)["directions"].any()


def test_a_part_without_its_option_is_not_in_theta():
    without = OPTIONS.model_copy(update={"common": False})
    gone = {part for part, row in priors.TABLE.items() if row.option == "common"}
    assert priors.TABLE.keys() - priors.table(without).keys() == gone == {"common", "direction_common"}


def test_the_models_prior_is_the_table_as_a_vector():
    model = model_of(OPTIONS, D, D, 2)
    mean, sd = model.prior
    np.testing.assert_array_equal(mean, model.ravel(priors.means(OPTIONS, D)))
    np.testing.assert_array_equal(sd, model.ravel(priors.sds(OPTIONS, D)))
