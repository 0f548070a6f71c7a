"""XLA's compiler as the commands set it: most of a first run's seconds are its own.

Its newer emitters of fused loops take a third of all compilation and make a large fit an eighth faster: 72 seconds of a
first study from command to report become 49. XLA ends a process at a flag that it does not know, so this is for the
versions it was tried with; what XLA_FLAGS says of it stands.
"""

from __future__ import annotations

import os
from importlib.metadata import version

FLAG = "--xla_cpu_use_fusion_emitters"
KNOWN_TO = "0.10."


def compile_quickly() -> None:
    """Call before the first program is compiled; the processes that a command starts do the same."""
    said = os.environ.get("XLA_FLAGS", "")
    if FLAG not in said and version("jaxlib").startswith(KNOWN_TO):
        os.environ["XLA_FLAGS"] = f"{said} {FLAG}=false".strip()
