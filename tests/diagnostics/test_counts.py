"""Counts that may leave a site: no small one is shown, nor left over as a difference."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedci.diagnostics import counts, overlap


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(0, 12))
def test_no_small_count_is_shown_nor_left_over(values, least):
    values = np.array(values)
    hidden = counts.hide(values, least)
    assert not ((values[~hidden] > 0) & (values[~hidden] < least)).any()
    left = values[hidden].sum()
    assert left == 0 or left >= least or not (values[~hidden] > 0).any()


@given(st.lists(st.integers(0, 30), min_size=20, max_size=20), st.integers(0, 12))
def test_groups_and_their_cells_tell_no_small_count_together(values, least):
    values = np.array(values)
    hidden, totals, away = counts.hide_nested(values, overlap.GROUP, least)
    assert hidden[away[overlap.GROUP]].all()
    shown = ~away
    assert not ((totals[shown] > 0) & (totals[shown] < least)).any()
    for group in np.flatnonzero(shown):
        cells = group == overlap.GROUP
        left = totals[group] - values[cells & ~hidden].sum()  # what a reader can compute
        assert left == 0 or left >= least
    left = values.sum() - totals[shown].sum()
    assert left == 0 or left >= least or not totals[shown].any()


def test_nothing_is_hidden_from_nobody():
    assert not counts.hide(np.array([1, 0, 3]), 0).any()
