"""Sites whose cohorts overlap, for the tests of the linkage."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedci import Source
from fedci.coordinator.linkage import link
from fedci.coordinator.talk import Talk
from fedci.privacy.tokens import tokens
from fedci.protocol.engine import InProcessEngine
from fedci.site.site import Site
from support.asked import greeting
from tests_support import frame, study

KEY, SECRET = bytes(range(32)), bytes(range(32, 64))


def cohort(*people: int) -> np.ndarray:
    return tokens([b"%d" % person for person in people], KEY)


def public(private) -> str:
    return private.public_key().public_bytes_raw().hex()


# ── sites and coordinator ───────────────────────────────────────────────────────────────────────────────────
PLAN = study(ids=["pid"], options={"optimiser": {"rounds": 4}, "prediction": {"draws": 16}})
OVERLAP = {"a": range(0, 40), "b": range(25, 65), "c": range(35, 75)}
"""25 … 34 stand at a and b, 35 … 39 at all, 40 … 64 at b and c."""


def frames(spell=str) -> dict[str, pd.DataFrame]:
    return {name: frame(40, s).assign(pid=[spell(i) for i in people])
            for s, (name, people) in enumerate(OVERLAP.items())}


def sites(plan=PLAN, credentials=None, data=None) -> dict[str, Site]:
    tables = {name: Source(name, rows).read(plan) for name, rows in (data or frames()).items()}
    made = {name: Site(plan, table, (credentials or {}).get(name)) for name, table in tables.items()}
    for name, site in made.items():
        site.answer(greeting(plan, name, sites=tuple(made)))
    return made


class Recorder:
    """An engine that remembers every message, and may change what it passes on."""

    def __init__(self, local, change=lambda message: message):
        self.engine, self.messages, self.change = InProcessEngine(local), [], change
        self.sites = self.engine.sites

    def exchange(self, requests):
        requests = {name: self.change(request) for name, request in requests.items()}
        replies = {name: self.change(reply) for name, reply in self.engine.exchange(requests).items()}
        self.messages += [*requests.values(), *replies.values()]
        return replies


def linked(local, secret=SECRET, plan=PLAN, change=lambda message: message, **more):
    engine = Recorder(local, change)
    return link(Talk(engine, "run"), plan, secret, **more), engine
