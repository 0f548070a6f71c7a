"""The engine's processes: ended whole, a port that is taken, and a number that is another's by now."""

import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fedci.errors import AwayError
from fedci.network import processes


def test_a_group_that_ignores_the_asking_is_ended_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.5)
    ready = tmp_path / "ready"
    code = (f"import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            f"pathlib.Path({str(ready)!r}).touch(); time.sleep(60)")
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    until = time.monotonic() + 20
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.02)
    processes.end(process)
    assert process.poll() == -9


def test_a_port_that_is_taken_is_said_before_a_server_is_started():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AwayError, match="listens on localhost.*already"):
            processes.check_port_free("localhost", port)
    processes.check_port_free("localhost", port)


@pytest.mark.parametrize("written", ["", "no number", "{own}"])
def test_what_is_not_the_kits_engine_is_left_alone(tmp_path, written):
    """A process number in the kit's folder may be another's by now: this test's own, for one."""
    (tmp_path / processes.PID).write_text(written.format(own=os.getpid()))
    processes.end_leftover(SimpleNamespace(run=tmp_path, role="site", engine=tmp_path))
