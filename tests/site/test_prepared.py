"""Rows in the study's units: missing values at the mean with a flag beside them; exactly, or in blocks."""

import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.shared.sparse import Blocks
from fedci.site.prepared import Units, arrange, arrange_few
from fedci.study.options import SharedOptions


def test_missing_values_are_at_the_mean_and_flagged():
    units = Units(np.array([10.0, 0.0]), np.array([2.0, 1.0]), 5.0, 4.0, np.array([0]))
    x = np.array([[12.0, 1.0], [np.nan, -1.0]])
    np.testing.assert_array_equal(units.covariates(x), [[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
    np.testing.assert_array_equal(units.outcome(np.array([5.0, 13.0])), [0.0, 2.0])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)), np.arange(60) % 2, rng.normal(size=60)


def test_a_site_above_exact_rows_is_cut_into_blocks_and_a_small_one_is_not(rows):
    options = SharedOptions(family="shared", knots=3, directions=1, exact_rows=40, inducing=8)
    model = model_of(options, 2, 2, 1)
    assert isinstance(arrange(model, *rows, np.zeros(4), 0), Blocks)
    assert not isinstance(arrange(model, *(part[:40] for part in rows), np.zeros(4), 0), Blocks)


def test_the_first_stage_looks_at_some_of_a_large_site_and_at_all_of_a_small_one(rows):
    options = SharedOptions(family="shared", knots=3, directions=1, exact_rows=40, inducing=8)
    model = model_of(options, 2, 2, 1)
    large = arrange(model, *rows, np.zeros(4), 0)
    some = arrange_few(model, *rows, large, 20)
    assert int(np.asarray(some.mask).sum()) == 20
    small = arrange(model, *(part[:40] for part in rows), np.zeros(4), 0)
    assert arrange_few(model, *(part[:40] for part in rows), small, 20) is small
