"""A mistake in a study is one StudyError that names the key, in whatever part of it."""

from __future__ import annotations

import math

import pytest

from fedci.errors import StudyError
from fedci.study.coding import MAX_NAME
from fedci.study.options import ROUND_CAP
from support.studies import small


def told(**changes) -> str:
    """The message that this change to a good study brings."""
    with pytest.raises(StudyError) as problem:
        small(**changes)
    assert "\n" not in problem.value.message
    return problem.value.message


@pytest.mark.parametrize("changes, fragments", [
    ({"outcom": "y"}, ["'outcom'", "'outcome'"]),
    ({"treatment": None}, ["treatment"]),
    ({"treatment": " w"}, ["treatment", "blank"]),
    ({"outcome": "y" * (MAX_NAME + 1)}, ["outcome", str(MAX_NAME)]),
    ({"outcome": "w"}, ["outcome", "'w'", "treatment"]),
    ({"ids": ["a"]}, ["'a'", "ids"]),
    ({"covariates": "a"}, ["covariates", "str"]),
    ({"covariates": [3]}, ["covariates", "int"]),
    ({"covariates": {"a": 3}}, ["covariates.a", "int"]),
    ({"covariates": {"a": {"name": "b"}}}, ["covariates.a", "name"]),
    ({"covariates": [{"type": "numeric"}]}, ["covariates", "name"]),
    ({"covariates": [{"name": "s", "type": "categorical", "levels": ["A", "B"]}, "s=B"]}, ["'s=B'"]),
    ({"covariates": {"s": {"type": "categorical", "levels": ["A", "A"]}}}, ["covariates.s", "twice"]),
    ({"covariates": {"s": {"type": "categorical", "levels": ["A"]}}}, ["covariates.s", "levels"]),
    ({"covariates": {"s": {"levels": ["A", "B"]}}}, ["covariates.s", "categorical"]),
    ({"covariates": {"s": {"type": "binary", "range": [0, 1]}}}, ["covariates.s", "range"]),
    ({"covariates": {"s": {"range": [1, 0]}}}, ["covariates.s", "range"]),
    ({"covariates": {"s": {"range": [math.nan, 0]}}}, ["covariates.s", "range"]),
    ({"covariates": {"s": {"range": ["0", 1]}}}, ["covariates.s", "range"]),
    ({"missing": "drop"}, ["missing", "'impute'"]),
    ({"seed": -1}, ["seed"]),
    ({"seed": True}, ["seed"]),
    ({"sites": ["a", "b", "a"]}, ["sites", "'a'"]),
    ({"sites": ["a\n"]}, ["a-z"]),
    ({"preset": "papre"}, ["'papre'", "'paper'"]),
    ({"preset": "paper", "policy": "standard"}, ["rounds = 2000", "max_rounds = 200"]),
    ({"options": {"optimizer": {}}}, ["'optimizer'", "'optimiser'"]),
    ({"options": {"optimiser": {"rounds": ROUND_CAP + 1}}}, ["rounds"]),
    ({"options": 3}, ["options"]),
    ({"policy": 3}, ["policy", "int"]),
])
def test_a_mistake_is_one_study_error(changes, fragments):
    message = told(**changes)
    assert all(fragment in message for fragment in fragments), message


@pytest.mark.parametrize("changes, fragments", [
    ({"arms": ["x", "y", "z"], "design": "randomised"}, ["treatment.w.arms", "design"]),
    ({"arms": ["x", "y"]}, ["treatment.w.arms", "three or more"]),
    ({"quorum": 3, "sites": ["a", "b"]}, ["quorum = 3", "2 sites"]),
    ({"cluster": "c", "outcome": {"time": "t", "event": "y", "type": "survival", "horizons": [1.0]}}, ["cluster"]),
    ({"missing": "model", "covariates": {"a": {"missing": "impute"}, "b": {}}}, ["covariates.a", "Choose one"]),
    ({"subgroups": {"b": "b"}, "covariates": {"a": {}, "b": "binary"}, "diagnostics": {"enabled": False}},
     ["subgroups", "enabled = true"]),
])
def test_parts_that_do_not_agree_are_named_with_what_to_do(changes, fragments):
    message = told(**changes)
    assert all(fragment in message for fragment in fragments), message
