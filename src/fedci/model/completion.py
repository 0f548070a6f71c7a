"""What is missing, drawn given what is seen: a law of the columns that lack values, learnt from sums over sites.

Of r = (x, o) less the site's own levels, o what is known of the outcome, in arm a, with L the columns that lack values
and C all others:

    x_L = c_a + Bᵀx_C + ε,   ε ~ N(0, R)               o_j = α_aj + b_ajᵀ(x, o_<j) + η,   η ~ N(0, σ²_aj)
    levels of L and o at a site ~ N(0, t²)

The outcome stands in it, or values drawn without it would hide what they explain. As equations Gr = c + (ε, η), with
H = diag(R, σ²)⁻¹, missing entries M and seen ones S of a person:

    x_M | seen ~ N(P⁻¹G_MᵀH(c − G_S r_S), P⁻¹)         P = G_MᵀHG_M
    levels     precision diag(t²)⁻¹ + Σ_i G_LᵀW_iG_L        W_i = H − HG_MP⁻¹G_MᵀH

K laws are drawn side by side, each from its posterior given the people it completed: Σ r and Σ rrᵀ in each arm are sums
over sites, and all parties draw the same law from them. What is drawn for a person follows from the seed and the
person's own row, not from where it stands. Pairs of laws take opposite normals. A column of 0 and 1 is drawn as 0 or 1:
the linear mean given the other columns is its probability before the outcome is seen, whose likelihood is Gaussian.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri

from fedci.errors import NumericalError
from fedci.study.options import FitOptions

FIRST_STEPS, MOST_STEPS = 4, 16
"""Of one law alone, until it has forgotten where it began: a step leaves as much of that as the share of what is
missing."""
MIXING = 4
"""More, of K laws that begin at the same place."""
SLOPE, DIFFERENCE = 1.5, 7.0
"""Prior precision of a slope of the outcome, times the columns: together they explain 0.7 of a variance of 1; of the
arms' difference times that, as e⁻¹ is simpler (`model.shared.priors`)."""
LEVEL, LEVEL_WEIGHT = 0.04, 2.0
"""Prior variance of a site's level, and how many sites that is worth."""
LEAST = 0.05
"""Of a residual variance, as one person's."""
RARE = 1e-3
"""Least probability of a 0 or a 1 before the outcome is seen."""
COPIES = 32
"""K at most: completed copies, one for each draw of θ behind the effects."""
LAST, OTHERS = 10**6, 10**6 + 1
"""Steps of the normals with which the people of the study, and others, are completed once the laws are known."""


def copies(options: FitOptions) -> int:
    """K."""
    return min(COPIES, max(options.prediction.draws // getattr(options.model, "draws_per_theta", 1), 1))


class Law(NamedTuple):
    """K laws; p columns lack values, k numbers tell of the outcome, D = d + k."""

    slopes: np.ndarray
    """B [K, d, p], 0 for columns of L."""
    start: np.ndarray
    """c [K, 2, p]."""
    spread: np.ndarray
    """R [K, p, p]."""
    outcome: np.ndarray
    """b [K, 2, k, D], 0 from j on."""
    outcome_start: np.ndarray
    """α [K, 2, k]."""
    outcome_spread: np.ndarray
    """σ² [K, 2, k]."""
    between: np.ndarray
    """t² [K, p + k]."""


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Which columns lack values, in model units."""

    lacking: np.ndarray
    """[p] their numbers among the d."""
    low: np.ndarray
    """[d] what 0 is, of columns of 0 and 1; NaN of others."""
    high: np.ndarray
    group: np.ndarray
    """[d] columns of one covariate: of its levels at most one is 1."""
    told: int
    """k."""
    sites: int

    @property
    def columns(self) -> int:
        return len(self.low)

    @property
    def size(self) -> int:
        """D."""
        return self.columns + self.told

    @cached_property
    def levels(self) -> np.ndarray:
        """[p + k] what has a level of its own at each site."""
        return np.concatenate([self.lacking, self.columns + np.arange(self.told)])

    @cached_property
    def others(self) -> np.ndarray:
        """C."""
        return np.setdiff1d(np.arange(self.columns), self.lacking)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        d, p, k, size = self.columns, len(self.lacking), self.told, self.size
        return {"slopes": (d, p), "start": (2, p), "spread": (p, p), "outcome": (2, k, size), "outcome_start": (2, k),
                "outcome_spread": (2, k), "between": (p + k,)}

    def packed(self, law: Law) -> np.ndarray:
        """[K, …] in one row each."""
        return np.concatenate([part.reshape(len(part), -1) for part in law], 1)

    def unpacked(self, rows: np.ndarray) -> Law:
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes.values()])
        parts = np.split(rows, ends[:-1], 1)
        return Law(*(part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes.values(), strict=True)))


def first_law(gaps: Gaps) -> Law:
    """Nothing is known of anything."""
    made = {name: np.zeros((1, *shape)) for name, shape in gaps.shapes.items()}
    return Law(**made)._replace(spread=np.eye(len(gaps.lacking))[None], outcome_spread=np.ones((1, 2, gaps.told)),
                                between=np.full((1, len(gaps.levels)), LEVEL if gaps.sites > 1 else 0.0))


def steps(share: float) -> int:
    """Until as much of the beginning is left as a hundredth; `share`: the largest of missing values."""
    needed = np.log(0.01) / np.log(np.clip(share, 0.01, 0.99))
    return int(np.clip(np.ceil(needed), FIRST_STEPS, MOST_STEPS))


# --- a person's own normals

def _mixed(z: np.ndarray) -> np.ndarray:
    """64 bits made of 64 bits (splitmix64)."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def keys_of(rows: np.ndarray) -> np.ndarray:
    """[n] of rows [n, c], NaN where missing: the same wherever the row stands; of equal rows each another."""
    bits = (np.where(np.isnan(rows), np.nan, rows) + 0.0).astype("<f8").view(np.uint64)  # one NaN, no −0
    key = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            key = _mixed(key * np.uint64(3) + column + np.uint64(1))
        _, which = np.unique(key, return_inverse=True)
        return _mixed(key + _mixed(_place_among_equals(which).astype(np.uint64)))


def _place_among_equals(which: np.ndarray) -> np.ndarray:
    """[n] how many equal ones stand before each."""
    order = np.argsort(which, kind="stable")
    inside = np.arange(len(which)) - np.searchsorted(which[order], which[order])
    place = np.empty(len(which), int)
    place[order] = inside
    return place


def normals_of(keys: np.ndarray, seed: int, step: int, chains: int, columns: int) -> np.ndarray:
    """[n, K, c], of pairs of laws with opposite signs."""
    salt = np.frombuffer(hashlib.sha256(f"completion {seed} {step}".encode()).digest()[:8], np.uint64)[0]
    half = -(-chains // 2)
    with np.errstate(over="ignore"):
        numbered = np.arange(1, half * columns + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = _mixed((keys ^ salt)[:, None] + numbered[None])
    z = ndtri(((bits >> np.uint64(11)).astype(float) + 0.5) / 2.0**53).reshape(len(keys), half, columns)
    return np.stack([z, -z], 2).reshape(len(keys), 2 * half, columns)[:, :chains]


def key_of_site(name: str) -> np.ndarray:
    """[1] of what is drawn for a site as a whole."""
    return np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], np.uint64).copy()


# --- completing

class Equations(NamedTuple):
    """Of one arm: Gr = c + N(0, H⁻¹)."""

    g: np.ndarray
    """[K, E, D]."""
    c: np.ndarray
    """[K, E]."""
    h: np.ndarray
    """[K, E, E]."""


def equations(gaps: Gaps, law: Law, arm: int) -> Equations:
    p, k, chains = len(gaps.lacking), gaps.told, len(law.slopes)
    g, h = np.zeros((chains, p + k, gaps.size)), np.zeros((chains, p + k, p + k))
    g[:, :p, :gaps.columns] = -np.swapaxes(law.slopes, 1, 2)
    g[:, np.arange(p), gaps.lacking] = 1.0
    g[:, p:] = -law.outcome[:, arm]
    g[:, p + np.arange(k), gaps.columns + np.arange(k)] = 1.0
    h[:, :p, :p] = np.linalg.inv(law.spread)
    h[:, p + np.arange(k), p + np.arange(k)] = 1.0 / law.outcome_spread[:, arm]
    return Equations(g, np.concatenate([law.start[:, arm], law.outcome_start[:, arm]], 1), h)


def unseen_arm(gaps: Gaps, law: Law, share: float) -> Equations:
    """Of people of whom neither arm nor outcome is known: the arms by their share of the treated."""
    p = len(gaps.lacking)
    both = equations(gaps, law, 0)
    return Equations(both.g[:, :p], (1.0 - share) * law.start[:, 0] + share * law.start[:, 1], both.h[:, :p, :p])


class _Group(NamedTuple):
    """People of one arm who lack the same columns."""

    rows: np.ndarray
    missing: np.ndarray
    arm: Equations
    precision: np.ndarray
    """P [K, M, M], for the levels."""


def _groups(gaps: Gaps, missing: np.ndarray, arms: list[tuple[np.ndarray, Equations]]) -> Iterator[_Group]:
    """`missing` [n, p]; `arms`: rows and their equations."""
    for rows, arm in arms:
        if not len(rows):
            continue
        patterns, which = np.unique(missing[rows], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            lacks = gaps.lacking[pattern]
            g = arm.g[:, :, lacks]
            yield _Group(rows[which.ravel() == number], lacks, arm, np.swapaxes(g, 1, 2) @ arm.h @ g)


def _arms(gaps: Gaps, law: Law, w: np.ndarray) -> list[tuple[np.ndarray, Equations]]:
    return [(np.flatnonzero(w == arm), equations(gaps, law, arm)) for arm in (0, 1)]


def site_levels(gaps: Gaps, law: Law, v: np.ndarray, w: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """[K, D] drawn given what is seen of the site's people v [n, D]; `normals` [K, p + k]. With one site there are
    none."""
    levels = np.zeros((len(law.slopes), gaps.size))
    if gaps.sites == 1:
        return levels
    at = gaps.levels
    precision = np.zeros((len(law.slopes), len(at), len(at)))
    precision[:, np.arange(len(at)), np.arange(len(at))] = 1.0 / law.between
    pull = np.zeros((len(law.slopes), len(at)))
    seen = np.nan_to_num(v, nan=0.0)
    for group in _groups(gaps, np.isnan(v[:, gaps.lacking]), _arms(gaps, law, w)):
        g_m, g_l = group.arm.g[:, :, group.missing], group.arm.g[:, :, at]
        hg = group.arm.h @ g_m
        weight = group.arm.h - (hg @ np.linalg.solve(group.precision, np.swapaxes(hg, 1, 2)) if len(group.missing)
                                else 0.0)
        away = group.arm.g @ seen[group.rows].sum(0) - len(group.rows) * group.arm.c
        precision += len(group.rows) * np.swapaxes(g_l, 1, 2) @ weight @ g_l
        pull += np.einsum("kel,kef,kf->kl", g_l, weight, away)
    root = np.linalg.cholesky(precision)
    mean = np.linalg.solve(precision, pull[..., None])
    levels[:, at] = (mean + np.linalg.solve(np.swapaxes(root, 1, 2), normals[..., None]))[..., 0]
    return levels


def completed(gaps: Gaps, law: Law, v: np.ndarray, arms: list[tuple[np.ndarray, Equations]], levels: np.ndarray,
              normals: np.ndarray) -> np.ndarray:
    """[K, n, d] covariates with what is missing of v [n, D] drawn; `normals` [n, K, p]."""
    missing = np.isnan(v[:, gaps.lacking])
    x = np.repeat(v[None, :, :gaps.columns], len(law.slopes), 0)
    for group in _groups(gaps, missing, arms):
        if len(group.missing):
            x[:, group.rows] = _drawn(gaps, group, v[group.rows], levels, normals[group.rows])
    return x


class _Given(NamedTuple):
    """The missing entries of a group's people, given what some equations say: N(mean, (root rootᵀ)⁻¹)."""

    mean: np.ndarray
    """[K, n, M]."""
    root: np.ndarray
    """[K, M, M]."""

    def of(self, j: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(mean [K, n], sd [K, 1]) of the entry j, given those after it, x [K, n, M − j − 1]."""
        off = x - self.mean[:, :, j + 1:]
        sd = 1.0 / self.root[:, None, j, j]
        return self.mean[:, :, j] - sd * np.einsum("kni,ki->kn", off, self.root[:, j + 1:, j]), sd


def _given(arm: Equations, lacks: np.ndarray, seen: np.ndarray, levels: np.ndarray) -> _Given:
    """`seen` [K, n, …] less the levels, 0 where missing; without the outcome's columns where it is not known."""
    g = arm.g[:, :, :seen.shape[2]]
    pull = (arm.c[:, None] - seen @ np.swapaxes(g, 1, 2)) @ arm.h @ g[:, :, lacks]
    precision = np.swapaxes(g[:, :, lacks], 1, 2) @ arm.h @ g[:, :, lacks]
    mean = np.swapaxes(np.linalg.solve(precision, np.swapaxes(pull, 1, 2)), 1, 2) + levels[:, None, lacks]
    return _Given(mean, np.linalg.cholesky(precision))


def _drawn(gaps: Gaps, group: _Group, v: np.ndarray, levels: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """[K, n, d]: the last missing entry first, each given those after it."""
    lacks, p = group.missing, len(gaps.lacking)
    seen = np.nan_to_num(v, nan=0.0)[None] - levels[:, None]
    seen[:, :, lacks] = 0.0
    by_all = _given(group.arm, lacks, seen, levels)
    without = Equations(group.arm.g[:, :p], group.arm.c[:, :p], group.arm.h[:, :p, :p])
    by_columns = _given(without, lacks, seen, levels) if np.isfinite(gaps.low[lacks]).any() else by_all
    place = {column: i for i, column in enumerate(gaps.lacking)}
    x = np.repeat(v[None, :, :gaps.columns], len(levels), 0)
    for j in range(len(lacks))[::-1]:
        column, z, after = int(lacks[j]), normals[:, :, place[lacks[j]]].T, x[:, :, lacks[j + 1:]]
        mean, sd = by_all.of(j, after)
        if np.isnan(gaps.low[column]):
            x[:, :, column] = mean + sd * z
        else:
            x[:, :, column] = _zero_or_one(gaps, column, (mean, sd), by_columns.of(j, after), z, x, lacks[j + 1:])
    return x


def _zero_or_one(gaps: Gaps, column: int, by_all: tuple[np.ndarray, np.ndarray],
                 by_columns: tuple[np.ndarray, np.ndarray], z: np.ndarray, x: np.ndarray,
                 drawn: np.ndarray) -> np.ndarray:
    """The linear mean given the columns is the probability before the outcome is seen; the outcome is Gaussian given
    the value, and its likelihood is what takes the one normal to the other. 0 where another level was drawn."""
    low, high = gaps.low[column], gaps.high[column]
    before = np.clip((by_columns[0] - low) / (high - low), RARE, 1.0 - RARE)

    def told(value: float) -> np.ndarray:
        (mean, sd), (prior, prior_sd) = by_all, by_columns
        return 0.5 * (((value - prior) / prior_sd) ** 2 - ((value - mean) / sd) ** 2)

    one = ndtr(z) < expit(np.log(before / (1.0 - before)) + told(high) - told(low))
    for other in drawn[gaps.group[drawn] == gaps.group[column]]:
        one &= x[:, :, other] < 0.5 * (gaps.low[other] + gaps.high[other])
    return np.where(one, high, low)


# --- sums, and what is drawn from them

class Sums(NamedTuple):
    """Over people in each arm."""

    first: np.ndarray
    """Σ r [K, 2, D]."""
    second: np.ndarray
    """Σ rrᵀ [K, 2, D(D + 1)/2], the upper half row by row."""
    levels: np.ndarray
    """Σ of squared levels over sites [K, D]."""


def sums_of(gaps: Gaps, x: np.ndarray, v: np.ndarray, w: np.ndarray, levels: np.ndarray) -> Sums:
    first, second = [], []
    upper = np.triu_indices(gaps.size)
    for own, level in zip(x, levels, strict=True):
        r = np.column_stack([own, v[:, gaps.columns:]]) - level
        first.append([r[w == arm].sum(0) for arm in (0, 1)])
        second.append([(r[w == arm].T @ r[w == arm])[upper] for arm in (0, 1)])
    return Sums(np.array(first), np.array(second), levels**2)


def drawn_laws(gaps: Gaps, law: Law, total: Sums, people: np.ndarray, chains: int, seed: int, step: int) -> Law:
    """K' laws from their posterior given the completed people; from one law, as many as `chains`. `people` [2]."""
    rng = np.random.default_rng(np.random.SeedSequence((seed, 7, step)))
    which = np.arange(chains) % len(total.first)
    try:
        drawn = [_drawn_law(gaps, Law(*(part[i % len(part)] for part in law)), Sums(*(part[i] for part in total)),
                            people, rng) for i in which]
    except np.linalg.LinAlgError:
        drawn = []
    if not drawn or not all(np.isfinite(part).all() for own in drawn for part in own):
        raise NumericalError("what is missing could not be drawn: the sums of the covariates are those of nobody, or "
                             "two columns say the same. Leave one of them out, or set missing = \"impute\"")
    return Law(*(np.stack(parts) for parts in zip(*drawn, strict=True)))


def _drawn_law(gaps: Gaps, before: Law, total: Sums, people: np.ndarray, rng: np.random.Generator) -> Law:
    people = np.maximum(people, 1.0)
    mean = total.first / people[:, None]
    about = np.stack([_square(total.second[arm], gaps.size) - people[arm] * np.outer(mean[arm], mean[arm])
                      for arm in (0, 1)])
    slopes, spread = _drawn_columns(gaps, about.sum(0), people.sum(), rng)
    at = mean[:, gaps.lacking] - mean[:, :gaps.columns] @ slopes
    start = at + rng.standard_normal(at.shape) @ np.linalg.cholesky(spread).T / np.sqrt(people)[:, None]
    outcome, outcome_start, outcome_spread = _drawn_outcome(gaps, before, mean, about, people, rng)
    square = total.levels[gaps.levels]
    between = (LEVEL_WEIGHT * LEVEL + square) / rng.chisquare(LEVEL_WEIGHT + gaps.sites, len(square))
    return Law(slopes, start, spread, outcome, outcome_start, outcome_spread,
               between if gaps.sites > 1 else np.zeros_like(between))


def _square(upper: np.ndarray, size: int) -> np.ndarray:
    full = np.zeros((size, size))
    full[np.triu_indices(size)] = upper
    return full + full.T - np.diag(np.diag(full))


def _drawn_columns(gaps: Gaps, about: np.ndarray, people: float,
                   rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(B [d, p], R [p, p]): the regression of L on C, with a ridge worth a quarter of a person for each column."""
    c, own, p = gaps.others, gaps.lacking, len(gaps.lacking)
    ridge = (1.0 + 0.25 * len(c)) * np.eye(len(c))
    precision = about[np.ix_(c, c)] + ridge
    fitted = np.linalg.solve(precision, about[np.ix_(c, own)])
    used = np.trace(np.linalg.solve(precision, about[np.ix_(c, c)])) if len(c) else 0.0
    left = about[np.ix_(own, own)] - about[np.ix_(own, c)] @ fitted + LEAST * (p + 1) * np.eye(p)
    spread = _inverse_wishart(left, max(people - 2.0 - used, 1.0) + p + 1, rng)
    root = np.linalg.cholesky(precision)
    noise = np.linalg.solve(root.T, rng.standard_normal((len(c), p))) @ np.linalg.cholesky(spread).T
    slopes = np.zeros((gaps.columns, p))
    slopes[c] = fitted + noise
    return slopes, spread


def _inverse_wishart(scale: np.ndarray, freedom: float, rng: np.random.Generator) -> np.ndarray:
    """By Bartlett's factor of its inverse."""
    p = len(scale)
    a = np.tril(rng.standard_normal((p, p)), -1) + np.diag(np.sqrt(rng.chisquare(freedom - np.arange(p))))
    half = np.linalg.solve(a, np.linalg.cholesky(scale).T)
    return np.asarray(half.T @ half)


def _drawn_outcome(gaps: Gaps, before: Law, mean: np.ndarray, about: np.ndarray, people: np.ndarray,
                   rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(b, α, σ²): slopes that the arms share, and what the treated have beside them."""
    outcome, start = np.zeros((2, gaps.told, gaps.size)), np.zeros((2, gaps.told))
    spread = np.zeros((2, gaps.told))
    for j in range(gaps.told):
        by, at = np.arange(gaps.columns + j), gaps.columns + j
        square = [about[arm][np.ix_(by, by)] / before.outcome_spread[arm, j] for arm in (0, 1)]
        cross = [about[arm][by, at] / before.outcome_spread[arm, j] for arm in (0, 1)]
        prior = np.repeat([SLOPE, SLOPE * DIFFERENCE], len(by)) * len(by)
        precision = np.block([[square[0] + square[1], square[1]], [square[1], square[1]]]) + np.diag(prior)
        fitted = np.linalg.solve(precision, np.concatenate([cross[0] + cross[1], cross[1]]))
        both = fitted + np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(len(fitted)))
        common, more = np.split(both, 2)
        for arm, b in ((0, common), (1, common + more)):
            left = about[arm][at, at] - 2 * b @ about[arm][by, at] + b @ about[arm][np.ix_(by, by)] @ b
            spread[arm, j] = (max(left, 0.0) + LEAST) / rng.chisquare(max(people[arm] - 1.0, 1.0) + 1.0)
            outcome[arm, j, by] = b
            start[arm, j] = (mean[arm, at] - b @ mean[arm, by]
                             + np.sqrt(spread[arm, j] / people[arm]) * rng.standard_normal())
    return outcome, start, spread


# --- once the laws are known

@dataclass(frozen=True)
class Completion:
    """All that completes people, of the study or not."""

    gaps: Gaps
    law: Law
    share: float
    """Of the treated."""
    seed: int

    def levels_of(self, site: str, v: np.ndarray, w: np.ndarray, step: int = LAST) -> np.ndarray:
        """[K, D] of the site, from all its people."""
        chains = len(self.law.slopes)
        return site_levels(self.gaps, self.law, v, w,
                           normals_of(key_of_site(site), self.seed, step, chains, len(self.gaps.levels))[0])

    def levels_elsewhere(self) -> np.ndarray:
        """[K, D] of a site outside the study, from their law."""
        chains, at = len(self.law.slopes), self.gaps.levels
        levels = np.zeros((chains, self.gaps.size))
        levels[:, at] = np.sqrt(self.law.between) * normals_of(key_of_site(""), self.seed, OTHERS, chains, len(at))[0]
        return levels

    def people(self, v: np.ndarray, w: np.ndarray, keys: np.ndarray, levels: np.ndarray,
               step: int = LAST) -> np.ndarray:
        """[K, n, d] of people v [n, D] whose arm and outcome are known; `keys` [n] are theirs (`keys_of`)."""
        return completed(self.gaps, self.law, v, _arms(self.gaps, self.law, w), levels, self._normals(keys, step))

    def others(self, x: np.ndarray, keys: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """[K, n, d] of people x [n, d] of whom nothing else is known. What nobody of the study lacked is its mean."""
        whole = np.setdiff1d(np.arange(x.shape[1]), self.gaps.lacking)
        x = x.copy()
        x[:, whole] = np.nan_to_num(x[:, whole], nan=0.0)
        arms = [(np.arange(len(x)), unseen_arm(self.gaps, self.law, self.share))]
        return completed(self.gaps, self.law, x, arms, levels[:, :x.shape[1]], self._normals(keys, OTHERS))

    def _normals(self, keys: np.ndarray, step: int) -> np.ndarray:
        return normals_of(keys, self.seed, step, len(self.law.slopes), len(self.gaps.lacking))
