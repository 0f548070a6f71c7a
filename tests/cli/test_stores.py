"""`fedci site store`: counts, a backup, its way back, and a new beginning with a reason."""

import json

import numpy as np
import pytest

from fedci.site import store
from fedci.site.accountant import Accountant, Release
from fedci.study.policy import POLICIES
from support.commanded import told


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "store"
    store.create(made)
    account = Accountant(made)
    account.admit(Release(site="a", run="run", study="s", columns=("w", "y"), outcome="y",
                          people={"ids": [b"%d" % k for k in range(60)]}, w=np.arange(60) % 2), POLICIES["standard"])
    account.add_numbers("run", 12)
    return made


def test_it_shows_counts(folder, capsys):
    code, out, _ = told(capsys, "site", "store", "show", "--store", folder)
    assert (code, "1 cohorts of 60 people told of in 1 runs; 12 numbers, at most 12" in out) == (0, True)
    code, out, _ = told(capsys, "site", "store", "show", "--store", folder, "--json")
    found = json.loads(out)
    assert {name: found[name] for name in ("cohorts", "people", "runs", "numbers", "most")} == {
        "cohorts": 1, "people": 60, "runs": 1, "numbers": 12, "most": 12}


def test_where_there_is_none_it_says_what_to_do(tmp_path, capsys):
    for words in (("show",), ("backup", tmp_path / "copy")):
        code, _, error = told(capsys, "site", "store", *words, "--store", tmp_path / "none")
        assert (code, "fedci site store restore" in error) == (2, True)
    assert not (tmp_path / "none").exists()


def test_a_backup_is_made_and_brought_back(folder, tmp_path, capsys):
    assert told(capsys, "site", "store", "backup", tmp_path / "copy", "--store", folder)[0] == 0
    code, _, error = told(capsys, "site", "store", "backup", tmp_path / "copy", "--store", folder)
    assert (code, "--force" in error) == (2, True)
    before = Accountant(folder).counts
    (folder / store.FILE).write_bytes(b"")
    assert told(capsys, "site", "store", "show", "--store", folder)[0] == 2
    code, out, _ = told(capsys, "site", "store", "restore", tmp_path / "copy", "--store", folder)
    assert (code, "restored" in out) == (0, True)
    assert Accountant(folder).counts == before


def test_a_new_one_needs_a_reason(folder, capsys):
    assert told(capsys, "site", "store", "new", "--store", folder)[0] == 2
    assert told(capsys, "site", "store", "new", "--store", folder, "--reason", "  ")[0] == 2
    assert Accountant(folder).counts.cohorts == 1
    assert told(capsys, "site", "store", "new", "--store", folder, "--reason", "a test of it")[0] == 0
    code, out, _ = told(capsys, "site", "store", "show", "--store", folder)
    assert (code, "0 cohorts" in out, "begun anew" in out and "a test of it" in out) == (0, True, True)
