"""Small studies shared by the tests: few covariates, and the preset that is fastest to fit and compile."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedci import FedCI, Source, Study

COVARIATES = ("age", "bmi", "sex")


def frame(rows: int, seed: int) -> pd.DataFrame:
    """A hospital's table with a non-linear effect of about 1.5."""
    rng = np.random.default_rng((seed, 99))
    age, bmi = rng.uniform(30, 90, rows), rng.normal(26, 4, rows)
    sex = (rng.uniform(size=rows) < 0.5).astype(int)
    sex[:2] = 0, 1
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-(age - 60) / 20))).astype(int)
    w[:2] = 0, 1
    effect = 1 + np.sin(age / 15) + 0.5 * sex
    y = 0.05 * bmi + 0.02 * age + w * effect + 0.3 * rng.normal(size=rows)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "w": w, "y": y})


def study(**changes) -> Study:
    """Without diagnostics, which have tests of their own."""
    covariates = {"age": {}, "bmi": {}, "sex": {"type": "binary"}}
    return Study(**({"treatment": "w", "outcome": "y", "covariates": covariates, "policy": "simulation",
                     "preset": "classic", "diagnostics": {"enabled": False}} | changes))


def hospitals(*sizes: int) -> list[Source]:
    return [Source(f"site-{s}", frame(n, s)) for s, n in enumerate(sizes)]


def fit(sources, seed: int = 0, preset: str | None = None, **changes):
    return FedCI(study(**changes | ({"preset": preset} if preset else {})), seed=seed).fit(sources)
