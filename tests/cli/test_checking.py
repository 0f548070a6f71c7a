"""`fedci check`: every problem at once, and what would leave."""

import json

import numpy as np

from support.commanded import told
from tests_support import frame, study


def test_check_counts_and_leaves_nothing(tmp_path, capsys):
    study(options={"optimiser": {"rounds": 20}}).write(tmp_path / "study.toml")
    frame(40, 0).to_csv(tmp_path / "a.csv", index=False)
    before = set(tmp_path.iterdir())
    code, out, _ = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv")
    assert code == 0
    assert "rows 40, treated 17" in out
    assert set(tmp_path.iterdir()) == before


def test_check_tells_every_problem_at_once(tmp_path, capsys):
    table = frame(60, 0).assign(bmi=["27,5", *["x"] * 59], w=[2, *[1] * 59], y=np.r_[np.nan, np.ones(59)])
    table.loc[5, "age"] = np.nan
    table.drop(columns="sex").to_csv(tmp_path / "a.csv", index=False)
    study().write(tmp_path / "study.toml")
    code, out, err = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv")
    assert code == 2
    assert out == ""
    for part in ("'sex' is missing", "'w' holds values other than 0 and 1", "'y' has no value", "'bmi' holds text",
                 "'age' has 1 missing value", "5 problems"):
        assert part in err
    code, out, _ = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv", "--json")
    found = json.loads(out)
    assert code == 2
    assert found["ok"] is False
    assert len(found["problems"]) == 5
