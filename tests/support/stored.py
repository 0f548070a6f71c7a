"""Processes of their own that write to a site's store, for tests that kill them or let two race."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np

from fedci.errors import DisclosureError
from fedci.site.accountant import Accountant, Release
from fedci.site.store import Store
from fedci.study.policy import POLICIES

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["fedci.site.accountant"])


def release(people, treated, run="r", columns=("x", "w", "y")) -> Release:
    return Release(site="a", run=run, study="s", columns=columns, outcome="y",
                   people={"ids": [b"%d" % person for person in people]},
                   w=np.array([person in treated for person in people], float))


def adding(folder, count: int) -> None:
    """`count` lines; none: until it is killed."""
    found, number = Store(folder), 0
    while count == 0 or number < count:
        with found.locked():
            found.add({"kind": "told", "run": str(os.getpid()), "numbers": number})
        number += 1


def admitting(folder, people, results) -> None:
    """How many people were admitted."""
    try:
        Accountant(folder).admit(release(people, set(range(0, 200, 2)), str(len(people))), POLICIES["standard"])
        results.put(len(people))
    except DisclosureError:
        results.put(0)
