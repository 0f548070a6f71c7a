"""The commands end to end: from files to files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main

from fedci import Result
from fedci.cli import commands
from support.commanded import told
from tests_support import frame, study


@pytest.fixture
def files(tmp_path):
    study(options={"optimiser": {"rounds": 20}}).write(tmp_path / "study.toml")
    frame(40, 0).to_csv(tmp_path / "a.csv", index=False)
    frame(37, 1).to_parquet(tmp_path / "b.parquet")
    return tmp_path


def test_run_from_files_to_a_result(files, capsys):
    code, out, err = told(capsys, "run", files / "study.toml", "--site", f"a={files / 'a.csv'}",
                          "--site", f"b={files / 'b.parquet'}", "--out", files / "out", "--seed", 3)
    assert code == 0, err
    assert "On average treatment changes the outcome by" in out
    assert "round" in err  # the progress bar
    result = Result.load(files / "out")
    assert json.loads((files / "out" / "result.json").read_text())["seed"] == 3
    table = pd.read_csv(files / "out" / "effects.csv")
    np.testing.assert_allclose(table["mean"], result.table()["mean"], rtol=1e-12)
    assert len(pd.read_csv(files / "out" / "sites" / "b" / "people.csv")) == 37
    assert len(pd.read_csv(files / "out" / "trace.csv")) == 20


def test_quiet_leaves_no_bar(files, capsys):
    code, _, err = told(capsys, "run", files / "study.toml", "--site", f"a={files / 'a.csv'}",
                        "--site", f"b={files / 'b.parquet'}", "--out", files / "out", "--quiet")
    assert (code, err) == (0, "")


def test_check_counts_and_leaves_nothing(files, capsys):
    before = set(files.iterdir())
    code, out, _ = told(capsys, "check", files / "study.toml", files / "a.csv")
    assert code == 0
    assert "rows 40, treated 17" in out
    assert set(files.iterdir()) == before


def leaves(command, words=()):
    """Every command by its words."""
    if getattr(command, "commands", None):
        for name, one in command.commands.items():
            yield from leaves(one, (*words, name))
    else:
        yield " ".join(words), command


COMMANDS = dict(leaves(typer.main.get_command(commands.app)))
SPEAK_ON = {"demo", "benchmark", "site run"}
"""For people: they show what happens as it happens."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_and_json_for_scripts(name):
    assert f"Example: `fedci {name}" in COMMANDS[name].help
    options = {word for one in COMMANDS[name].params for word in one.opts}
    assert ("--json" in options) is (name not in SPEAK_ON)


def test_the_result_has_a_place_if_none_is_named():
    [out] = [one for one in COMMANDS["run"].params if one.name == "out"]
    assert (out.required, str(out.default)) == (False, "result")


def test_simulated_files_are_told_as_json(tmp_path, capsys):
    code, out, _ = told(capsys, "simulate", "--out", tmp_path / "h", "--rows", 20, "--json")
    assert code == 0
    assert [Path(path).exists() for path in json.loads(out)["files"]] == [True] * 5
