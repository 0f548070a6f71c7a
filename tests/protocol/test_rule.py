"""A rule learnt from people of nobody: the tree finds a planted step, says little where little is to be said."""

import numpy as np
import pytest

from fedci.protocol import rule
from fedci.protocol.rule import Question
from tests_support import study

COVARIATES = study(covariates={"age": {"range": [0, 120]}, "sex": "binary",
                               "stage": {"type": "categorical", "levels": ["I", "II", "III"]}}).covariates
MEAN, SD = np.array([60.0, 0.4, 0.3, 0.2]), np.array([12.0, 0.49, 0.46, 0.4])


def planted(effect):
    x = rule.nobody(COVARIATES, MEAN, SD, 0)
    return x, effect(x), rule.candidates(COVARIATES, MEAN, SD, (0, 1, 3), {})


def test_nobody_is_like_everybody_on_average():
    """Places (k + ½)/1024 of each column's law: shares to one person in 1,024, means to the cut tails' symmetry."""
    x = rule.nobody(COVARIATES, MEAN, SD, 0)
    assert (np.abs(x.mean(0) - MEAN) <= 1 / rule.PEOPLE).all()
    assert x[:, 0].std() == pytest.approx(SD[0], rel=0.005), "the last of 1,024 places is at 3.3 sds"
    assert (np.abs(np.corrcoef(x[:, :2].T)[0, 1]) < 4 / np.sqrt(rule.PEOPLE))
    assert set(np.unique(x[:, 1:])) == {0.0, 1.0}
    assert not (x[:, 2] * x[:, 3]).any()


def test_a_planted_tree_is_found():
    x, d, asked = planted(lambda x: np.where(x[:, 3] == 1, 3.0, np.where(x[:, 0] < 60, 1.0, 0.0)))
    leaves = rule.grown(x, d, asked)
    assert leaves == [[(3, -np.inf, 0.5), (0, -np.inf, 60.0)], [(3, -np.inf, 0.5), (0, 60.0, np.inf)],
                      [(3, 0.5, np.inf)]]
    packed = rule.packed_rule(leaves)
    assert rule.exists(packed).tolist() == [True, True, True, False]
    np.testing.assert_array_equal(rule.holds(packed, x).sum(0), 1)
    assert [float(np.ptp(d[leaf])) for leaf in rule.holds(packed, x)[:3]] == [0.0, 0.0, 0.0]


def test_a_rule_cuts_where_the_study_does():
    """At 66 both 60 and 72, each half a standard deviation away, would leave people between whom nobody may tell."""
    def of_age(cuts):
        return [q.cut for q in rule.candidates(COVARIATES, MEAN, SD, (0,), cuts)]

    assert of_age({}) == [48.0, 54.0, 60.0, 66.0, 72.0]
    assert of_age({0: [65.0]}) == [48.0, 54.0, 65.0, 72.0][:3] + [72.0]
    assert of_age({0: [20.0], 1: [0.5]}) == [48.0, 54.0, 60.0, 66.0, 72.0], "far away it changes nothing"


def test_the_same_effect_for_all_is_one_leaf_of_everybody():
    x, d, asked = planted(lambda x: np.full(len(x), 2.0))
    assert rule.grown(x, d, asked) == [[]]
    packed = rule.packed_rule([[]])
    assert rule.exists(packed).tolist() == [True, False, False, False]
    assert rule.holds(packed, x).sum(1).tolist() == [len(x), 0, 0, 0]


def test_leaves_are_of_many_and_questions_worth_it():
    x, d, asked = planted(lambda x: (x[:, 0] < 60) + 0.001 * x[:, 1])
    leaves = rule.grown(x, d, asked)
    assert len(leaves) == 2, "a second question explains less than its worth"
    rare = np.zeros(len(x))
    rare[:50] = 1.0
    x[:, 1] = rare
    assert all(leaf[0][0] != 1 for leaf in rule.grown(x, 5.0 * rare, asked) if leaf), "5 % of people are no leaf"


def test_who_lacks_a_value_is_in_no_leaf_that_asks_for_it():
    packed = rule.packed_rule([[(0, -np.inf, 60.0)], [(0, 60.0, np.inf)]])
    assert rule.holds(packed, np.array([[np.nan, 0, 0, 0]])).sum() == 0


@pytest.mark.parametrize(("value", "spread", "said"), [(61.37, 12.0, 61.0), (0.1234, 0.02, 0.123), (1534.2, 400, 1530)])
def test_cuts_are_numbers_a_clinic_can_post(value, spread, said):
    assert rule._round(value, spread) == pytest.approx(said, rel=1e-9)
    assert Question(0, 1.0).column == 0
