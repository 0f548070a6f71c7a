"""Ticks and marks of a plot."""

import pytest

from fedci.report.svg import Plot, ticks
from support.reported import HOSTILE


@pytest.mark.parametrize("low, high", [(0.0, 1.0), (-3.2, 8.9), (1e-9, 2e-9), (1000, 1e6), (-1.0, -0.999)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 11
    assert all(low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high) for value in found)


def test_marks_are_escaped():
    plot = Plot(HOSTILE, (0, 1), (0, 1), x_label=HOSTILE)
    plot.x_axis()
    plot.dot(0.5, 0.5, HOSTILE)
    plot.row_label(0.5, HOSTILE)
    assert "<img" not in plot.svg()
