"""Contrasts of more than two arms as tables and intervals; a whole report of them: across/test_arms.py."""

import pandas as pd

from fedci.report import many_arms
from fedci.report.slots import Interval

CONTRASTS = pd.DataFrame({"arm": ["low", "low"], "against": ["none", "none"], "estimand": ["ATT", "ATC"],
                          "site": ["all", "lyon"], "people": [1200, 30], "mean": [1.0, 2.0], "sd": [0.5, 0.25],
                          "low": [0.0, 1.5], "high": [2.0, 2.5]})


def test_whom_a_contrast_is_over_is_said_by_its_own_arms():
    rows = many_arms._contrast_table(CONTRASTS, "95%").rows
    assert [row[2] for row in rows] == ["who got low", "who got none"]
    assert rows[0][4:] == ["1,200", "1", "0.5", "0 to 2"]


def test_an_interval_is_named_by_both_arms():
    assert many_arms._contrast_intervals(CONTRASTS)[1] == Interval(site="low vs none", mean=2.0, low=1.5, high=2.5)
