"""A rule of few lines that summarises who benefits: a tree of at most two questions, learnt from the model alone.

    people of nobody   drawn with the pooled means, spreads and shares, columns independent
    d(x)               what the model's shared part expects of them, averaged over some draws
    tree               a first question and one on either side, of those that explain most of Var d

No row is looked at, so the rule tells nothing of a person, and all parties work out the same one. What it is worth is
measured afterwards, on the sites' people (`site.targeting`).

    rule [LEAVES, 2, 3]   (column of the design, from, below) of each leaf's conditions; column −1: none
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from fedci.model import leave_one_out
from fedci.model.family import Family
from fedci.model.programs import compiled
from fedci.model.rows import on_device
from fedci.model.shared import basis
from fedci.study.covariate import Covariate

LEAVES = 4
PEOPLE = 1024
LEAST = 0.1
"""Of people, in a leaf."""
WORTH = 0.05
"""Of Var d: what a question more has to explain, and costs where trees are compared."""
PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Where a numeric covariate may be cut, in pooled standard deviations about its mean."""
NEAR = 0.5
"""Sds from a cut of the study's own within which a rule cuts there: half of the people between two places."""
NOWHERE = -1.0


class Question(NamedTuple):
    """Is x[column] below the cut?"""

    column: int
    cut: float


def learnt(model: Family, draws: dict[str, np.ndarray], theta: np.ndarray, u: np.ndarray, pooled_u: np.ndarray,
           scales: tuple[np.ndarray, np.ndarray], moments: np.ndarray, indicators: int,
           covariates: Sequence[Covariate], along: Sequence[int], cuts: Mapping[int, Sequence[float]],
           seed: int) -> np.ndarray:
    """`moments` [2, d]: pooled mean and sd of each column in the data's units; `scales`: centre and spread of the
    model's; `cuts`: where the study itself cuts a column."""
    packed = tuple(np.ascontiguousarray(part, float).tobytes() for part in (theta, u, pooled_u, *scales, moments))
    drawn = tuple(sorted((name, part.shape, part.tobytes()) for name, part in draws.items()))
    own = tuple((column, tuple(places)) for column, places in sorted(cuts.items()))
    return np.frombuffer(_learnt(model, drawn, packed, u.shape, indicators, tuple(covariates), tuple(along), own,
                                 seed)).reshape(LEAVES, 2, 3)


@lru_cache(maxsize=8)
def _learnt(model: Family, drawn: tuple[tuple[str, tuple[int, ...], bytes], ...], packed: tuple[bytes, ...],
            shape: tuple[int, int], indicators: int, covariates: tuple[Covariate, ...], along: tuple[int, ...],
            cuts: tuple[tuple[int, tuple[float, ...]], ...], seed: int) -> bytes:
    """A function of bytes, so that all parties in one process work it out once."""
    theta, u, pooled_u, centre, spread, moments = (np.frombuffer(part) for part in packed)
    draws = {name: np.frombuffer(part).reshape(form) for name, form, part in drawn}
    mean, sd = moments.reshape(2, -1)
    x = nobody(covariates, mean, sd, seed)
    scaled = np.hstack([(x - centre) / spread, np.zeros((len(x), indicators))])
    found = model.draws_elsewhere(draws, theta, u.reshape(shape), pooled_u, seed)
    which = leave_one_out.chosen(jax.tree.leaves(found)[0].shape[0])
    some = jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[which]), found)
    d = np.asarray(_expected(model, theta, some, on_device(scaled)))
    return packed_rule(grown(x, d, candidates(covariates, mean, sd, along, dict(cuts)))).tobytes()


def nobody(covariates: Sequence[Covariate], mean: np.ndarray, sd: np.ndarray, seed: int) -> np.ndarray:
    """[PEOPLE, d] of nobody, columns independent; each has its mean and shares as far as so many people can."""
    rng, at = np.random.default_rng(np.random.SeedSequence((seed, 12))), 0
    places = (np.arange(PEOPLE) + 0.5) / PEOPLE
    x = np.empty((PEOPLE, len(mean)))
    for covariate in covariates:
        here = slice(at, at + len(covariate.design_columns()))
        at = here.stop
        if covariate.type == "numeric":
            low, high = covariate.range or (-np.inf, np.inf)
            x[:, here.start] = np.clip(mean[here.start] + sd[here.start] * ndtri(rng.permutation(places)), low, high)
        else:
            shares = np.clip(mean[here], 0.0, 1.0)
            ends = np.cumsum(shares / max(shares.sum(), 1.0))
            chosen = (rng.permutation(places)[:, None] > ends).sum(1)
            x[:, here] = np.eye(len(ends) + 1)[chosen][:, :-1]
    return x


@compiled(static="model")
def _expected(model: Family, vector: jax.Array, draws: object, x: jax.Array) -> jax.Array:
    """[n] effects, or differences of risks (of rates in the model's unit), averaged over draws."""
    n, j = x.shape[0], max(model.intervals, 1)
    at = x if not model.intervals else jnp.column_stack([
        jnp.repeat(x, j, 0), jnp.tile(jnp.asarray(basis.moments_of(j)), n)])

    def of_draw(draw: object) -> jax.Array:
        means = model.law(vector, draw, jnp.asarray(0)).means(at)
        if model.intervals:
            left = jnp.exp(jnp.sum(jax.nn.log_sigmoid(-means).reshape(means.shape[0], n, j, 2), 2))
            means = 1.0 - left
        elif model.outcome == "binary":
            means = jax.nn.sigmoid(means)
        elif model.outcome == "count":
            means = jnp.exp(means)
        return jnp.mean(means[..., 1] - means[..., 0], 0)

    return jnp.mean(jax.lax.map(of_draw, draws), 0)


# --- the tree


def candidates(covariates: Sequence[Covariate], mean: np.ndarray, sd: np.ndarray, along: Sequence[int],
               cuts: Mapping[int, Sequence[float]]) -> list[Question]:
    """Levels of 0/1 columns, and some places of numeric ones, to two digits of their spread; near a cut of the study's
    own that one: of those between two cuts that lie close nobody could be told."""
    kinds = [covariate.type for covariate in covariates for _ in covariate.design_columns()]
    return [Question(c, cut) for c in along for cut in (
        _places(float(mean[c]), float(sd[c]), cuts.get(c, ())) if kinds[c] == "numeric" else [0.5])]


def _places(mean: float, sd: float, cuts: Sequence[float]) -> list[float]:
    found = []
    for place in PLACES:
        near = min(cuts, key=lambda cut: abs(cut - mean - place * sd), default=np.inf)
        at = near if abs(near - mean - place * sd) <= NEAR * sd else _round(mean + place * sd, sd)
        found += [at] if at not in found else []
    return found


def _round(value: float, spread: float) -> float:
    step = 10.0 ** np.floor(np.log10(spread / 5.0)) if spread > 0 else 1.0
    return float(np.round(np.round(value / step) * step, 12))


def grown(x: np.ndarray, d: np.ndarray, asked: Sequence[Question]) -> list[list[tuple[int, float, float]]]:
    """Leaves, each as its conditions (column, from, below); one without any where no question explains anything."""
    least, total = LEAST * len(d), float(np.sum((d - d.mean()) ** 2))
    below = np.stack([x[:, q.column] < q.cut for q in asked]) if asked else np.zeros((0, len(d)), bool)
    found: tuple[float, int, int | None, int | None] | None = None
    for k in range(len(asked)):
        if min(below[k].sum(), (~below[k]).sum()) < least:
            continue
        sides = [_best(d, below, side, least) for side in (below[k], ~below[k])]
        first = total - sum(_within(d, side) for side in (below[k], ~below[k]))
        second = [side if side is not None and side[0] >= WORTH * total else None for side in sides]
        gain = first + sum(side[0] - WORTH * total for side in second if side is not None)
        if found is None or gain > found[0]:
            found = gain, k, *(None if side is None else side[1] for side in second)  # type: ignore[assignment]
    if found is None or found[0] <= 1e-9 * max(total, 1e-300):
        return [[]]
    _, k, left, right = found
    leaves = []
    for lower, more in ((True, left), (False, right)):
        own = _condition(asked[k], lower)
        leaves += [[own]] if more is None else [[own, _condition(asked[more], side)] for side in (True, False)]
    return leaves


def _condition(question: Question, lower: bool) -> tuple[int, float, float]:
    return question.column, -np.inf if lower else question.cut, question.cut if lower else np.inf


def _best(d: np.ndarray, below: np.ndarray, side: np.ndarray, least: float) -> tuple[float, int] | None:
    """(what it explains, which question), asked of the people of a side."""
    whole, best = _within(d, side), None
    for k, lower in enumerate(below):
        parts = side & lower, side & ~lower
        if min(part.sum() for part in parts) >= least:
            gain = whole - sum(_within(d, part) for part in parts)
            best = (gain, k) if best is None or gain > best[0] else best
    return best


def _within(d: np.ndarray, part: np.ndarray) -> float:
    own = d[part]
    return float(np.sum((own - own.mean()) ** 2)) if len(own) else 0.0


def packed_rule(leaves: Sequence[Sequence[tuple[int, float, float]]]) -> np.ndarray:
    """A leaf that is not there asks of nobody: from ∞."""
    rule = np.tile(np.array([NOWHERE, np.inf, -np.inf]), (LEAVES, 2, 1))
    for k, leaf in enumerate(leaves):
        for i in range(2):
            rule[k, i] = leaf[i] if i < len(leaf) else (NOWHERE, -np.inf, np.inf)
    return rule


def holds(rule: np.ndarray, x: np.ndarray) -> np.ndarray:
    """[LEAVES, n] of rows x [n, d] of the design; who lacks a value that a leaf asks for is in none."""
    found = np.ones((LEAVES, len(x)), bool)
    for k, leaf in enumerate(rule):
        for column, low, high in leaf:
            if column == NOWHERE:
                found[k] &= low < high
            else:
                at = x[:, int(column)]
                found[k] &= (at >= low) & (at < high)
    return found


def exists(rule: np.ndarray) -> np.ndarray:
    """[LEAVES] bool."""
    return np.asarray((rule[:, 0, 1] < rule[:, 0, 2]) | (rule[:, 0, 0] != NOWHERE))
