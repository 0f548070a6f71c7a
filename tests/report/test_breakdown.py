"""The effect by sources, sites and people: what stands beside the answer, in the result's own numbers."""

from fedci import Result
from fedci.report import aggregates, breakdown, slots
from fedci.report.facts import Extra
from fedci.report.page import render
from fedci.report.svg import number


def test_the_last_curve_over_more_and_more_sites_is_the_average_over_all(folder):
    result = Result.load(folder)
    curves = breakdown._cumulative(result)
    assert list(curves) == ["lyon", "+ oslo", "+ turin"]
    assert curves["+ turin"].mean == result.ate().mean
    assert curves["lyon"].mean == result.ate("lyon").mean
    rows = breakdown._density_table(curves).rows
    assert [row[1] for row in rows] == [number(curve.mean) for curve in curves.values()]


def test_thresholds_stand_among_what_drives_the_effect(folder, page):
    result = Result.load(folder)
    made = aggregates.aggregates(result, folder)
    assert made["thresholds"] == result.thresholds().to_dict("records")
    found = {"of": "effect", "covariate": "age", "place": 60.0, "place_low": 57.7, "place_high": 62.4, "change": 1.9,
             "change_low": 1.1, "change_high": 2.7, "probability": 0.93}
    for rows, said in (([found], "rises by 1.9 [1.1, 2.7] where age passes 60.0 [57.7, 62.4]"), ([], "seen to change")):
        assert said in render(result, Extra(slots.Slots(), made | {"thresholds": rows}, {}, {}))
    assert "change abruptly" not in render(result, Extra(slots.Slots(), made | {"thresholds": None}, {}, {}))
