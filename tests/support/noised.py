"""A study that `standard` lets through: the preset `few`, noise on its sums, three sites of a thousand people."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedci import Study
from support.mailed import SITES

PEOPLE = 1000


def plan(**changes) -> Study:
    return Study(**({"treatment": "w", "outcome": "y", "covariates": ["age"], "preset": "few", "sites": SITES,
                     "options": {"prediction": {"draws": 64}}} | changes))


def tables(people: int = PEOPLE) -> dict[str, pd.DataFrame]:
    """Effects of 1 + 0.3 (age − 60)/10, 1 on average."""
    made = {}
    for number, site in enumerate(SITES):
        rng = np.random.default_rng((number, 41))
        age = np.round(rng.normal(60, 10, people), 1)
        w = (rng.random(people) < 1 / (1 + np.exp(-(age - 60) / 20))).astype(int)
        y = np.round((age - 60) / 10 + w * (1 + 0.03 * (age - 60)) + 0.7 * rng.standard_normal(people), 3)
        made[site] = pd.DataFrame({"age": age, "w": w, "y": y})
    return made
