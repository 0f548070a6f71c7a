"""A result's folder is replaced whole or not at all, whenever its process is killed, and loads only as it was saved."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedci import Result
from fedci.cli import commands
from fedci.errors import OutputError
from fedci.result import replacement
from fedci.result.replacement import NEXT, holds_result, place, settle

KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from fedci.result import storage

folder, earlier, later = map(Path, sys.argv[1:])
STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "open", "tempfile.mkdtemp", "fcntl.flock")


def written(result, new):
    shutil.copytree(later, new, dirs_exist_ok=True)


def child(at, last):
    seen = 0

    def step(event, arguments):
        nonlocal seen
        if event in STEPS:
            seen += 1
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)

    storage._write_all = written
    sys.addaudithook(step)
    storage.save_result(None, at, force=True)


last = 0
while True:
    last += 1
    at = folder / str(last)
    if earlier.exists():
        shutil.copytree(earlier, at)
    pid = os.fork()
    if pid == 0:
        try:
            child(at, last)
        except BaseException:
            os._exit(3)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        continue
    print(last, os.WEXITSTATUS(status))
    break
"""


def changed(result, amount=1.0):
    """Another result of the same study: other numbers in every file."""
    fit = result.outcome.fit
    outcome = replace(result.outcome, fit=replace(fit, theta=fit.theta + amount, objective=fit.objective + amount))
    return replace(result, outcome=outcome, made="later")


@pytest.fixture
def saved(classic, tmp_path):
    """(folder of a result, folder of another, the other)."""
    other = changed(classic)
    classic.save(tmp_path / "earlier")
    other.save(tmp_path / "later")
    return tmp_path / "earlier", tmp_path / "later", other


def killed_at_every_step(folder, earlier, later):
    """How many steps a replacement has; FOLDER/k is what is left of one that was killed at step k."""
    folder.mkdir()
    ran = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(earlier), str(later)], capture_output=True,
                         text=True, timeout=300, check=True)
    last, status = map(int, ran.stdout.split())
    assert status == 0, ran.stderr
    return last


def content(folder):
    """Of every file of a result, wherever it stands."""
    names = [*json.loads(place(folder, "result.json").read_bytes())["files"], "result.json"]
    return {name: place(folder, name).read_bytes() for name in names}


def test_killed_at_every_step_the_folder_is_the_earlier_result_or_the_later_one(saved, tmp_path):
    """The earlier has files that the later has not."""
    earlier, later, _ = saved
    shutil.rmtree(later / "sites" / "site-1")
    facts = json.loads((later / "result.json").read_bytes())
    (later / "result.json").unlink()
    kept = {name: value for name, value in facts.items() if name not in ("files", "digest")}
    (later / "result.json").write_text(json.dumps(replacement.sealed(kept, later)))
    (earlier / "notes of its owner.txt").write_text("stays")
    steps = killed_at_every_step(tmp_path / "left", earlier, later)
    assert steps > 30
    seen = []
    for step in range(1, steps + 1):
        folder = tmp_path / "left" / str(step)
        found = Result.load(folder)
        assert content(folder) == content(earlier if found.made != "later" else later), step
        assert set(found.people) == ({"site-0"} if found.made == "later" else {"site-0", "site-1"})
        assert (folder / "notes of its owner.txt").read_text() == "stays"
        assert not (folder / NEXT).exists()
        seen.append(found.made == "later")
    assert seen == sorted(seen)  # the earlier one up to a step, the later one from then on
    assert set(seen) == {False, True}


def test_a_first_result_that_was_killed_is_there_or_not_and_its_place_is_free(saved, tmp_path):
    _, later, other = saved
    steps = killed_at_every_step(tmp_path / "left", tmp_path / "no such folder", later)
    for step in range(1, steps + 1):
        folder = tmp_path / "left" / str(step)
        if holds_result(folder):
            assert Result.load(folder).made == "later"
        else:
            other.save(folder)  # without force
            assert content(folder) == content(later)


def test_a_folder_that_cannot_be_written_is_read_in_the_midst_of_its_replacement(saved, monkeypatch):
    earlier, later, other = saved
    shutil.copytree(later, earlier / NEXT)
    (earlier / "arrays.npz").unlink()
    (earlier / NEXT / "arrays.npz").rename(earlier / "arrays.npz")  # this far it came

    def refused(folder):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(replacement, "settle", refused)
    back = Result.load(earlier)
    np.testing.assert_array_equal(back.outcome.fit.theta, other.outcome.fit.theta)
    assert back.made == "later"
    monkeypatch.undo()
    settle(earlier)
    assert content(earlier) == content(later)


def test_result_json_has_the_digest_of_every_other_file(saved):
    folder, _, _ = saved
    facts = json.loads((folder / "result.json").read_bytes())
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(facts["files"]) == there - {"result.json"}
    assert all(len(bytes.fromhex(digest)) == 32 for digest in facts["files"].values())


NAMES = ["arrays.npz", "effects.csv", "trace.csv", "diagnostics.json", "sites/site-0/rows.npz",
         "sites/site-1/people.csv"]


@pytest.mark.parametrize("name", NAMES)
def test_an_altered_byte_is_found_and_its_file_named(refuted, tmp_path, name):
    refuted.save(tmp_path / "out")
    path = tmp_path / "out" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(OutputError, match=f"file '{name}' is not the one that was saved"):
        Result.load(tmp_path / "out")


@pytest.mark.parametrize("name", ["arrays.npz", "trace.csv", "sites/site-0/rows.npz"])
def test_a_file_of_another_result_is_found(saved, name):
    earlier, later, _ = saved
    data = (later / name).read_bytes() if name != "trace.csv" else b"number,cap,objective,gradient_norm,seconds,few\n"
    if name.endswith("rows.npz"):
        data = (later / "sites" / "site-1" / "rows.npz").read_bytes()
    (earlier / name).write_bytes(data)
    with pytest.raises(OutputError, match=f"file '{name}'"):
        Result.load(earlier)


def test_facts_that_were_altered_are_found(saved):
    folder, _, _ = saved
    facts = json.loads((folder / "result.json").read_bytes())
    for change in ({"seed": 7}, {"verdict": "settled, and well"}, {"files": {}}, {"digest": "0" * 64}):
        (folder / "result.json").write_text(json.dumps(facts | change))
        with pytest.raises(OutputError, match=r"file 'result\.json'"):
            Result.load(folder)


def test_what_a_result_lacks_is_named_and_what_a_site_took_away_is_not_missed(saved):
    folder, _, _ = saved
    shutil.rmtree(folder / "sites")
    assert Result.load(folder).people == {}
    (folder / "effects.csv").unlink()
    with pytest.raises(OutputError, match=r"lacks its file 'effects\.csv'"):
        Result.load(folder)


def test_a_result_of_before_digests_still_loads(saved, classic):
    folder, _, _ = saved
    facts = json.loads((folder / "result.json").read_bytes())
    (folder / "result.json").write_text(json.dumps({name: value for name, value in facts.items()
                                                    if name not in ("files", "digest")}))
    assert Result.load(folder).summary() == classic.summary()


def test_a_file_that_names_another_place_is_refused(saved, tmp_path):
    folder, _, _ = saved
    (tmp_path / "outside").write_text("")
    facts = json.loads((folder / "result.json").read_bytes())
    plain = {name: value for name, value in facts.items() if name != "digest"}
    plain["files"]["../outside"] = facts["files"]["arrays.npz"]
    (folder / "result.json").write_text(json.dumps(plain | {"digest": replacement._own_digest(plain)}))
    with pytest.raises(OutputError, match=r"file '\.\./outside'"):
        Result.load(folder)


def test_the_command_that_reads_the_diagnostics_alone_holds_them_against_their_digest(refuted, tmp_path, capsys):
    refuted.save(tmp_path / "out")
    path: Path = tmp_path / "out" / "diagnostics.json"
    path.write_text(path.read_text().replace("fine", "FINE"))
    with pytest.raises(SystemExit) as left:
        commands.main(["diagnostics", str(tmp_path / "out")])
    assert left.value.code == 2
    assert "'diagnostics.json'" in capsys.readouterr().err
