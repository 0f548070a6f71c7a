"""What sums with noise (`policy.sum_noise`) leave of a person: the local bound, and an attack.

    python assurance/noised_sums.py [--noise 0.25 0.5 1] [--starts 12]        the table of docs/security.md
    python assurance/noised_sums.py ROW [--quick]                             a row of `make assurance`

Three masked sites of the smallest size that `standard` lets take part, five covariates (normal, normal, t₂, lognormal,
0/1), outcomes with tails; somebody at the corner of all clips in each arm. All that a study tells, in units of the
noise that is left when one site of the three works with the coordinator:

    means Σx, Σy · squares Σ(x − c)² · products of (1, x, y) in each arm, own levels taken out · sums Σx, Σy of each arm

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
from math import ceil, sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment, minimize
from scipy.stats import norm

import fedci  # noqa: F401  (64 bits)
from fedci.model.families import model_of
from fedci.model.shared import dictionary, sum_noise
from fedci.model.shared.dictionary import Point
from fedci.site.noising import FARTHEST
from fedci.study.options import preset, with_noise
from fedci.study.policy import POLICIES

COLUMNS, SITES = 5, 3
CLOSE, WIDER = 0.1, 0.5
"""Sds of a column within which a person counts as found; of whole rows, from nothing, within more too."""
SUM_NOISE = POLICIES["standard"].sum_noise
NAMES = ("normal", "normal", "t with 2 degrees", "lognormal", "0/1", "outcome")


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


def told(model: Any, x: Any, w: Any, y: Any) -> Any:
    """[K] all that a site's people add to what is told, each number in sds of the noise that is left."""
    s, both = model.options.sum_noise, jnp.column_stack([x, y])
    point = Point(model.ravel(model.ridge))
    arms = jnp.stack([1.0 - w, w])
    by_arm = arms @ both
    unit = {kind: s / np.sqrt(share) for kind, share in sum_noise.SHARES.items()}
    squares = jnp.sum(jnp.clip(both, -FARTHEST, FARTHEST) ** 2, 0) / (2.0 * FARTHEST * unit["squares"])
    return jnp.concatenate([jnp.sum(both[:, :-1], 0) / unit["means"], by_arm[:, -1] / unit["means"], squares,
                            by_arm.ravel() / unit["effects"], _products(model, point, x, arms, y)])


def _products(model: Any, point: Point, x: Any, arms: Any, y: Any) -> Any:
    """σ̂²·c·G·c/τ, its upper half: Σ f fᵀ less what the own levels take, Zᵀ the arms."""
    theta = model.unravel(jnp.asarray(point.vector))
    c = sum_noise._scale(model, jnp.asarray(point.vector))
    by = dictionary.of(model, False)
    seen = by.layout.omega(theta, x)
    f = jnp.column_stack([by.layout.weighed(theta, seen, arms.T) * c[None], y])
    noise = dictionary.noise_level(theta)
    inner = noise * jnp.linalg.inv(sum_noise.own_variance(model, theta)) + jnp.diag(arms.sum(1))
    level = arms @ f
    gram = f.T @ f - level.T @ jnp.linalg.solve(inner, level)
    rows, columns = np.triu_indices(f.shape[1])
    return gram[rows, columns] / jnp.asarray(np.where(rows == columns, 2**0.5, 1.0)) / sum_noise.noise_of(model)


def is_the_packages(model: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    """The products above are those that a site answers with."""
    point = Point(model.ravel(model.ridge))
    rows = model.rows(x, w, y, np.zeros(1), 0)
    sums = model.answer("AskProducts", {"point": point.packed, "laws": np.array(0.0), "matched": np.array(0.0)},
                         rows, None).sums
    own = dictionary.noise_level(model.unravel(jnp.asarray(point.vector)))
    c, width = sum_noise.scale_of(model, point), len(sums["cross"])
    found = np.asarray(_products(model, point, jnp.asarray(x), jnp.stack([1.0 - w, w]), jnp.asarray(y)))
    rows_of, columns = np.triu_indices(width + 1)
    cross = found[(columns == width) & (rows_of < width)] * sum_noise.noise_of(model)
    np.testing.assert_allclose(cross, sums["cross"] * c * own, rtol=1e-5, atol=1e-5 * np.abs(cross).max())


def bound(model: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[n, d + 1] sd to which each value is left open."""
    by_x, by_y = jax.jacrev(lambda a, b: told(model, a, jnp.asarray(w), b), (0, 1))(jnp.asarray(x), jnp.asarray(y))
    information = np.column_stack([np.sum(np.asarray(by_x) ** 2, 0), np.sum(np.asarray(by_y) ** 2, 0)])
    return 1.0 / np.sqrt(information)


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
    """Everybody, site after site; the arms are known, for people of an arm are not told apart before they are found."""

    rows: np.ndarray
    """[n, d + 1] x and y in model units."""
    arms: np.ndarray
    ends: tuple[int, ...]
    """Where sites end, but the last."""


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


def everybody(count: int, seed: int) -> People:
    """`count` of each arm at each site."""
    sites = [people(count, seed + k) for k in range(SITES)]
    rows = np.concatenate([np.column_stack([x, y]) for x, _, y in sites])
    return People(rows, np.concatenate([w for _, w, _ in sites]),
                  tuple(np.cumsum([len(y) for *_, y in sites])[:-1].tolist()))


def sums(model: Any, whom: People, rows: Any) -> Any:
    """[K] of all sites together, in sds of the noise that is left."""
    parts = zip(jnp.split(rows, whom.ends), np.split(whom.arms, whom.ends), strict=True)
    return sum(told(model, part[:, :-1], jnp.asarray(w), part[:, -1]) for part, w in parts)


def heard(model: Any, whom: People, noise: float, seed: int) -> np.ndarray:
    """What the coordinator has; `noise` in units of what it should be."""
    exact = np.asarray(sums(model, whom, jnp.asarray(whom.rows)))
    return exact + noise * np.random.default_rng((seed, 1)).standard_normal(exact.shape)


COARSE = 30.0
"""In the units of what noise should be: misfits count little at first, and the prior much."""


def tempers(noise: float) -> np.ndarray:
    """Times the noise, from coarse to none."""
    return np.geomspace(COARSE / noise, 1.0, 4 + int(np.ceil(-np.log10(noise))))


def likeliest(model: Any, whom: People, seen: np.ndarray, free: np.ndarray, noise: float, starts: int,
              seed: int) -> np.ndarray:
    """[n, d + 1] of the best of all starts: misfits in their own noise, the prior of each free value normal, annealed.
    Where more was told than is looked for, the last steps are Levenberg's and Marquardt's. Where nothing is known, the
    most likely people are all alike: there each start is of people as they are in each column by itself, shuffled, and
    what moves them least to fit what was told is looked for."""
    rng, known = np.random.default_rng((seed, 2)), jnp.asarray(whom.rows)
    places = np.flatnonzero(free)
    limit = np.broadcast_to(np.append(np.full(COLUMNS, sum_noise.CLIP_X), sum_noise.CLIP_Y), free.shape)[free]

    def rows_of(u: Any) -> Any:
        return known.ravel().at[places].set(u).reshape(known.shape)

    @jax.jit
    def misfit(u: Any, around: Any, temper: Any) -> Any:
        away = (sums(model, whom, rows_of(u)) - seen) / (noise * temper)
        return 0.5 * jnp.sum(away**2) + 0.5 * jnp.sum((u - around) ** 2)

    slope = jax.jit(jax.value_and_grad(misfit))
    residuals = jax.jit(lambda u: jnp.concatenate([(sums(model, whom, rows_of(u)) - seen) / noise, u]))
    jacobian = jax.jit(jax.jacrev(residuals))
    best, least = np.asarray(known)[free], np.inf
    for _ in range(starts):
        u = np.clip(rng.standard_normal(len(places)), -limit, limit)
        around = np.zeros(len(places))
        if free.all():
            u = around = np.column_stack([rng.permutation(column) for column in whom.rows.T]).ravel()
        for temper in tempers(noise):
            u = minimize(lambda v, of=(around, temper): tuple(np.asarray(part) for part in slope(v, *of)), u, jac=True,
                         method="L-BFGS-B", bounds=list(zip(-limit, limit, strict=True)),
                         options={"maxiter": 300}).x
        if len(places) <= len(seen):
            u = least_squares(lambda v: np.asarray(residuals(v)), u, lambda v: np.asarray(jacobian(v)),
                              (-limit - 1e-9, limit + 1e-9), max_nfev=60).x
        if (value := float(misfit(u, around, 1.0))) < least:
            best, least = u, value
    found = whom.rows.copy()
    found[free] = best
    return found


def score(whom: People, found: np.ndarray, free: np.ndarray, regression: bool = True, seed: int = 0,
          within: float = CLOSE) -> Found:
    """Where some columns of everybody are looked for, each person's; where all are, of any person of the arm and site
    that is paired with a row, so that most are near."""
    columns, some = free.any(0), free.any(1)
    rng, truth = np.random.default_rng((seed, 3)), whom.rows[some][:, columns]
    site = np.repeat(np.arange(SITES), np.diff([0, *whom.ends, len(whom.rows)]))
    group = (2 * site + whom.arms)[some] if free.all() else np.arange(int(some.sum()))
    shuffled = [np.column_stack([rng.permutation(column)[:len(truth)] for column in whom.rows[:, columns].T])
                for _ in range(5)]
    chance = float(np.mean([near(guess, truth, group, within) for guess in shuffled]))
    if free.all():  # whoever knows the population finds as many with people who were not there
        others = [everybody(len(whom.rows) // (2 * SITES), seed + 1000 * (k + 1)).rows for k in range(3)]
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


def attack(model: Any, count: int, starts: int, column: int = 0, noise: float = 1.0, seed: int = 7) -> Found:
    """One column of everybody unknown, at all sites."""
    whom = everybody(count, seed)
    free = np.zeros(whom.rows.shape, bool)
    free[:, column] = True
    found = likeliest(model, whom, heard(model, whom, noise, seed), free, noise, starts, seed)
    return score(whom, found, free, noise == 1.0)  # as few people as a control has a regression hits without learning


def attack_from_nothing(model: Any, count: int, starts: int, noise: float = 1.0, seed: int = 7) -> tuple[Found, Found]:
    """No row known; units, sizes and the numbers of the treated are. Of people found to CLOSE, and to WIDER."""
    whom = everybody(count, seed)
    free = np.ones(whom.rows.shape, bool)
    found = likeliest(model, whom, heard(model, whom, noise, seed), free, noise, starts, seed)
    return score(whom, found, free), score(whom, found, free, within=WIDER)


def attack_each(model: Any, count: int, of: int, starts: int, noise: float = 1.0, seed: int = 7) -> Found:
    """Of each of some people the whole row, all others' known."""
    whom = everybody(count, seed)
    seen, places = heard(model, whom, noise, seed), np.linspace(0, len(whom.rows) - 1, of).astype(int)
    found, looked = whom.rows.copy(), np.zeros(whom.rows.shape, bool)
    rest = sums(model, whom, jnp.asarray(whom.rows))
    for place in places:  # the others' sums are known: what is left is of this person's site alone
        site = int(np.searchsorted(whom.ends, place, side="right"))
        begin, end = (0, *whom.ends)[site], (*whom.ends, len(whom.rows))[site]
        here = People(whom.rows[begin:end], whom.arms[begin:end], ())
        free = np.zeros(here.rows.shape, bool)
        free[place - begin] = looked[place] = True
        others = np.asarray(rest - sums(model, here, jnp.asarray(here.rows)))
        found[place] = likeliest(model, here, seen - others, free, noise, starts, seed)[place - begin]
    return score(whom, found, looked)


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
            "note": f"{what}: {found.near} of {found.people} within {CLOSE:g} sd, {found.chance:.0f} by chance or a "
                    f"regression on what is known"}


def of_nothing(quick: bool) -> dict[str, Any]:
    model, starts = model_at(SUM_NOISE), 2 if quick else 6
    close, wider = attack_from_nothing(model, model.arm_needed, starts)
    row = of_found(close, f"best of {starts} starts")
    return row | {"recovered": max(close.beyond, wider.beyond),
                  "note": f"{row['note']}; {wider.near} within {WIDER:g} sd, with other people of the same "
                          f"population {wider.chance:.0f}"}


def of_column(quick: bool) -> dict[str, Any]:
    model, starts = model_at(SUM_NOISE), 3 if quick else 12
    return of_found(attack(model, model.arm_needed, starts), f"best of {starts} starts")


def of_outcome(quick: bool) -> dict[str, Any]:
    model, starts = model_at(SUM_NOISE), 3 if quick else 12
    return of_found(attack(model, model.arm_needed, starts, column=COLUMNS), f"best of {starts} starts")


def of_person(quick: bool) -> dict[str, Any]:
    model, some = model_at(SUM_NOISE), 6 if quick else 24
    return of_found(attack_each(model, model.arm_needed, some, 4), f"{some} people, best of 4 starts each")


LITTLE = 1e-6
"""Of the noise, in a control."""


def of_control_person(quick: bool) -> dict[str, Any]:
    model = model_at(SUM_NOISE)
    found = attack_each(model, model.arm_needed, 10, 4, LITTLE)
    return {"tries": 1, "recovered": int(found.near < found.people - 1),
            "note": f"noise off: the whole row of {found.near} of {found.people} people (shuffled {found.chance:.0f})"}


def of_control_column(quick: bool) -> dict[str, Any]:
    """Some eighteen numbers hold the column: of so many people they tell everybody's, of thousands averages."""
    found = attack(model_at(SUM_NOISE), 2, 8, noise=LITTLE)
    return {"tries": 1, "recovered": int(found.near < found.people or found.chance > found.people / 2),
            "note": f"noise off, {found.people} people: {found.near} within {CLOSE:g} sd (shuffled {found.chance:.0f})"}


ROWS = {"noised-bound": of_bound, "noised-nothing": of_nothing, "noised-column": of_column,
        "noised-outcome": of_outcome, "noised-person": of_person, "control-noised-person": of_control_person,
        "control-noised-column": of_control_column}


def told_row(key: str, quick: bool) -> None:
    """A line of JSON, as `assurance/run.py` reads it."""
    began = time.perf_counter()
    row = ROWS[key](quick)
    print(json.dumps(row | {"note": f"{row['note']}; {time.perf_counter() - began:.0f} s"}, ensure_ascii=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="?", choices=list(ROWS), help="one row of `make assurance`; none: the table")
    parser.add_argument("--quick", action="store_true", help="of a row: fewer starts")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    parser.add_argument("--starts", type=int, default=12)
    asked = parser.parse_args()
    if asked.row:
        told_row(asked.row, asked.quick)
        return
    print("| s | people of an arm | least left, in sds: " + ", ".join(NAMES) + " | median | 0/1 wrong: median, worst | "
          "arm wrong: median, worst | found to 0.1 sd | by a regression |\n|---:|---:|---|---:|---:|---:|---:|---:|")
    for noise in asked.noise:
        model = model_at(noise)
        count = model.arm_needed
        rows = people(count, 0)
        is_the_packages(model, *rows)
        left = bound(model, *rows)
        column, arm = wrong(model, *rows, np.arange(min(200, 2 * count)))
        found = attack(model, count, asked.starts)
        print(f"| {noise:g} | {count} | {', '.join(f'{sd:.2f}' for sd in left.min(0))} | {np.median(left):.2f} | "
              f"{np.median(column):.2f}, {column.min():.2f} | {np.median(arm):.2f}, {arm.min():.3f} | "
              f"{found.near} of {found.people} | {found.chance:.0f} |", flush=True)


if __name__ == "__main__":
    main()
