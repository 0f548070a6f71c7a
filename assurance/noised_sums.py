"""What sums with noise (`policy.sum_noise`) leave of a person: the local bound, and attacks on what leaves real sites.

    python assurance/noised_sums.py [--noise 0.25 0.5 1]                      the table of docs/security.md
    python assurance/noised_sums.py ROW [--quick]                             a row of `make assurance`

Three masked sites behind doors, as small as `standard` lets them take part, five covariates (normal, normal, t₂,
lognormal, 0/1), outcomes with tails; somebody far beyond all cuts in each arm. The attacker is the coordinator, with
all that it opened (`noised_doors`), and a site works with it: its part is known and taken away. In sds of the noise
that is owed, as `told` reckons it of people:

    over sites   means Σx, Σy of each arm · squares Σ(x − c)² · products of (1, x, y) in each arm, own levels taken out
    of each      Σx, Σy of each arm, from the effects

The bound: 1/√(information) of each value to one who knows all else, in sds. Of a column of 0 and 1, and of the arm,
how often the best test of one value against the other is wrong. The attacks know nothing, everything but one column (or
the outcome), or everybody but one person; they look for the likeliest values, each number weighed by its noise,
annealed, from many starts. Who is found to 0.1 sd, beside what shuffled columns and a regression on what is known find,
which is what averages tell of everybody.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from math import ceil, sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import noised_doors
import numpy as np
import pandas as pd
from noised_doors import Heard, owed, solved_sums, squares_owed, upper
from people_sites import met
from scipy.optimize import least_squares, linear_sum_assignment, minimize
from scipy.stats import norm

import fedci  # noqa: F401  (64 bits)
from fedci.benchmark.cost.noise_cost import unrefused
from fedci.model.families import model_of
from fedci.model.shared import dictionary, sum_noise
from fedci.model.shared.dictionary import Point, Stage
from fedci.site.noising import FARTHEST
from fedci.study.options import preset, with_noise
from fedci.study.policy import POLICIES

COLUMNS, SITES = 5, 3
CLOSE, WIDER = 0.1, 0.5
"""Sds of a column within which a person counts as found; of whole rows, from nothing, within more too."""
SUM_NOISE = POLICIES["standard"].sum_noise
NAMES = ("normal", "normal", "t with 2 degrees", "lognormal", "0/1", "outcome")
LITTLE = 1e-4
"""Of the noise, in a control: less would be below the jitter of the package's own sums."""
WORKS_WITH = ("site-0",)
"""The site that works with the coordinator."""
LIMIT = 6.0
"""Sds beyond which nobody is looked for."""


def model_at(noise: float) -> Any:
    options = with_noise(preset("few", {"model": {"exact_rows": 10**6}}), noise, True).model
    return model_of(options, COLUMNS, COLUMNS, SITES)


def people(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, w, y) in model units, clipped: `count` of each arm."""
    rng = np.random.default_rng(seed)
    n = 2 * count
    x = np.column_stack([rng.standard_normal((n, 2)), rng.standard_t(2, n), np.exp(rng.standard_normal(n)),
                         rng.random(n) < 0.3])
    x = (x - x.mean(0)) / np.append(x[:, :-1].std(0), 0.5)
    w = np.tile([0.0, 1.0], count)
    y = 0.6 * x[:, 0] + 0.3 * x[:, 2] + 0.5 * w + 0.5 * rng.standard_t(3, n)
    y = (y - y.mean()) / y.std()
    x[:2], y[:2] = sum_noise.CLIP_X, sum_noise.CLIP_Y
    return (np.clip(x, -sum_noise.CLIP_X, sum_noise.CLIP_X), w, np.clip(y, -sum_noise.CLIP_Y, sum_noise.CLIP_Y))


def told(model: Any, x: Any, w: Any, y: Any, cut: Any = FARTHEST) -> Any:
    """[K] all that a site's people add to what is told, each number in sds of the noise that is owed; last the sums of
    its arms. `cut`: of squares, in the column's sd at the site; products and arms have the model's own cuts."""
    both, arms = jnp.column_stack([x, y]), jnp.stack([1.0 - w, w])
    x, y = cut_at(x, sum_noise.CLIP_X), cut_at(y, sum_noise.CLIP_Y)
    edge = jnp.broadcast_to(jnp.asarray(cut), both.shape)
    squares = jnp.sum(cut_at(both, edge) ** 2, 0) / squares_owed(model)
    means = jnp.concatenate([jnp.sum(both[:, :-1], 0), arms @ both[:, -1]]) / owed(model, "means")
    by_arm = arms @ jnp.column_stack([x, y]) / owed(model, "effects")
    point = Point(model.ravel(model.ridge))
    return jnp.concatenate([means, squares, _products(model, point, x, arms, y), by_arm.ravel()])


def cut_at(values: Any, most: Any) -> Any:
    """Whoever stands at a cut still moves with it: else half of what is told of him would be lost."""
    return jnp.clip(values, -most - 1e-9, most + 1e-9)


OF_ARMS = 2 * (COLUMNS + 1)
"""The last numbers of `told`, of each site by itself."""


def _products(model: Any, point: Point, x: Any, arms: Any, y: Any) -> Any:
    """σ̂²·c·G·c/τ, its upper half: Σ f fᵀ less what the own levels take, Zᵀ the arms. (σ̂² is of what is told of an
    outcome, its noise with it.)"""
    f = columns(model, point, x, arms, y)
    noise, theta = _noise(model, point)
    inner = noise * jnp.linalg.inv(sum_noise.own_variance(model, theta)) + jnp.diag(arms.sum(1))
    level = arms @ f
    gram = f.T @ f - level.T @ jnp.linalg.solve(inner, level)
    return upper(gram) / sum_noise.noise_of(model)


def _noise(model: Any, point: Point) -> tuple[Any, Any]:
    theta = model.unravel(jnp.asarray(point.vector))
    return dictionary.noise_level(theta), theta


def columns(model: Any, point: Point, x: Any, arms: Any, y: Any) -> Any:
    """[n, D + 1] (c·F̃, y)."""
    theta, by = _noise(model, point)[1], dictionary.of(model, Stage.FIRST)
    c = sum_noise._scale(model, jnp.asarray(point.vector))
    seen = by.layout.omega(theta, x)
    return jnp.column_stack([by.layout.weighed(theta, seen, arms.T) * c[None], y])


def is_the_packages(model: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    """The products above are those that a site answers with."""
    point = Point(model.ravel(model.ridge))
    rows = model.rows(x, w, y, np.zeros(1), 0)
    no = dict.fromkeys(("stage", "matched"), np.array(0.0))
    sums = model.answer("AskProducts", {"point": point.packed, **no}, rows, None).sums
    own = dictionary.noise_level(model.unravel(jnp.asarray(point.vector)))
    c, width = sum_noise.scale_of(model, point), len(sums["cross"])
    found = np.asarray(_products(model, point, jnp.asarray(x), jnp.stack([1.0 - w, w]), jnp.asarray(y)))
    rows_of, columns = np.triu_indices(width + 1)
    cross = found[(columns == width) & (rows_of < width)] * sum_noise.noise_of(model)
    np.testing.assert_allclose(cross, sums["cross"] * c * own, rtol=1e-5, atol=1e-5 * np.abs(cross).max())


def bound(model: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray, left: float = 1.0) -> np.ndarray:
    """[n, d + 1] sd to which each value is left open; `left`: of the noise on sums over sites (`left_of_noise`)."""
    def weighed(a: Any, b: Any) -> Any:
        found = told(model, a, jnp.asarray(w), b)
        return jnp.concatenate([found[:-OF_ARMS] / left, found[-OF_ARMS:]])

    by_x, by_y = jax.jacrev(weighed, (0, 1))(jnp.asarray(x), jnp.asarray(y))
    information = np.column_stack([np.sum(np.asarray(by_x) ** 2, 0), np.sum(np.asarray(by_y) ** 2, 0)])
    return 1.0 / np.sqrt(information)


def left_of_noise(sites: int, colluding: int) -> float:
    """Of the noise that is owed, when so many sites of a masked study take theirs away: √((m − k)/(m − 1)). Whoever
    they work with learns a value to s times this, in sds, at best."""
    return sum_noise.part_of(sites, True) * sqrt(sites - colluding)


def wrong(model: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(of the 0/1 column, of the arm): how often the best test is wrong, of some people."""
    here = told(model, x, w, y)

    @jax.jit
    def away(i: Any, moved: Any, arm: Any) -> Any:
        there = told(model, jnp.asarray(x).at[i, -1].set(moved), jnp.asarray(w).at[i].set(arm), y)
        return jnp.linalg.norm(there - here)

    values = np.unique(x[2:, -1])
    column = [float(away(i, values[0] if x[i, -1] > values.mean() else values[-1], w[i])) for i in some]
    arm = [float(away(i, x[i, -1], 1.0 - w[i])) for i in some]
    return norm.cdf(-0.5 * np.array(column)), norm.cdf(-0.5 * np.array(arm))


# --- the attacks


class People(NamedTuple):
    """Everybody at the sites that do not collude, site after site; the arms are known, for people of an arm are not
    told apart before they are found."""

    rows: np.ndarray
    """[n, d + 1] x and y in model units, not cut."""
    arms: np.ndarray
    ends: tuple[int, ...]
    """Where sites end, but the last."""
    cuts: np.ndarray
    """[sites, d + 1] of squares."""


class Material(NamedTuple):
    """What an attacker has."""

    model: Any
    whom: People
    numbers: np.ndarray
    """[K] as they were told."""
    noise: np.ndarray
    """[K] what is on them, in the units of `told`."""


class Found(NamedTuple):
    near: int
    """People found to CLOSE in every column that was looked for."""
    chance: float
    """By a regression on what is known, by shuffled columns, by other people of the same population: the best."""
    people: int

    @property
    def beyond(self) -> int:
        """More than chance and three of its standard deviations."""
        return max(0, self.near - ceil(self.chance + 3.0 * sqrt(self.chance)))


def material(heard: Heard, colluding: Sequence[str] = WORKS_WITH) -> Material:
    """Of a study that was overheard; spreads of columns at the sites, which noise and cuts are measured by, are known.
    """
    honest = heard.honest(colluding)
    parts = [heard.truth[site] for site in honest]
    sds = np.stack([part.rows.std(0) for part in parts])
    whom = People(np.concatenate([part.rows for part in parts]), np.concatenate([part.arms for part in parts]),
                  tuple(np.cumsum([len(part.arms) for part in parts])[:-1].tolist()), FARTHEST * sds)
    solved = np.concatenate([one.error.ravel() for one in solved_sums(heard, colluding).values()])
    of_arms = np.hypot(1.0, solved / owed(heard.model, "effects"))
    return Material(heard.model, whom, heard.numbers(colluding), np.append(noise_on(heard, sds), of_arms))


def noise_on(heard: Heard, sds: np.ndarray) -> np.ndarray:
    """[K] on sums over sites, from spreads [honest sites, d + 1] of columns at each."""
    part, honest = sum_noise.part_of(len(heard.sites), True), len(sds)
    means, squares = (part * np.sqrt(np.sum(sds**power, 0)) for power in (2, 4))
    width = dictionary.of(heard.model, Stage.FIRST).columns + 1
    products = np.full(width * (width + 1) // 2, part * sqrt(honest))
    return np.concatenate([means[:-1], [means[-1]] * 2, squares, products])


def from_doors(treated: int, untreated: int, noise: float = SUM_NOISE, sites: int = SITES, seed: int = 7,
               **more: Any) -> Heard:
    """A whole study under `standard`; with another noise one that nobody would let through."""
    rows = noised_doors.tables(treated, untreated, sites, seed, **more)
    as_it_is = noise == SUM_NOISE
    policy = "standard" if as_it_is else {"name": "simulation", "sum_noise": noise, "secure_sum": "auto"}
    study = noised_doors.planned(tuple(rows), policy=policy)
    with nullcontext() if as_it_is else unrefused(), met(study, rows) as parties:
        return noised_doors.overheard(parties)


def admitted(sites: int = SITES, seed: int = 7, far: bool = True) -> Heard:
    """As small as sites may be: as few treated as the noise is measured for, as many others as it asks for in all."""
    options = with_noise(preset("few"), SUM_NOISE, True).model
    model = model_of(options, COLUMNS, COLUMNS, sites)
    treated, people = model.arm_needed, -(-model.people_needed // sites)
    return from_doors(treated, people - treated, sites=sites, seed=seed, far=far)


def sums(model: Any, whom: People, rows: Any) -> Any:
    """[K] of all honest sites, and then each one's arms, in sds of the noise that is owed."""
    parts = zip(jnp.split(rows, whom.ends), np.split(whom.arms, whom.ends), whom.cuts, strict=True)
    each = [told(model, part[:, :-1], jnp.asarray(w), part[:, -1], cut) for part, w, cut in parts]
    return jnp.concatenate([sum(one[:-OF_ARMS] for one in each), *(one[-OF_ARMS:] for one in each)])


COARSE = 30.0
"""In the units of what noise should be: misfits count little at first, and the prior much."""


def tempers(noise: float) -> np.ndarray:
    """Times the noise, from coarse to none."""
    return np.geomspace(COARSE / noise, 1.0, 4 + int(np.ceil(-np.log10(noise))))


def likeliest(task: Material, free: np.ndarray, noise: float, starts: int, seed: int) -> np.ndarray:
    """[n, d + 1] of the best of all starts: misfits in their own noise, the prior of each free value normal, annealed.
    Where more was told than is looked for, the last steps are Levenberg's and Marquardt's. Where nothing is known, the
    most likely people are all alike: there each start is of people as they are in each column by itself, shuffled, and
    what moves them least to fit what was told is looked for.

    noise    of what it should be: where annealing ends
    """
    model, whom, seen, rng = task.model, task.whom, task.numbers, np.random.default_rng((seed, 2))
    known, places = jnp.asarray(whom.rows), np.flatnonzero(free)

    def rows_of(u: Any) -> Any:
        return known.ravel().at[places].set(u).reshape(known.shape)

    @jax.jit
    def misfit(u: Any, around: Any, temper: Any) -> Any:
        away = (sums(model, whom, rows_of(u)) - seen) / (task.noise * temper)
        return 0.5 * jnp.sum(away**2) + 0.5 * jnp.sum((u - around) ** 2)

    slope = jax.jit(jax.value_and_grad(misfit))
    residuals = jax.jit(lambda u: jnp.concatenate([(sums(model, whom, rows_of(u)) - seen) / task.noise, u]))
    jacobian = jax.jit(jax.jacrev(residuals))
    best, least = np.asarray(known)[free], np.inf
    for _ in range(starts):
        u = np.clip(rng.standard_normal(len(places)), -LIMIT, LIMIT)
        around = np.zeros(len(places))
        if free.all():
            u = around = np.clip(np.column_stack([rng.permutation(column) for column in whom.rows.T]), -LIMIT,
                                 LIMIT).ravel()
        for temper in tempers(noise):
            u = minimize(lambda v, of=(around, temper): tuple(np.asarray(part) for part in slope(v, *of)), u, jac=True,
                         method="L-BFGS-B", bounds=[(-LIMIT, LIMIT)] * len(u), options={"maxiter": 300}).x
        if len(places) <= len(seen):
            u = least_squares(lambda v: np.asarray(residuals(v)), u, lambda v: np.asarray(jacobian(v)),
                              (-LIMIT - 1e-9, LIMIT + 1e-9), max_nfev=60).x
        if (value := float(misfit(u, around, 1.0))) < least:
            best, least = u, value
    found = whom.rows.copy()
    found[free] = best
    return found


def score(whom: People, found: np.ndarray, free: np.ndarray, regression: bool = True, seed: int = 0,
          within: float = CLOSE, others: Sequence[np.ndarray] = ()) -> Found:
    """Where some columns of everybody are looked for, each person's; where all are, of any person of the arm and site
    that is paired with a row, so that most are near. `others`: rows of people of the same population who were not
    there, with whom whoever knows it finds as many."""
    columns, some = free.any(0), free.any(1)
    rng, truth = np.random.default_rng((seed, 3)), whom.rows[some][:, columns]
    site = np.repeat(np.arange(len(whom.ends) + 1), np.diff([0, *whom.ends, len(whom.rows)]))
    group = (2 * site + whom.arms)[some] if free.all() else np.arange(int(some.sum()))
    shuffled = [np.column_stack([rng.permutation(column)[:len(truth)] for column in whom.rows[:, columns].T])
                for _ in range(5)]
    chance = float(np.mean([near(guess, truth, group, within) for guess in shuffled]))
    if others:
        chance = max(chance, float(np.mean([near(rows, truth, group, within) for rows in others])))
    if regression and columns.sum() == 1:
        chance = max(chance, near(regressed(whom, columns)[some], truth, group, within))
    return Found(near(found[some][:, columns], truth, group, within), chance, len(truth))


def near(found: np.ndarray, truth: np.ndarray, group: np.ndarray, within: float) -> int:
    """People so near in all columns; within a group the pairing with most."""
    hits = 0
    for one in np.unique(group):
        here = group == one
        close = (np.abs(found[here][:, None] - truth[here][None]) < within).all(2)
        hits += int(close[linear_sum_assignment(close, maximize=True)].sum())
    return hits


def regressed(whom: People, columns: np.ndarray) -> np.ndarray:
    """[n, 1] of one column on all others, arm by arm: what averages tell of everybody."""
    known = np.column_stack([whom.rows[:, ~columns], np.ones(len(whom.rows))])
    known = np.hstack([known * whom.arms[:, None], known * (1.0 - whom.arms)[:, None]])
    return known @ np.linalg.lstsq(known, whom.rows[:, columns], rcond=None)[0]


def attack(task: Material, starts: int, column: int = 0, noise: float = 1.0, seed: int = 7) -> Found:
    """One column of everybody unknown, at all honest sites."""
    free = np.zeros(task.whom.rows.shape, bool)
    free[:, column] = True
    found = likeliest(task, free, noise, starts, seed)
    return score(task.whom, found, free, noise == 1.0)  # so few people as a control has a regression hits


def attack_from_nothing(task: Material, starts: int, others: Sequence[np.ndarray],
                        seed: int = 7) -> tuple[Found, Found]:
    """No row known; units, sizes and the numbers of the treated are. Of people found to CLOSE, and to WIDER."""
    free = np.ones(task.whom.rows.shape, bool)
    found = likeliest(task, free, 1.0, starts, seed)
    return (score(task.whom, found, free, others=others), score(task.whom, found, free, within=WIDER, others=others))


def attack_each(task: Material, of: int, starts: int, noise: float = 1.0, seed: int = 7) -> Found:
    """Of each of some people the whole row, all others' known."""
    whom = task.whom
    places = np.linspace(1, len(whom.rows) - 2, of).astype(int)  # whoever is beyond all cuts is nowhere
    found, looked = whom.rows.copy(), np.zeros(whom.rows.shape, bool)
    for place in places:  # what is left when the others' sums are taken away is of this person's site alone
        site = int(np.searchsorted(whom.ends, place, side="right"))
        begin, end = (0, *whom.ends)[site], (*whom.ends, len(whom.rows))[site]
        free = np.zeros((end - begin, whom.rows.shape[1]), bool)
        free[place - begin] = looked[place] = True
        found[place] = likeliest(alone(task, site, begin, end), free, noise, starts, seed)[place - begin]
    return score(whom, found, looked)


def alone(task: Material, site: int, begin: int, end: int) -> Material:
    """Of one site, all others known: what they add taken away."""
    whom, places = task.whom, np.arange(len(task.numbers))
    here = People(whom.rows[begin:end], whom.arms[begin:end], (), whom.cuts[site:site + 1])
    summed = len(places) - OF_ARMS * len(whom.cuts)
    mine = np.concatenate([places[:summed], summed + OF_ARMS * site + np.arange(OF_ARMS)])
    rest = np.asarray(sums(task.model, whom, jnp.asarray(whom.rows)))[mine] - np.asarray(
        sums(task.model, here, jnp.asarray(here.rows)))
    rest[summed:] = 0.0
    return Material(task.model, here, task.numbers[mine] - rest, task.noise[mine])


# --- rows of `make assurance`


def of_bound(quick: bool) -> dict[str, Any]:
    """People who could be known nearer than s sd, in some number; the 0/1 column and the arm are another matter."""
    model = model_at(SUM_NOISE)
    rows = people(model.arm_needed, 0)
    is_the_packages(model, *rows)
    left = bound(model, *rows)
    numbers = [NAMES.index(name) for name in NAMES if name != "0/1"]
    column, arm = wrong(model, *rows, np.arange(40 if quick else 200))
    return {"tries": len(left), "recovered": int((left[:, numbers] < SUM_NOISE).any(1).sum()),
            "note": f"s = {SUM_NOISE:g}, {model.arm_needed} people of an arm: nobody below "
                    f"{left[:, numbers].min():.2f} sd in any number, median {np.median(left[:, numbers]):.2f}; not "
                    f"protected: 0/1 named wrongly {np.median(column):.2f} (worst {column.min():.2f}), the arm "
                    f"{np.median(arm):.2f} ({arm.min():.3f})"}


def of_found(found: Found, what: str) -> dict[str, Any]:
    return {"tries": found.people, "recovered": found.beyond,
            "note": f"what left three sites: {what}: {found.near} of {found.people} within {CLOSE:g} sd, "
                    f"{found.chance:.0f} by chance or a regression on what is known"}


def of_nothing(quick: bool) -> dict[str, Any]:
    heard, starts = admitted(), 2 if quick else 6
    task = material(heard)
    close, wider = attack_from_nothing(task, starts, strangers(heard, task))
    row = of_found(close, f"best of {starts} starts")
    return row | {"recovered": max(close.beyond, wider.beyond),
                  "note": f"{row['note']}; {wider.near} within {WIDER:g} sd, with other people of the same "
                          f"population {wider.chance:.0f}"}


def strangers(heard: Heard, task: Material) -> list[np.ndarray]:
    """Of the same population and sizes, in the study's units, without the noise on outcomes."""
    found = []
    for seed in range(100, 103):
        rows = pd.concat([noised_doors.table(*(int(n) for n in heard.people(site)[::-1]), 10 * seed + k)
                          for k, site in enumerate(heard.honest(WORKS_WITH))])
        found.append((rows[[*noised_doors.COVARIATES, "y"]].to_numpy() - heard.centre) / heard.unit)
    return found


def of_column(quick: bool) -> dict[str, Any]:
    starts = 3 if quick else 12
    return of_found(attack(material(admitted()), starts), f"best of {starts} starts")


def of_outcome(quick: bool) -> dict[str, Any]:
    starts = 3 if quick else 12
    return of_found(attack(material(admitted()), starts, column=COLUMNS), f"best of {starts} starts")


def of_person(quick: bool) -> dict[str, Any]:
    some = 6 if quick else 24
    return of_found(attack_each(material(admitted()), some, 4), f"{some} people, best of 4 starts each")


def of_two_of_four(quick: bool) -> dict[str, Any]:
    """They take their own noise away: what is left of it, and so the bound, is smaller."""
    heard, pair, starts = admitted(sites=4), ("site-0", "site-1"), 3 if quick else 8
    task, left = material(heard, pair), left_of_noise(4, 2)
    found = attack(task, starts)
    model = heard.model
    rows = people(model.arm_needed, 0)
    least = bound(model, *rows, left)[:, [NAMES.index(name) for name in NAMES if name != "0/1"]]
    return {"tries": found.people, "recovered": found.beyond + int((least < left * SUM_NOISE).any(1).sum()),
            "note": f"what left four sites, two sites' parts and noise taken away, everything but a column of the "
                    f"others known: best of {starts} starts {found.near} of {found.people} within {CLOSE:g} sd "
                    f"({found.chance:.0f} by a regression on what is known); promised are "
                    f"{left * SUM_NOISE:.2f} sd, by the bound nobody is below {least.min():.2f}"}


def of_control_person(quick: bool) -> dict[str, Any]:
    found = attack_each(material(from_doors(60, 60, LITTLE * SUM_NOISE)), 10, 4, LITTLE)
    return {"tries": 1, "recovered": int(found.near < found.people - 1),
            "note": f"noise off: the whole row of {found.near} of {found.people} people (shuffled {found.chance:.0f})"}


def of_control_column(quick: bool) -> dict[str, Any]:
    """Some eighteen numbers hold the column: of so many people they tell everybody's, of thousands averages. Two sites
    of the three collude."""
    heard = from_doors(3, 3, LITTLE * SUM_NOISE, more=(1, 0), far=False)
    found = attack(material(heard, heard.sites[:2]), 8, noise=LITTLE)
    return {"tries": 1, "recovered": int(found.near < found.people or found.chance > found.people / 2),
            "note": f"noise off, {found.people} people: {found.near} within {CLOSE:g} sd (shuffled {found.chance:.0f})"}


ROWS = {"noised-bound": of_bound, "noised-nothing": of_nothing, "noised-column": of_column,
        "noised-outcome": of_outcome, "noised-person": of_person, "noised-colluding": of_two_of_four,
        "control-noised-person": of_control_person, "control-noised-column": of_control_column}


def told_row(rows: Any, key: str, quick: bool) -> None:
    """A line of JSON, as `assurance/run.py` reads it."""
    began = time.perf_counter()
    row = rows[key](quick)
    print(json.dumps(row | {"note": f"{row['note']}; {time.perf_counter() - began:.0f} s"}, ensure_ascii=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="?", choices=list(ROWS), help="one row of `make assurance`; none: the table")
    parser.add_argument("--quick", action="store_true", help="of a row: fewer starts")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    asked = parser.parse_args()
    if asked.row:
        told_row(ROWS, asked.row, asked.quick)
        return
    print("| s | people of an arm | least left, in sds: " + ", ".join(NAMES) + " | median | 0/1 wrong: median, worst | "
          "arm wrong: median, worst |\n|---:|---:|---|---:|---:|---:|")
    for noise in asked.noise:
        model = model_at(noise)
        count = model.arm_needed
        rows = people(count, 0)
        is_the_packages(model, *rows)
        left = bound(model, *rows)
        column, arm = wrong(model, *rows, np.arange(min(200, 2 * count)))
        print(f"| {noise:g} | {count} | {', '.join(f'{sd:.2f}' for sd in left.min(0))} | {np.median(left):.2f} | "
              f"{np.median(column):.2f}, {column.min():.2f} | {np.median(arm):.2f}, {arm.min():.3f} |", flush=True)


if __name__ == "__main__":
    main()
