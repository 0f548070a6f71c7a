"""Several arms, drawn: arms and effects are as the page says, and the table counts what the cells hold."""

import numpy as np
import pandas as pd
import pytest

from fedci.benchmark.run import arms
from fedci.benchmark.run.arms import Cell


def test_the_last_arm_is_the_rarest_and_effects_have_most_in_common():
    """A share of n = 4,000 has a standard error of 0.008; own parts are 0.04 of effects whose variance is 0.6."""
    drawn = arms.drawn(0, 4000, alike=False)
    shares = drawn.frame.w.value_counts(normalize=True)
    np.testing.assert_allclose([shares[name] for name in arms.ARMS], np.array([2, 2, 2, 1]) / 7, atol=0.03)
    assert (drawn.effects[:, 0] == 0).all()
    assert np.corrcoef(drawn.effects[:, 1:].T).min() > 0.8


def test_arms_of_one_law_have_no_effects():
    assert (arms.drawn(1, 50, alike=True).effects == 0).all()


def test_the_same_replication_is_the_same_people():
    pd.testing.assert_frame_equal(arms.drawn(3, 40, False).frame, arms.drawn(3, 40, False).frame)
    assert not arms.drawn(4, 40, False).frame.equals(arms.drawn(3, 40, False).frame)


def test_each_person_stands_at_one_site():
    drawn = arms.drawn(0, 90, alike=False)
    sources = arms.sources(drawn.frame)
    assert [len(source.data) for source in sources] == [30, 30, 30]
    assert all("site" not in source.data for source in sources)


def cell(replication: int, contrast: str, error: float, low: float, high: float) -> Cell:
    return Cell("shrink", "one fit", replication, 90, contrast, error, 0.0, low, high, 1.0, 0.0)


@pytest.mark.parametrize("last, held", [((0.0, 2.0), "75.0% of 4"), ((2.0, 3.0), "50.0% of 4")])
def test_errors_are_of_contrasts_with_the_reference_and_intervals_of_all(last, held):
    cells = [cell(0, "one vs none", 0.2, 0.5, 1.5), cell(0, "two vs one", 9.0, 2.0, 3.0),
             cell(1, "one vs none", 0.4, 0.0, 1.0), cell(1, "two vs one", 9.0, *last)]
    line = arms.table(cells)
    assert "√PEHE 0.300 ± 0.100" in line
    assert held in line
