"""A study proposed from a table: its own file passes, and it holds nobody's extreme value."""

import numpy as np
import pandas as pd
import pytest

from fedci import Source, Study
from fedci.errors import DataError
from fedci.table.problems import problems
from fedci.table.proposal import Roles, propose
from support.commanded import told
from tests_support import frame


# ── init ────────────────────────────────────────────────────────────────────────────────────────────────────
def hospital(rows=80):
    table = frame(rows, 3).rename(columns={"w": "treated", "y": "ldl_change"})
    stages = np.array(["I", "II", "III"])[np.arange(rows) % 3]
    table = table.assign(stage=stages, patient_id=[f"P{i:04d}" for i in range(rows)], ward="north",
                         note=[f"free text {i % 30}" for i in range(rows)])
    table.loc[4:11, "bmi"] = np.nan
    return table


def test_init_proposes_a_study_that_its_own_file_passes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hospital().to_csv("lyon.csv", index=False)
    code, out, _ = told(capsys, "init", "lyon.csv")
    assert code == 0
    assert "to be reviewed" in out
    plan = Study.read("study.toml")
    assert (plan.treatment, plan.outcome, plan.ids) == ("treated", "ldl_change", ("patient_id",))
    by_name = {one.name: one for one in plan.covariates}
    assert {name: one.type for name, one in by_name.items()} == {
        "age": "numeric", "bmi": "numeric", "sex": "binary", "stage": "categorical"}
    assert set(by_name["stage"].levels) == {"I", "II", "III"}
    assert (by_name["bmi"].missing, by_name["age"].missing) == ("impute", None)
    text = (tmp_path / "study.toml").read_text()
    assert text.count("# review:") == 7  # treatment, outcome, ids and four covariates
    assert "'ward': one value only" in text
    assert problems(plan, Source("lyon", tmp_path / "lyon.csv")) == []
    assert told(capsys, "init", "lyon.csv")[0] == 2  # a file that is there is not replaced
    assert told(capsys, "init", "lyon.csv", "--force", "--json")[0] == 0


def test_a_proposed_study_holds_nobodys_extreme_value():
    table = hospital()
    found = propose(table)
    for one in found.study.covariates:
        if one.type == "numeric":
            low, high = table[one.name].min(), table[one.name].max()
            assert one.range[0] <= low < high < one.range[1]
            assert not {low, high} & set(one.range)


def test_init_leaves_out_what_no_study_can_name(tmp_path, capsys):
    table = hospital().assign(**{"\x07": 1.5, "x" * 90: np.arange(80.0), 'quote"d': np.arange(80.0) ** 2})
    table.to_csv(tmp_path / "a.csv", index=False)
    assert told(capsys, "init", tmp_path / "a.csv", "--out", tmp_path / "s.toml")[0] == 0
    names = {one.name for one in Study.read(tmp_path / "s.toml").covariates}
    assert names == {"age", "bmi", "sex", "stage", 'quote"d'}
    assert "no name for a study" in (tmp_path / "s.toml").read_text()


def test_columns_that_no_study_could_use_are_left_out_with_the_reason():
    days = pd.date_range("2020-01-01", periods=80)
    table = hospital().assign(admitted=days.astype(str), born=days, number=range(1, 81), **{"Unnamed: 0": range(80)})
    table["lab"] = ["<3", *(f"{k / 7:.3f}" for k in range(79))]
    why = {guess.look.name: guess.why for guess in propose(table).guesses if guess.role == "left out"}
    assert "dates" in why["admitted"]
    assert "dates" in why["born"]
    assert "numbers the rows" in why["number"]
    assert "numbers the rows" in why["Unnamed: 0"]
    assert "some cells with text" in why["lab"]


@pytest.mark.parametrize(("arms", "found"), [
    (["aspirin", "placebo"], {"treated": ("aspirin",), "untreated": ("placebo",)}),
    (["A", "B"], "none says 'untreated'"), ([1, 2], "neither 0 and 1 nor a few words")])
def test_a_column_that_is_called_the_treatment_is_no_covariate_for_its_words(arms, found):
    """Another column of 0 and 1 is not taken in its place."""
    table = hospital().drop(columns="treated").assign(arm=arms * 40)
    if isinstance(found, str):
        with pytest.raises(DataError, match=f"column 'arm' .*{found}"):
            propose(table)
    else:
        study = propose(table).study
        assert (study.treatment, study.coding["arm"].plain()) == ("arm", found)
        assert "sex" in [one.name for one in study.covariates]


def test_whether_people_are_alive_is_nothing_to_adjust_for():
    found = propose(hospital().assign(status=["alive", "dead"] * 40, vital_sign=np.arange(80.0) ** 2))
    names = {one.name for one in found.study.covariates}
    assert "vital_sign" in names
    assert "status" not in names


def test_codes_with_zeros_in_front_are_no_numbers():
    table = hospital().assign(district=["01069", "04109"] * 40)
    why = {guess.look.name: guess.why for guess in propose(table).guesses if guess.role == "left out"}
    assert "codes" in why["district"]


def test_words_for_unknown_among_numbers_are_missing_codes():
    table = hospital().astype({"age": object})
    table.loc[[3, 9], "age"] = ["unknown", "?"]
    found = propose(table, policy="simulation")
    assert found.study.coding["age"].missing_codes == ("?", "unknown")
    assert next(one for one in found.study.covariates if one.name == "age").missing == "impute"
    assert problems(found.study, Source("lyon", table)) == []


def test_an_outcome_that_is_named_so_is_taken_though_some_lack_it():
    table = hospital().assign(weight=np.arange(80.0) ** 1.5)
    table.loc[5, "ldl_change"] = np.nan
    study = propose(table).study
    assert (study.outcome, study.rows_without) == ("ldl_change", "drop")


def test_init_without_a_treatment_says_what_is_needed(tmp_path, capsys):
    pd.DataFrame({"age": [1.5, 2.5, 3.5], "y": [1.0, 2.0, 3.5]}).to_csv(tmp_path / "a.csv", index=False)
    code, _, err = told(capsys, "init", tmp_path / "a.csv", "--out", tmp_path / "s.toml")
    assert code == 2
    assert "the treatment: a column of 0 and 1" in err


# ── roles that are said ─────────────────────────────────────────────────────────────────────────────────────
def trial(rows=90):
    """A table as a trial has it: words for yes and no, and what came after the randomisation."""
    rng = np.random.default_rng(7)
    return pd.DataFrame({
        "HOSP": rng.integers(1, 9, rows), "AGE": rng.integers(40, 90, rows), "SEX": rng.choice(["M", "F"], rows),
        "AF": rng.choice(["Y", "N", "U"], rows), "RXASP": rng.choice(["Y", "N"], rows),
        "RXHEP": rng.choice(["N", "L", "M", "U"], rows), "DDEAD": rng.choice(["Y", "N"], rows),
        "EVENT14": rng.choice(["Y", "N"], rows), "SIDE": rng.choice(["Y", "N"], rows),
        "score": np.where(np.arange(rows) % 7, rng.normal(size=rows), np.nan)})


def test_words_of_yes_and_no_are_coded_and_their_own_file_passes():
    table = trial()
    found = propose(table, policy="simulation", roles=Roles(outcome="score"))
    study = found.study
    assert study.treatment == "RXASP"  # and no event after it
    assert study.coding["RXASP"].treated == ("Y",)
    assert study.coding["AF"].plain() == {"missing_codes": ("U",), "values": {"Y": 1.0, "N": 0.0}}
    assert study.rows_without == "drop"
    assert Study.from_toml(found.to_toml()) == study
    assert problems(study, Source("lyon", table)) == []
    why = {guess.look.name: guess.why for guess in found.guesses}
    assert "happens after the treatment" in why["DDEAD"]
    assert "happens after the treatment" in why["EVENT14"]
    assert "stands behind the treatment" in why["SIDE"]
    assert "stands behind" not in why["AGE"]


def test_roles_that_are_said_hold():
    found = propose(trial(), roles=Roles(treatment="RXHEP", outcome="DDEAD", covariates=("AGE", "SEX", "SIDE")))
    study = found.study
    assert (study.treatment, study.outcome, study.outcome_type) == ("RXHEP", "DDEAD", "binary")
    assert set(study.coding["RXHEP"].treated) == {"L", "M"}
    assert study.coding["RXHEP"].missing_codes == ("U",)
    assert [c.name for c in study.covariates] == ["AGE", "SEX", "SIDE"]
    assert "'HOSP'" not in found.to_toml()


@pytest.mark.parametrize(("roles", "told"), [
    ({"treatment": "RXAPS"}, "did you mean 'RXASP'"), ({"treatment": "AGE"}, "cannot be the treatment"),
    ({"treatment": "SEX"}, "none says 'untreated'"), ({"outcome": "SEX"}, "holds words"),
    ({"outcome": "score", "covariates": ("score", "AGE")}, "named in two roles")])
def test_a_role_that_cannot_be_is_told(roles, told):
    with pytest.raises(DataError, match=told):
        propose(trial(), roles=Roles(**roles))


def test_among_many_columns_of_two_values_nobody_guesses():
    table = pd.DataFrame({f"v{k}": np.arange(60) // (k + 1) % 2 for k in range(8)}).assign(y=np.arange(60.0))
    with pytest.raises(DataError, match="--treatment NAME"):
        propose(table)


def test_the_table_of_a_wide_file_fits_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    wide = trial().assign(**{f"a covariate with quite a long name {k}": np.arange(90.0) ** k for k in range(2, 50)})
    wide.to_csv(tmp_path / "a.csv", index=False)
    code, out, _ = told(capsys, "init", tmp_path / "a.csv", "--out", tmp_path / "s.toml", "--treatment", "RXASP",
                        "--outcome", "score")
    assert code == 0
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert "more covariates, in the file" in out
    code, out, _ = told(capsys, "init", tmp_path / "a.csv", "--out", tmp_path / "t.toml", "--covariates", "AGE, SEX")
    assert code == 0
    assert "Left out" in out
