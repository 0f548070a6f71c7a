"""A dataclass of more than five fields is built by names: nobody counts positions."""

import dataclasses
import importlib
import pkgutil

import pytest

import fedci
from fedci.protocol.messages import Message

MOST = 5
MESSAGES = {field.name for field in dataclasses.fields(Message)}
"""(run, round, site) of every message: one tuple, made in one place (`protocol.messages.Base`) and handed on whole."""


def test_large_dataclasses_are_built_by_names():
    """NamedTuples of traced arrays are tuples by nature, and are not meant; of a message the base is such a tuple."""
    by_position = [name for name, fields in large_dataclasses().items() if any(not field.kw_only for field in fields)]
    assert by_position == []


def large_dataclasses() -> dict[str, tuple[dataclasses.Field, ...]]:
    """Those of the package with their fields, by where they stand."""
    large = {}
    for module in modules():
        for kind in vars(module).values():
            if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__ \
                    and len(own_fields(kind)) > MOST:
                large[f"{module.__name__}.{kind.__name__}"] = own_fields(kind)
    return large


def own_fields(kind: type) -> tuple[dataclasses.Field, ...]:
    """All, but for a message's base."""
    return tuple(field for field in dataclasses.fields(kind)
                 if not (issubclass(kind, Message) and field.name in MESSAGES))


def modules():
    for module in pkgutil.walk_packages(fedci.__path__, "fedci."):
        if not module.name.endswith("__main__"):
            yield imported(module.name)


def imported(name: str):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        pytest.skip(f"{name} needs {problem.name}, which is not installed")
