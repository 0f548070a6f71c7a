"""Data with known truth: the paper's DATA-1 and DATA-2, split over hospitals.

    x_ij ~ U[−1, 1]       w ~ Bern(φ(a₀ + xᵀa₁))       y(0) ~ N(λ(b₀ + xᵀb₁), 1)       y(1) ~ N(λ(c₀ + xᵀc₁), 1)

φ the logistic function, λ the softplus. Every stream is keyed by (seed, data set, purpose, replication), so no draw
depends on the order of the calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

COVARIATES = 20
POOL, PER_SOURCE = 5000, 1000
"""The paper draws 5000 records and gives 1000 to each of five sources."""
SEED = 2023


class Surface(NamedTuple):
    """a₀, b₀, c₀, and the means of b₁ and c₁ (a₁ has mean 0)."""

    a0: float
    b0: float
    c0: float
    b_mean: float
    c_mean: float


SURFACES = {"DATA-1": Surface(0.6, 0.9, 2.0, 0.0, 1.0), "DATA-2": Surface(0.6, 6.0, 30.0, 10.0, 15.0)}
KEYS = {"DATA-1": 1, "DATA-2": 2}


@dataclass(frozen=True)
class Records:
    """People with both potential outcomes known."""

    x: np.ndarray
    w: np.ndarray
    y: np.ndarray
    """The observed outcome, y(w)."""
    y0: np.ndarray
    y1: np.ndarray
    mu0: np.ndarray
    mu1: np.ndarray

    @property
    def cate(self) -> np.ndarray:
        """The true expected effect μ₁(x) − μ₀(x)."""
        return self.mu1 - self.mu0

    @property
    def names(self) -> list[str]:
        return [f"x{j + 1}" for j in range(self.x.shape[1])]

    def frame(self) -> pd.DataFrame:
        """What a hospital sees: covariates, treatment `w` and outcome `y`."""
        import pandas as pd

        return pd.DataFrame(self.x, columns=self.names).assign(w=self.w, y=self.y)

    def take(self, rows) -> Records:
        return Records(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.w)


@dataclass(frozen=True)
class Split:
    """One source: rows to fit, to test, and to validate on."""

    train: Records
    test: Records
    validation: Records


def softplus(z: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, z)


def draw_parameters(name: str, rng: np.random.Generator, reading: str) -> dict[str, np.ndarray]:
    """a₁, b₁, c₁. The paper's N(m, 2·I) is read as variance 2 (as printed) or as standard deviation 2."""
    sd, s = {"variance": np.sqrt(2.0), "std": 2.0}[reading], SURFACES[name]
    return {"a1": rng.normal(0.0, sd, COVARIATES), "b1": rng.normal(s.b_mean, sd, COVARIATES),
            "c1": rng.normal(s.c_mean, sd, COVARIATES)}


def synthetic(name: str, replication: int, *, reading: Literal["variance", "std"] = "variance",
              parameters: Literal["once", "per-replication"] = "once", seed: int = SEED, sources: int = 5,
              train: int = 50, test: int = 450, validation: int = 400) -> list[Split]:
    """The sources of one replication. With five sources of 1000 records it is the paper's experiment."""
    key = (seed, KEYS[name], 0) if parameters == "once" else (seed, KEYS[name], 0, replication + 1)
    truth = draw_parameters(name, np.random.default_rng(np.random.SeedSequence(key)), reading)
    rng = np.random.default_rng(np.random.SeedSequence((seed, KEYS[name], 1, replication)))
    per_source = max(PER_SOURCE, train + test + validation)
    people = _records(SURFACES[name], truth, max(POOL, sources * per_source), rng)
    return [_split(people, s * per_source, train, test, validation) for s in range(sources)]


def _records(s: Surface, truth: dict, n: int, rng: np.random.Generator) -> Records:
    x = rng.uniform(-1.0, 1.0, (n, COVARIATES))
    w = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-(s.a0 + x @ truth["a1"])))).astype(int)
    mu0, mu1 = softplus(s.b0 + x @ truth["b1"]), softplus(s.c0 + x @ truth["c1"])
    y0, y1 = mu0 + rng.normal(size=n), mu1 + rng.normal(size=n)
    return Records(x, w, np.where(w == 1, y1, y0), y0, y1, mu0, mu1)


def _split(people: Records, start: int, train: int, test: int, validation: int) -> Split:
    ends = np.cumsum([start, train, test, validation])
    return Split(*(people.take(slice(a, b)) for a, b in zip(ends[:-1], ends[1:], strict=True)))


def combined(parts: list[Records]) -> Records:
    """All rows in one place: what a study without privacy would use."""
    return Records(*(np.concatenate([getattr(p, name) for p in parts]) for name in Records.__dataclass_fields__))
