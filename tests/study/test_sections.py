"""Linkage and diagnostics in a study file: read, written, and mistakes told by their key."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedci.errors import StudyError
from fedci.study.sections import Linkage
from fedci.study.study import Study
from support.refuted import REFUTE
from tests_support import study

PAGE = Path(__file__).parents[2] / "docs" / "study.md"


def test_linkage_in_a_study_file():
    plan = study(ids=["pid", "birth date"], linkage={"keep": 2, "dates": {"birth date": "%d.%m.%Y"}})
    assert type(plan).from_toml(plan.to_toml()) == plan
    assert "[linkage]\nkeep = 2\ndates = { \"birth date\" = \"%d.%m.%Y\" }" in plan.to_toml()
    assert "[linkage]" not in study(ids=["pid"]).to_toml()
    hashes = {study(ids=["pid", "born"], linkage=linkage).hash() for linkage in (
        {}, {"keep": 2}, {"enabled": False}, {"dates": {"born": "%d.%m.%Y"}}, {"dates": {"born": "%m.%d.%Y"}})}
    assert len(hashes) == 5


@pytest.mark.parametrize("changes, fragments", [
    ({"ids": ["pid"], "linkage": {"kep": 2}}, ["linkage", "'kep'", "'keep'"]),
    ({"ids": ["pid"], "linkage": {"keep": 0}}, ["linkage", "keep"]),
    ({"ids": ["pid"], "linkage": {"enabled": 1}}, ["linkage", "enabled"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pdi": "%d.%m.%Y"}}}, ["'pdi'", "'pid'"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pid": "%d.%m.%y"}}}, ["linkage", "%Y, %m and %d"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pid": "%d %b %Y"}}}, ["%Y, %m and %d"]),
    ({"ids": ["pid"], "linkage": {"dates": {"pid": "%d.%m.%Y 00"}}}, ["%Y, %m and %d"]),
    ({"linkage": {"keep": 2}}, ["linkage", "no ids"]),
])
def test_a_mistake_in_linkage_is_one_study_error(changes, fragments):
    with pytest.raises(StudyError) as problem:
        study(**changes)
    assert all(fragment in str(problem.value) for fragment in fragments), str(problem.value)


def test_the_page_of_the_study_names_every_key():
    page = PAGE.read_text()
    assert all(f"`{key}`" in page for key in Linkage.model_fields)


def test_the_table_of_a_study_file_is_read_and_written():
    plan = study(diagnostics=REFUTE | {"blinded": True})
    assert Study.from_toml(plan.to_toml()) == plan
    assert plan.diagnostics.refute == ("placebo", "random-cause", "subset")
    assert study(diagnostics={"refute": True}).diagnostics.refute == plan.diagnostics.refute
    assert "[diagnostics]" not in study(diagnostics={}).to_toml()
    assert plan.hash() != study(diagnostics=REFUTE).hash()


@pytest.mark.parametrize("table, words", [
    ({"enabled": False, "blinded": True}, "diagnostics.blinded needs the diagnostics"),
    ({"enabled": False, "refute": True}, "diagnostics.refute needs"),
    ({"refute": ["magic"]}, "diagnostics: 'refute.0'"),
    ({"refute": ["placebo", "placebo"]}, "twice"),
    ({"blind": True}, "unknown key 'blind'"),
    ({"blinded": 1}, "'blinded'"),
    ({"negative_control": "y"}, "already in outcome"),
    ({"negative_control": "age"}, "already in"),
])
def test_a_wrong_table_is_told_by_its_key(table, words):
    with pytest.raises(StudyError, match=words):
        study(diagnostics=table)
