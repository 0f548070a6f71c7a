"""A tied process ends with its command, however that ends; and before an answer of its own leaves."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from fedci.network import tether

ANSWERING = """
import sys
from fedci.network.tether import Tether
here = Tether.here()
with open(sys.argv[1], "a", buffering=1) as ledger:
    while True:
        here.check()
        ledger.write("answer\\n")
"""
BETWEEN = """
import os, signal, sys, time
from fedci.network import tether
call = [sys.executable, "-m", tether.__name__, str(os.getpid()), "answering", sys.argv[1]]
os.posix_spawn(sys.executable, call, os.environ, setsid=True)
time.sleep(60)
"""
COMMAND = """
import os, subprocess, sys, time
from pathlib import Path
from fedci.network import tether
folder = Path(sys.argv[1])
held = tether.Command(folder)
bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
(folder / "bystander").write_text(str(bystander.pid))
call = [sys.executable, "-m", tether.__name__, str(os.getpid()), "between", str(folder / "ledger")]
subprocess.Popen(call, env=os.environ | {tether.LOCK: str(held.path)}, start_new_session=True)
time.sleep(60)
"""
"""A command without handlers of its own, an engine below it, and a job below that, in sessions of their own."""


class Running:
    def __init__(self, folder):
        self.folder = folder
        for name, code in (("answering", ANSWERING), ("between", BETWEEN)):
            (folder / f"{name}.py").write_text(code)
        path = os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))
        before = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
        self.command = subprocess.Popen([sys.executable, "-c", COMMAND, str(folder)],
                                        env=os.environ | {"PYTHONPATH": path})
        for one, handler in before.items():
            signal.signal(one, handler)
        until = time.monotonic() + 20
        while self.answers() < 3:
            assert time.monotonic() < until
            time.sleep(0.02)
        self.engine, self.job = tether.enrolled(folder)

    def answers(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "ledger").read_bytes().count(b"\n")
        return 0

    def stop_job(self):
        """Until it stands still: a signal takes its moment."""
        os.kill(self.job, signal.SIGSTOP)
        before = -1
        while before != (before := self.answers()):
            time.sleep(0.2)

    def close(self):
        for number in (self.command.pid, *tether.enrolled(self.folder), int((self.folder / "bystander").read_text())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.command.wait(10)


@pytest.fixture
def running(tmp_path):
    made = Running(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("sign", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGKILL"])
def test_however_a_command_ends_what_is_below_it_has_ended(running, sign):
    """A process beside them, which the command started too and which inherited all it could, holds nobody up."""
    running.command.send_signal(signal.Signals[sign])
    running.command.wait(10)
    assert tether.deserted(running.folder, 2.0)
    left = running.answers()
    time.sleep(0.2)
    assert running.answers() == left
    assert tether.enrolled(running.folder) == []
    os.kill(int((running.folder / "bystander").read_text()), 0)


def test_the_job_ends_with_an_engine_that_is_killed_between_it_and_the_command(running):
    os.kill(running.engine, signal.SIGKILL)
    assert tether.deserted(running.folder, 2.0)
    assert running.command.poll() is None


def test_a_job_that_slept_through_its_commands_end_answers_nothing_when_it_wakes(running):
    """Asleep it has at most one answer behind its last look; the threads that watch have not run either."""
    running.stop_job()
    running.command.kill()
    running.command.wait(10)
    assert not tether.deserted(running.folder, 0.3)
    left = running.answers()
    os.kill(running.job, signal.SIGCONT)
    assert tether.deserted(running.folder, 2.0)
    assert running.answers() <= left + 1


def test_without_a_thread_that_watches_the_look_before_an_answer_is_enough(tmp_path):
    held = tether.Command(tmp_path)
    tied = tether.Tether(os.getppid(), held.path)
    assert not tied.gone()
    assert tied.check() is None
    held.release()
    assert tied.gone()
    code = ("import os, sys; from pathlib import Path; from fedci.network.tether import Tether; "
            "Tether(os.getppid(), Path(sys.argv[1])).check(); print('left')")
    found = subprocess.run([sys.executable, "-c", code, str(held.path)], capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (tether.ENDED, b"")


def test_the_next_command_is_another_and_the_one_before_stays_ended(tmp_path):
    first = tether.Command(tmp_path)
    tied = tether.Tether(os.getppid(), first.path)
    first.release()
    first.release()
    second = tether.Command(tmp_path)
    assert second.path != first.path
    assert tied.gone()
    assert not tether.Tether(os.getppid(), second.path).gone()
    second.release()


def test_of_another_parent_or_of_a_lock_that_cannot_be_read_a_process_counts_as_left_alone(tmp_path):
    assert tether.Tether(os.getpid()).gone()
    assert tether.Tether(os.getppid(), tmp_path / "none").gone()
    assert not tether.Tether(os.getppid()).gone()


def test_a_process_without_a_command_of_ours_is_tied_to_its_parent(monkeypatch):
    for name in (tether.LOCK, tether.PARENT):
        monkeypatch.delenv(name, raising=False)
    assert tether.Tether.here() == tether.Tether(os.getppid())
    assert tether.Tether.here().command is None
    monkeypatch.setenv(tether.LOCK, "/kit/run/command-1")
    monkeypatch.setenv(tether.PARENT, "7")
    assert tether.Tether.here().command == "command-1"
    assert tether.Tether.here().gone()


def test_the_tie_is_read_before_the_engine_and_needs_little():
    code = "import fedci.network.tether, fedci.network.signals, sys; " \
           "sys.exit(bool({'jax', 'numpy', 'nvflare'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
