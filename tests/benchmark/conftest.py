"""Baselines that know nothing or fail, among the methods."""

import pytest

from fedci.benchmark.run import methods
from fedci.benchmark.run.baselines import Learner
from support.benchmarked import broken, constant


@pytest.fixture
def learners(monkeypatch):
    for name, learn in {"constant": constant, "broken": broken}.items():
        monkeypatch.setitem(methods.LEARNERS, name, Learner(name, (), "", False, learn))
    monkeypatch.setitem(methods.LEARNERS, "absent", Learner("absent", ("no_such_package",), "pip install it", False,
                                                            constant))
