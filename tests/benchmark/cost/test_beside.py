"""A study by two versions: in turn, on the same tables, and the ratio of their medians."""

import json
import subprocess

import numpy as np
import pytest

from fedci import FedCI, Source, Study
from fedci.benchmark.cost import any_version, beside
from fedci.benchmark.cost.beside import HERE, NOW, OLD, Cell
from fedci.errors import UsageError


def cell(which, number, cold):
    return Cell("200", which, number, "0.1.0", cold, np.nan, 2.0, np.nan, 10.0 if which == OLD else 4.0, 40.0, 1.0)


def test_ratios_are_of_medians_and_what_was_not_measured_has_no_line():
    done = [cell(OLD, 0, 10.0), cell(NOW, 0, 12.0), cell(OLD, 1, 20.0), cell(NOW, 1, 24.0), cell(OLD, 2, 90.0),
            cell(NOW, 2, 13.0)]
    assert beside.table(done).splitlines()[2:] == [
        "| DATA-1, 5 × 200, masked | seconds, cold | 20 | 13 | 0.65 |",
        "| DATA-1, 5 × 200, masked | seconds, warm | 2 | 2 | 1.00 |",
        "| DATA-1, 5 × 200, masked | MB a site | 10 | 4 | 0.40 |",
        "| DATA-1, 5 × 200, masked | rounds | 40 | 40 | 1.00 |"]


def test_the_old_is_first_and_then_last(tmp_path, monkeypatch):
    monkeypatch.setattr(beside, "plan", lambda people, folder: folder)
    monkeypatch.setattr(beside, "measure", lambda tree, asked: {"version": tree, "cold": 1.0})
    made = list(beside.cells({OLD: "a", NOW: "b"}, ["50"], 2, tmp_path))
    assert [(one.which, one.version, one.time) for one in made] == [
        (OLD, "a", 0), (NOW, "b", 0), (NOW, "b", 1), (OLD, "a", 1)]


def test_a_folder_is_taken_as_it_is_and_what_is_neither_is_refused(tmp_path):
    assert beside.tree_of(str(HERE), tmp_path) == HERE
    with pytest.raises(UsageError, match="neither a folder"):
        beside.tree_of("no-such-commit", tmp_path)


def test_of_a_commit_the_sources_are_taken(tmp_path):
    if subprocess.run(["git", "-C", str(HERE), "rev-parse", "HEAD"], capture_output=True, check=False).returncode:
        pytest.skip("no repository here")
    assert (beside.tree_of("HEAD", tmp_path) / "src" / "fedci" / "version.py").exists()


def test_the_plan_is_a_study_that_sites_read(tmp_path):
    asked = json.loads(beside.plan(50, tmp_path / "plan").read_text())
    study = Study(**asked["study"])
    people = [Source(name, path).read(study).rows for name, path in asked["tables"].items()]
    assert people == [50] * beside.SITES
    assert study.policy.secures(beside.SITES)


def test_the_commands_study_is_one_that_sites_read(tmp_path):
    beside.cli_study(tmp_path / "cli")
    study = Study.read(tmp_path / "cli" / "study.toml")
    table = Source("site-0", tmp_path / "cli" / "site-0.csv").read(study)
    assert (table.rows, table.x.shape[1]) == (beside.CLI_PEOPLE, beside.CLI_COLUMNS)


@pytest.mark.slow
def test_what_is_measured_is_the_fit(tmp_path):
    asked = json.loads(beside.plan(50, tmp_path / "plan").read_text())
    asked["study"] |= {"options": {"optimiser": {"rounds": 3}}, "diagnostics": {"enabled": False}}
    found = any_version.measure(asked)
    result = FedCI(Study(**asked["study"]), seed=0).fit([Source(name, path) for name, path in asked["tables"].items()])
    assert found["ate"] == result.ate().mean
    assert found["MB"] == sum(t.sent + t.received for t in result.traffic.values()) / beside.SITES / 1e6
