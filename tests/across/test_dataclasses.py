"""A dataclass of more than five fields is built by names: nobody counts positions."""

import dataclasses
import importlib
import pkgutil

import pytest

import fedci

MOST = 5
ELSEWHERE = ("coordinator", "protocol", "site")
"""Folders that still have dataclasses by position."""


def test_large_dataclasses_are_built_by_names():
    """NamedTuples of traced arrays are tuples by nature, and are not meant."""
    by_position = [name for name, fields in large_dataclasses().items() if any(not one.kw_only for one in fields)]
    assert by_position == []


def large_dataclasses() -> dict[str, tuple[dataclasses.Field, ...]]:
    """Those of the package with their fields, by where they stand."""
    found = {}
    for module in modules():
        for kind in vars(module).values():
            if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__ \
                    and len(dataclasses.fields(kind)) > MOST:
                found[f"{module.__name__}.{kind.__name__}"] = dataclasses.fields(kind)
    return found


def modules():
    names = [one.name for one in pkgutil.walk_packages(fedci.__path__, "fedci.") if not one.name.endswith("__main__")]
    for name in names:
        if name.split(".")[1] not in ELSEWHERE:
            yield imported(name)


def imported(name: str):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        pytest.skip(f"{name} needs {problem.name}, which is not installed")
