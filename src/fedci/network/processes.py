"""The engine's processes: started in a group of their own, watched, and ended whole. All waits have an end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from fedci.errors import AwayError
from fedci.network.kit import Kit

STOP_SECONDS = 8.0
PID = "engine.pid"
"""In the run's folder: the process group of the engine, for whoever must end what a crash left behind."""
MODULES = {"coordinator": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
           "site": ("nvflare.private.fed.app.client.client_train", "fed_client.json")}


def end_leftover(own: Kit) -> None:
    """What an earlier command of this kit left running when it was killed: it would hold the port or the ledger."""
    try:
        group = int((own.run / PID).read_text(encoding="utf-8"))
        command = Path(f"/proc/{group}/cmdline").read_bytes().decode(errors="replace")
    except (OSError, ValueError):
        return
    if MODULES[own.role][0] in command and str(own.engine) in command:  # the number may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        _outlives_a_moment(group)


@contextmanager
def engine(own: Kit) -> Iterator[subprocess.Popen[bytes]]:
    """The engine's process of a kit, with its output in run/engine.log; its whole group is ended on the way out."""
    module, config = MODULES[own.role]
    names = [] if own.role == "coordinator" else [f"uid={own.name}"]
    command = [sys.executable, "-u", "-m", module, "-m", str(own.engine), "-s", config, "--set", "secure_train=true",
               *names, f"org={own.organisation}", "config_folder=config"]
    with (own.run / "engine.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=own.engine, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        (own.run / PID).write_text(str(process.pid), encoding="utf-8")
        try:
            yield process
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask the group to stop, then make it. A job's process has a session of its own and follows its parent."""
    for sign, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        if not _outlives_a_moment(process.pid):
            return


def end_with_parent() -> None:
    """End this process when the one that started it is gone: a job that an engine's crash left behind would hold the
    site's ledger, and a processor."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(3)

    Thread(target=watch, daemon=True, name="parent").start()


def _outlives_a_moment(group: int) -> bool:
    """Whether anything of the group is there after two seconds."""
    for _ in range(20):
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        time.sleep(0.1)
    return True


def wait_listening(own: Kit, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Until the coordinator's port answers."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise AwayError(f"the engine ended at once (status {process.returncode}); {own.run / 'engine.log'} says "
                            f"why. Is port {own.port} taken?")
        with contextlib.suppress(OSError), socket.create_connection((own.host, own.port), 1.0):
            return
        time.sleep(0.1)
    raise AwayError(f"the engine did not listen on {own.host}:{own.port} within {seconds:g} s: see "
                    f"{own.run / 'engine.log'}")


def check_port_free(host: str, port: int) -> None:
    """Before a server is started: another one on the same port would answer in its place."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), 0.5):
        raise AwayError(f"something listens on {host}:{port} already: is the coordinator running twice? "
                        f"Stop it, or make kits with another --port")
