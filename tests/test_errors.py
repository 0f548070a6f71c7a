"""The error tree, and how the command line tells an error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedci import errors
from fedci.cli import commands


@pytest.mark.parametrize("error", errors.tree(), ids=lambda error: error.__name__)
def test_every_error_has_its_own_code_an_exit_code_and_help(error):
    assert "code" in vars(error)
    assert [other for other in errors.tree() if other.code == error.code] == [error]
    assert error.exit_code in (1, 2, 3, 4, 5)
    assert error.help.endswith(".")
    assert "help" in vars(error), "an inherited remedy is too general"


def test_the_tree_in_the_docstring_is_the_tree():
    assert all(error.__name__ in errors.__doc__ for error in errors.tree())


def test_exit_codes_follow_the_branch():
    for branch, code in ((errors.InputError, 2), (errors.DisclosureError, 3), (errors.FederationError, 4),
                         (errors.NumericalError, 5)):
        assert {error.exit_code for error in errors.tree(branch)} == {code}


@pytest.mark.parametrize("error", errors.tree(), ids=lambda error: error.__name__)
def test_an_error_survives_its_code(error):
    assert type(errors.from_code(error.code, "why")) is error


def test_an_unknown_code_is_the_sites_error():
    assert type(errors.from_code("of another version", "why")) is errors.SiteError


def test_a_message_is_one_line():
    assert errors.DataError("two\n  lines").message == "two lines"


# ── the command line ────────────────────────────────────────────────────────────────────────────────────────


def told(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        commands.main(arguments)
    said = capsys.readouterr()
    return left.value.code, said.out, said.err


@pytest.fixture
def failing_demo(monkeypatch, tmp_path):
    """`fedci demo` that raises what it is given, before it loads anything."""
    def arrange(error: BaseException) -> list[str]:
        def fail(*_):
            raise error
        monkeypatch.setattr(commands, "check_folder", fail)
        return ["demo", "--out", str(tmp_path)]
    return arrange


@pytest.mark.parametrize("error", errors.tree(), ids=lambda error: error.__name__)
def test_an_error_is_one_line_and_its_exit_code(error, failing_demo, capsys):
    call = failing_demo(error("what was got"))
    assert told(capsys, *call) == (error.exit_code, "", "error: what was got\n")


def test_an_unexpected_error_is_one_line_without_its_words(failing_demo, capsys, monkeypatch):
    monkeypatch.delenv("FEDCI_DEBUG", raising=False)
    code, out, err = told(capsys, *failing_demo(ZeroDivisionError("SECRETCELL")))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "ZeroDivisionError" in err
    assert "FEDCI_DEBUG" in err
    assert "SECRETCELL" not in err


def test_debugging_lets_an_unexpected_error_through(failing_demo, monkeypatch):
    monkeypatch.setenv("FEDCI_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        commands.main(failing_demo(ZeroDivisionError()))


def test_an_interrupt_leaves_with_130(failing_demo, capsys):
    assert told(capsys, *failing_demo(KeyboardInterrupt()))[0] == 130


@pytest.mark.parametrize("call", ["fit", "run", "run --what", "check", "demo --seed x"])
def test_a_wrong_call_is_one_line(call, capsys):
    code, out, err = told(capsys, *call.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")


@pytest.mark.parametrize("call", ["", "--help", "run --help", "check --help", "demo -h"])
def test_help(call, capsys):
    code, out, err = told(capsys, *call.split())
    assert (code, err) == (0, "")
    assert "fedci" in out


def test_version(capsys):
    code, out, _ = told(capsys, "--version")
    assert code == 0
    assert all(name in out for name in ("fedci ", "Python ", "jax "))


def test_help_and_reading_a_study_do_not_wait_for_jax():
    heavy = ("import sys, fedci.cli.commands, fedci.study.study, fedci.table.table; "
             "print({'jax', 'pandas'} & set(sys.modules))")
    run = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
