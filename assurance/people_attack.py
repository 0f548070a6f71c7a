"""Attacks on all that a fit tells, for any number of people: Gauss-Newton in as many dimensions as numbers were told.

    f(u)       every entry of T̃ and l of every draw, and the sums of columns and squares, of the unknowns u
    J          its derivative [K, F], by `gram_told.slopes`
    a step     Jᵀ(JJᵀ + μ)⁻¹ (told − f(u)), Levenberg-Marquardt's: of many tables that fit, one near the start
    the bound  sd_i² = 1 − [J⁺J]_ii: what is left of an unknown with a prior of one sd when K exact numbers are told

The bound is of the linearised problem at the truth: no attack that knows no more comes nearer, on average.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import gram_told
import jax
import jax.numpy as jnp
import numpy as np
from gram_told import Added, Sizes
from people_sites import Heard
from people_told import Listener

SMALL = 1e-10
"""Of J's largest singular value: directions below are rounding."""


LEVELS = (1e-1, 1e-3, 1e-6, 1e-9)
"""ε of the whitening, in turn."""
FINER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
"""The same for all that was told."""
TRIES = 6
"""Dampings of a step, each ten times the last."""


class Table(NamedTuple):
    rows: np.ndarray
    misfit: float


class Told(NamedTuple):
    """Numbers [K] in units of their own size, and their derivative in the free entries [K, F]."""

    values: np.ndarray
    slopes: np.ndarray


@partial(jax.jit, static_argnames=("model", "sizes", "added"))
def _draw(model: Any, sizes: Sizes, added: Added, vector: Any, rows: Any, root: Any) -> tuple[Any, Any]:
    """(numbers [K], derivative [N, K]) of one draw: the upper half of MT̃M, and l over people."""
    upper = jnp.triu_indices(len(root))
    now, found = gram_told.of_draw(model, sizes, vector, rows, added), gram_told.slopes(model, sizes, vector, rows,
                                                                                        added)
    a, b = found.a @ root, found.b @ root
    b = jnp.repeat(b, len(a) // len(b), 0)
    moved = a[:, upper[0]] * b[:, upper[1]] + b[:, upper[0]] * a[:, upper[1]]
    values = (root @ now.gram @ root)[upper]
    people = sum(sizes)
    return jnp.append(values, now.log_det / people), jnp.column_stack([moved, found.log_det / people])


def roots(heard: Heard, draws: np.ndarray, level: float) -> np.ndarray:
    """[L, q, q] M = (T̃ + εtI)^−½: every direction of what was told counts alike, down to ε of the largest."""
    return np.asarray(gram_told.whitening(jnp.asarray(np.asarray(heard.fit.told.gram)[draws]), level))


def told(heard: Heard, draws: np.ndarray, rows: np.ndarray, free: np.ndarray, level: float) -> Told:
    """Of a table `rows` [n, c]; `draws`: which."""
    fit, values, slopes = heard.fit, [], []
    for draw, root in zip(draws, roots(heard, draws, level), strict=True):
        now, moved = _draw(fit.model, fit.sizes, heard.added, fit.thetas[draw], jnp.asarray(rows), root)
        values.append(np.asarray(now))
        slopes.append(np.asarray(moved)[free.ravel()].T)
    opening, moved = _opening(rows, free)
    return Told(np.concatenate([*values, opening]), np.vstack([*slopes, moved]))


def _opening(rows: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and mean squares of all columns: what units are made of."""
    n, c = rows.shape
    first, second = np.zeros((c, n, c)), np.zeros((c, n, c))
    for k in range(c):
        first[k, :, k], second[k, :, k] = 1.0 / n, 2.0 * rows[:, k] / n
    moved = np.concatenate([first, second]).reshape(2 * c, -1)
    return np.concatenate([rows.mean(0), (rows**2).mean(0)]), moved[:, free.ravel()]


def goal(heard: Heard, draws: np.ndarray, level: float) -> np.ndarray:
    """The numbers as they were told."""
    gram, log_det = (np.asarray(part)[draws] for part in heard.fit.told)
    whole, truth = roots(heard, draws, level), heard.fit.truth
    upper = np.triu_indices(gram.shape[1])
    own = [np.append((root @ one @ root)[upper], value / len(truth))
           for one, root, value in zip(gram, whole, log_det, strict=True)]
    return np.concatenate([*own, truth.mean(0), (truth**2).mean(0)])  # of the truth only units and counts


def fitted(heard: Heard, draws: np.ndarray, free: np.ndarray, start: np.ndarray, steps: int) -> Table:
    """From a start, all that is free moved until it fits all that was told: first its large directions, then all."""
    table = Table(np.where(free, start, heard.fit.truth), np.inf)
    for level in LEVELS:
        table = _descended(heard, draws, free, table.rows, steps, level)
    return table


def _descended(heard: Heard, draws: np.ndarray, free: np.ndarray, rows: np.ndarray, steps: int, level: float) -> Table:
    """Until no damping helps."""
    aim, unit = goal(heard, draws, level), np.broadcast_to(heard.fit.spread, free.shape)[free]
    here, damping = told(heard, draws, rows, free, level), 1e-4
    for _ in range(steps):
        gap, slopes = aim - here.values, here.slopes * unit
        if np.linalg.norm(gap) < SMALL:
            break
        for _ in range(TRIES):
            tried = rows.copy()
            tried[free] += unit * _step(slopes, gap, damping)
            there = told(heard, draws, tried, free, level)
            if np.linalg.norm(aim - there.values) < 0.999 * np.linalg.norm(gap):
                break
            damping *= 10.0
        else:
            break
        rows, here, damping = tried, there, damping / 5.0
    return Table(rows, float(np.linalg.norm(aim - here.values)))


def _step(slopes: np.ndarray, gap: np.ndarray, damping: float) -> np.ndarray:
    """(JᵀJ + μ)⁻¹Jᵀ gap, by whichever of JᵀJ and JJᵀ is smaller; nobody moves by more than one sd."""
    wide = slopes.shape[0] <= slopes.shape[1]
    square = slopes @ slopes.T if wide else slopes.T @ slopes
    heavy = square + (damping * np.linalg.norm(square, 2) + 1e-14) * np.eye(len(square))
    step = slopes.T @ np.linalg.solve(heavy, gap) if wide else np.linalg.solve(heavy, slopes.T @ gap)
    return np.asarray(step / max(1.0, float(np.abs(step).max())))


def bound(heard: Heard, draws: np.ndarray, free: np.ndarray) -> np.ndarray:
    """[F] sd of each free entry, in its own, at best."""
    unit = np.broadcast_to(heard.fit.spread, free.shape)[free]
    slopes = told(heard, draws, heard.fit.truth, free, LEVELS[-1]).slopes * unit
    _, values, vectors = np.linalg.svd(slopes, full_matrices=False)
    known = np.sum(vectors[values > 1e-9 * values[0]] ** 2, 0)
    return np.sqrt(np.maximum(1.0 - known, 0.0))


# --- all that was told: gradients, effects and each site's own averages too


class Column(NamedTuple):
    """A column that was looked for, and how badly it fits all that was told, in units of the numbers' sizes."""

    values: np.ndarray
    misfit: float


def whitened(slopes: np.ndarray, level: float) -> np.ndarray:
    """(JJᵀ + εtI)^−½: every combination of the numbers counts by how much it moves, down to ε of the largest."""
    values, vectors = np.linalg.eigh(slopes @ slopes.T)
    return (vectors / np.sqrt(np.maximum(values, 0.0) + level * values[-1])) @ vectors.T


def by_least_squares(listener: Listener, start: np.ndarray, steps: int) -> Column:
    """Levenberg-Marquardt on all that was told, one column unknown: first its large directions, then all."""
    aim, column = listener.told(), start
    unit = listener.units()
    for level in FINER:
        column = _least_squares(listener, aim, unit, column, steps, level)
    return Column(column, _misfit(listener, aim, unit, column))


def _least_squares(listener: Listener, aim: np.ndarray, unit: np.ndarray, column: np.ndarray, steps: int,
                   level: float) -> np.ndarray:
    damping = 1e-2
    for _ in range(steps):
        parts = listener.parts(column)
        slopes = np.vstack([part.slopes for part in parts]) / unit[:, None]
        white = whitened(slopes, level)
        gap = white @ ((aim - np.concatenate([part.values for part in parts])) / unit)
        left, sizes, right = np.linalg.svd(white @ slopes, full_matrices=False)
        along = left.T @ gap
        for _ in range(2 * TRIES):
            step = right.T @ (sizes / (sizes**2 + damping * sizes[0] ** 2) * along)
            tried = column + step / max(1.0, float(np.abs(step).max()))
            if np.linalg.norm(white @ ((aim - listener.values(tried)) / unit)) < 0.9999 * np.linalg.norm(gap):
                break
            damping *= 4.0
        else:
            return column
        column, damping = tried, max(damping / 8.0, 1e-12)
    return column


def by_descent(listener: Listener, start: np.ndarray, steps: int, rate: float = 0.05) -> Column:
    """Adam on the same misfit, ever finer."""
    aim, column, unit = listener.told(), start, listener.units()
    for level in FINER:
        column = _descent(listener, aim, unit, column, steps, rate, level)
    return Column(column, _misfit(listener, aim, unit, column))


def _descent(listener: Listener, aim: np.ndarray, unit: np.ndarray, column: np.ndarray, steps: int, rate: float,
             level: float) -> np.ndarray:
    first, second = np.zeros_like(column), np.zeros_like(column)
    white = whitened(np.vstack([part.slopes for part in listener.parts(column)]) / unit[:, None], level)
    for k in range(1, steps + 1):
        away = white @ (white @ ((listener.values(column) - aim) / unit))
        gradient = listener.pulled(column, away / unit)
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        step = (first / (1.0 - 0.9**k)) / (np.sqrt(second / (1.0 - 0.99**k)) + 1e-12)
        column = column - rate * (1.0 - k / (steps + 1.0)) * step
    return column


def _misfit(listener: Listener, aim: np.ndarray, unit: np.ndarray, column: np.ndarray) -> float:
    return float(np.sqrt(np.mean(((listener.values(column) - aim) / unit) ** 2)))


def near(column: np.ndarray, truth: np.ndarray, seed: int = 0) -> tuple[int, float]:
    """(people within 0.1 sd, the same of shuffled columns)."""
    rng = np.random.default_rng(seed)
    shuffled = [np.count_nonzero(np.abs(rng.permutation(column) - truth) < 0.1) for _ in range(100)]
    return int(np.count_nonzero(np.abs(column - truth) < 0.1)), float(np.mean(shuffled))


# --- outcomes


ROUNDED = 1e-6
"""Of a number in a masked sum, what its 40 bits leave open (they were off by 3e-7 at the median, 2e-6 at most)."""


def outcomes(heard: Heard, draws: np.ndarray) -> np.ndarray:
    """[n] whoever knows all covariates and arms: every v = ZᵀC⁻¹ỹ and the outcome's mean, each to its rounding, and
    that ỹ lies about its regression (which the sums give): the mean of ỹ given all that, in model units."""
    fit = heard.fit
    weights = [np.asarray(_weights(fit.model, fit.sizes, heard.added, fit.thetas[draw], jnp.asarray(fit.truth)))
               for draw in draws]
    gram = np.asarray(fit.told.gram)[draws]
    n = len(fit.truth)
    matrix = np.vstack([*(own.T for own in weights), np.ones((1, n)) / n])
    right = np.append(gram[:, :-1, -1].ravel(), fit.truth[:, -1].mean())
    x, y = fit.truth[:, :-1], fit.truth[:, -1]
    x = np.column_stack([np.ones(n), x, x[:, :-1] * x[:, -1:]])
    about = x @ np.linalg.lstsq(x, y, rcond=None)[0]
    known = np.vstack([matrix, ROUNDED / np.std(y - about) * np.eye(n)])
    return about + np.linalg.lstsq(known, np.append(right - matrix @ about, np.zeros(n)), rcond=None)[0]


@partial(jax.jit, static_argnames=("model", "sizes", "added"))
def _weights(model: Any, sizes: Sizes, added: Added, vector: Any, rows: Any) -> Any:
    theta = model.unravel(vector)
    return jnp.concatenate([gram_told.of_site(model, theta, own, noise)[1][:, :-1]
                            for own, noise in gram_told.each_site(rows, sizes, added)])


# --- memberships


def memberships(heard: Heard, others: np.ndarray, seed: int = 0) -> tuple[int, float]:
    """(members named at a price of one wrong in a thousand, beyond chance; the share of right answers to "which of
    these two was in it?"): one who has the whole row of a person, and knows the population better than the study does.

    Each person's score is the change that his own row makes to f, as the told sums depart from the population's: the
    likelihood ratio, for sums of many people. `others` [m, c]: people of the population who were not in the study.
    """
    fit = heard.fit
    theta = fit.thetas[-1]
    told_here, half = _moments(heard, theta, fit.truth), len(others) // 2
    outside, reference = _moments(heard, theta, others[:half]), _moments(heard, theta, others[half:])
    mean, spread = reference.mean(0), np.cov(reference.T)
    values, vectors = np.linalg.eigh(spread)
    root = vectors[:, values > SMALL * values[-1]] / np.sqrt(values[values > SMALL * values[-1]])
    away = (told_here.mean(0) - mean) @ root
    inside, out = ((part - mean) @ root @ away for part in (told_here, outside))
    limit = np.quantile(out, 0.999)
    expected = 0.001 * len(inside)
    beyond = int((inside > limit).sum() - np.ceil(expected + 3.0 * np.sqrt(2.0 * expected)))
    return max(0, beyond), float((inside[:, None] > out[None]).mean())


def _moments(heard: Heard, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """[n, K] each person's own part z zᵀ of the sums, the outcome's among them (the noise that sites share has no part
    of one person's)."""
    model = heard.fit.model
    z = np.asarray(gram_told.design(model, model.unravel(jnp.asarray(theta)), jnp.asarray(rows)))
    upper = np.triu_indices(z.shape[1])
    return z[:, upper[0]] * z[:, upper[1]]
