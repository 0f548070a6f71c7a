"""How the engine starts a job's process: tied to the operator's command, as the engine itself is.

Read by the engine's own process, so nothing here needs JAX.
"""

from __future__ import annotations

import os
from typing import Any

from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher

from fedci.network import tether


def tied(command: str) -> str:
    """`PYTHON -m MODULE …` as the engine would start it → the same module, tied to this process and its command."""
    python, module_flag, rest = command.partition(" -m ")
    if not module_flag:
        raise ValueError("the engine starts its jobs in another way than this version of fedci knows")
    return f"{python} -u -m {tether.__name__} {os.getpid()} {rest}"


class SiteLauncher(ClientProcessJobLauncher):
    """At a site."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        return tied(super().get_command(job_meta, fl_ctx))


class CoordinatorLauncher(ServerProcessJobLauncher):
    """At the coordinator."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        return tied(super().get_command(job_meta, fl_ctx))
