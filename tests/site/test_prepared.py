"""Rows in the study's units: missing values at the mean with a flag beside them; a withheld column says nothing."""

import numpy as np

from fedci.site.prepared import Units


def test_missing_values_are_at_the_mean_and_flagged():
    units = Units(x_mean=np.array([10.0, 0.0]), x_sd=np.array([2.0, 1.0]), y_mean=5.0, y_sd=4.0,
                  indicators=np.array([0]))
    x = np.array([[12.0, 1.0], [np.nan, -1.0]])
    np.testing.assert_array_equal(units.covariates(x), [[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
    np.testing.assert_array_equal(units.outcome(np.array([5.0, 13.0])), [0.0, 2.0])


def test_in_a_column_that_stays_at_the_sites_everybody_is_the_same():
    units = Units(x_mean=np.zeros(2), x_sd=np.array([np.inf, 1.0]), y_mean=0.0, y_sd=1.0, indicators=np.zeros(0, int))
    np.testing.assert_array_equal(units.covariates(np.array([[12.0, 1.0], [np.nan, 2.0]])), [[0.0, 1.0], [0.0, 2.0]])
