"""The list of protections that `assurance/mutations.py` takes out says what stands in the tree: it does not rot."""

import ast
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("mutations", ROOT / "assurance" / "mutations.py")
mutations = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutations)


@pytest.mark.parametrize("one", mutations.PROTECTIONS, ids=lambda one: one.what)
def test_each_protection_stands_once_where_the_list_says(one):
    text = (ROOT / "src" / "fedci" / one.file).read_text(encoding="utf-8")
    assert text.count(one.old) == 1, f"{one.file}: a protection that moved moves its record too"
    ast.parse(text.replace(one.old, one.new))  # what is left without it is a module still


@pytest.mark.parametrize("one", mutations.PROTECTIONS, ids=lambda one: one.what)
def test_each_test_that_must_fail_is_there(one):
    file, _, name = one.test.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    [found] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert not any("slow" in ast.unparse(mark) for mark in found.decorator_list), "it is not quick"


def test_no_protection_is_counted_twice():
    for counted in ([one.what for one in mutations.PROTECTIONS],
                    [(one.file, one.old, one.new) for one in mutations.PROTECTIONS]):
        assert max(Counter(counted).values()) == 1
    assert len(mutations.PROTECTIONS) >= 40
    assert all(one.old != one.new for one in mutations.PROTECTIONS)
