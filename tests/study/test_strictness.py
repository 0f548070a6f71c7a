"""Which way each value of a policy is stricter: every field has a direction, and the order is one."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_page import with_floors

from fedci.errors import StudyError
from fedci.study.policy import POLICIES, Policy, policy
from fedci.study.strictness import DIRECTIONS, LOOSER, RULES, is_alone, looser, looser_fields, shown, stricter

STANDARD = POLICIES["standard"]
VALUES = {"more": [0, 2, 50, 999], "less": [None, 17, 4, 1], "no": [True, False],
          "masks": [False, "auto", True], "all": [(), ("moments",), ("moments", "effects"), ("gradients",)],
          "free": [None, 1.0]}
"""Of each direction, the loosest first."""
LOOSE = {"min_rows": 49, "min_arm_rows": 19, "min_cell": 9, "moment_digits": 5, "parameters_per_row_warn": 0.34,
         "statistics_per_row": 0.34, "max_parameters_per_row": 1.1, "min_difference": 19, "max_levels": 41,
         "max_level_share": 0.34, "max_rounds": 201, "allow_single_arm": True, "secure_sum": "auto",
         "max_cohorts": 21, "numbers_per_person": 0.1, "outcome_noise": 0.05, "sum_noise": 0.4,
         "max_file_bytes": 2**33}
STRICT = {"min_rows": 51, "min_arm_rows": 21, "min_cell": 11, "moment_digits": 3, "parameters_per_row_warn": 0.3,
          "statistics_per_row": 0.3, "max_parameters_per_row": 0.9, "min_difference": 21, "max_levels": 39,
          "max_cohorts": 19, "outcome_noise": 0.15, "sum_noise": 0.6,
          "max_level_share": 0.3, "max_rounds": 199, "allow_linkage": False, "site_effects": False,
          "max_file_bytes": 2**20}


def test_every_field_has_a_direction_and_words():
    assert set(RULES) == set(Policy.model_fields)
    assert {rule.direction for rule in RULES.values()} == set(DIRECTIONS) == set(LOOSER)
    assert all(len(rule.words) > 10 for rule in RULES.values())


def test_every_field_with_a_direction_is_tried_below():
    """As strict as can be in `standard`: no looser value, or no stricter one, exists."""
    moved = {key for key, rule in RULES.items() if rule.direction != "free"} - {"epsilon", "delta", "noised"}
    assert moved - set(LOOSE) == {"allow_linkage", "site_effects"}
    assert moved - set(STRICT) == {"allow_single_arm", "secure_sum", "numbers_per_person"}


@pytest.mark.parametrize("key, value", LOOSE.items())
def test_a_study_that_says_standard_and_asks_for_less_is_refused(key, value):
    """A study's author wrote `standard` with min_cell = 0 and masks off."""
    for table in ({key: value}, {"name": "standard", key: value}):
        with pytest.raises(StudyError, match=key) as problem:
            policy(table)
        assert "looser than 'standard'" in problem.value.message
        assert 'name = "custom"' in problem.value.message
    other = policy({"name": "custom", key: value})
    assert tuple(looser_fields(vars(other), vars(STANDARD))) == (key,)
    if RULES[key].where == "site":
        assert getattr(other.under(STANDARD), key) == getattr(STANDARD, key)
        assert other.disagreements(STANDARD) == ()


@pytest.mark.parametrize("key, value", STRICT.items())
def test_a_study_may_be_stricter_and_keeps_the_name(key, value):
    stricter_one = policy({key: value})
    assert (stricter_one.name, stricter_one.changes()) == ("standard", {key: value})
    assert getattr(stricter_one.under(STANDARD), key) == value
    assert getattr(STANDARD.under(stricter_one), key) == (value if RULES[key].where == "site" else
                                                          getattr(STANDARD, key))
    if RULES[key].has_floor:
        assert (key in STANDARD.disagreements(stricter_one)) == (RULES[key].where == "parties")


def test_noise_is_stricter_than_none():
    noisy = {"epsilon": 2.0, "delta": 1e-6, "outcome_range": (0.0, 1.0), "effect_bound": 1.0}
    assert policy(noisy).name == "standard"
    assert STANDARD.disagreements(policy(noisy)) == ("epsilon", "delta")
    assert policy(noisy | {"epsilon": 3.0}).disagreements(policy(noisy)) == ("epsilon",)
    fewer = policy(noisy | {"noised": ("moments",)})
    assert fewer.disagreements(policy(noisy)) == ("noised",)
    assert fewer.disagreements(STANDARD) == ()
    assert fewer.under(STANDARD) == fewer


def test_masks_that_hang_on_the_number_of_sites_are_a_sites_own_to_insist_on():
    auto = policy({"name": "custom", "secure_sum": "auto"})
    assert auto.disagreements(STANDARD) == ()
    assert auto.under(STANDARD).secure_sum is True
    off = policy({"name": "custom", "secure_sum": False})
    assert off.disagreements(STANDARD) == ("secure_sum",)
    assert (is_alone("secure_sum", "auto"), is_alone("secure_sum", False)) == (True, False)


@pytest.mark.parametrize("direction", VALUES)
def test_the_order_of_each_direction(direction):
    key = next(key for key, rule in RULES.items() if rule.direction == direction)
    for first, second in itertools.combinations(VALUES[direction], 2):
        assert not looser(key, first, first)
        assert looser(key, first, second) == (direction != "free")
        if direction != "all":
            assert not looser(key, second, first)
            assert stricter(key, first, second) == stricter(key, second, first) == second or direction == "free"


@given(st.data())
def test_what_holds_is_looser_than_neither(data):
    key = data.draw(st.sampled_from(sorted(RULES)))
    one, other = (data.draw(st.sampled_from(VALUES[RULES[key].direction])) for _ in range(2))
    held = stricter(key, one, other)
    assert not looser(key, held, one)
    assert not looser(key, held, other) or RULES[key].direction == "free"


def test_the_page_for_sites_has_the_table():
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "site.md").read_text(encoding="utf-8")
    assert "| `secure_sum` |" in text
    assert with_floors(text) == text, "run `make architecture`"


def test_values_as_a_file_writes_them():
    assert [shown(value) for value in (None, True, 0.5, 7, "auto", ("a", "b"))] == [
        "none", "true", "0.5", "7", "auto", "[a, b]"]
