"""Parties as processes of their own, for tests that kill them: a site that answers, a coordinator that asks.

Both begin as copies of one process that has read the package (and computed nothing), so a start costs no import.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["fedci.network.party"])


def start(target, *arguments):
    """(the process, our end of its pipe)."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def kill(process) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join(20)


def site(pipe, folder: str) -> None:
    """Answers for the kit in a folder until its pipe is closed."""
    from fedci.network import kit, party

    own = party.SiteParty(kit.read(Path(folder), "site"))
    while True:
        try:
            pipe.send_bytes(own.answer(pipe.recv_bytes()))
        except EOFError:
            own.ended()
            return


class Asking:
    """The engine of a coordinator's process: requests go out of its pipe, name and bytes, and answers come in."""

    def __init__(self, pipe, sites, before):
        self.pipe, self.sites, self.before = pipe, sites, before

    def exchange(self, requests):
        from fedci.protocol.codec import decode, encode

        self.before(requests)
        for name, request in sorted(requests.items()):
            self.pipe.send_bytes(name.encode())
            self.pipe.send_bytes(encode(request))
        return {name: decode(self.pipe.recv_bytes()) for name in sorted(requests)}


def coordinator(pipe, study_file: str, sites: tuple[str, ...], checkpoint: str, out: str, dies_in: int | None) -> None:
    """Runs the study to its end, and writes its numbers; or dies in a round of the fit: after it, or, in odd rounds,
    before its sum is opened."""
    from fedci.coordinator.coordinator import run_study
    from fedci.protocol.messages import OpenSum
    from fedci.study.study import Study

    study, done = Study.read(study_file), [0]

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def before(requests) -> None:
        if dies_in and dies_in % 2 and done[0] == dies_in - 1 and isinstance(next(iter(requests.values())), OpenSum):
            die()

    def progress(seen) -> None:
        done[0] = seen.number
        if seen.number == dies_in:
            die()

    if dies_in and dies_in % 2 and Path(checkpoint).exists():
        from fedci.coordinator.checkpoint import EVERY
        done[0] = (dies_in - 1) // EVERY * EVERY  # where it goes on
    found = run_study(Asking(pipe, sites, before), study, progress, checkpoint=Path(checkpoint))
    np.savez(out, theta=found.fit.theta, objectives=[r.objective for r in found.fit.rounds],
             effects=found.effects.total["cate_mean"])
