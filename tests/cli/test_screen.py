"""How commands speak: JSON that every reader takes, and names that are text, never markup."""

import io
import json

import pytest
from rich.console import Console

from fedci.cli import screen


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_has_no_number_for_is_null(value):
    assert json.loads(screen.as_json({"a": [value, (1.5, value)], 2: {"b": value}})) == {
        "a": [None, [1.5, None]], "2": {"b": None}}


def shown(table) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    return out.getvalue()


def test_a_name_that_looks_like_markup_is_shown_as_it_is():
    assert "[red]lyon[/red]" in shown(screen.table("", ("site", "n"), [("[red]lyon[/red]", 3)]))


def test_numbers_have_four_digits_and_what_is_absent_is_a_dash():
    text = shown(screen.table("", ("a", "b"), [(3.14159265, None)]))
    assert "3.142" in text
    assert "–" in text


@pytest.mark.parametrize("quiet", [True, False])
def test_nothing_moves_where_nobody_looks(quiet):
    out = io.StringIO()
    with screen.waiting("busy", quiet, Console(file=out)):
        pass
    assert out.getvalue() == ""
