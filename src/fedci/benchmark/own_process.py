"""A measurement in a process of its own, which compiles anew: its seconds and its memory are those of a first run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from fedci.programs import FRESH


def told(module: str, *arguments: str, limit: float | None = None, cores: int | None = None):
    """The JSON that `python -m module arguments` prints last; None: it was ended at the limit. `cores`: it may use so
    many."""
    chosen = sorted(os.sched_getaffinity(0))[-cores:] if cores else None
    pin = (lambda: os.sched_setaffinity(0, chosen)) if chosen else None
    try:
        done = subprocess.run([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, check=True,
                              timeout=limit, preexec_fn=pin, env=os.environ | FRESH)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1])
