"""What the design promises and no other file tests: defaults as they are written, and the smaller threats and faults.

`docs/promises.md` names, for each row of the design, the tests that hold it.
"""

import ast
import csv
import errno
import inspect
import io
import os
import re
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedci import Source
from fedci.coordinator import retry
from fedci.coordinator.checkpoint import Mark, load
from fedci.coordinator.coordinator import handshake
from fedci.coordinator.linkage import link
from fedci.coordinator.talk import Talk
from fedci.errors import DataError, HandshakeError, NumericalError, OutputError, StudyError
from fedci.files import plain_cell, private_file
from fedci.model.exact import ExactRows
from fedci.model.family import JITTERS, Ask
from fedci.model.paper import elbo
from fedci.privacy import secure_sum
from fedci.protocol import codec
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.messages import Hello, Refusal, Reply
from fedci.site import summing
from fedci.site.door import Door
from fedci.site.ledger import Ledger, Left, verify
from fedci.site.site import Site
from fedci.study import options
from fedci.study.policy import POLICIES, STANDARD_ROUND_CAP
from fedci.version import __version__
from support.asked import asked_until, greeting
from tests_support import frame, made_result, study

LINE = {"run": "r", "phase": "fit", "request": "Evaluate", "request_sha256": "0", "reply": "Reply", "reply_sha256": "1",
        "bytes": 9}
"""Of a ledger, but for its round."""

TESTS = Path(__file__).parents[1]


# --- the page of promises


def rows_of(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|") and not line.startswith(("|---", "| threat |",
            "| fault |", "| default |", "| of |"))]


def test_every_promise_names_tests_and_each_of_them_exists():
    rows = rows_of((TESTS.parent / "docs" / "promises.md").read_text(encoding="utf-8"))
    assert len(rows) >= 40
    all_exist(rows)


def test_every_finding_of_the_review_names_tests_and_each_of_them_exists():
    page = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
    rows = rows_of(page.partition("## The review of version 0.1.0")[2])[1:]
    found = ", ".join(row.split("|")[1].strip() for row in rows)
    assert found == "C1, C1b, C2, C3, C4, H1, H2, H3, H4, H5, H6, H7, M1, M2, L"
    all_exist(rows)


def all_exist(rows: list[str]) -> None:
    """Of each row the tests that it names, one at least."""
    known = {}
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            if file not in known:
                tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
                known[file] = {part.name for part in tree.body if isinstance(part, ast.FunctionDef)}
            assert test in known[file], f"{file} has no {test}"


# --- defaults


def test_the_defaults_are_those_of_the_design():
    """(The policy's own numbers: tests/study/test_study.py.)"""
    assert [secure_sum.threshold(m) for m in (3, 5, 10)] == [3, 4, 7]  # ⌊2m/3⌋ + 1
    assert (secure_sum.BOUNDED, secure_sum.COMPACT, secure_sum.RELATIVE, secure_sum.WIDE) == (
        (40,), (30,), (48,), (20, 72))
    assert (codec.MAX_BYTES, codec.MAX_NESTING) == (16 * 2**20, 8)
    assert (STANDARD_ROUND_CAP, POLICIES["standard"].max_rounds) == (1000, 200)
    assert (POLICIES["standard"].max_parameters_per_row, POLICIES["standard"].secure_sum) == (1.0, True)
    assert retry.TRIES == 3
    for preset in options.preset_names():
        jitter = study(preset=preset).fit_options().model.jitter
        assert (jitter, round(jitter * 10.0 ** (JITTERS - 1), 12)) == (1e-10, 1e-4), preset


def test_the_deadline_is_five_minutes():
    command = pytest.importorskip("fedci.network.operations", reason="the extra `network` is not installed")
    assert inspect.signature(command.run_coordinator).parameters["deadline"].default == 300.0


@pytest.mark.parametrize("name", ["", "Lyon", "ly on", "../x", "a" * 41, "é", "a/b"])
def test_a_site_is_named_by_few_plain_characters(name):
    with pytest.raises((StudyError, DataError), match="a-z"):
        study(sites=(name, "b"))


def test_strings_are_short():
    with pytest.raises(StudyError, match="80"):
        study(name="n" * 81)


def test_private_files_are_private_from_their_first_byte(tmp_path):
    with private_file(tmp_path / "people.csv", "w"):
        assert stat.S_IMODE((tmp_path / "people.csv").stat().st_mode) == 0o600


# --- the handshake


OTHERS = {"another version": {"version": "9.9"}, "another study": {"study_hash": study(seed=1).hash()},
          "another column": {"study_hash": study(outcome="z").hash()},
          "another policy": {"study_hash": study(policy={"name": "simulation", "min_rows": 3}).hash()},
          "an earlier version of the study": {"study_hash": study(covariates={"age": {}, "bmi": {}}).hash()}}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_a_mismatch_is_refused_at_the_handshake_with_both_values(change):
    plan = study()
    site = Site(plan, Source("a", frame(30, 0)).read(plan))
    ours = {"version": __version__, "study_hash": plan.hash()}
    good = greeting(plan)
    refusal = site.answer(replace(good, **change))
    (name, theirs), = change.items()
    assert (type(refusal), refusal.code) == (Refusal, HandshakeError.code)
    assert f"{ours[name]} here, {theirs} at the coordinator" in refusal.reason
    assert isinstance(site.answer(good), Reply)  # and nothing is lost by it


# --- a covariance that is not positive definite


def prepared_site():
    """A site whose fit has begun, and its next step."""
    plan = study()
    site = Site(plan, Source("a", frame(30, 0)).read(plan))
    site.answer(greeting(plan))
    last = asked_until(site, "Begin")[-1]
    return site, replace(last, round=last.round + 1, name="Evaluate")


@pytest.mark.parametrize("needed, reported", [(1e-10, None), (1e-7, 1e-7), (1e-4, 1e-4), (1.0, "failed")])
def test_the_jitter_climbs_its_ladder_is_reported_and_then_fails(monkeypatch, needed, reported):
    """The factorisation stands in for one that needs so much: the rungs are the site's own."""
    site, step = prepared_site()
    tried = []

    def evaluate(model, theta, roots, arrays, jitter):
        tried.append(jitter)
        value = 1.0 if jitter >= needed * (1 - 1e-9) else np.nan
        return np.array(value), (np.full(model.size, value), roots)

    monkeypatch.setattr(elbo, "evaluate_site", evaluate)
    reply = site.answer(step)
    np.testing.assert_allclose(tried, 1e-10 * 10.0 ** np.arange(len(tried)))
    if reported == "failed":
        assert (len(tried), float(reply.sums["failed"])) == (JITTERS, 1.0)
        assert not reply.sums["gradient"].any()
    else:
        assert float(reply.sums["failed"]) == 0.0
        assert reply.notes.get("jitter") == (None if reported is None else pytest.approx(reported))


def test_effects_beyond_the_ladder_are_an_error_with_its_remedy(monkeypatch):
    site, _ = prepared_site()
    ready, nothing = site.run.prepared, {"cate": np.full(3, np.nan)}
    monkeypatch.setattr(ExactRows, "effects", lambda *parts: nothing)
    ask = Ask("AskEffects", {"theta": np.zeros(ready.model.size), "phi_roots": np.zeros((1, 2, 2)),
                             "sigma_roots": np.zeros((1, 2, 2)), "g": np.zeros((1, 1, 2)),
                             "correlations": np.array([0.0])})
    with pytest.raises(NumericalError, match=r"even with jitter 0\.0001.*raise model\.jitter"):
        summing._effects(site.party, site.run, ready, ask)


# --- canaries


def test_no_value_of_a_person_is_in_what_leaves_or_is_written(tmp_path, capfd):
    """Ids and cells that can be told from everything else go in; messages, ledgers, logs and screens are searched."""
    plan = study(policy="standard", ids=("patient",))
    sites = {}
    for s, name in enumerate("abc"):
        rows = frame(60, s).assign(patient=[f"CANARY-{name}-{i}" for i in range(60)])
        rows.loc[7, "bmi"] = 31.415926535897
        rows["patient"] = ["CANARY-everywhere", *rows["patient"][1:]]
        sites[name] = Site(plan, Source(name, rows).read(plan))
    doors = {name: Door(site, Ledger(tmp_path / name), tmp_path / name) for name, site in sites.items()}
    said = []

    class Wire:
        def __init__(self):
            self.sites = tuple(doors)

        def exchange(self, requests):
            back = {name: doors[name].answer(encode(request)) for name, request in requests.items()}
            said.extend([*map(encode, requests.values()), *back.values()])
            return {name: decode(data) for name, data in back.items()}

    talk = Talk(Wire(), "run-1")
    handshake(talk, Contract(plan, tuple(sites)))
    assert sum(link(talk, plan, b"s" * 32).excluded.values()) == 2
    for name, door in doors.items():
        door.answer(b"no message")
        door.answer(encode(Hello("run-1", 99, name, "9.9", "x", {})))
        door.ledger.close()
    screens = capfd.readouterr()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 6
    found = b"".join([*said, *written, screens.out.encode(), screens.err.encode()])
    value = np.float64(31.415926535897).tobytes()
    for canary in (b"CANARY", b"canary", b"31.415926", value):
        assert canary not in found


# --- spreadsheets


@given(st.text(max_size=20))
def test_no_cell_of_ours_is_a_formula_and_all_come_back(text):
    told = plain_cell(text)
    assert told in (text, f"'{text}")
    if told.startswith(("=", "+", "-", "@")):
        float(told)
    file = io.StringIO(newline="")
    csv.writer(file).writerow([told, "1"])
    file.seek(0)
    assert next(csv.reader(file)) == [told, "1"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", "\t=1"])
def test_what_a_spreadsheet_would_run_is_text(text):
    assert plain_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-5", "+1e3", "P-17", "1=1", ""])
def test_other_cells_stay(text):
    assert plain_cell(text) == text


# --- a disk that is full


@pytest.fixture
def small_disk(tmp_path):
    """64 KiB; where nobody may mount one, the limit on the size of files stands in (tests/across/test_faults.py)."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True,
                      check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(path) -> None:
    """Until nothing more goes in."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    full = None
    while full is None:
        try:
            os.write(handle, bytes(512))
        except OSError as problem:
            full = problem.errno
    os.close(handle)
    assert full == errno.ENOSPC


def test_on_a_full_disk_what_stood_before_stands(small_disk):
    mark = Mark("a", ("a", "b"))
    kept, book = load(small_disk / "c.npz", mark, "run-1"), Ledger(small_disk)
    kept.write()
    book.append(Left(**LINE, round=1))
    filler = small_disk / "filler"
    fill(filler)
    kept.state = {"query": np.random.default_rng(0).normal(size=2000)}
    with pytest.raises(OutputError, match="No space left.*The one before it stands"):
        kept.write()
    with pytest.raises(OutputError, match="Nothing was sent"):
        book.append(Left(**LINE, round=2, notes={"pad": "x" * 9000}))
    plan = study(preset="default")
    with pytest.raises(OutputError):
        made_result(plan, {"a": frame(40, 0), "b": frame(40, 1)}).save(small_disk / "result")
    assert list((small_disk / "result").iterdir()) == []  # no half of a result
    filler.unlink()
    book.close()
    assert load(small_disk / "c.npz", mark, "run-2").run == "run-1"
    with Ledger(small_disk) as again:
        again.append(Left(**LINE, round=3))
    assert verify(small_disk).ok
    kept.write()
    assert load(small_disk / "c.npz", mark, "run-2").state["query"].shape == (2000,)
