"""`fedci simulate`: three hospitals of nobody, as files, to learn the commands with. The truth lies beside them.

    effect = −8 − 6·(stage III) + 0.15·(age − 60)          of the drug on the change of LDL cholesterol, in mg/dl

Older people and worse stages are treated more often, so that a plain difference of means is wrong.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedci.files import check_folder

HOSPITALS = {"lyon": 58.0, "oslo": 63.0, "turin": 67.0}
"""Name → mean age."""
STAGES = np.array(["I", "II", "III"])
NEW = "new-patients.csv"


def hospital(rows: int, age: float, seed: int, prefix: str) -> pd.DataFrame:
    """One hospital's table, and the true effect in its last column."""
    rng = np.random.default_rng((seed, len(prefix), int(age)))
    years = np.clip(rng.normal(age, 10, rows), 30, 95).round(1)
    bmi, male = np.clip(rng.normal(27, 4, rows), 18, 38).round(1), rng.integers(0, 2, rows)
    stage = STAGES[rng.choice(3, rows, p=[0.5, 0.3, 0.2])]
    worse = 0.5 * (stage == "II") + 1.0 * (stage == "III")
    treated = (rng.uniform(size=rows) < 1 / (1 + np.exp(-(0.05 * (years - 62) + worse - 0.4)))).astype(int)
    effect = -8 - 6 * (stage == "III") + 0.15 * (years - 60)
    change = 2 + 0.3 * (bmi - 27) + 0.1 * (years - 60) + 4 * worse + treated * effect + rng.normal(0, 4, rows)
    bmi = np.where(rng.uniform(size=rows) < 0.04, np.nan, bmi)
    return pd.DataFrame({"patient": [f"{prefix}-{i:05d}" for i in range(rows)], "age": years, "bmi": bmi, "male": male,
                         "stage": stage, "treated": treated, "ldl_change": change.round(2), "true_effect": effect})


def write_hospitals(folder: str | Path, rows: int = 140, seed: int = 0, force: bool = False) -> list[Path]:
    """Each hospital's CSV, new patients without treatment and outcome, and truth.csv; returns their paths."""
    place = check_folder(folder, force)
    place.mkdir(parents=True, exist_ok=True)
    tables = {f"{name}.csv": hospital(rows, age, seed, name) for name, age in HOSPITALS.items()}
    fresh = hospital(100, 62.0, seed + 1, "new")
    truth = pd.concat([table.assign(file=name) for name, table in [*tables.items(), (NEW, fresh)]])
    for name, table in tables.items():
        table.drop(columns="true_effect").to_csv(place / name, index=False)
    fresh.drop(columns=["true_effect", "treated", "ldl_change"]).to_csv(place / NEW, index=False)
    truth[["file", "patient", "true_effect"]].to_csv(place / "truth.csv", index=False)
    return [place / name for name in (*tables, NEW, "truth.csv")]
