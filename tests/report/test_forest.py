"""The forest plot of subgroups: every number that it shows is one of the table, and names cannot break it."""

import re
from html import unescape

from fedci.report.forest import Row, forest

ROWS = [Row("stage", p=0.0004), Row("stage = I", 120, -1.5, -2.5, -0.5), Row("stage = II", 30, -2.0, -4.0, 0.25)]
ALL = Row("everybody", 150, -1.6, -2.2, -1.0)


def words(svg):
    return [unescape(text) for text in re.findall(r">([^<>]+)</text>", str(svg))]


def test_each_group_has_people_and_its_interval_in_numbers():
    told = words(forest(ROWS, ALL, "effect on ldl"))
    for said in ("stage", "p < 0.001", "stage = I", "120", "−1.5 (−2.5 to −0.5)", "−2 (−4 to 0.25)", "everybody",
                 "effect (95% interval)", "people"):
        assert said in told


def test_risks_stand_in_place_of_people():
    told = words(forest([row._replace(arms="0.2 / 0.1") if row.people else row for row in ROWS], ALL, "effect",
                        "risks without / with", "90%"))
    assert told.count("0.2 / 0.1") == 2
    assert "risks without / with" in told
    assert "effect (90% interval)" in told


def test_a_square_is_as_large_as_its_people_are_many():
    sides = [float(one) for one in re.findall(r'<rect class="dot a"[^>]* width="([\d.]+)"', str(forest(ROWS, ALL, "")))]
    assert sides[0] > 1.5 * sides[1] > 0


def test_names_are_escaped_and_cut():
    svg = str(forest([Row("<img src=x>" * 9, 10, 1.0, 0.5, 1.5)], ALL, "<b>"))
    assert "<img" not in svg
    assert "<b>" not in svg
