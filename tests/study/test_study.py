"""The study: the forms it may be written in, its file, its hash, and the policy it names."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import pytest

from fedci.errors import StudyError, UsageError
from fedci.study.covariate import Covariate
from fedci.study.options import ModelOptions, OptimiserOptions, PredictionOptions
from fedci.study.policy import POLICIES, Policy
from fedci.study.site_name import check_site_id
from fedci.study.study import Study
from fedci.study.study_file import OPTION_TABLES
from support.studies import EXAMPLE, small


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


def test_a_study_is_frozen():
    with pytest.raises(Exception, match="frozen"):
        small().treatment = "v"


@pytest.mark.parametrize("made, written", [(Study, "treatment=…, outcome=…, covariates=…, …"), (Covariate, "name=…, …"),
                                           (Policy, "name=…, …")])
def test_values_without_a_name_are_told_how_to_write_them(made, written):
    """Positions of a study's many values would be guessed."""
    with pytest.raises(UsageError, match=re.escape(f"by name, got 3 without one: write {made.__name__}({written})")):
        made("treated", "ldl", ["age"])
    known = small()
    assert pickle.loads(pickle.dumps(known)) == copy.deepcopy(known) == known.model_copy() == known


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
