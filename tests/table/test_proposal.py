"""A study proposed from a table: its own file passes, and it holds nobody's extreme value."""

import numpy as np
import pandas as pd

from fedci import Source, Study
from fedci.table.proposal import propose
from fedci.table.table import problems
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


def test_init_without_a_treatment_says_what_is_needed(tmp_path, capsys):
    pd.DataFrame({"age": [1.5, 2.5, 3.5], "y": [1.0, 2.0, 3.5]}).to_csv(tmp_path / "a.csv", index=False)
    code, _, err = told(capsys, "init", tmp_path / "a.csv", "--out", tmp_path / "s.toml")
    assert code == 2
    assert "the treatment: a column of 0 and 1" in err
