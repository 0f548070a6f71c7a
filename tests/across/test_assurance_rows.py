"""`make assurance`: rows two at a time, a cut leaves whole rows, and what broke counts as lost."""

import importlib.util
import os
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("assurance_run", ROOT / "assurance" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SUITES", {name: [name] for name in "abcd"})
    for name in ("FUZZED", "SCRIPTS"):
        monkeypatch.setattr(module, name, {})
    monkeypatch.setattr(module, "tree", lambda: "0123456789ab")
    monkeypatch.setattr(module, "from_gram", lambda: module.Row(module.GRAM, 1, 1, "1 s"))
    monkeypatch.setattr(module, "counted", lambda what, *script: module.Row(what, 1, 1, "1 s"))
    module.page_there = tmp_path / "page.md"
    return module


def called(run, monkeypatch, *more):
    monkeypatch.setattr(sys, "argv", ["run", "--soak", "0", "--out", str(run.page_there), *more])
    with pytest.raises(SystemExit) as ended:
        run.main()
    return bool(ended.value.code)


def test_two_rows_at_a_time_are_on_cores_of_their_own_and_the_page_keeps_its_order(run, monkeypatch):
    """Each row waits for one beside it: alone, the barrier would break, and the row be lost."""
    both, cores = threading.Barrier(2, timeout=20), {}

    def suite(what, paths):
        both.wait()
        cores.setdefault(threading.get_ident(), os.sched_getaffinity(0))
        return run.Row(what, 1, 1, "1 s")

    monkeypatch.setattr(run, "suite", suite)
    monkeypatch.setattr(run, "from_gram", lambda: suite(run.GRAM, []))
    monkeypatch.setattr(run, "SUITES", {name: [name] for name in "abc"})
    before = os.sched_getaffinity(0)
    assert not called(run, monkeypatch, "--jobs", "2")
    assert list(run.written(run.page_there)) == ["a", "b", "c", run.GRAM, run.MUTATIONS]
    assert os.sched_getaffinity(0) == before
    assert len(cores) == 2
    assert all(len(core) == 1 for core in cores.values())
    assert len(set.union(*cores.values())) == min(2, len(before))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_row_that_breaks_is_lost_and_the_others_are_run(run, monkeypatch, jobs):
    def suite(what, paths):
        if what == "b":
            raise RuntimeError("no report | was written")
        return run.Row(what, 2, 2, "1 s")

    monkeypatch.setattr(run, "suite", suite)
    assert called(run, monkeypatch, "--jobs", jobs)
    rows = run.written(run.page_there)
    assert {what: row.lost for what, row in rows.items()} == {"a": 0, "b": 1, "c": 0, "d": 0, run.GRAM: 0,
                                                            run.MUTATIONS: 0}
    assert rows["b"].note == "did not come to an end: RuntimeError: no report / was written"


def test_a_cut_leaves_whole_rows_and_missing_goes_on_from_there(run, monkeypatch):
    made, kept = [], run.kept

    def suite(what, paths):
        made.append(what)
        return run.Row(what, 1, 1, "1 s")

    def cut(path, text):
        kept(path, text)
        if text.count("| 1 s |") == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "suite", suite)
    monkeypatch.setattr(run, "kept", cut)
    with pytest.raises(KeyboardInterrupt):
        called(run, monkeypatch)
    there = set(run.written(run.page_there))
    assert len(there) == 2
    made.clear()
    monkeypatch.setattr(run, "kept", kept)
    assert not called(run, monkeypatch, "--missing", "--jobs", "2")
    assert set(made) == set("abcd") - there
    assert list(run.written(run.page_there)) == ["a", "b", "c", "d", run.GRAM, run.MUTATIONS]
