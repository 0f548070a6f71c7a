"""Everybody's rows from Gram matrices: Levenberg-Marquardt on whitened misfits, annealed, many starts, moves and swaps.

    found = attacked(recorded, free, plan)           rows [n, d + 2], the best of all starts
    score(found.rows, recorded, free)                people recovered, beside what shuffled columns would score

What is compared is (T̃ + εtI)^−½ (T̃(rows) − T̃°) (T̃ + εtI)^−½: first the large directions of T̃ (its levels and lines),
then, as ε falls, its smallest ones, which only the right table has. Rows are pulled to the known means and spreads as
strongly as a noise of size ε would let them be. Under noise τ the last stage weighs by that noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gram_told
import jax
import jax.numpy as jnp
import numpy as np
from gram_record import Recorded
from gram_told import Told
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment

NEAR = 0.1
"""Of a column's sd: so near, a person counts as recovered."""
DAMPINGS = np.array([1e-2, 0.3, 10.0, 300.0])
"""Times the last good one, tried side by side."""
LONGEST = 1.0
"""Of a step, in sds of a column."""
WIDTHS = (1.0, 0.3)
"""Of the starts, in turn: as wide as people are, and near the mean, where fewer people stand in each other's place.
"""
SHUFFLES = 20

Rows = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How hard it is tried."""

    draws: int = 16
    """Of all that were told, evenly spread over the fit."""
    starts: int = 8
    stages: int = 12
    """ε = 10⁻¹, …, 10^−stages."""
    steps: int = 12
    """Of each stage."""
    polish: int = 60
    """Steps of the last stage."""
    moves: int = 0
    """Batches of moves and swaps of single people, after the starts."""
    tau: float = 0.0
    """The noise on what was told, which the attacker knows; 0: none."""
    shape: str = "entry"
    seed: int = 0


class Stage(NamedTuple):
    roots: Float[Array, "L q q"]
    pull: float
    """Of the prior: the square of the noise that is reckoned with."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is fitted: some draws, some entries free, the others known."""

    recorded: Recorded
    thetas: Array
    goal: Told
    free: np.ndarray
    """[n, d + 2] bool."""


class Found(NamedTuple):
    rows: Rows
    misfit: float
    """Of the last stage, its pull included."""


# --- what is known

def free_entries(recorded: Recorded, known: str, person: int = 0) -> np.ndarray:
    """[n, d + 2]: what the attacker has to find. 'nothing', 'column' (all but the second), 'person', 'outcomes'."""
    free = np.zeros(recorded.truth.shape, bool)
    if known == "nothing":
        free[:] = True
    elif known == "column":
        free[:, 1] = True
    elif known == "person":
        free[person] = True
    elif known == "outcomes":
        free[:, -1] = True
    else:
        raise ValueError(f"known = {known!r}: needs nothing, column, person or outcomes")
    return free


def spread_over(count: int, draws: int) -> np.ndarray:
    """So many of `count` draws, evenly, the last among them."""
    return np.unique(np.linspace(count - 1, 0, min(draws, count)).round().astype(int))


UNITS: dict[str, Callable[[Any], Any]] = {"entry": gram_told.by_entry, "sampling": gram_told.by_sampling}
"""In which noise is shaped: √(T_ii T_jj), or as the sampling error."""


def noised(told: Told, tau: float, shape: str, seed: int, people: int) -> Told:
    """T̃ + τ M⁻¹GM⁻¹ with G symmetric and standard normal, √2 on its diagonal; l + τn·normal. As each draw was told."""
    if tau == 0.0:
        return told
    rng, gram = np.random.default_rng((seed, 31)), np.asarray(told.gram)
    units = np.linalg.inv(np.asarray(UNITS[shape](jnp.asarray(gram))))
    g = rng.standard_normal(gram.shape)
    return Told(gram + tau * units @ ((g + g.swapaxes(1, 2)) / np.sqrt(2.0)) @ units,
                np.asarray(told.log_det) + tau * people * rng.standard_normal(len(gram)))


def stages(task: Task, plan: Plan) -> list[Stage]:
    """From coarse to fine."""
    gram = _positive(task.goal.gram)
    levels = [10.0 ** -k for k in range(1, plan.stages + 1) if 10.0 ** -k > plan.tau]
    coarse = [Stage(gram_told.whitening(gram, level), level**2) for level in levels]
    return coarse + ([Stage(UNITS[plan.shape](gram), plan.tau**2)] if plan.tau else [])


def _positive(gram: Array) -> Array:
    """The nearest matrices whose units make sense: noise may have left some directions below zero."""
    values, vectors = jnp.linalg.eigh(gram)
    return jnp.einsum("lij,lj,lkj->lik", vectors, jnp.maximum(values, 1e-14 * values[:, -1:]), vectors)


# --- Levenberg-Marquardt

@partial(jax.jit, static_argnames=("model", "sizes"))
def _step(model: Any, sizes: Any, thetas: Array, goal: Told, stage: Stage, rows: Array, prior: tuple[Array, Array],
          free: Array, damping: Array) -> tuple[Array, Array]:
    """(candidates [m, n, c], their misfits): one for each damping."""
    found, (centre, spread) = gram_told.normal(model, sizes, thetas, rows, goal, stage.roots), prior
    unit = (free * jnp.broadcast_to(spread[None], rows.shape)).ravel()
    away = ((rows - centre[None]) / spread[None]).ravel()
    matrix = found.matrix * unit[:, None] * unit[None] + stage.pull * jnp.eye(len(unit))
    slope = unit * found.gradient + stage.pull * free.ravel() * away

    def candidate(mu: Array) -> Array:
        heavy = matrix + jnp.diag(mu * jnp.maximum(jnp.diag(matrix), 1e-12))
        step = -jnp.linalg.solve(heavy, slope) * free.ravel()
        longest = jnp.max(jnp.abs(step))
        return rows + (unit * step * jnp.minimum(1.0, LONGEST / longest)).reshape(rows.shape)

    made = jax.lax.map(candidate, damping)
    return made, _misfits(model, sizes, thetas, goal, stage, made, prior, free)


@partial(jax.jit, static_argnames=("model", "sizes"))
def _misfits(model: Any, sizes: Any, thetas: Array, goal: Told, stage: Stage, candidates: Array,
             prior: tuple[Array, Array], free: Array) -> Array:
    centre, spread = prior
    away = free[None] * (candidates - centre[None, None]) / spread[None, None]
    pull = 0.5 * stage.pull * jnp.sum(away**2, (1, 2))
    found = gram_told.misfits(model, sizes, thetas, candidates, goal, stage.roots) + pull
    return jnp.where(jnp.isfinite(found), found, jnp.inf)


def _prior(task: Task) -> tuple[Array, Array]:
    return jnp.asarray(task.recorded.centre), jnp.asarray(task.recorded.spread)


def misfits(task: Task, stage: Stage, candidates: np.ndarray) -> np.ndarray:
    """Of each candidate table."""
    at = task.recorded
    return np.asarray(_misfits(at.model, at.sizes, task.thetas, task.goal, stage, jnp.asarray(candidates),
                               _prior(task), jnp.asarray(1.0 * task.free)))


def descended(task: Task, stage: Stage, rows: Rows, steps: int, settled: float = 1e-4) -> Found:
    """Until no damping helps, or a step gains less than `settled` of the misfit."""
    at, mu, misfit = task.recorded, 1e-2, float(misfits(task, stage, rows[None])[0])
    for _ in range(steps):
        made, values = _step(at.model, at.sizes, task.thetas, task.goal, stage, jnp.asarray(rows), _prior(task),
                             jnp.asarray(1.0 * task.free), jnp.asarray(mu * DAMPINGS))
        best = int(np.argmin(values))
        if not values[best] < misfit:
            if mu > 1e6:
                break
            mu *= 1e3
            continue
        gain, rows = 1.0 - float(values[best]) / misfit, np.asarray(made[best])
        misfit, mu = float(values[best]), float(np.clip(mu * DAMPINGS[best], 1e-12, 1e8))
        if gain < settled:
            break
    return Found(rows, misfit)


def annealed(task: Task, plan: Plan, rows: Rows) -> Found:
    """From one start through all stages."""
    course = stages(task, plan)
    for stage in course[:-1]:
        rows = descended(task, stage, rows, plan.steps, 1e-2).rows
    return descended(task, course[-1], rows, plan.polish)


def start(task: Task, rng: np.random.Generator, width: float = 1.0) -> Rows:
    """What is known; the rest drawn from what anyone knows: means, spreads (times `width`), the number of the treated.
    """
    at = task.recorded
    rows = at.centre + width * at.spread * rng.standard_normal(at.truth.shape)
    rows[:, -2] = rng.permutation(np.arange(len(rows)) < at.treated)
    return np.where(task.free, rows, at.truth)


# --- single people moved and swapped

def moved(task: Task, best: Found, others: list[Found], rng: np.random.Generator, count: int) -> np.ndarray:
    """Tables that differ from the best in one or two people: another start's row, a new one, the other arm, columns
    of two people exchanged, or their places, and so perhaps their sites."""
    made = np.repeat(best.rows[None], count, 0)
    for rows in made:
        k, j = rng.choice(len(rows), 2, replace=len(rows) < 2)
        kind = rng.integers(5)
        if kind == 0:
            rows[k] = others[rng.integers(len(others))].rows[rng.integers(len(rows))]
        elif kind == 1:
            rows[k] = start(task, rng)[k]
        elif kind == 2:
            rows[k, -2] = 1.0 - rows[k, -2]
        else:  # all columns: two people change places, and so perhaps their sites
            some = rng.uniform(size=rows.shape[1]) < (0.5 if kind == 3 else 1.0)
            rows[k, some], rows[j, some] = rows[j, some].copy(), rows[k, some].copy()
    return np.where(task.free[None], made, task.recorded.truth[None])


def searched(task: Task, plan: Plan, ends: list[Found], rng: np.random.Generator) -> Found:
    """The best end, and what a descent from its most promising moves comes to; a better one takes its place."""
    ends = sorted(ends, key=lambda found: found.misfit)
    best, course = ends[0], stages(task, plan)
    coarse = course[len(course) // 2]
    for _ in range(plan.moves):
        tries = moved(task, best, ends, rng, 32)
        for k in np.argsort(misfits(task, coarse, tries))[:2]:
            rows = descended(task, coarse, tries[k], plan.steps, 1e-2).rows
            found = descended(task, course[-1], rows, plan.polish)
            best = found if found.misfit < best.misfit else best
    return best


def task_of(recorded: Recorded, free: np.ndarray, plan: Plan) -> Task:
    """Of the draws of the plan, as they were told: noised, if the plan says so."""
    heard = noised(recorded.told, plan.tau, plan.shape, plan.seed, len(recorded.truth))
    places = spread_over(len(recorded.thetas), plan.draws)
    return Task(recorded=recorded, free=free, thetas=jnp.asarray(recorded.thetas[places]),
                goal=Told(*(jnp.asarray(np.asarray(part)[places]) for part in heard)))


def attacked(recorded: Recorded, free: np.ndarray, plan: Plan) -> Found:
    rng, task = np.random.default_rng(plan.seed), task_of(recorded, free, plan)
    ends = [annealed(task, plan, start(task, rng, WIDTHS[k % len(WIDTHS)])) for k in range(plan.starts)]
    return searched(task, plan, ends, rng)


def each_person(recorded: Recorded, people: list[int], plan: Plan) -> Rows:
    """The truth, but for these people, of whom each was looked for with all others known."""
    rows = recorded.truth.copy()
    for person in people:
        rows[person] = attacked(recorded, free_entries(recorded, "person", person), plan).rows[person]
    return rows


def outcomes(recorded: Recorded, plan: Plan) -> Rows:
    """Covariates and arms known: v = ZᵀC⁻¹y is linear in y, and least squares finds it."""
    task = task_of(recorded, free_entries(recorded, "outcomes"), plan)
    rows = jnp.asarray(recorded.truth)
    weights = jax.lax.map(lambda theta: gram_told.slopes(recorded.model, recorded.sizes, theta, rows).b[:, :-1].T,
                          task.thetas)
    units = np.sqrt(np.asarray(jnp.diagonal(task.goal.gram, axis1=1, axis2=2)))
    units = np.where(units > 0.0, units, 1.0)  # before γ is known its column is 0
    matrix = (np.asarray(weights) / units[:, :-1, None]).reshape(-1, len(rows))
    told = (np.asarray(task.goal.gram)[:, :-1, -1] / units[:, :-1]).ravel()
    noise = plan.tau * np.repeat(units[:, -1], units.shape[1] - 1)
    if plan.tau:
        matrix = np.vstack([matrix / noise[:, None], np.eye(len(rows))])
        told = np.append(told / noise, np.zeros(len(rows)))
    found = np.linalg.lstsq(matrix, told, rcond=1e-13)[0]
    return np.column_stack([recorded.truth[:, :-1], found])


# --- how many people were recovered

class Score(NamedTuple):
    """People, of so many; and what shuffled columns score, on average."""

    people: int
    near: int
    """Within 0.1 sd in every column that had to be found."""
    exact: int
    """Right in every column, once rounded as the columns are written down."""
    chance_near: float
    chance_exact: float


def score(rows: Rows, recorded: Recorded, free: np.ndarray, seed: int = 0, paired: bool | None = None) -> Score:
    """`paired`: the attacker knows whose row he looks for; none: where something of everybody is known."""
    rng = np.random.default_rng((seed, 77))
    columns, people = free.any(0), free.any(1)
    found, truth = rows[people][:, columns], recorded.truth[people][:, columns]
    unit, step = recorded.spread[columns], recorded.steps[columns]
    pooled = recorded.truth[:, columns]
    matched = bool(free.all()) if paired is None else not paired
    guesses = [np.column_stack([rng.permutation(column)[:len(found)] for column in pooled.T]) for _ in range(SHUFFLES)]
    counts = [counted(guess, truth, unit, step, matched) for guess in guesses]
    return Score(int(people.sum()), *counted(found, truth, unit, step, matched), *np.mean(counts, 0).tolist())


def counted(found: Rows, truth: Rows, unit: np.ndarray, step: np.ndarray, matched: bool) -> tuple[int, int]:
    """(near, exact); `matched`: nobody knows whose row it is, and rows are paired so that most are near."""
    away = np.abs(found[:, None] - truth[None])
    near, exact = (away <= NEAR * unit).all(2), (away <= 0.5 * step).all(2)
    if not matched:
        return int(np.diag(near).sum()), int(np.diag(exact).sum())
    return tuple(int(hits[linear_sum_assignment(hits, maximize=True)].sum()) for hits in (near, exact))
