"""A measurement in its own process: what it prints, what its failure says; at its limit nothing of it stays."""

import subprocess
import time
from pathlib import Path

import pytest

from fedci.benchmark.cost import own_process


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that a new process finds."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")

    def write(text):
        (tmp_path / "measured.py").write_text(text)
        return "measured"

    return write


def test_the_last_line_is_what_it_told(module):
    assert own_process.answer(module("import sys; print('busy'); print('[1, ' + sys.argv[1] + ']')"), "2") == [1, 2]


def test_a_failure_is_an_error_and_not_an_answer(module):
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        own_process.answer(module("print('[1]'); raise SystemExit(3)"))


def test_at_the_limit_what_it_started_ends_too(module, tmp_path):
    sleeper = "import os, pathlib, time; pathlib.Path(r'{0}').write_text(str(os.getpid())); time.sleep(120)"
    told = tmp_path / "pid"
    text = ("import subprocess, sys, time\n"
            f"subprocess.Popen([sys.executable, '-c', {sleeper.format(told)!r}])\n"
            "time.sleep(120)\n")
    assert own_process.answer(module(text), limit=5.0) is None
    assert _ended(int(told.read_text()))


def _ended(pid: int) -> bool:
    """Gone, or dead and waiting for its parent to notice, within ten seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False
