"""Sites of a small trial, asked up to the diagnostics."""

import numpy as np
import pandas as pd

from fedci import Source
from fedci.coordinator.coordinator import handshake, open_course
from fedci.coordinator.talk import Talk
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.site.site import Site
from tests_support import STANDARD_OTHERWISE, study

STANDARD = {**STANDARD_OTHERWISE, "secure_sum": "auto"}
"""`standard` but for its masks and the number of sums: two small sites in the clear."""


def trial(rows: int, seed: int, shift: float = 0.0, steep: float = 1.0) -> pd.DataFrame:
    """Treatment by a logistic model of age; `shift` moves age, in years."""
    rng = np.random.default_rng((seed, 5))
    age, bmi, sex = rng.normal(60, 10, rows) + shift, rng.normal(26, 4, rows), rng.integers(0, 2, rows)
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-steep * (age - shift - 60) / 10))).astype(int)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "w": w, "y": age / 10 + w + rng.normal(size=rows)})


def begun(frames, **changes):
    """(talk, sites, what all know, contract): sites that know the common units, as they stand before the fit."""
    plan = study(diagnostics={}, **changes)
    sites = {name: Site(plan, Source(name, rows).read(plan)) for name, rows in frames.items()}
    talk = Talk(InProcessEngine(sites), "run")
    contract = Contract(plan, tuple(sorted(sites)))
    handshake(talk, contract)
    talk, opened = open_course(talk, contract)
    return talk, sites, opened, contract
