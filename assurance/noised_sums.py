"""What sums with noise (`policy.sum_noise`) leave of a person: the local bound, and an attack.

    PYTHONPATH=src:assurance python assurance/noised_sums.py [--noise 0.25 0.5 1] [--starts 12]

Three masked sites of the smallest size that `standard` lets take part, five covariates (normal, normal, t₂, lognormal,
0/1), outcomes with tails; somebody at the corner of all clips in each arm. All that a study tells, in units of the
noise that is left when one site of the three works with the coordinator:

    means Σx, Σy · squares Σ(x − c)² · products of (1, x, y) in each arm, own levels taken out · sums Σx, Σy of each arm

The bound: 1/√(information) of each value to one who knows all else, in sds. Of a column of 0 and 1, and of the arm,
how often the best test of one value against the other is wrong. The attack: everything known but one column, the
likeliest values by L-BFGS from many starts; who is found to 0.1 sd, beside what a regression on what is known finds,
which is what averages tell of everybody.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

import fedci  # noqa: F401  (64 bits)
from fedci.model.families import model_of
from fedci.model.shared import dictionary, sum_noise
from fedci.model.shared.dictionary import Point
from fedci.site.noising import FARTHEST
from fedci.study.options import preset, with_noise

COLUMNS, SITES, CLOSE = 5, 3, 0.1
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
    sums = model.answer("AskProducts", {"point": point.packed, "laws": np.array(0.0)}, rows, None).sums
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


def attack(model: Any, count: int, starts: int, seed: int = 7) -> tuple[int, float, int]:
    """(people found to CLOSE, found by a regression, people): the first column unknown, at all sites."""
    sites = [people(count, seed + k) for k in range(SITES)]
    rng = np.random.default_rng(seed)
    truth, ends = np.concatenate([x[:, 0] for x, _, _ in sites]), np.cumsum([len(y) for _, _, y in sites])[:-1]

    def all_of(column: Any) -> Any:
        parts = jnp.split(column, ends)
        return sum(told(model, jnp.asarray(x).at[:, 0].set(part), jnp.asarray(w), jnp.asarray(y))
                   for part, (x, w, y) in zip(parts, sites, strict=True))

    seen = np.asarray(all_of(jnp.asarray(truth))) + rng.standard_normal(all_of(jnp.asarray(truth)).shape)
    less = jax.jit(jax.value_and_grad(lambda u: 0.5 * jnp.sum((all_of(u) - seen) ** 2) + 0.5 * jnp.sum(u**2)))
    tried = [minimize(lambda u: tuple(np.asarray(part) for part in less(u)), rng.standard_normal(len(truth)), jac=True,
                      method="L-BFGS-B", options={"maxiter": 300}) for _ in range(starts)]
    best = min(tried, key=lambda one: one.fun)
    found = np.abs(best.x - truth) < CLOSE
    known = np.vstack([np.column_stack([x[:, 1:], y, np.ones(len(y))]) for x, _, y in sites])
    arms = np.concatenate([w for _, w, _ in sites])
    known = np.hstack([known * arms[:, None], known * (1.0 - arms)[:, None]])
    guessed = known @ np.linalg.lstsq(known, truth, rcond=None)[0]
    return int(found.sum()), float(np.sum(np.abs(guessed - truth) < CLOSE)), len(truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    parser.add_argument("--starts", type=int, default=12)
    asked = parser.parse_args()
    print("| s | people of an arm | least left, in sds: " + ", ".join(NAMES) + " | median | 0/1 wrong: median, worst | "
          "arm wrong: median, worst | found to 0.1 sd | by a regression |\n|---:|---:|---|---:|---:|---:|---:|---:|")
    for noise in asked.noise:
        model = model_at(noise)
        count = model.arm_needed
        rows = people(count, 0)
        is_the_packages(model, *rows)
        left = bound(model, *rows)
        column, arm = wrong(model, *rows, np.arange(min(200, 2 * count)))
        found, chance, everybody = attack(model, count, asked.starts)
        print(f"| {noise:g} | {count} | {', '.join(f'{sd:.2f}' for sd in left.min(0))} | {np.median(left):.2f} | "
              f"{np.median(column):.2f}, {column.min():.2f} | {np.median(arm):.2f}, {arm.min():.3f} | "
              f"{found} of {everybody} | {chance:.0f} |", flush=True)


if __name__ == "__main__":
    main()
