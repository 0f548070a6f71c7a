"""The policy a study names: the standard one, overrides with their reasons, and what cannot be."""

from __future__ import annotations

import math

import pytest

from fedci.errors import FloorError, StudyError
from fedci.study.policy import POLICIES, Policy, check_available, policy


# ── the policy ──────────────────────────────────────────────────────────────────────────────────────────────
def test_the_standard_policy_is_the_designs():
    standard = POLICIES["standard"]
    assert (standard.min_rows, standard.min_arm_rows, standard.min_cell) == (50, 20, 10)
    assert (standard.moment_digits, standard.max_levels, standard.max_rounds) == (4, 40, 200)
    assert (standard.parameters_per_row_warn, standard.max_level_share) == (0.33, 0.33)
    assert not standard.allow_single_arm
    assert standard.secure_sum is True


def test_a_policy_from_each_form():
    assert policy("simulation") is POLICIES["simulation"]
    assert policy(POLICIES["standard"]) is POLICIES["standard"]
    assert policy({"min_rows": 80}) == Policy(min_rows=80)
    stricter = policy({"name": "simulation", "min_rows": 80})
    assert (stricter.min_rows, stricter.min_arm_rows, stricter.changes()) == (80, 1, {"min_rows": 80})


@pytest.mark.parametrize("value, fragment", [
    ("standart", "'standard'"), ({"min_row": 3}, "'min_rows'"), ({"min_rows": "80"}, "min_rows"),
    ({"min_rows": 1}, "min_rows"), ({"min_arm_rows": 9}, "override_reason"),
    ({"min_arm_rows": 9, "override_reason": "  "}, "override_reason"), ({"max_rounds": 1001}, "max_rounds"),
    ({"min_arm_rows": 9, "override_reason": "why"}, "looser than 'standard'"),
    ({"moment_digits": None}, "moment_digits"), ({"epsilon": 0}, "epsilon"), ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": math.inf}, "epsilon"), ({"epsilon": math.nan}, "epsilon"), ({"delta": 0}, "delta"),
    ({"delta": 1}, "delta"), ({"delta": math.nan}, "delta"), ({"name": "none"}, "'none'"), (3, "int")])
def test_a_policy_that_cannot_be(value, fragment):
    with pytest.raises(StudyError, match="policy") as problem:
        policy(value)
    assert fragment in problem.value.message


def test_an_override_needs_a_reason_and_keeps_it():
    with pytest.raises(StudyError, match="override_reason"):
        policy({"name": "custom", "min_arm_rows": 9})
    assert policy({"name": "custom", "min_arm_rows": 9, "override_reason": "rare disease, board 12/3"}).override_reason
    assert policy({"name": "simulation", "min_arm_rows": 1}).min_arm_rows == 1


@pytest.mark.parametrize("value, sites, fragment", [
    ({"secure_sum": True}, 2, "3 sites, got 2"), ("standard", 2, "third site"),
    ("standard", 1, 'policy = "simulation"'), ("custom", 1, "--allow secure_sum=auto")])
def test_sums_of_fewer_than_three_sites_are_refused_with_what_can_be_done(value, sites, fragment):
    with pytest.raises(FloorError, match=fragment):
        check_available(policy(value), sites)


@pytest.mark.parametrize("value, masked", [
    ("standard", {1: True, 2: True, 3: True, 10: True}), ("simulation", {2: False, 3: False}),
    ({"name": "custom", "secure_sum": "auto"}, {1: False, 2: False, 3: True}),
    ({"name": "custom", "secure_sum": False}, {3: False})])
def test_sums_are_masked_from_three_sites_on(value, masked):
    assert {sites: policy(value).secures(sites) for sites in masked} == masked


def test_the_shipped_policies_are_available():
    for shipped in POLICIES.values():
        check_available(shipped, 3)
    check_available(POLICIES["simulation"], 1)
