"""From sums to a decision: what rows give when they are in one place, to the digits of the sums."""

import numpy as np
import pytest

from fedci.protocol import rule
from fedci.result.deciding import deciding, differs, in_words
from tests_support import study

PLAN = study(diagnostics={"enabled": True}, decisions={"along": ["age", "sex"], "cost": 0.5})
RULE = rule.packed_rule([[(0, -np.inf, 60.0)], [(0, 60.0, np.inf), (2, -np.inf, 0.5)],
                         [(0, 60.0, np.inf), (2, 0.5, np.inf)]])
N, DRAWS = 600, 64


def rows(seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(30, 90, N), rng.normal(26, 4, N), rng.integers(0, 2, N)])
    tau = 2.0 - 0.03 * (x[:, 0] - 60) + 0.4 * x[:, 2]
    return x, tau, tau + rng.normal(0, 1.5, N), 5.0 + rng.normal(0, 1.0, N), rng


def told(sites=1):
    """As sites tell it, of rows in one place."""
    x, tau, psi, zero, rng = rows()
    mean, sd = x.mean(0), x.std(0)
    columns = np.vstack([np.ones(N), ((x - mean) / sd)[:, [0, 2]].T])
    leaves, cuts = rule.holds(RULE, x).astype(float), np.array([0.5, 2.8, 2.4, 1.9, 1.6])
    above = (tau[None] > cuts[:, None]).astype(float)
    drawn = tau[None] + 0.1 * rng.standard_normal((DRAWS, 1))
    return {"products": columns @ columns.T, "projected": (drawn @ columns.T)[:, None], "rule": RULE, "cutoffs": cuts,
            "projected_cov": 0.01 * columns @ columns.T, "leaf_told": np.full(4, float(sites)),
            "leaf_people": leaves.sum(1), "leaf_effects": (drawn @ leaves.T)[:, None], "leaf_cov": 0.01 * np.eye(4),
            "leaf_scores": leaves @ np.column_stack([psi, psi**2, psi * zero, tau]),
            "above_told": np.full(5, float(sites)), "above_people": above.sum(1),
            "above_scores": above @ np.column_stack([psi, psi**2, psi * zero]),
            "scores": np.array([N, psi.sum(), psi @ psi, zero.sum(), zero @ zero, psi @ zero]),
            "same": np.array([N, tau.sum(), tau @ tau])}, sd


@pytest.fixture(scope="module")
def found():
    sums, sd = told()
    return deciding(PLAN, sums, sd, 1, 0.01)


def test_the_linear_summary_is_the_regression_on_the_rows(found):
    x, tau, *_ = rows()
    table = found.projection().set_index("along")
    design = np.column_stack([np.ones(N), x[:, 0] - x[:, 0].mean(), x[:, 2] - x[:, 2].mean()])
    exact = np.linalg.lstsq(design, tau, rcond=None)[0]
    np.testing.assert_allclose(table["mean"]["age"], exact[1], rtol=1e-9)
    np.testing.assert_allclose(table["mean"]["sex"], exact[2], rtol=1e-9)
    assert abs(table["mean"]["average"] - exact[0]) < 0.1 * 4 / np.sqrt(DRAWS)
    assert (table.all_low <= table.low).all()


def test_values_are_those_of_the_rows(found):
    """The same numbers from the combined rows, to 1e-9: value, standard error, and gains with the cost taken off."""
    _, tau, psi, zero, _ = rows()
    table = found.values().set_index("policy")
    pi = tau > 0.5
    row = table.loc["treat who is expected to benefit by more than 0.5"]
    value = zero + pi * psi
    assert row.treated == pytest.approx(pi.mean(), rel=1e-12)
    assert row.value == pytest.approx(value.mean(), rel=1e-9)
    assert row.value_high - row.value == pytest.approx(1.959963985 * value.std() / np.sqrt(N), rel=1e-6)
    gain, over = pi * (psi - 0.5), (pi - 1.0) * (psi - 0.5)
    assert row.over_nobody == pytest.approx(gain.mean(), rel=1e-9)
    assert row.over_everybody == pytest.approx(over.mean(), rel=1e-9, abs=1e-12)
    assert row.over_nobody_high - row.over_nobody == pytest.approx(1.959963985 * gain.std() / np.sqrt(N), rel=1e-6)
    assert str(table.loc["treat nobody"].over_nobody) == "0.0", "not −0"
    assert table.loc["treat everybody"].value == pytest.approx((zero + psi).mean(), rel=1e-9)


def test_the_curve_of_first_shares_is_that_of_the_rows(found):
    _, tau, psi, _, _ = rows()
    table = found.targeting().set_index("first")
    for cut, (_, row) in zip([2.8, 2.4, 1.9, 1.6], table.iterrows(), strict=False):
        first = tau > cut
        assert row.toc == pytest.approx(psi[first].mean() - psi.mean(), rel=1e-9)
        assert row.qini == pytest.approx(first.mean() * row.toc, rel=1e-9)
    assert table.toc["area"] == pytest.approx(0.2 * table.toc.iloc[:4].sum(), rel=1e-9)
    assert table.toc_low["area"] > 0


def test_the_rule_is_of_few_lines_and_its_groups_carry_what_they_carry(found):
    _, tau, *_ = rows()
    leaves = found.leaves()
    assert leaves.group.tolist() == ["age below 60", "age 60 and above and sex = 0", "age 60 and above and sex = 1"]
    inside = rule.holds(RULE, rows()[0])[:3]
    within = sum(((tau[leaf] - tau[leaf].mean()) ** 2).sum() for leaf in inside)
    assert found.carried == pytest.approx(1 - within / ((tau - tau.mean()) ** 2).sum(), rel=1e-9)
    assert found.rule() == ["Treat everybody."]
    sums, sd = told()
    dear = deciding(PLAN.model_copy(update={"decisions": PLAN.decisions.model_copy(update={"cost": 1.8})}), sums, sd, 1,
                    0.4)
    assert dear.rule() == ["Treat if age below 60.", "Treat if age 60 and above and sex = 1."] or len(dear.rule()) <= 3
    assert "no ground to treat people differently" in differs(dear)
    assert "no ground" not in differs(found)


def test_two_groups_of_one_question_are_one_line():
    sums, sd = told()
    effects = sums["leaf_people"] * np.array([0.0, 1.0, 1.0, 0.0])
    sums["leaf_effects"] = np.broadcast_to(effects, (DRAWS, 1, 4))
    assert deciding(PLAN, sums, sd, 1, 0.01).rule() == ["Treat if age 60 and above."]


def test_lower_may_be_better():
    sums, sd = told()
    lower = PLAN.model_copy(update={"decisions": PLAN.decisions.model_copy(update={"better": "lower"})})
    found = deciding(lower, sums, sd, 1, 0.01)
    assert found.rule() == ["Treat nobody."]
    everybody = found.values().set_index("policy").loc["treat everybody"]
    assert everybody.over_nobody == pytest.approx(-rows()[2].mean() - 0.5, rel=1e-9)


def test_what_a_site_withholds_is_not_made_up():
    sums, sd = told(sites=2)
    sums["above_told"][:2], sums["leaf_told"][1] = 1.0, 1.0
    found = deciding(PLAN, sums, sd, 2, None)
    assert found.values().policy.tolist() == ["treat nobody", "treat everybody"]
    assert found.targeting() is None
    assert "was not tested" in differs(found)
    sums["scores"] = np.zeros(6)
    words = "\n".join(in_words(deciding(PLAN, sums, sd, 2, None), 0.05))
    assert "by doubly robust sums" not in words
    assert "Overlap says where" in words
    timed = PLAN.model_copy(update={"outcome_type": "survival"})
    assert "a study of 0 and 1 (the event by then)" in "\n".join(in_words(deciding(timed, sums, sd, 2, None), 0.05))
    assert deciding(PLAN, {}, sd, 2, None) is None
    assert "given up" in in_words(None, 0.05)[0]


def test_a_group_that_no_site_tells_of_is_said_and_the_rule_claims_nothing_of_it():
    sums, sd = told(sites=2)
    sums["leaf_people"][2] = 0.0
    for name in ("leaf_told", "leaf_scores"):
        sums[name][2] = 0.0
    found = deciding(PLAN, sums, sd, 2, None)
    assert found.rule() == ["Treat if age below 60.", "Treat if age 60 and above and sex = 0.",
                            "Nothing is said of age 60 and above and sex = 1: too few people at each site are in that "
                            "group, or in all else."]
    assert (found.carried, found.whole) == (None, False)
    assert "treat by the rule" not in found.values().policy.tolist()
    sums["leaf_told"][2] = 2.0
    assert deciding(PLAN, sums, sd, 2, None).rule() == ["Treat everybody."], "a group of nobody is no gap"


def test_a_rule_that_treats_all_or_nobody_is_that_policy_to_the_last_digit():
    """Not what rounding leaves of differences of squares."""
    sums, sd = told()
    table = deciding(PLAN, sums, sd, 1, 0.01).values().set_index("policy")
    everybody, by_rule = (table.loc[name] for name in ("treat everybody", "treat by the rule"))
    assert (by_rule.over_everybody_low, by_rule.over_everybody_high) == (0.0, 0.0)
    assert by_rule.over_nobody == pytest.approx(everybody.over_nobody, rel=1e-12)
