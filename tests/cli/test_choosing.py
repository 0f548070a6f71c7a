"""`fedci plan` and `fedci transport`, as they are typed."""

import json

import pytest

from fedci import Source
from fedci.cli import commands as cli
from tests_support import frame, made_result, study


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study(preset="default").write("study.toml")
    for name, seed in (("a", 0), ("b", 1)):
        frame(60, seed).to_csv(f"{name}.csv", index=False)
    return tmp_path


def typed(capsys, *words):
    code = cli._exit_code(list(words))
    out = capsys.readouterr()
    return code, out.out if code == 0 else out.err


def test_a_plan_reads_no_outcome(folder, capsys):
    asked = ["plan", "study.toml", "--site", "a=a.csv", "--site", "b=b.csv", "--sd", "2", "--json"]
    code, out = typed(capsys, *asked)
    plans = json.loads(out)["plans"]
    assert (code, [one["sites"] for one in plans]) == (0, ["all sites", "without a", "without b"])
    frame(60, 0).assign(y=range(60)).to_csv("a.csv", index=False)
    assert json.loads(typed(capsys, *asked)[1])["plans"] == plans
    frame(60, 0).drop(columns="y").to_csv("a.csv", index=False)
    assert json.loads(typed(capsys, *asked)[1])["plans"] == plans, "outcomes need not be there yet"
    assert "No outcome was looked at" in typed(capsys, *asked[:-1])[1]
    assert typed(capsys, "plan", "study.toml", "--site", "a=a.csv")[0] == 2
    assert typed(capsys, "plan", "study.toml", "--site", "a", "--risk", "0.2")[0] == 2


def test_a_plan_of_sites_that_are_elsewhere_is_of_their_blinded_result(folder, capsys):
    made_result(study(preset="default", design="randomised"), {"a": frame(60, 0), "b": frame(60, 1)}).save("result")
    asked = ["plan", "result", "--sd", "2", "--json"]
    study(preset="default", design="randomised").write("study.toml")
    plans = json.loads(typed(capsys, *asked)[1])["plans"]
    tables = ["plan", "study.toml", "--site", "a=a.csv", "--site", "b=b.csv", "--sd", "2", "--json"]
    assert plans == json.loads(typed(capsys, *tables)[1])["plans"]
    assert typed(capsys, *asked, "--site", "a=a.csv")[0] == 2
    made_result(study(preset="default"), {"a": frame(60, 0)}).save("plain")
    code, said = typed(capsys, "plan", "plain", "--sd", "2")
    assert (code, "does not tell" in said) == (2, True)


def test_a_plan_of_more_arms_holds_each_against_the_reference(folder, capsys):
    study(preset="default", treatment={"name": "w", "arms": ["none", "low", "high"]}).write("study.toml")
    for name, seed in (("a", 0), ("b", 1)):
        arm = [("none", "low", "high")[k % 3] for k in range(60)]
        frame(60, seed).assign(w=arm).to_csv(f"{name}.csv", index=False)
    asked = ["plan", "study.toml", "--site", "a=a.csv", "--site", "b=b.csv", "--risk", "0.2", "--json"]
    plans = json.loads(typed(capsys, *asked)[1])["plans"]
    assert [one["sites"] for one in plans][:2] == ["low vs none, all sites", "low vs none, without a"]
    assert {(one["untreated"], one["treated"]) for one in plans} == {(40, 40), (20, 20)}


def test_other_people_stay_where_they_are(folder, capsys):
    made_result(study(preset="default"), {"a": frame(60, 0), "b": frame(60, 1)}, draws=4).save("result")
    code, out = typed(capsys, "transport", "result", "a.csv")
    assert (code, out.startswith("Over 60 people the average effect is ")) == (0, True)
    (folder / "table1.toml").write_text("age = { mean = 62, sd = 12 }\nsex = 0.5\n", encoding="utf-8")
    found = json.loads(typed(capsys, "transport", "result", "--moments", "table1.toml", "--json")[1])
    assert found["low"] < found["mean"] < found["high"]
    assert typed(capsys, "transport", "result")[0] == 2
    assert Source("a", "a.csv").name == "a"
