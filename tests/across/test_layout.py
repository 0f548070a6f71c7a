"""A person finds the tests of a module by its name: tests/FOLDER/test_MODULE.py for src/fedci/FOLDER/MODULE.py."""

import ast
from pathlib import Path

import pytest

import fedci

ROOT, TESTS = Path(fedci.__file__).parent, Path(__file__).parents[1]
SOME = 4
"""Functions from which on a module has logic of its own."""
ELSEWHERE = {
    "benchmark/learners": "other people's packages, which have an environment of their own: tests_benchmark",
    "benchmark/run/baselines.py": "the list of them: tests_benchmark",
    "benchmark/cost": "measurements that `make bench` runs; what they print is read by the tests of the pages",
    "network/rehearsal.py": "the network of all tests in network/test_network.py",
}
"""Folders and modules whose tests stand elsewhere, and why."""
ALSO = {"across", "corpus", "support", "vectors"}
"""Folders of tests for which there is no source folder."""


def functions(path: Path) -> int:
    return sum(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def is_elsewhere(path: str) -> bool:
    return any(path == other or path.startswith(f"{other}/") for other in ELSEWHERE)


MODULES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))
           if not path.stem.startswith("__") and functions(path) >= SOME}


@pytest.mark.parametrize("name", [name for name in MODULES if not is_elsewhere(name)])
def test_a_module_with_logic_has_a_file_of_tests_of_its_name(name):
    path = TESTS / Path(name).parent / f"test_{Path(name).name}"
    assert path.exists(), f"write {path.relative_to(TESTS.parent)}"
    assert "\ndef test_" in path.read_text(encoding="utf-8") or "    def test_" in path.read_text(encoding="utf-8")


def test_what_stands_elsewhere_is_still_there():
    assert all((ROOT / name).exists() for name in ELSEWHERE)
    assert {name for name in ELSEWHERE if name.endswith(".py")} <= MODULES.keys()


def test_each_folder_of_tests_is_a_folder_of_the_package():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert {str(folder) for folder in folders if folder.parts[:1] and folder.parts[0] not in ALSO
            and not (ROOT / folder).is_dir()} == set()
