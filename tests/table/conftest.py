"""The frame of one site, as every form of a table is made from."""

import numpy as np
import pandas as pd
import pytest

from support.tables import ROWS


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({
        "pid": [f"{i:07d}" for i in range(ROWS)], "w": np.arange(ROWS) % 2, "y": rng.normal(size=ROWS),
        "stage": rng.choice(["I", "II", "III"], ROWS), "age": rng.uniform(20, 90, ROWS),
        "bmi": rng.normal(25, 3, ROWS), "sex": rng.integers(0, 2, ROWS), "not in the study": "anything"})
