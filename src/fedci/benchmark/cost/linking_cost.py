"""`python -m fedci.benchmark.cost.linking_cost`: what linking three sites of a million people costs. Prints a table.

    seconds   from the first request to the last reply, all parties; reading the tables is not in it
    CPU       of each party in that time, which other work on the machine does not lengthen
    peak      largest resident memory of each party, Python and its packages included

Each site is a process of its own, and messages travel as bytes; `--one-process` uses the in-process engine instead,
where one peak is the sum of all parties.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import numpy as np

from fedci.coordinator.linkage import link
from fedci.coordinator.talk import Talk
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Message
from fedci.site.following import Course
from fedci.site.site import Site
from fedci.study.study import Study
from fedci.table.table import Table

STUDY = Study(treatment="w", outcome="y", covariates=["x"], ids=["pid"], policy="simulation")
SITES = ("lyon", "oslo", "wien")
SHARED = 0.2
"""Part of a site's people who stand at the next site too."""


def make_site(index: int, people: int) -> Site:
    """Ten-digit ids in random order; the handshake is left out, since no fit could take so many rows."""
    import pandas as pd

    rng = np.random.default_rng(index)
    numbers = rng.permutation(people) + round(index * people * (1 - SHARED))
    ids = pd.DataFrame({"pid": [f"{number:010}" for number in numbers]})
    w, y = (np.arange(people) % 2).astype(float), rng.standard_normal(people)
    x = rng.standard_normal((people, 1))
    site = Site(STUDY, Table(site=SITES[index], x=x, missing=np.isnan(x), w=w, y=y, columns=("x",), kinds=("numeric",),
                             ids=ids, warnings=()))
    site.run = replace(site.run, course=Course(site.name, Contract(STUDY, SITES)))
    return site


class ProcessEngine:
    """Each site in a process of its own; what passes between them is bytes."""

    def __init__(self, people: int):
        spawn = multiprocessing.get_context("spawn")
        self.sites = SITES
        self.ends: dict[str, Connection] = {}
        self.workers: list[BaseProcess] = []
        for index, name in enumerate(SITES):
            self.ends[name], other = spawn.Pipe()
            self.workers.append(spawn.Process(target=_serve, args=(other, index, people), daemon=True))
            self.workers[-1].start()
        for end in self.ends.values():
            end.recv_bytes()  # the table is there

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        for name, request in requests.items():
            self.ends[name].send_bytes(encode(request))
        return {name: decode(self.ends[name].recv_bytes()) for name in requests}

    def close(self) -> dict[str, str]:
        """Site → what it used, in words."""
        for end in self.ends.values():
            end.send_bytes(b"")
        return {name: end.recv_bytes().decode() for name, end in self.ends.items()}


def _serve(end: Connection, index: int, people: int) -> None:
    site = make_site(index, people)
    begin = time.process_time()
    end.send_bytes(b"ready")
    while data := end.recv_bytes():
        end.send_bytes(encode(site.answer(decode(data))))
    end.send_bytes(used(begin).encode())


def used(begin: float) -> str:
    """CPU seconds of this process since `begin`, and its peak."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{time.process_time() - begin:.1f} s CPU, {peak:.0f} MiB peak"


def measure(people: int, one_process: bool) -> tuple[float, dict[str, int], dict[str, str]]:
    """(seconds, people left out per site, what each party used)."""
    apart = None if one_process else ProcessEngine(people)
    engine = apart or InProcessEngine({name: make_site(s, people) for s, name in enumerate(SITES)})
    start, begin = time.perf_counter(), time.process_time()
    linked = link(Talk(engine, "benchmark"), STUDY, bytes(32))
    seconds = time.perf_counter() - start
    own = {"coordinator" if apart else "all parties": used(begin)}
    return seconds, linked.excluded, apart.close() | own if apart else own


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.cost.linking_cost",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=1_000_000, help="at each site")
    parser.add_argument("--one-process", action="store_true", help="the in-process engine")
    options = parser.parse_args(arguments)
    seconds, excluded, parties = measure(options.people, options.one_process)
    print(f"{len(SITES)} sites of {options.people:,} people, {SHARED:.0%} shared with the next site: {seconds:.1f} s")
    print("left out: " + ", ".join(f"{left:,} at {site}" for site, left in excluded.items()))
    for party, words in parties.items():
        print(f"{party}: {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
