"""Subgroups and decisions beside the truth: people of nobody, and the table of what was found."""

import numpy as np

from fedci.benchmark.cost import decision_coverage as coverage
from fedci.benchmark.cost.decision_coverage import Cell


def test_people_have_their_truth_beside_them():
    """10,000: the treated and the untreated are as often as their propensity; outcomes are on average the expected."""
    same = coverage.people("same", "numeric", 10_000, 0, 0)
    np.testing.assert_allclose(same.mu1 - same.mu0, 0.5)
    told = coverage.people("differ", "binary", 10_000, 0, 0)
    expected = np.where(told.w == 1, told.mu1, told.mu0)
    assert abs(told.y.mean() - expected.mean()) < 4 * 0.5 / 100
    assert (told.mu1 - told.mu0).std() > 0.05


def test_the_table_has_a_row_for_each_set():
    cell = Cell("differ", "numeric", 200, 0, 10, 9, True, 8, 8, True, True, True, True, 0.4, 0.1, 0.45, 0.5, 0.1, 0.45,
                0.5)
    rows = coverage.summary([cell, cell._replace(replication=1, held=10), cell._replace(set="same")]).splitlines()
    assert len(rows) == 4
    assert rows[2].startswith("| differ | numeric, 3 × 200 | 2 | 0.950 | 1.000 | 1.000 |")
    assert rows[2].endswith("| -0.0500 (0.0000) | +0.0500 (0.0000) |")
    assert len(coverage.study("binary").groups) == 10


def test_the_table_of_sites_left_out():
    one = coverage.Moved(0.5, 200, 0, 1.0, 0.5, 1.5, 1.2, "look", 1.1, 0.9, 1.7, 150.0)
    assert coverage.summary_of_moved([one, one._replace(replication=1, true=1.8)]).splitlines()[-1] == (
        "| 0.5 | 2 | 0.500 | -0.500 | 1.000 | 0.500 | -0.400 | 0.800 | 150 of 400 |")
