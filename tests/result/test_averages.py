"""Tables hold what the sums say, a row for each group with anybody in it."""

import numpy as np
import pytest

from fedci.effect import EffectSums
from fedci.result import averages

DRAWS = 50


def sums(people, rng):
    """Risks of three groups; nobody in a group of 0."""
    people = np.array(people, float)
    return EffectSums(({"risks": rng.uniform(0.1, 0.9, (DRAWS, 2, 3)) * people, "people": people},))


@pytest.fixture
def each():
    rng = np.random.default_rng(0)
    return {averages.ALL: sums([60, 20, 40], rng), "lyon": sums([30, 0, 30], rng)}


def test_a_row_for_each_group_with_anybody_in_it(each):
    table = averages.of_risks(each, 0.05)
    assert list(zip(table.site, table.over, table.people, strict=True)) == [
        ("all", "all", 60), ("all", "treated", 20), ("all", "control", 40), ("lyon", "all", 30),
        ("lyon", "control", 30)]


def test_risks_and_rates_are_those_of_the_sums(each):
    risks = each["lyon"].risks("control")
    row = averages.of_risks(each, 0.1).iloc[-1]
    assert row.risk_treated == risks.of_treated.mean
    assert (row.difference_low, row.difference_high) == risks.difference.interval(0.1)
    assert row.ratio == risks.ratio.quantile(0.5)


def test_tables_of_contrasts_stand_below_each_other_under_their_arms(each):
    table = averages.by_contrast({(0, 1): averages.of_risks(each, 0.05), (0, 2): averages.of_risks(each, 0.05)},
                               ("none", "low", "high"))
    assert list(table.columns[:2]) == ["arm", "against"]
    assert table.arm.tolist() == ["low"] * 5 + ["high"] * 5
    assert set(table.against) == {"none"}
