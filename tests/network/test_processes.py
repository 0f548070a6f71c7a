"""The engine's processes: ended whole, stopped ones too; a port that is taken; a number that is another's by now."""

import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fedci.errors import AwayError, OutputError
from fedci.network import processes, tether


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A kit, as far as its processes are concerned; one that will not end is not waited for long."""
    monkeypatch.setattr(processes, "LEAVE_SECONDS", 0.3)
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.5)
    return SimpleNamespace(run=tmp_path, folder=tmp_path, role="site", engine=tmp_path / "engine")


def started(own, held):
    """A process of the kit that sleeps, tied to a command of this process."""
    (own.run / "sleeping.py").write_text("import time; time.sleep(60)")
    path = os.pathsep.join((str(own.run), os.environ.get("PYTHONPATH", "")))
    process = subprocess.Popen([sys.executable, "-m", tether.__name__, str(os.getpid()), "sleeping", str(own.engine)],
                               env=os.environ | {"PYTHONPATH": path, tether.LOCK: str(held.path)})
    until = time.monotonic() + 20
    while processes.workers(own) != [process.pid]:
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


def stop(process) -> None:
    """Until all of it stands still."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def test_released_by_its_command_a_process_ends_by_itself(own):
    with processes.command(own) as held:
        process = started(own, held)
    assert process.wait(5) == tether.ENDED


def test_a_process_that_is_stopped_and_cannot_end_by_itself_is_made_to(own):
    with processes.command(own) as held:
        process = started(own, held)
        stop(process)
        held.release()
        processes.end(own, process)
    assert process.poll() == -signal.SIGKILL


def test_a_new_command_ends_what_an_earlier_one_left_behind(own):
    """Stopped when its command died, so that it could not end by itself: it would hold the port, or the ledger."""
    held = tether.Command(own.run)
    process = started(own, held)
    stop(process)
    held.release()
    with processes.command(own):
        assert process.wait(5) == -signal.SIGKILL


def test_a_kit_has_one_command_at_a_time(own):
    with processes.command(own), pytest.raises(OutputError, match="in use by another command"):
        processes.command(own).__enter__()


def test_a_port_that_is_taken_is_said_before_a_server_is_started():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AwayError, match="listens on localhost.*already"):
            processes.check_port_free("localhost", port)
    processes.check_port_free("localhost", port)


@pytest.mark.parametrize("written", ["", "no number\n", "{own}\n"])
def test_what_is_not_the_kits_engine_is_left_alone(own, written):
    """A process number in the kit's folder may be another's by now: this test's own, for one."""
    (own.run / tether.WORKERS).write_text(written.format(own=os.getpid()))
    assert processes.workers(own) == []
    assert processes.end_leftover(own)


def test_what_lives_on_whatever_is_done_is_said_before_anything_is_started(own):
    file = tether.enrol(own.run)
    with pytest.raises(OutputError, match="do not end"):
        processes.command(own).__enter__()
    os.close(file)
    with processes.command(own) as held:
        assert held.path.exists()
    assert not held.path.exists()
