"""A folder of results, made up, and its page."""

import json

import pytest

from fedci.benchmark.pages import benchmark_page
from fedci.benchmark.run.cells import append
from support.pages import effects, made_up


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    append(folder / "cells.csv", made_up())
    append(folder / "effects.csv", effects())
    runs = [{"command": "fedci benchmark data-1", "started": "2025-01-02", "versions": {"numpy": "2.1"}, "seed": 7},
            {"command": "fedci benchmark null", "versions": {"numpy": "2.1"}}]
    (folder / "run.json").write_text(json.dumps({"runs": runs}))
    return folder


@pytest.fixture(scope="session")
def written(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("docs") / "benchmarks.md"
    benchmark_page.write(results, path)
    return path
