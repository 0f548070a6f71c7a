"""A measurement in a process of its own, which compiles anew: its seconds and its memory are those of a first run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from fedci.model.programs import FRESH


def answer(module: str, *arguments: str, limit: float | None = None, cores: int | None = None) -> Any:
    """The JSON that `python -m module arguments` prints last; None: it was ended at the limit, with all that it had
    started. `cores`: it may use so many. Packages' warnings to their own users are left out: a forest repeats them for
    every tree."""
    chosen = sorted(os.sched_getaffinity(0))[-cores:] if cores else None
    pin = (lambda: os.sched_setaffinity(0, chosen)) if chosen else None
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=pin,
                          env=os.environ | FRESH | {"PYTHONWARNINGS": "ignore"}) as process:
        try:
            printed, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:  # the limit, or the user's Ctrl-C
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return json.loads(printed.splitlines()[-1])
