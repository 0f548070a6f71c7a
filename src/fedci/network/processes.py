"""The engine's processes: started in a session of their own, tied to their command, and ended whole. All waits end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedci.errors import AwayError, OutputError
from fedci.files import rotate
from fedci.network import tether
from fedci.network.kit import Kit

LEAVE_SECONDS, STOP_SECONDS = 2.0, 8.0
"""Seconds a tied process has to end by itself, and then by SIGKILL."""
MODULES = {"coordinator": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
           "site": ("nvflare.private.fed.app.client.client_train", "fed_client.json")}


@contextmanager
def command(own: Kit) -> Iterator[tether.Command]:
    """The one command of a kit, once nothing of an earlier one lives; what is tied to it ends with it."""
    with (own.run / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"the kit '{own.folder}' is in use by another command: stop that one first") from None
        if not end_leftover(own):
            raise OutputError(f"processes of an earlier command of the kit '{own.folder}' do not end (numbers: "
                              f"{', '.join(map(str, workers(own)))}): end them, then start this again")
        held = tether.Command(own.run)
        try:
            yield held
        finally:
            held.release()


@contextmanager
def engine(own: Kit, held: tether.Command) -> Iterator[subprocess.Popen[bytes]]:
    """The engine's process of a kit, with its output in run/engine.log; on the way out it has ended, and its jobs."""
    module, config = MODULES[own.role]
    names = [] if own.role == "coordinator" else [f"uid={own.name}"]
    call = [sys.executable, "-u", "-m", tether.__name__, str(os.getpid()), module, "-m", str(own.engine), "-s", config,
            "--set", "secure_train=true", *names, f"org={own.organisation}", "config_folder=config"]
    rotate(own.run / "engine.log")
    with (own.run / "engine.log").open("ab") as log:
        process = subprocess.Popen(call, cwd=own.engine, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True, env=os.environ | {tether.LOCK: str(held.path)})
        try:
            yield process
        finally:
            held.release()
            end(own, process)


def end(own: Kit, process: subprocess.Popen[bytes]) -> None:
    """The engine's process and its jobs; released by their command they end by themselves, stopped ones are made to."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    end_leftover(own)


def end_leftover(own: Kit) -> bool:
    """What commands of this kit that have ended left running; whether nothing of it lives any more."""
    if tether.deserted(own.run, LEAVE_SECONDS):
        return True
    for number in workers(own):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL)
    return tether.deserted(own.run, STOP_SECONDS)


def workers(own: Kit) -> list[int]:
    """Numbers of the kit's living processes below a command; a number that is another's by now is not among them."""
    marks = tether.__name__, str(own.engine)
    return [number for number in tether.enrolled(own.run) if all(mark in _command_line(number) for mark in marks)]


def _command_line(number: int) -> str:
    """Of a living process; empty for one that is not there. Linux has it as a file, other systems have `ps`."""
    if Path("/proc/self").exists():
        with contextlib.suppress(OSError):
            return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return ""
    listing = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(number)], capture_output=True, text=True,
                             check=False)
    return listing.stdout


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
