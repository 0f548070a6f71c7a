"""Effects in subgroups from sums: averages, their differences, and intervals that hold together."""

import numpy as np
import pytest
from scipy.stats import norm

from fedci.errors import UsageError
from fedci.result.subgroup_effects import in_words, said, subgroups_of
from fedci.study.subgroups import Group
from tests_support import study

GROUPS = study(diagnostics={"enabled": True}, subgroups={
    "sex": "sex", "age": {"by": "age", "cuts": [60, 75]}, "old": {"where": {"age": {"from": 75}}}}).groups


def sums(draws=400, levels=1, seed=0, within=0.01):
    rng = np.random.default_rng(seed)
    people = np.array([30.0, 20.0, 25.0, 15.0, 10.0, 10.0, 40.0])
    effects = people * (1.0 + 0.3 * rng.standard_normal((draws, levels, len(people))))
    return {"told": np.full(7, 2.0), "people": people, "effects": effects,
            "effects_cov": within * np.diag(people**2)}


def test_averages_are_sums_over_people_and_their_intervals_those_of_an_effect():
    told = sums()
    found = subgroups_of(GROUPS, told)
    table = found.table().set_index("group")
    np.testing.assert_allclose(table["mean"], (told["effects"][:, 0] / told["people"]).mean(0), rtol=1e-12)
    effect = found.effect("age below 60")
    assert effect.mean == pytest.approx(table["mean"]["age below 60"], rel=1e-12)
    assert effect.interval() == pytest.approx(tuple(table.loc["age below 60", ["low", "high"]]), rel=1e-9)
    assert (table.all_low < table.low).all()
    assert (table.all_high > table.high).all()


def test_differences_are_within_a_definition_and_against_all_others():
    found = subgroups_of(GROUPS, sums())
    against = found.contrasts()
    assert list(zip(against.group, against.against, strict=True)) == [
        ("sex = 1", "sex = 0"), ("age 60 to below 75", "age below 60"), ("age 75 and above", "age below 60"),
        ("age 75 and above", "age 60 to below 75"), ("old", "all others than old")]
    means = found.table().set_index("group")["mean"]
    np.testing.assert_allclose(against["mean"], [means[a] - means[b] for a, b in zip(
        against.group, against.against, strict=True)], atol=1e-12)


def test_risks_have_both_arms_and_an_effect_that_is_their_difference():
    told = sums(levels=2)
    table = subgroups_of(GROUPS, told).table()
    np.testing.assert_allclose(table["mean"], table.treated - table.untreated, atol=1e-12)


def risky(draws=400, top=0.9):
    """Risks without and with treatment between 0.1 and `top`, of each draw and group."""
    told = sums(levels=2)
    told["effects"] = told["people"] * np.random.default_rng(5).uniform(0.1, top, (draws, 2, 7))
    return told | {"effects_cov": np.zeros((7, 7))}


def test_ratios_of_a_group_are_of_its_two_risks_draw_by_draw():
    told = risky()
    found = subgroups_of(GROUPS, told)
    untreated, treated = told["effects"][:, :, 0].T / told["people"][0]
    row, risks = found.table().iloc[0], found.risks("sex = 0")
    for name, draws in (("ratio", treated / untreated),
                        ("odds_ratio", treated / (1 - treated) * (1 - untreated) / untreated)):
        np.testing.assert_allclose([row[name], row[f"{name}_low"], row[f"{name}_high"]],
                                   np.quantile(draws, [0.5, 0.025, 0.975], method="averaged_inverted_cdf"),
                                   rtol=1e-12)
        np.testing.assert_allclose(getattr(risks, name).means, draws, rtol=1e-12)
    assert np.isnan(row.needed)
    assert "  –" in "\n".join(in_words(found, 2, 0.05))


def test_of_draws_alone_p_is_no_less_than_one_of_them():
    """400 draws of risks, all of them far from no difference: p is at most 1/400, and no less is known."""
    told = risky(top=0.11)
    told["effects"][:, 1, 1] += 0.5 * told["people"][1]
    assert subgroups_of(GROUPS, told).contrasts().p[0] == 1 / 400


def test_the_number_needed_is_told_where_the_difference_is_clear():
    told = risky(top=0.11)
    told["effects"][:, 1] += 0.25 * told["people"]
    row = subgroups_of(GROUPS, told).table().iloc[0]
    assert row.needed == pytest.approx(1 / row["mean"], rel=1e-9)
    assert (row.needed_low, row.needed_high) == pytest.approx((1 / row.high, 1 / row.low), rel=1e-9)


def test_a_ratio_of_ratios_is_1_where_treatment_multiplies_all_risks_alike():
    """And the difference of their differences is not: both scales stand in the table."""
    told = risky(top=0.5)
    told["effects"][:, 1] = 0.5 * told["effects"][:, 0]
    against = subgroups_of(GROUPS, told).contrasts()
    np.testing.assert_allclose(against[["ratio", "ratio_low", "ratio_high"]], 1.0, rtol=1e-9)
    assert (against["mean"].abs() > 0).all()


def test_rates_have_a_ratio_and_no_odds_and_what_is_not_there_is_said():
    told = risky(top=5.0)
    found = subgroups_of(GROUPS, told, of_rates=True)
    assert "ratio" in found.table()
    assert "odds_ratio" not in found.table()
    assert found.rates("sex = 0").ratio.mean > 0
    with pytest.raises(UsageError, match=r"rates: \.rates\(name\)"):
        found.risks("sex = 0")
    with pytest.raises(UsageError, match="no subgroup 'sex = 9' was told of"):
        found.rates("sex = 9")
    with pytest.raises(UsageError, match=r"effects: \.effect\(name\)"):
        subgroups_of(GROUPS, sums()).risks("sex = 0")


def test_simultaneous_intervals_hold_together():
    """K independent standard normals: c is the quantile of max |z|, known to 1.5 % from 20,000 draws."""
    k = 6
    told = {"told": np.ones(k), "people": np.ones(k), "effects": np.zeros((50, 1, k)), "effects_cov": np.eye(k)}
    groups = tuple(Group(str(i), str(i), ()) for i in range(k))
    table = subgroups_of(groups, told).table(0.05)
    exact = norm.ppf(0.5 + 0.5 * 0.95 ** (1 / k))
    np.testing.assert_allclose(table.all_high, exact, rtol=0.015)
    np.testing.assert_allclose(table.high, norm.ppf(0.975), rtol=1e-6)


def test_p_is_small_where_groups_differ_and_uniform_where_they_do_not():
    """Adjusted over the table: under equality p < 0.05 in about one table of twenty; 200 tables: 0.05 ± 0.046 (3 sd).
    """
    rng, alarms = np.random.default_rng(3), 0
    groups = study(diagnostics={"enabled": True}, subgroups={"sex": "sex", "age": {"by": "age", "cuts": [60]}}).groups
    for _ in range(200):
        told = {"told": np.ones(4), "people": np.ones(4), "effects_cov": np.eye(4),
                "effects": np.broadcast_to(rng.standard_normal(4), (8, 1, 4))}
        alarms += subgroups_of(groups, told).contrasts().p.min() < 0.05
    assert 1 <= alarms <= 20
    told["effects"] = np.broadcast_to(np.array([0.0, 9.0, 0.0, 0.1]), (8, 1, 4))
    found = subgroups_of(groups, told)
    assert found.contrasts().p.tolist()[0] < 1e-3 < found.contrasts().p.tolist()[1]
    assert "sex = 1 against sex = 0 (9, " in said(found, 0.05)[0]


def test_what_few_are_in_is_said_and_not_shown():
    told = sums()
    told["people"] = told["people"] * (np.arange(7) != 4)
    told["told"][0] = 1
    found = subgroups_of(GROUPS, told)
    words = "\n".join(in_words(found, 2, 0.05))
    assert "age 75 and above" not in found.table().group.tolist()
    assert "Not told, for too few people: age 75 and above." in words
    assert "'sex = 0' is told of by 1 of 2 sites" in words
    assert subgroups_of(GROUPS, {}) is None
    assert "given up" in in_words(None, 2, 0.05)[0]
