"""What sums over cohorts tell of one person: the leverage of a person in the span of the cohorts, exactly.

    h_p = max over v in span(c_1 … c_k) of v_p² / |v|² = m_pᵀ G⁻¹ m_p       G_ij = |c_i ∩ c_j|,  m_p = (c_1p … c_kp)

c_i are the cohorts' indicators over people (0/1); any combination of their sums is a sum over people with weights v. Of
a mean over n people h = 1/n: so *h ≤ 1/n says that nothing that was told, however it is combined, tells more of a
person than a mean over n people does*. A combination that is 0 but for s people has h ≥ 1/s for one of them: where
h ≤ 1/n for all there is none of fewer than n. Looking for that sparsest combination itself is hard in general; this
bound is a quadratic form, and it also sees the combination in which one person weighs 1000 and a hundred others 1.

People who were in the same cohorts are one class and have one h. Floats decide only what is far from the limit, by more
than their error at the worst condition that is admitted; the rest is decided in whole numbers (Bareiss' elimination
without fractions, in which a pivot of 0 is a cohort that those before it tell already).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

MOST = 160
"""Cohorts in one piece of algebra: beyond it the whole numbers grow too long to decide while somebody waits."""
EXACT = 20_000_000
"""Steps in whole numbers, at most; some seconds."""
CLEAR = 1e-3
"""Floats decide where h is below the limit by this part: k² ε κ is below 2e-4 at k = MOST and κ = CONDITION."""
CONDITION = 3e7


class TooEntangled(Exception):
    """More cohorts hang together than can be decided exactly: whoever asks must refuse."""


class Raised(NamedTuple):
    """Of whom the new cohorts would tell more than the limit."""

    people: int
    worth: float
    """1/h of the person of whom most would be told: as much as a mean over so many people."""


class Factor(NamedTuple):
    """G = Uᵀ D⁻¹ U in whole numbers, over the cohorts that are not told by those before them."""

    cohorts: list[int]
    pivots: list[int]
    """Leading minors of G over `cohorts`; D = diag(d_{i−1} d_i), d_{−1} = 1."""
    rows: list[np.ndarray]
    """Of U: row i from column cohorts[i] on, Python integers."""


def raised(patterns: np.ndarray, sizes: np.ndarray, new: int, least: int) -> Raised | None:
    """Of whom the last `new` cohorts tell something that those before them do not, and then h > 1/`least`; none: of
    nobody.

    patterns    [classes, cohorts] bool, whether the people of a class are in a cohort
    sizes       [classes] people

    A new cohort smaller than `least` is judged by its own size: whether it may be told alone is for others to say.
    """
    patterns, sizes = _of_one_piece(patterns, sizes, new)
    cohorts = patterns.shape[1]
    if cohorts > MOST:
        raise TooEntangled(f"{cohorts} cohorts hang together, of at most {MOST}")
    weighted = patterns * sizes[:, None].astype(float)
    gram = np.rint(weighted.T @ patterns).astype(np.int64)  # whole numbers below 2⁵³: exact
    factor = factored(gram)
    limits = _limits(patterns, gram, new, least)
    near = _near(patterns, gram, factor, limits)
    if len(near) * cohorts**2 > EXACT:
        raise TooEntangled(f"{len(near)} groups of people would have to be decided one by one")
    return _decided(patterns[near], sizes[near], factor, cohorts - new, [limits[j] for j in near])


def classes(cohorts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(patterns, sizes) of cohorts that are given as arrays of people's numbers, from 0 on, each person once."""
    patterns = np.zeros((1 + max((int(cohort.max(initial=-1)) for cohort in cohorts), default=-1), len(cohorts)), bool)
    for number, cohort in enumerate(cohorts):
        patterns[cohort, number] = True
    return _merged(patterns, np.ones(len(patterns), np.int64))


def factored(gram: np.ndarray) -> Factor:
    """Of a Gram matrix of whole numbers [k, k]. It has no negative eigenvalue, so that a pivot of 0 has a row of 0."""
    rest = np.array([[int(value) for value in row] for row in gram], dtype=object).reshape(gram.shape)
    cohorts: list[int] = []
    pivots: list[int] = []
    rows: list[np.ndarray] = []
    before = 1
    for i in range(len(rest)):
        pivot = rest[i, i]
        if pivot == 0:
            continue
        cohorts, pivots, rows = [*cohorts, i], [*pivots, pivot], [*rows, rest[i, i:].copy()]
        column, below = rest[i + 1:, i], rest[i + 1:, i + 1:]
        rest[i + 1:, i + 1:] = (pivot * below - np.outer(column, rest[i, i + 1:])) // before
        before = pivot
    return Factor(cohorts, pivots, rows)


def leverages(pattern: np.ndarray, factor: Factor, old: int) -> tuple[Fraction, Fraction]:
    """(h before, h after) for the people of one class [k], exactly; before: in the span of the first `old` cohorts."""
    rest = np.array([int(value) for value in pattern], dtype=object)
    leverage, earlier, before = Fraction(0), Fraction(0), 1
    for i, pivot, row in zip(factor.cohorts, factor.pivots, factor.rows, strict=True):
        part = rest[i]
        leverage += Fraction(part * part, before * pivot)
        earlier = leverage if i < old else earlier
        rest[i + 1:] = (pivot * rest[i + 1:] - part * row[1:]) // before
        before = pivot
    return earlier, leverage


def _of_one_piece(patterns: np.ndarray, sizes: np.ndarray, new: int) -> tuple[np.ndarray, np.ndarray]:
    """Only the cohorts that hang together with the new ones: the others, who share nobody with them, are at right
    angles to them and change nothing."""
    patterns = _once(patterns.astype(bool), new)
    reached = np.arange(patterns.shape[1]) >= patterns.shape[1] - new
    while True:
        people = patterns[:, reached].any(axis=1)
        further = patterns[people].any(axis=0) | reached
        if np.array_equal(further, reached):
            return _merged(patterns[people][:, reached], sizes[people])
        reached = further


def _once(patterns: np.ndarray, new: int) -> np.ndarray:
    """Each of the earlier cohorts once, and the new ones."""
    old = patterns.shape[1] - new
    packed = np.packbits(patterns[:, :old], axis=0)
    first = sorted({packed[:, k].tobytes(): k for k in reversed(range(old))}.values())
    return patterns[:, [*first, *range(old, old + new)]]


def _merged(patterns: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal patterns as one class."""
    if not len(patterns):
        return patterns, sizes
    packed = np.ascontiguousarray(np.packbits(patterns, axis=1))
    _, first, where = np.unique(packed.view(f"V{packed.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    return patterns[first], np.bincount(where, weights=sizes, minlength=len(first)).astype(np.int64)


def _limits(patterns: np.ndarray, gram: np.ndarray, new: int, least: int) -> list[Fraction]:
    """For each class: 1/least, or where its people are in a smaller new cohort, that one's 1/n."""
    smallest = np.full(len(patterns), least)
    for cohort in range(patterns.shape[1] - new, patterns.shape[1]):
        inside = patterns[:, cohort]
        smallest[inside] = np.minimum(smallest[inside], gram[cohort, cohort])
    return [Fraction(1, int(n)) for n in smallest]


def _near(patterns: np.ndarray, gram: np.ndarray, factor: Factor, limits: list[Fraction]) -> np.ndarray:
    """Classes whose h is not clearly below their limit, the highest first; all of them where floats say too little."""
    among = gram[np.ix_(factor.cohorts, factor.cohorts)].astype(float)
    if not len(among):
        return np.zeros(0, int)
    values = np.linalg.eigvalsh(among)
    if values[0] * CONDITION < values[-1]:
        return np.arange(len(patterns))
    roots = np.linalg.solve(np.linalg.cholesky(among), patterns[:, factor.cohorts].T.astype(float))
    share = (roots**2).sum(axis=0) / np.array([float(limit) for limit in limits])
    order = np.argsort(-share)
    return order[share[order] > 1 - CLEAR]


def _decided(patterns: np.ndarray, sizes: np.ndarray, factor: Factor, old: int,
             limits: list[Fraction]) -> Raised | None:
    people, most = 0, Fraction(0)
    for pattern, size, limit in zip(patterns, sizes, limits, strict=True):
        earlier, leverage = leverages(pattern, factor, old)
        if leverage > limit and leverage > earlier:
            people, most = people + int(size), max(most, leverage)
    return Raised(people, float(1 / most)) if people else None
