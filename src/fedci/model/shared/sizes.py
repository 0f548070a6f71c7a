"""The sizes of β's prior, drawn anew from their exact law given the rest of θ: at home, without asking anybody.

q(θ) is Gaussian with a diagonal. With few people (`exchanges.FEW_PEOPLE`) the law of sizes is neither: it is skewed,
and they trade places. But a change of sizes alone changes the rows z by a matrix that is known, z' = Mᵀz, and so the
sums:

    T' = MᵀTM      v' = Mᵀv      log p(y | θ') = ½ v'ᵀ(I + T')⁻¹v' − ½ log|I + T'| + what sizes do not change

From each draw of θ every size in turn is drawn given all else (Gibbs): of the pooled function the sizes of b and of e;
of each other block log sd b, the own parts of log(sd e/sd b) and of ρ; then η. With all other columns of z integrated
out a block has S and r in the place of T and v. A size is drawn by its distribution function on a grid around where it
stands, with a uniform number that the seed gives: so all parties come to the same, and sums that differ in their last
digits give draws that do.

What the columns are made of, the noise and the sites' own functions stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fedci.model.shared import basis
from fedci.model.shared.shared import SharedModel, symmetric

SWEEPS = 2
STREAM = 8
REACH = 3.5
"""Of the grid, in standard deviations of the prior."""
GRID = REACH * np.sign(np.linspace(-1.0, 1.0, 31)) * np.abs(np.linspace(-1.0, 1.0, 31)) ** 1.7
"""Dense where the size stands, which is where q expects it."""
ROOTS = {"lines": "linear", "common": "common"}
"""Block → the part of θ that has its root; a direction's is a row of 'hinges'."""


class Draw(NamedTuple):
    theta: Float[np.ndarray, "p"]
    gram: Float[np.ndarray, "q q"]
    """T."""
    cross: Float[np.ndarray, "q"]
    """v."""


class Group(NamedTuple):
    """Columns of z whose sizes are drawn together."""

    outcome: np.ndarray
    """Of b; none where e alone is meant."""
    effect: np.ndarray
    """Of e, of one arm after the other."""
    both: tuple[int, ...] = ()
    """Entries of θ that are log sizes of all these columns: each is added to."""
    ratio: tuple[int, ...] = ()
    """Of the columns of e alone."""
    alike: int | None = None
    """The entry that is the block's own part of ρ."""


def drawn(model: SharedModel, thetas: Float[np.ndarray, "L p"], gram: Float[np.ndarray, "L h"],
          cross: Float[np.ndarray, "L q"], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(θ', the upper half of T', v') of each draw. Parties in one process work it out once."""
    return _drawn(model, *(np.ascontiguousarray(part).tobytes() for part in (thetas, gram, cross)), len(thetas), seed)


@lru_cache(maxsize=2)
def _drawn(model: SharedModel, thetas: bytes, gram: bytes, cross: bytes, count: int,
           seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    groups, upper = list(groups_of(model)), np.triu_indices(model.columns)
    rng = np.random.default_rng(np.random.SeedSequence((seed, STREAM)))
    found = []
    for theta, half, v in zip(*(np.frombuffer(part).reshape(count, -1) for part in (thetas, gram, cross)), strict=True):
        draw = Draw(theta.copy(), symmetric(half), v.copy())
        for _ in range(SWEEPS):
            for group in groups:
                draw = _with_new(model, draw, group, rng.uniform)
        found.append((draw.theta, draw.gram[upper], draw.cross))
    parts = tuple(np.stack(part) for part in zip(*found, strict=True))
    for part in parts:
        part.setflags(write=False)
    return parts[0], parts[1], parts[2]


def groups_of(model: SharedModel) -> Iterator[Group]:
    """In the order in which they are drawn."""
    entry = {name: i for i, name in enumerate(model.names())}
    places = {name: np.arange(at.start, at.stop) for name, at in model.layout.coefficients.items()}
    widths = {block.name: block.width for block in model.layout.blocks}
    none, effects = np.zeros(0, int), []
    if "pooled effect" in places:
        outcome, effect = places["pooled outcome"], places["pooled effect"]
        yield Group(outcome, effect, tuple(entry[f"pooled[{i}]"] for i in range(3)),
                    tuple(entry[f"pooled_effect[{i}]"] for i in range(3)))
        effects.append(effect)
    for name, at in places.items():
        if (root := _root_of(name)) is None:
            continue
        size, ratio, alike = (entry[root.format(i)] for i in range(3))
        outcome, effect = np.split(at, [widths[name]])
        yield Group(outcome, effect, (size,), (ratio,), alike)
        effects.append(effect)
    if basis.BETWEEN_ARMS in places:
        yield Group(places[basis.BETWEEN_ARMS], none, (entry["confounding"],))
    yield Group(none, np.concatenate(effects), (), (entry["effect"],))


def _root_of(block: str) -> str | None:
    if block in ROOTS:
        return f"{ROOTS[block]}[{{}}]"
    kind, _, number = block.partition(" ")
    return f"hinges[{int(number) - 1},{{}}]" if kind == "direction" else None


def _with_new(model: SharedModel, draw: Draw, group: Group, uniform: Callable[[], float]) -> Draw:
    """The draw with new sizes of one group."""
    theta, columns = draw.theta.copy(), np.concatenate([group.outcome, group.effect])
    every = np.arange(len(columns))
    effect = every[len(group.outcome):]
    now = without_others(draw.gram, draw.cross, columns)
    change = np.eye(len(columns))
    for entries, scaled in ((group.both, every), (group.ratio, effect)):
        if entries:
            step = _new_scale(*without_others(*now, scaled), *_prior(model, theta, entries), uniform())
            theta[list(entries)] += step
            by = np.eye(len(columns))
            by[scaled, scaled] = math.exp(step)
            now, change = _changed(*now, by), change @ by
    if group.alike is not None:
        each = _one_more_of_b(model, theta, group, len(columns))
        step = _new_share(*now, each, *_prior(model, theta, (group.alike,)), uniform())
        theta[group.alike] += step
        change = change @ (np.eye(len(columns)) + step * each)
    gram, cross = draw.gram.copy(), draw.cross.copy()
    gram[columns] = change.T @ gram[columns]
    gram[:, columns] = gram[:, columns] @ change
    cross[columns] = change.T @ cross[columns]
    return Draw(theta, gram, cross)


def without_others(gram: np.ndarray, cross: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, r): the evidence is ½ rᵀ(I + S)⁻¹r − ½ log|I + S| plus what the kept columns have no part in.

        S = T_BB − T_BA (I + T_AA)⁻¹T_AB      r = v_B − T_BA (I + T_AA)⁻¹v_A
    """
    others = np.setdiff1d(np.arange(len(cross)), kept)
    across = gram[np.ix_(kept, others)]
    solved = np.linalg.solve(np.eye(len(others)) + gram[np.ix_(others, others)],
                             np.column_stack([across.T, cross[others]]))
    return gram[np.ix_(kept, kept)] - across @ solved[:, :-1], cross[kept] - across @ solved[:, -1]


def _prior(model: SharedModel, theta: np.ndarray, entries: tuple[int, ...]) -> tuple[float, float]:
    """(mean, sd) of what is added to these entries together; Gaussian, for none has heavy tails."""
    mean, sd = (part[list(entries)] for part in model.prior)
    weight = 1.0 / sd**2
    return float(weight @ (mean - theta[list(entries)]) / weight.sum()), float(weight.sum() ** -0.5)


def _new_scale(gram: np.ndarray, cross: np.ndarray, mean: float, sd: float, uniform: float) -> float:
    """t, all columns becoming e^t times as large: with S = VΛVᵀ and a = Vᵀr the evidence is
    ½ Σ_i [e^{2t}a_i²/(1 + e^{2t}λ_i) − log(1 + e^{2t}λ_i)]."""
    values, vectors = np.linalg.eigh(gram)
    steps = GRID * sd
    squared = np.exp(2.0 * steps)[:, None]
    grown = 1.0 + squared * np.maximum(values, 0.0)
    return _from_grid(0.5 * np.sum(squared * (vectors.T @ cross) ** 2 / grown - np.log(grown), 1), steps, mean, sd,
                      uniform)


def _one_more_of_b(model: SharedModel, theta: np.ndarray, group: Group, size: int) -> np.ndarray:
    """E with R_b(ρ + t) = R_b(ρ)(I + tE): the columns of b gain e^{−log(sd e/sd b)} times those of the e's, whose root
    has the row sums √(1 + (A − 2)κ)."""
    named = model.unravel(theta)
    alone = float(np.asarray(basis.together(named, model.arms - 1)).sum(1)[0])
    ratio = float(theta[list(group.ratio)].sum() + named["effect"])
    each, width = np.zeros((size, size)), len(group.outcome)
    for arm in range(1, model.arms):
        each[width * arm + np.arange(width), np.arange(width)] = math.exp(-ratio) / alone
    return each


def _new_share(gram: np.ndarray, cross: np.ndarray, each: np.ndarray, mean: float, sd: float,
               uniform: float) -> float:
    """t, the columns becoming z(I + tE)."""
    steps = GRID * sd
    by = np.eye(len(cross)) + steps[:, None, None] * each
    turned = np.swapaxes(by, 1, 2)
    root = np.linalg.cholesky(np.eye(len(cross)) + turned @ gram @ by)
    white = np.linalg.solve(root, (turned @ cross)[..., None])[..., 0]
    logs = np.log(np.diagonal(root, axis1=1, axis2=2))
    return _from_grid(0.5 * np.sum(white**2, 1) - logs.sum(1), steps, mean, sd, uniform)


def _from_grid(evidence: np.ndarray, steps: np.ndarray, mean: float, sd: float, uniform: float) -> float:
    """The step at which the distribution function, a density linear between the grid's points, is `uniform`."""
    log_density = evidence - 0.5 * ((steps - mean) / sd) ** 2
    density = np.exp(log_density - log_density.max())
    below = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(steps)))
    return float(np.interp(uniform * below[-1], below, steps))


def _changed(gram: np.ndarray, cross: np.ndarray, by: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return by.T @ gram @ by, by.T @ cross
