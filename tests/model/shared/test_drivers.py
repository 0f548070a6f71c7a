"""What drives the outcome and the effect is found where it was planted."""

import numpy as np
import pandas as pd

from fedci import FedCI, Source, Study
from tests_support import SMALL


def test_a_bend_is_found_where_it_is():
    """y = 3·max(a, 0) + noise: a direction along `a` carries most of the outcome."""
    rng = np.random.default_rng(4)
    tables = []
    for _ in range(4):
        a, b, c = rng.normal(size=(3, 40))
        w = rng.integers(0, 2, 40)
        y = 3 * np.maximum(a, 0) + w + 0.3 * rng.normal(size=40)
        tables.append(pd.DataFrame({"a": a, "b": b, "c": c, "w": w, "y": y}))
    plan = Study(treatment="w", outcome="y", covariates=dict.fromkeys("abc", {}), policy="simulation", options=SMALL,
                 diagnostics={"enabled": False})
    table = FedCI(plan).fit([Source(f"s{i}", t) for i, t in enumerate(tables)]).drivers()
    best = table.iloc[1:3].sort_values("outcome").iloc[-1]
    assert best.outcome > 0.4
    assert best.covariates.startswith("a ")
