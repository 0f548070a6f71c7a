"""A long run on a bad network: 1000 rounds with 10 sites, 5 % of all messages lost, a site restarted every 50 rounds.

    python assurance/soak.py [--rounds 1000] [--sites 10] [--loss 0.05] [--restart 50]

Masked sums, sites that follow the fit, every site behind its door and its ledger. The run must come to the objective
of an undisturbed one bit for bit, and its memory must stay flat: at most 64 MiB more after its first tenth.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedci import Source, Study
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.retry import Retrying
from fedci.errors import AwayError
from fedci.privacy.agreement import Credentials
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Hello
from fedci.protocol.requests import row_of
from fedci.site.door import Door
from fedci.site.following import PLACES
from fedci.site.ledger import Ledger
from fedci.site.site import Site

GROWTH = 64 * 2**10
"""KiB."""


def people(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(8, 2)), np.arange(8) % 2
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "w": w, "y": x[:, 0] + w + 0.3 * rng.normal(size=8)})


def agreed(rounds: int) -> Study:
    policy = {"name": "simulation", "secure_sum": True}
    options = {"optimiser": {"name": "adam", "rounds": rounds, "tolerance": 0.0, "draws": 2, "learning_rate": 0.01},
               "prediction": {"draws": 8}}
    return Study(treatment="w", outcome="y", covariates=["a", "b"], policy=policy, preset="classic", options=options)


class Rough:
    """Sites behind doors; requests and answers get lost, and sites start again from their own disk."""

    def __init__(self, study: Study, sites: int, loss: float, restart: int, folder: Path):
        self.study, self.loss, self.restart, self.folder = study, loss, restart, folder
        self.keys = {f"site-{s:02d}": Ed25519PrivateKey.generate() for s in range(sites)}
        self.tables = {name: Source(name, people(s)).read(study) for s, name in enumerate(self.keys)}
        self.rng, self.sites, self.doors = np.random.default_rng(3), tuple(self.keys), {}
        self.disk, self.fresh = {}, set()
        self.lost = self.restarts = self.messages = self.rounds = 0
        for name in self.sites:
            self.start(name)

    def start(self, name: str) -> None:
        peers = {other: key.public_key() for other, key in self.keys.items()}
        before = self.doors.get(name)
        if before is not None:
            before.ledger.close()
        site = Site(self.study, self.tables[name], Credentials(identity=self.keys[name], peers=peers))
        self.doors[name] = Door(site, Ledger(self.folder / name), self.folder / name)
        if before is not None:
            self.fresh.add(name)

    def exchange(self, requests):
        return {name: self._ask(name, request) for name, request in sorted(requests.items())}

    def _ask(self, name: str, request):
        self.messages += 1
        fit = row_of(request).draws is not None and name == self.sites[0]
        self.rounds += fit
        if fit and self.restart and self.rounds % self.restart == 0:
            self.restarts += 1
            self.start(self.sites[self.restarts % len(self.sites)])
        if self.rng.uniform() < self.loss:
            self.lost += 1
            raise AwayError(f"site '{name}': the request was lost")
        if name in self.fresh and not isinstance(request, Hello):
            raise AwayError(f"site '{name}' has started again")
        self.fresh.discard(name)
        back = self.doors[name].answer(encode(request))
        self._keep(name, request)
        if self.rng.uniform() < self.loss:
            self.lost += 1
            raise AwayError(f"site '{name}': the answer was lost")
        return decode(back)


    def _keep(self, name: str, request) -> None:
        """What a site's process writes to its disk after an answer, and reads from it after a start."""
        site = self.doors[name].site
        if isinstance(request, Hello) and not site.run.course.places:
            site.restore_places(self.disk.get(name, {}))
        if row_of(request).draws is not None:
            kept = self.disk.get(name, {}) | {request.round: site.run.place(request.round)}
            self.disk[name] = {number: kept[number] for number in sorted(kept)[-PLACES:]}


def disturbed(rounds: int, sites: int, loss: float, restart: int, folder: Path) -> tuple:
    study = agreed(rounds)
    engine = Rough(study, sites, loss, restart, folder)
    memory, pauses = [], 0

    def progress(seen):
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    while True:
        try:
            outcome = run_study(Retrying(engine, sleep=lambda seconds: None), study, progress,
                                checkpoint=folder / "checkpoint.npz")
            return engine, outcome, memory, pauses
        except AwayError:
            pauses += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("rounds", 1000), ("sites", 10), ("loss", 0.05), ("restart", 50)):
        parser.add_argument(f"--{name}", type=type(value), default=value)
    how = parser.parse_args()
    start = time.perf_counter()
    study = agreed(how.rounds)
    quiet = run_study(InProcessEngine({f"site-{s:02d}": Site(study, Source(f"site-{s:02d}", people(s)).read(study))
                                       for s in range(how.sites)}), study)
    with tempfile.TemporaryDirectory() as folder:
        engine, outcome, memory, pauses = disturbed(how.rounds, how.sites, how.loss, how.restart, Path(folder))
    same = outcome.fit.theta.tobytes() == quiet.fit.theta.tobytes() and outcome.fit.objective == quiet.fit.objective
    grown = memory[-1] - memory[len(memory) // 10]
    print(json.dumps({"rounds": len(outcome.fit.rounds), "messages": engine.messages, "lost": engine.lost,
                      "restarts": engine.restarts, "pauses": pauses, "same bits": same, "grown KiB": grown,
                      "seconds": round(time.perf_counter() - start)}))
    raise SystemExit(not (same and grown < GROWTH))


if __name__ == "__main__":
    main()
