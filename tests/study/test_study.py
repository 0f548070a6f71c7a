"""The study: the forms it may be written in, its file, its hash, and the policy it names."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from fedci.errors import StudyError
from fedci.study.coding import MAX_NAME
from fedci.study.options import ROUND_CAP, ModelOptions, OptimiserOptions, PredictionOptions
from fedci.study.policy import POLICIES, Policy
from fedci.study.study import OPTION_TABLES, Covariate, Linkage, Study, check_site_id
from support.refuted import REFUTE
from support.studies import EXAMPLE, small
from tests_support import study


def told(**changes) -> str:
    """The message that this change to a good study brings."""
    with pytest.raises(StudyError) as problem:
        small(**changes)
    assert "\n" not in problem.value.message
    return problem.value.message


# ── forms ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_example_file(tmp_path):
    (tmp_path / "study.toml").write_text(EXAMPLE)
    study = Study.read(tmp_path / "study.toml")
    assert study == Study(
        name="statins", treatment="treated", outcome="ldl_change", ids=["national_id"],
        sites=["lyon", "oslo"],
        covariates=[Covariate(name="age", range=(0, 120)),
                    Covariate(name="stage", type="categorical", levels=["I", "II", "III"], missing="impute")],
        options={"model": {"kernel": "rbf(ard)"}, "optimiser": {"rounds": 100}})
    assert study.fit_options().model.kernel == "rbf(ard)"
    assert study.fit_options().optimiser.rounds == 100
    assert study.policy is POLICIES["standard"]
    assert [study.fills(covariate) for covariate in study.covariates] == [False, True]


@pytest.mark.parametrize("covariates", [
    ("a", "b"), iter(["a", "b"]), {"a": "numeric", "b": {}}, [{"name": "a"}, Covariate(name="b")]])
def test_forms_of_covariates(covariates):
    assert small(covariates=covariates) == small()


def test_levels_may_be_numbers():
    assert Covariate(name="s", type="categorical", levels=[0, 1, 2]).levels == ("0", "1", "2")


def test_design_columns_leave_out_the_reference():
    stage = Covariate(name="stage", type="categorical", levels=("A", "B", "C"))
    assert stage.design_columns() == ("stage=B", "stage=C")
    assert Covariate(name="age").design_columns() == ("age",)


def test_a_study_is_frozen():
    with pytest.raises(Exception, match="frozen"):
        small().treatment = "v"


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


def test_a_covariate_alone_tells_as_plainly():
    with pytest.raises(StudyError, match=r"covariates.age: unknown key 'rnge', did you mean 'range'"):
        Covariate(name="age", rnge=(0, 1))


def test_a_preset_named_in_the_call_meets_the_policy_too():
    study = small(policy="standard")
    assert study.fit_options() == study.fit_options("default")
    with pytest.raises(StudyError, match="max_rounds"):
        study.fit_options("paper")


def test_only_the_studys_sites_take_part():
    study = small(sites=["lyon", "oslo"])
    study.check_site("lyon")
    with pytest.raises(StudyError, match="did you mean 'oslo'"):
        study.check_site("osl")
    small().check_site("anyone")


def test_the_hash_is_of_the_meaning_and_not_of_the_words():
    assert len(small().hash()) == 64
    assert small(sites=["a", "b"]).hash() == small(sites=["b", "a"]).hash()
    assert small(options={"optimiser": {"rounds": 150}}).hash() == small().hash()  # the preset's own value


@pytest.mark.parametrize("changes", [
    {"name": "other"}, {"treatment": "v"}, {"outcome": "z"}, {"covariates": ["b", "a"]}, {"ids": ["i"]},
    {"covariates": {"a": "numeric", "b": "binary"}}, {"covariates": {"a": {"range": [0, 1]}, "b": {}}},
    {"missing": "impute"}, {"policy": "standard"}, {"policy": {"name": "simulation", "min_rows": 3}},
    {"preset": "paper"}, {"options": {"model": {"kernel": "rbf"}}}, {"sites": ["a"]}, {"seed": 1}])
def test_the_hash_sees_every_change(changes):
    assert small(**changes).hash() != small().hash()


def test_option_tables_are_the_parts_of_a_fit():
    assert OPTION_TABLES == ("model", "optimiser", "prediction")


# ── the page about it ───────────────────────────────────────────────────────────────────────────────────────
PAGE = Path(__file__).parents[2] / "docs" / "study.md"
PARTS = (Study, Covariate, Policy, ModelOptions, OptimiserOptions, PredictionOptions)


@pytest.mark.parametrize("part", PARTS)
def test_the_page_names_every_key(part):
    page = PAGE.read_text()
    assert [key for key in part.model_fields if key != "options" and f"`{key}`" not in page] == []


def test_the_examples_of_the_page_are_valid(tmp_path):
    first, *changes = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(changes) == 8
    alone = [change for change in changes if change.startswith("treatment")]  # examples of their own
    assert len([Study.from_toml(change) for change in alone]) == 2
    for change in ("", *(change for change in changes if change not in alone)):
        example = first if "[policy]" not in change else first.replace('policy = "standard"', "")
        ids = 'ids = ["birth"]\n' if "[linkage]" in change else ""
        (tmp_path / "study.toml").write_text(f"{ids}{example}\n{change}")
        Study.read(tmp_path / "study.toml")


def test_no_site_is_called_all():
    """Tables and reports call all sites together so."""
    with pytest.raises(StudyError, match="Give the site another name"):
        check_site_id("all")


# ── the study file ──────────────────────────────────────────────────────────────────────────────────────────
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
