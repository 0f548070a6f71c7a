"""Sites whose study is refuted."""

import numpy as np

from fedci import Source
from tests_support import frame

QUICK = {"optimiser": {"rounds": 6}, "prediction": {"draws": 16}}
REFUTE = {"refute": ["placebo", "random-cause", "subset"], "negative_control": "falls"}


def sources():
    """With an outcome that treatment does not touch. 80% of 24 and of 22 rows have the same size class: one compilation
    less."""
    rng = np.random.default_rng(3)
    return [Source(f"site-{s}", frame(n, s).assign(falls=rng.normal(size=n))) for s, n in enumerate((24, 22))]
