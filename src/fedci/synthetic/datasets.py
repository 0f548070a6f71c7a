"""Data with known truth, split over hospitals.

    DATA-1, DATA-2   the paper's     x_ij ~ U[−1, 1]   w ~ Bern(φ(a₀ + xᵀa₁))
                                     y(0) ~ N(λ(b₀ + xᵀb₁), 1)   y(1) ~ N(λ(c₀ + xᵀc₁), 1)
    heterogeneous    sites differ in whom they treat and in how well treatment works there
    overlap          treatment is nearly decided by the covariates
    linear           outcome and effect linear in x
    null             no effect at all, for anyone
    steps, many-directions, own-surfaces, interactions   truths that few smooth directions cannot follow

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
KEYS = {"DATA-1": 1, "DATA-2": 2, "heterogeneous": 4, "overlap": 5, "linear": 6, "null": 7,
        "steps": 8, "many-directions": 9, "own-surfaces": 10, "interactions": 11}


@dataclass(frozen=True, kw_only=True)
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

    def take(self, rows: slice | np.ndarray) -> Records:
        return Records(**{name: getattr(self, name)[rows] for name in self.__dataclass_fields__})

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


@dataclass(frozen=True)
class Sizes:
    """How many sources, and how many of each source's people are for fitting, testing and validation."""

    sources: int = 5
    train: int = 50
    test: int = 450
    validation: int = 400

    @property
    def per_source(self) -> int:
        """The paper draws 1000 records a source and leaves 100 of them unused."""
        return max(PER_SOURCE, self.train + self.test + self.validation)

    def split(self, people: Records) -> list[Split]:
        """Consecutive blocks of `per_source` records: they are independent, so no shuffle is needed."""
        return [_split(people, s * self.per_source, self) for s in range(self.sources)]


PAPER_SIZES = Sizes()


def synthetic(name: str, replication: int, *, reading: Literal["variance", "std"] = "variance",
              parameters: Literal["once", "per-replication"] = "once", seed: int = SEED,
              sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """DATA-1 or DATA-2: the sources of one replication. With five sources of 1000 records it is the paper's."""
    key = (seed, KEYS[name], 0) if parameters == "once" else (seed, KEYS[name], 0, replication + 1)
    truth = draw_parameters(name, np.random.default_rng(np.random.SeedSequence(key)), reading)
    people = _paper_records(SURFACES[name], truth, max(POOL, sizes.sources * sizes.per_source),
                            _stream(name, replication, seed))
    return sizes.split(people)


def _stream(name: str, replication: int, seed: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((seed, KEYS[name], 1, replication)))


def _paper_records(s: Surface, truth: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> Records:
    x = rng.uniform(-1.0, 1.0, (n, COVARIATES))
    w = (rng.uniform(size=n) < logistic(s.a0 + x @ truth["a1"])).astype(int)
    return _with_outcomes(x, w, softplus(s.b0 + x @ truth["b1"]), softplus(s.c0 + x @ truth["c1"]), rng)


def _with_outcomes(x: np.ndarray, w: np.ndarray, mu0: np.ndarray, mu1: np.ndarray,
                   rng: np.random.Generator) -> Records:
    """Outcomes with noise of sd 1 in both arms."""
    y0, y1 = mu0 + rng.normal(size=len(x)), mu1 + rng.normal(size=len(x))
    return Records(x=x, w=w, y=np.where(w == 1, y1, y0), y0=y0, y1=y1, mu0=mu0, mu1=mu1)


def _split(people: Records, start: int, sizes: Sizes) -> Split:
    ends = np.cumsum([start, sizes.train, sizes.test, sizes.validation])
    return Split(*(people.take(slice(a, b)) for a, b in zip(ends[:-1], ends[1:], strict=True)))


def logistic(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def combined(parts: list[Records]) -> Records:
    """All rows in one place: what a study without privacy would use."""
    return Records(**{name: np.concatenate([getattr(part, name) for part in parts])
                      for name in Records.__dataclass_fields__})


# --- generators the paper lacks: parameters are drawn per replication, ten covariates

MORE_COVARIATES = 10


def heterogeneous(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """Covariate shift and site effects: x^s ~ N(m_s, I), m_s ~ N(0, ¼); site s adds b_s ~ N(0, 1) to the outcome and
    t_s ~ N(0, 1) to the effect 1 + x₁ + sin(2x₂), and treats more or less often."""
    rng = _stream("heterogeneous", replication, seed)
    slope = rng.normal(size=MORE_COVARIATES) / np.sqrt(MORE_COVARIATES)
    return [sizes_of_one(sizes).split(_heterogeneous_site(slope, sizes.per_source, rng))[0]
            for _ in range(sizes.sources)]


def sizes_of_one(sizes: Sizes) -> Sizes:
    return Sizes(1, sizes.train, sizes.test, sizes.validation)


def _heterogeneous_site(slope: np.ndarray, n: int, rng: np.random.Generator) -> Records:
    shift, base, bonus, tilt = rng.normal(size=MORE_COVARIATES) / 2, rng.normal(), rng.normal(), rng.normal() / 2
    x = shift + rng.normal(size=(n, MORE_COVARIATES))
    w = (rng.uniform(size=n) < logistic(tilt + 0.7 * x[:, 0] - 0.5 * x[:, 2])).astype(int)
    mu0 = base + 2.0 * x @ slope + 0.5 * x[:, 0] ** 2
    return _with_outcomes(x, w, mu0, mu0 + 1.0 + bonus + x[:, 0] + np.sin(2.0 * x[:, 1]), rng)


def overlap(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """Poor overlap: logit P(w = 1) = 4 xᵀa with |a| = 1, and the same direction raises the outcome (confounding)."""
    rng = _stream("overlap", replication, seed)
    a, b = (v / np.linalg.norm(v) for v in rng.normal(size=(2, MORE_COVARIATES)))
    x = rng.normal(size=(sizes.sources * sizes.per_source, MORE_COVARIATES))
    w = (rng.uniform(size=len(x)) < logistic(4.0 * x @ a)).astype(int)
    mu0 = 2.0 * x @ a + np.cos(2.0 * x @ b)
    return sizes.split(_with_outcomes(x, w, mu0, mu0 + 1.0 + np.tanh(x @ b), rng))


def linear(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES, null: bool = False) -> list[Split]:
    """Outcome xᵀb, effect 1 + xᵀc, both linear with |b| = 2, |c| = 1; mild confounding. With `null`, no effect."""
    rng = _stream("null" if null else "linear", replication, seed)
    a, b, c = (v / np.linalg.norm(v) for v in rng.normal(size=(3, MORE_COVARIATES)))
    x = rng.normal(size=(sizes.sources * sizes.per_source, MORE_COVARIATES))
    w = (rng.uniform(size=len(x)) < logistic(x @ (a + b) / 2)).astype(int)
    mu0 = 2.0 * x @ b
    return sizes.split(_with_outcomes(x, w, mu0, mu0 if null else mu0 + 1.0 + x @ c, rng))


def null(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """`linear` with a true effect of 0 for everyone."""
    return linear(replication, seed=seed, sizes=sizes, null=True)


# --- beyond the reach of the model `shared`: made to judge its intervals, never to tune it

def steps(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """A tree's truth: μ₀ = 2·[x₁ > 0][x₂ > −½] − 1.5·[x₃ < 0.3] and an effect of 1, or 3 where x₄ > 0 and x₁ < ½."""
    rng = _stream("steps", replication, seed)
    x = rng.normal(size=(sizes.sources * sizes.per_source, MORE_COVARIATES))
    w = (rng.uniform(size=len(x)) < logistic(0.8 * x[:, 0] - 0.4 * x[:, 2])).astype(int)
    mu0 = 2.0 * (x[:, 0] > 0) * (x[:, 1] > -0.5) - 1.5 * (x[:, 2] < 0.3)
    return sizes.split(_with_outcomes(x, w, mu0, mu0 + 1.0 + 2.0 * (x[:, 3] > 0) * (x[:, 0] < 0.5), rng))


def many_directions(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """Sixteen directions u_k, v_k of length 1: μ₀ = Σ_k a_k sin(2xᵀu_k), effect 1 + Σ_k b_k cos(1.5xᵀv_k), eight each,
    with a, b ~ N(0, ½)."""
    rng = _stream("many-directions", replication, seed)
    u, v = (d / np.linalg.norm(d, axis=0) for d in rng.normal(size=(2, MORE_COVARIATES, 8)))
    a, b = rng.normal(0.0, np.sqrt(0.5), (2, 8))
    x = rng.normal(size=(sizes.sources * sizes.per_source, MORE_COVARIATES))
    w = (rng.uniform(size=len(x)) < logistic(x @ u[:, 0])).astype(int)
    mu0 = np.sin(2.0 * x @ u) @ a
    return sizes.split(_with_outcomes(x, w, mu0, mu0 + 1.0 + np.cos(1.5 * x @ v) @ b, rng))


def own_surfaces(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """Every site has an outcome and an effect of its own shape: μ₀ = xᵀb + 1.5 tanh(2xᵀu_s), effect 1 + ½xᵀc +
    1.5 sin(xᵀv_s), all directions of length 1."""
    rng = _stream("own-surfaces", replication, seed)
    a, b, c = (v / np.linalg.norm(v) for v in rng.normal(size=(3, MORE_COVARIATES)))

    def site() -> Records:
        u, v = (d / np.linalg.norm(d) for d in rng.normal(size=(2, MORE_COVARIATES)))
        x = rng.normal(size=(sizes.per_source, MORE_COVARIATES))
        w = (rng.uniform(size=len(x)) < logistic(x @ a)).astype(int)
        mu0 = x @ b + 1.5 * np.tanh(2.0 * x @ u)
        return _with_outcomes(x, w, mu0, mu0 + 1.0 + 0.5 * x @ c + 1.5 * np.sin(x @ v), rng)

    return [sizes_of_one(sizes).split(site())[0] for _ in range(sizes.sources)]


def interactions(replication: int, *, seed: int = SEED, sizes: Sizes = PAPER_SIZES) -> list[Split]:
    """Products and kinks: μ₀ = x₁x₂ + |x₃| − ½x₄, effect 1 + x₂x₅ + ½|x₁|; treated more often where x₃ is large."""
    rng = _stream("interactions", replication, seed)
    x = rng.normal(size=(sizes.sources * sizes.per_source, MORE_COVARIATES))
    w = (rng.uniform(size=len(x)) < logistic(0.7 * x[:, 2] - 0.3)).astype(int)
    mu0 = x[:, 0] * x[:, 1] + np.abs(x[:, 2]) - 0.5 * x[:, 3]
    return sizes.split(_with_outcomes(x, w, mu0, mu0 + 1.0 + x[:, 1] * x[:, 4] + 0.5 * np.abs(x[:, 0]), rng))
