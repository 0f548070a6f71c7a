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
