"""Drawn people have the effects that they are said to have, and a table says what its cells hold."""

import numpy as np

from fedci.benchmark.run import arms


def test_effects_are_against_the_reference_and_none_where_arms_are_alike():
    one = arms.drawn(0, 60, alike=False)
    assert (one.effects[:, 0] == 0).all()
    assert (one.effects[:, 1:] != 0).all()
    assert set(one.frame.w) == set(arms.ARMS)
    assert (arms.drawn(0, 60, alike=True).effects == 0).all()
    np.testing.assert_array_equal(arms.drawn(0, 60, False).frame.y, one.frame.y)  # the same replication


def test_each_site_has_its_own_people_and_all_are_there():
    some = arms.drawn(1, 61, alike=False).frame
    parts = arms.sources(some)
    assert [len(part.data) for part in parts] == [21, 20, 20]
    assert sum(part.data.y.sum() for part in parts) == np.sum([some[some.site == k].y.sum() for k in range(3)])


def test_the_table_averages_what_is_against_the_reference_and_counts_the_intervals():
    def cell(replication, contrast, error, low):
        return arms.Cell("shrink", "one fit", replication, 300, contrast, error, 0.0, low, 1.0, 0.5, 1.0)

    cells = [cell(0, "one vs none", 0.2, 0.0), cell(0, "two vs one", 9.0, 0.6), cell(1, "one vs none", 0.4, 0.0)]
    assert arms.table(cells) == ("| shrink | 300 people | one fit | 2 | √PEHE 0.300 ± 0.100 | averages within their "
                                 "95% intervals 66.7% of 3 |")
