"""Plots: plain numbers in, inline SVG out."""

import re

import numpy as np
import pytest

from fedci.effect import Effect
from fedci.report import aggregates, plots


def test_names_of_many_curves_stay_in_the_plot():
    effect = Effect(np.zeros(4), np.ones(4))
    svg = str(plots.densities({f"site {k}": effect for k in range(30)}, "effect", "many"))
    height = float(re.search(r'viewBox="0 0 [0-9.]+ ([0-9.]+)"', svg).group(1))
    places = [float(y) for y in re.findall(r'<text[^>]* y="([0-9.]+)"[^>]*>site \d+', svg)]
    assert len(places) == 30
    assert max(places) < height


def test_the_shaded_part_of_the_answer_is_the_interval():
    """To the tenth of a unit that a place is written with."""
    effect = Effect(np.linspace(1.0, 2.0, 9), np.full(9, 0.04))
    low, high = effect.interval()
    svg = str(plots.answer(effect, low, high, "y"))
    points = (re.search(f'{mark} [^>]*points="([^"]*)"', svg)[1] for mark in ('class="band', 'class="line'))
    shaded, curve = ([float(place.partition(",")[0]) for place in part.split()] for part in points)
    ticks = {float(text): float(x) for x, text in re.findall(r'class="tick" x="([0-9.]+)"[^>]*>([0-9.]+)<', svg)}
    (one, at), (other, there) = list(ticks.items())[0], list(ticks.items())[-1]
    per = (there - at) / (other - one)
    assert min(curve) < min(shaded) < max(shaded) < max(curve)
    for place, end in ((min(shaded), low), (max(shaded), high)):
        assert place == pytest.approx(at + per * (end - one), abs=0.2)


def test_a_share_above_zero_tells_what_is_not_known():
    """Effects all alike and of unknown sign: everybody's or nobody's is above zero, not half of the people's."""
    drawn = np.repeat(np.array([0.3, -0.1, 0.2, -0.2])[:, None], 50, axis=1)
    assert aggregates._above_zero(drawn) == {"positive": 1.0, "positive_low": 0.0, "positive_high": 1.0}


BAND = {"mean": [0.1, 0.4], "low": [0.05, 0.3], "high": [0.2, 0.5]}


@pytest.mark.parametrize(("kind", "at"), [("numeric", [50.0, 70.0]), ("categorical", ["mild", "severe"])])
def test_both_arms_stand_in_one_plot_that_begins_at_0(kind, at):
    """A risk is read against none: the axis holds 0; each arm has its line (or dots), and a tip for each place."""
    curve = {"covariate": "age", "type": kind, "at": at, "arms": {"untreated": BAND, "treated": BAND}}
    svg = str(plots.arms(curve, "risk"))
    assert "Risk by arm along age" in svg
    assert re.search(r'class="tick"[^>]*>0<', svg)
    tips = re.findall(r'data-tip="([^"]*treatment: [^"]*)"', svg)
    assert len({tip for tip in tips if "with treatment" in tip}) == 2
    assert len({tip for tip in tips if "without treatment" in tip}) == 2
    assert svg.count("polyline") == (2 if kind == "numeric" else 0)
    heights = [float(y) for y in re.findall(r'c?y[12]?="([0-9.]+)"', svg)]
    assert all(0 <= y <= 250 for y in heights)
