"""The text of a study file: it says all of the study, and any other text is a study error."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedci.errors import OutputError, StudyError
from fedci.study.study import Study
from support.studies import EXAMPLE, small

# ── the file and the hash ───────────────────────────────────────────────────────────────────────────────────
names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
limits = st.tuples(st.floats(-math.inf, -1), st.floats(0, math.inf))
treatments_of_missing = st.sampled_from([None, "refuse", "impute"])
numeric = st.fixed_dictionaries({"range": st.none() | limits, "missing": treatments_of_missing})
categorical = st.fixed_dictionaries({
    "type": st.just("categorical"), "levels": st.lists(names, min_size=2, max_size=5, unique=True)})
options = st.fixed_dictionaries({}, optional={
    "model": st.fixed_dictionaries({}, optional={
        "kernel": st.sampled_from(["rbf", "rbf(ard) + matern32(scale)"]),
        "weight_sd": st.none() | st.floats(1e-3, 9),
        "mean": st.just({"kind": "network", "trunk": (3, 4)}), "standardise": st.booleans()}),
    "optimiser": st.fixed_dictionaries({}, optional={"rounds": st.integers(1, 200)})})
policies = st.sampled_from(["standard", "simulation", "custom"]) | st.fixed_dictionaries(
    {"name": st.sampled_from(["custom", "simulation"])}, optional={
    "min_rows": st.integers(2, 99), "secure_sum": st.sampled_from([True, False, "auto"]),
    "min_arm_rows": st.just(5),
    "override_reason": st.text(st.characters(codec="utf-8"), max_size=9).map("x".__add__),
}).filter(lambda table: "min_arm_rows" not in table or "override_reason" in table)

sites = st.lists(st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True).filter(lambda name: name != "all"), max_size=3,
                 unique=True)


@st.composite
def studies(draw) -> Study:
    columns = draw(st.lists(names, min_size=3, max_size=7, unique_by=lambda name: name.split("=")[0]))
    covariates = {name: draw(numeric | categorical | st.just({"type": "binary"})) for name in columns[2:]}
    return Study(treatment=columns[0], outcome=columns[1], covariates=covariates, policy=draw(policies),
                 preset="classic", options=draw(options), seed=draw(st.integers(0, 9)), sites=draw(sites),
                 missing=draw(st.sampled_from(["refuse", "impute"])))


@settings(max_examples=60, deadline=None)
@given(study=studies())
def test_the_file_says_all_of_the_study(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "study.toml"
    study.write(path)
    assert Study.read(path) == study
    assert Study.read(path).hash() == study.hash()


def test_the_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "study.toml").write_text(EXAMPLE, "utf-8-sig")
    assert Study.read(tmp_path / "study.toml").name == "statins"


def test_none_is_a_word_in_the_file(tmp_path):
    study = small(preset="classic", options={"model": {"weight_sd": None}})
    assert study.fit_options().model.weight_sd is None
    assert small(preset="classic").fit_options().model.weight_sd is not None
    assert 'weight_sd = "none"' in study.to_toml()


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_is_a_study_or_a_study_error(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "study.toml"
    path.write_bytes(data)
    with pytest.raises(StudyError):
        Study.read(path)


def test_a_path_that_cannot_be_written_is_an_output_error(tmp_path):
    with pytest.raises(OutputError, match="no such file"):
        small().write(tmp_path / "nowhere" / "study.toml")
