"""A study in process, and all that its coordinator sees of the sums of the fit; the truth beside it, for scoring.

    study = recorded(people=(60, 55, 65), covariates=3, secure=True)        totals of three masked sites
    study = recorded(people=(40,), covariates=3, secure=False)              one site in the clear
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from gram_told import Sizes, Told

from fedci import FedCI, Source, Study
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.talk import Talk
from fedci.model.shared.exchanges import STATISTICS
from fedci.model.shared.shared import SharedModel
from fedci.protocol.engine import InProcessEngine

COLUMNS = ("age", "bmi", "sex", "smoker")
BINARY = ("sex", "smoker")
STEPS = {"age": 1.0, "bmi": 0.1, "sex": 1.0, "smoker": 1.0, "w": 1.0, "y": 0.01}
"""To what each column is written down: who knows that, knows a row exactly once it is near enough."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the coordinator has, and the truth."""

    model: SharedModel
    sizes: Sizes
    """People of each site."""
    treated: int
    thetas: np.ndarray
    """[L, p] every θ that was asked about, in its order."""
    told: Told
    """The totals [L]."""
    truth: np.ndarray
    """[n, d + 2] in model units, site after site. Only for scoring."""
    steps: np.ndarray
    """[d + 2] to what each column is written down, in model units."""
    centre: np.ndarray
    """[d + 2] of each column in model units: the prior mean of an unknown."""
    spread: np.ndarray
    """[d + 2] its sd."""


def table(people: int, seed: int) -> pd.DataFrame:
    """Four covariates, a treatment that depends on age, an outcome with an effect that depends on sex."""
    rng = np.random.default_rng((seed, 7))
    age, bmi = np.clip(np.rint(rng.normal(62, 12, people)), 20, 95), np.round(rng.normal(26, 4, people), 1)
    sex, smoker = ((rng.uniform(size=people) < share).astype(int) for share in (0.5, 0.4))
    w = (rng.uniform(size=people) < 1 / (1 + np.exp(-(age - 62) / 15))).astype(int)
    w[:2] = 0, 1
    y = np.round(0.05 * bmi + 0.02 * age + w * (1 + 0.5 * sex) + 0.5 * rng.normal(size=people), 2)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "smoker": smoker, "w": w, "y": y})


def planned(covariates: int, secure: bool, rounds: int | None = None, policy: str = "simulation") -> Study:
    """Under `simulation`, what is told is masked or not, and nothing else keeps it; any other policy is as it is."""
    columns: dict[str, Any] = {name: {"type": "binary"} if name in BINARY else {} for name in COLUMNS[:covariates]}
    return Study(treatment="w", outcome="y", covariates=columns, preset="default", diagnostics={"enabled": False},
                 policy={"name": policy, "secure_sum": secure} if policy == "simulation" else policy,
                 options={"model": {"landmarks": 0}} | ({} if rounds is None else {"optimiser": {"rounds": rounds}}))


@contextmanager
def overheard(heard: list[tuple[np.ndarray, dict[str, np.ndarray]]]) -> Iterator[None]:
    """While it lasts, every sum of statistics that a coordinator in this process opens is kept, with its question."""
    original = Talk.total

    def total(talk: Talk, ask: Any) -> Any:
        found = original(talk, ask)
        if ask.name == STATISTICS:
            heard.append((np.asarray(ask.arrays["thetas"]), {name: np.asarray(a) for name, a in found.sums.items()}))
        return found

    Talk.total = total
    try:
        yield
    finally:
        Talk.total = original


def recorded(people: Sizes, covariates: int, secure: bool, rounds: int | None = None, seed: int = 0,
             policy: str = "simulation") -> Recorded:
    """Run the study; `rounds`: at most so many (none: the preset's own). A policy may refuse it (FedciError)."""
    names = [f"site-{s}" for s in range(len(people))]
    study = planned(covariates, secure, rounds, policy).changed(sites=tuple(names), seed=seed)
    tables = [table(n, 10 * seed + s) for s, n in enumerate(people)]
    sites = FedCI(study).sites([Source(name, rows).read(study) for name, rows in zip(names, tables, strict=True)])
    heard: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
    with overheard(heard):
        outcome = run_study(InProcessEngine(sites), study)
    scales, rows = outcome.layout.scales, pd.concat(tables)
    columns = [*COLUMNS[:covariates], "w", "y"]
    centre = np.concatenate([scales.x_mean, [0.0], [scales.y_mean]])
    unit = np.concatenate([scales.x_sd, [1.0], [scales.y_sd]])
    treated = int(rows["w"].sum())
    share = treated / len(rows)
    return Recorded(
        model=outcome.layout.model, sizes=tuple(people), treated=treated,
        thetas=np.concatenate([thetas for thetas, _ in heard]), told=together([sums for _, sums in heard]),
        truth=(rows[columns].to_numpy(float) - centre) / unit, steps=np.array([STEPS[c] for c in columns]) / unit,
        centre=np.array([*np.zeros(covariates), share, 0.0]),
        spread=np.array([*np.ones(covariates), np.sqrt(share * (1 - share)), 1.0]))


def together(sums: list[dict[str, np.ndarray]]) -> Told:
    """T̃ of all draws, from the upper half of T, v and yᵀC⁻¹y."""
    gram, cross, square, log_det = (np.concatenate([part[name] for part in sums])
                                    for name in ("gram", "cross", "square", "log_det"))
    draws, q = cross.shape
    whole = np.zeros((draws, q + 1, q + 1))
    whole[:, *np.triu_indices(q)] = gram
    whole[:, :q, q], whole[:, q, q] = cross, square
    return Told(whole + np.triu(whole, 1).swapaxes(1, 2), log_det)
