"""The commands end to end: from files to files."""

import json
from pathlib import Path

import pytest
import typer.main

from fedci.cli import commands
from support.commanded import told


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


TABLE = "age,w,y\n60,0,1.5\n61,1,2.5\n"


@pytest.mark.parametrize("words, said", [
    (["fit", "study.toml"], "No such command 'fit'. There are: demo, simulate, init, check, plan, protocol, run, "),
    (["site", "join"], "`fedci site --help` says what each does"),
    (["run"], "Missing argument 'STUDY'. Example: `fedci run study.toml --site"),
    (["check", "study.toml"], "Missing argument 'DATA'. Example: `fedci check study.toml "),
    (["run", "study.toml", "--sites", "a=a.csv"], "(Possible options: --seed, --site). Example: `fedci run "),
    (["site", "run", "--kit", "lyon"], "Missing option '--data'. Example: `fedci site run --kit lyon --data"),
    (["compare", "result"], "`fedci compare --help` says what is what"),
    (["check", "a.csv", "study.toml"], "Its name is a table's: the study file comes first, the data after it"),
    (["protocol", "a.csv"], "the study file comes first"),
    (["run", "study.toml", "--site", "a.csv"], "needs NAME=DATA, for example --site lyon=lyon.csv"),
    (["run", "studdy.toml", "--site", "a=a.csv"], "no such file or directory. Check the path"),
    (["report", "study.toml"], "is a file, and a result is a folder: give the one that `fedci run … --out`"),
    (["show", "."], "holds no result: it needs result.json and arrays.npz. Give the folder that `fedci run … --out`"),
    (["init", "a.csv", "--treatment", "nosuch"], "there is no column 'nosuch' in the table; there are age, w, y"),
    (["init", "a.csv", "--treatment", "agee"], "did you mean 'age'?"),
    (["init", "study.toml"], "neither .csv nor .parquet"),
    (["network", "new", "study.toml"], "say how messages travel"),
    (["ledger", "."], "give the folder in which the site runs"),
])
def test_what_a_newcomer_types_wrongly_is_answered_with_what_would_be_right(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(TABLE)
    Path("study.toml").write_text('treatment = "w"\noutcome = "y"\ncovariates = ["age"]\npolicy = "simulation"\n')
    code, _, err = told(capsys, *words)
    assert code == 2
    assert err.startswith("error: ")
    assert said in " ".join(err.split())
    assert len(err.strip().splitlines()) == 1


def test_help_lists_commands_in_the_order_in_which_a_study_needs_them():
    names = [name for name in COMMANDS if " " not in name]
    assert names == ["demo", "simulate", "init", "check", "plan", "protocol", "run", "diagnostics", "unblind", "show",
                     "report", "predict", "compare", "transport", "ledger", "benchmark"]
