"""The tie between an operator's command and the processes below it: a lock that the kernel releases with the command.

    command      holds run/command-… (flock, exclusive, not inherited) for as long as it lives
      └ engine   waits for that lock in a thread: to get it means that the command is gone, and it ends at once
          └ job  the same; and asks for it, without waiting, before each answer that leaves

However the command ends, by SIGKILL as well, the kernel releases its lock; nothing that it would have to do itself is
relied on. Each process ends with the one that started it, too. The lock is reached by its path: it does not matter how
the engine starts its processes, and which of its files they inherit.

`python -m fedci.network.tether PARENT MODULE ARGUMENT…` runs a module as a process that is so tied. This module is
light: it is read before the engine is.
"""

from __future__ import annotations

import fcntl
import os
import runpy
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

LOCK, PARENT = "FEDCI_COMMAND", "FEDCI_PARENT"
"""Environment of a tied process: the path of its command's lock, the number of the process that started it."""
WORKERS = "workers"
"""In the run's folder: every tied process holds a share of its lock while it lives, and writes its number into it."""
ENDED = 3
"""Exit status of a process whose command has gone."""
LOOK = 0.1


class Command:
    """What an operator's command holds while it lives. Its name is its own: the next command of the kit has another,
    so that no process of this one takes that one for its own."""

    def __init__(self, folder: Path):
        for earlier in folder.glob("command-*"):
            earlier.unlink(missing_ok=True)
        self.path = folder / f"command-{uuid.uuid4().hex}"
        self._file: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """As the command's end would: every process tied to it ends at once."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


@dataclass(frozen=True)
class Tether:
    """What a process is tied to: the one that started it and, of an operator's command, its lock."""

    parent: int
    lock: Path | None = None

    @classmethod
    def here(cls) -> Tether:
        """This process's own. Without a command of ours (a site's own installation of the engine): its parent alone."""
        lock = os.environ.get(LOCK)
        return cls(int(os.environ.get(PARENT) or os.getppid()), Path(lock) if lock else None)

    @property
    def command(self) -> str | None:
        """The command's name for itself, as it wrote it for the run."""
        return self.lock.name if self.lock else None

    def gone(self) -> bool:
        """Whether the command or the parent has ended; what cannot be known counts as gone."""
        return os.getppid() != self.parent or (self.lock is not None and _released(self.lock, wait=False))

    def check(self) -> None:
        """Returns while the command lives. Else this process ends here, before another byte of its own leaves."""
        if self.gone():
            os._exit(ENDED)

    def watch(self) -> None:
        """End this process as soon as the command or the parent has."""
        Thread(target=self._outlive_parent, daemon=True, name="parent").start()
        if self.lock is not None:
            Thread(target=self._outlive_command, args=(self.lock,), daemon=True, name="command").start()

    def _outlive_parent(self) -> None:
        while os.getppid() == self.parent:
            time.sleep(LOOK)
        os._exit(ENDED)

    def _outlive_command(self, lock: Path) -> None:
        while not _released(lock, wait=True):
            time.sleep(LOOK)
        os._exit(ENDED)


def _released(lock: Path, wait: bool) -> bool:
    """Whether nobody holds a command's lock any more; with `wait`, after waiting until that is so."""
    try:
        file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(file)
    return True


# --- which tied processes live

def enrol(folder: Path) -> int:
    """This process among the workers of a run's folder, until it ends; the open file that says so."""
    file = os.open(folder / WORKERS, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_SH)
    os.write(file, f"{os.getpid()}\n".encode())
    return file


def enrolled(folder: Path) -> list[int]:
    """Numbers of processes that enrolled since the folder was last deserted; some may have ended since."""
    try:
        return [int(line) for line in (folder / WORKERS).read_text(encoding="ascii").split() if line.isdecimal()]
    except (OSError, ValueError):
        return []


def deserted(folder: Path, seconds: float) -> bool:
    """Whether, within so many seconds, no tied process of a run's folder lives: the kernel counts them."""
    file = os.open(folder / WORKERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(file, 0)
                return True
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                time.sleep(0.02)
    finally:
        os.close(file)


def main() -> None:
    """Run a module as a process that is tied to its parent and, where the environment names one, to a command."""
    _, parent, module, *arguments = sys.argv
    os.environ[PARENT] = parent
    here = Tether.here()
    if here.lock is not None:
        enrol(here.lock.parent)
    here.check()
    here.watch()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
