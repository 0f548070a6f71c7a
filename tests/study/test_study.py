"""The study: the forms it may be written in, its file, its hash, and the policy it names."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedci.errors import OutputError, StudyError
from fedci.study.options import ROUND_CAP, ModelOptions, OptimiserOptions, PredictionOptions
from fedci.study.policy import POLICIES, Policy, check_available, policy
from fedci.study.study import MAX_NAME, OPTION_TABLES, Covariate, Study, check_site_id

EXAMPLE = """
name = "statins"
treatment = "treated"
outcome = "ldl_change"
ids = ["national_id"]
missing = "refuse"
policy = "standard"
preset = "default"
sites = ["lyon", "oslo"]

[covariates.age]
type = "numeric"
range = [0, 120]

[covariates.stage]
type = "categorical"
levels = ["I", "II", "III"]
missing = "impute"

[model]
kernel = "rbf(ard)"

[optimiser]
rounds = 100
"""


def small(**changes) -> Study:
    good = {"treatment": "w", "outcome": "y", "covariates": ["a", "b"], "policy": "simulation"}
    return Study(**good | changes)


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
    assert [study.imputes(covariate) for covariate in study.covariates] == [False, True]


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
policies = st.sampled_from(["standard", "simulation"]) | st.fixed_dictionaries({}, optional={
    "name": st.sampled_from(["standard", "simulation"]), "min_rows": st.integers(2, 99),
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
    assert len(changes) == 6
    for change in ("", *changes):
        example = first if "[policy]" not in change else first.replace('policy = "standard"', "")
        ids = 'ids = ["birth"]\n' if "[linkage]" in change else ""
        (tmp_path / "study.toml").write_text(f"{ids}{example}\n{change}")
        Study.read(tmp_path / "study.toml")


# ── the policy ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_standard_policy_is_the_designs():
    standard = POLICIES["standard"]
    assert (standard.min_rows, standard.min_arm_rows, standard.min_cell) == (50, 20, 10)
    assert (standard.moment_digits, standard.max_levels, standard.max_rounds) == (4, 40, 200)
    assert (standard.parameters_per_row_warn, standard.max_level_share) == (0.33, 0.33)
    assert not standard.allow_single_arm


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
    ({"moment_digits": None}, "moment_digits"), ({"epsilon": 0}, "epsilon"), ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": math.inf}, "epsilon"), ({"epsilon": math.nan}, "epsilon"), ({"delta": 0}, "delta"),
    ({"delta": 1}, "delta"), ({"delta": math.nan}, "delta"), ({"name": "none"}, "'none'"), (3, "int")])
def test_a_policy_that_cannot_be(value, fragment):
    with pytest.raises(StudyError, match="policy") as problem:
        policy(value)
    assert fragment in problem.value.message


def test_an_override_needs_a_reason_and_keeps_it():
    assert policy({"min_arm_rows": 9, "override_reason": "rare disease, board 12/3"}).override_reason
    assert policy({"name": "simulation", "min_arm_rows": 1}).min_arm_rows == 1


@pytest.mark.parametrize("value, sites, fragment", [
    ({"secure_sum": True}, 2, "3 sites"), ({"secure_sum": True}, 1, "Add sites")])
def test_secure_sums_of_two_are_refused(value, sites, fragment):
    with pytest.raises(StudyError, match=fragment):
        check_available(policy(value), sites)


@pytest.mark.parametrize("value, masked", [
    ("standard", {1: False, 2: False, 3: True, 10: True}), ("simulation", {2: False, 3: False}),
    ({"secure_sum": False}, {3: False}), ({"secure_sum": True}, {3: True})])
def test_sums_are_masked_from_three_sites_on(value, masked):
    assert {sites: policy(value).secures(sites) for sites in masked} == masked


def test_the_shipped_policies_are_available():
    for shipped in POLICIES.values():
        check_available(shipped, 1)


def test_no_site_is_called_all():
    """Tables and reports call all sites together so."""
    with pytest.raises(StudyError, match="Give the site another name"):
        check_site_id("all")
