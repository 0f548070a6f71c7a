"""The table of outcomes and of what can be asked of them: every cell is backed by a test that exists."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "outcomes.md"
KINDS = ("numbers", "0 and 1", "times", "counts")


def rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").partition("## What goes with what")[2].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert table[0][1:5] == list(KINDS)
    return table[2:]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_line_has_a_cell_for_each_outcome_and_tests_that_exist(row):
    assert len(row) == 6
    assert all(row)
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", row[5])
    assert named
    for file, test in named:
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert test in {part.name for part in tree.body if isinstance(part, ast.FunctionDef)}, f"{file} has no {test}"
