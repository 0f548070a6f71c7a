"""Plots: plain numbers in, inline SVG out."""

import re

import numpy as np

from fedci.effect import Effect
from fedci.report import aggregates, plots


def test_names_of_many_curves_stay_in_the_plot():
    effect = Effect(np.zeros(4), np.ones(4))
    svg = str(plots.densities({f"site {k}": effect for k in range(30)}, "effect", "many"))
    height = float(re.search(r'viewBox="0 0 [0-9.]+ ([0-9.]+)"', svg).group(1))
    places = [float(y) for y in re.findall(r'<text[^>]* y="([0-9.]+)"[^>]*>site \d+', svg)]
    assert len(places) == 30
    assert max(places) < height


def test_a_share_above_zero_tells_what_is_not_known():
    """Effects all alike and of unknown sign: everybody's or nobody's is above zero, not half of the people's."""
    drawn = np.repeat(np.array([0.3, -0.1, 0.2, -0.2])[:, None], 50, axis=1)
    assert aggregates._above_zero(drawn) == {"positive": 1.0, "positive_low": 0.0, "positive_high": 1.0}
