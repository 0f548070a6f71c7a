"""How many exchanges a fit needs where sites tell the products of a dictionary: error and coverage after each.

    python -m fedci.benchmark.cost.few_exchanges [--replications 2] [--exchanges 4] --out FILE

All rows in one place: what is asked here is not asked of sites yet. Each exchange the products at the point where the
fit stands (`model.shared.dictionary`); then the whole bound is ascended without another, own functions held, and their
scales are set to the top of Σ_s E_β log p(y_s | β, scales), a sum over sites. Five sites of 50 people, effects of new
people (P2); beside it the preset `default` on the same people.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from scipy.optimize import minimize

from fedci.benchmark.cost.sameness_power import SETS
from fedci.model import kernels
from fedci.model.families import model_of
from fedci.model.shared import dictionary, evidence, exchanges
from fedci.model.shared.dictionary import Point, Products, Span
from fedci.model.shared.shared import SharedModel
from fedci.study.options import preset
from fedci.synthetic.datasets import Sizes, Split

STEPS = 40
"""Of each ascent."""
DRAWS, THETAS, BETAS = 8, 16, 8
OWN = ("phi", "kernel", "noise[1]")
"""Parts of θ that only sites can learn."""
Site = tuple[jax.Array, jax.Array, jax.Array]


class Cell(NamedTuple):
    """After one exchange of one fit; exchange 0: of the preset `default`."""

    data: str
    replication: int
    exchange: int
    pehe: float
    coverage: float
    numbers: int
    """Told by a site so far."""


class Study(NamedTuple):
    """Model units, and √PEHE's."""

    sites: list[Site]
    tests: list[tuple[jax.Array, np.ndarray]]
    """Covariates and true effects."""
    unit: float

    @property
    def people(self) -> float:
        return float(sum(len(y) for _, _, y in self.sites))


def study_of(splits: Sequence[Split]) -> Study:
    x, y = (np.concatenate([getattr(split.train, name) for split in splits]) for name in ("x", "y"))
    mean, sd, level, unit = x.mean(0), x.std(0), y.mean(), float(y.std())
    sites = [(jnp.asarray((part.train.x - mean) / sd), jnp.asarray(part.train.w, float),
              jnp.asarray((part.train.y - level) / unit)) for part in splits]
    return Study(sites, [(jnp.asarray((part.test.x - mean) / sd), part.test.cate) for part in splits], unit)


# --- the bound at home


@partial(jax.jit, static_argnames="model")
def _bound(model: SharedModel, thetas: jax.Array, total: Products, by: Span, beta: jax.Array, noise: float,
           people: float) -> tuple[jax.Array, jax.Array]:
    """(log p(y | θ_l) less what the span misses of ωᵀβ̂, [L]; its gradient [L, p])."""
    def of_draw(vector: jax.Array) -> jax.Array:
        found, missed = dictionary.statistics(model, total, by, vector, people)
        away = jnp.mean(jnp.einsum("arb,ab->ar", missed, beta) ** 2)
        return evidence.log_evidence_of_draw(found, people) - 0.5 * people * away / noise

    return jax.lax.map(jax.value_and_grad(of_draw), thetas)


def ascend(model: SharedModel, q: np.ndarray, told: tuple[Products, Span], beta: jax.Array, noise: float,
           people: float) -> np.ndarray:
    """q at the top of the bound, or after STEPS, the own functions' part held."""
    normals, held = evidence.common_normals(0, 0, DRAWS, model.size), np.tile(_is_own(model), 2)

    def less(vector: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = _bound(model, jnp.asarray(evidence.draw(vector, normals)), *told, beta, noise, people)
        value, slope = evidence.objective(model, vector, normals, np.asarray(values), np.asarray(gradients))
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e9, np.zeros_like(vector)
        return -value, np.where(held, 0.0, -slope)

    return np.asarray(minimize(less, q, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "maxcor": 20}).x)


# --- the sites' own scales


def _is_own(model: SharedModel) -> np.ndarray:
    return np.array([name.startswith(OWN) for name in model.names()])


@partial(jax.jit, static_argnames="model")
def _expected(model: SharedModel, own: jax.Array, vector: jax.Array, mean: jax.Array, cov: jax.Array,
              site: Site) -> jax.Array:
    """E_β log p(y_s | β, own scales) and noise: the last of `own`."""
    x, w, y = site
    places = np.append(np.flatnonzero(_is_own(model)), model.names().index("noise[0]"))
    theta = model.unravel(vector.at[places].set(own))
    z = model.design(model.unravel(vector), x, jnp.stack([1.0 - w, w], 1))
    chol = jnp.linalg.cholesky(dictionary.observed(model, theta, x, w))
    rest, half = (solve_triangular(chol, part, lower=True) for part in (y - z @ mean, z))
    return -0.5 * rest @ rest - 0.5 * jnp.sum((half @ cov) * half) - jnp.sum(jnp.log(jnp.diag(chol)))


def with_own_scales(model: SharedModel, study: Study, q: np.ndarray, mean: jax.Array, cov: jax.Array) -> np.ndarray:
    """q with the own functions' scales at the top of the expected likelihood and the prior, and their curvature."""
    means, log_sds = (part.copy() for part in np.split(q, 2))
    at = np.append(np.flatnonzero(_is_own(model)), model.names().index("noise[0]"))
    prior_mean, prior_sd = (part[at] for part in model.prior)
    slope = jax.value_and_grad(_expected, argnums=1)

    def less(own: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [slope(model, jnp.asarray(own), jnp.asarray(means), mean, cov, site) for site in study.sites]
        away = (own - prior_mean) / prior_sd
        return (0.5 * away @ away - sum(float(value) for value, _ in parts),
                away / prior_sd - np.sum([np.asarray(by) for _, by in parts], axis=0))

    found = minimize(less, means[at], jac=True, method="L-BFGS-B", options={"maxiter": 25}).x
    bend = sum(-np.diag(np.asarray(jax.hessian(_expected, argnums=1)(
        model, jnp.asarray(found), jnp.asarray(means), mean, cov, site))) for site in study.sites)
    means[at[:-1]] = found[:-1]
    log_sds[at[:-1]] = -0.5 * np.log(1.0 / prior_sd**2 + np.maximum(bend, 0.0))[:-1]
    return np.concatenate([means, log_sds])


# --- a fit


def start(model: SharedModel, study: Study) -> np.ndarray:
    """As the preset starts, with the own functions' part at its prior."""
    steps = exchanges.start(model)
    asked = next(steps).arrays["thetas"]
    moments = np.zeros(4 * (model.covariates + 3))
    rows = [model.rows(np.asarray(x), np.asarray(w), np.asarray(y), moments, k)
            for k, (x, w, y) in enumerate(study.sites)]
    parts = [evidence.statistics(model, asked, part, model.options.jitter)._asdict() for part in rows]
    try:
        steps.send({name: np.asarray(sum(part[name] for part in parts)) for name in parts[0]})
    except StopIteration as done:
        q, own = np.asarray(done.value).copy(), np.flatnonzero(_is_own(model))
    q[own], q[own + model.size] = model.prior[0][own], np.log(model.prior[1][own])
    return q


def fit(splits: Sequence[Split], count: int) -> list[tuple[float, float, int]]:
    """(√PEHE, coverage, numbers told) after each exchange."""
    study, options = study_of(splits), preset("default")
    d = study.sites[0][0].shape[1]
    model = model_of(options.model, d, d, len(study.sites))
    assert isinstance(model, SharedModel)
    q, coefficients, noise, told, after = start(model, study), None, 1.0, 0, []
    beta = jnp.zeros((2, model.layout.width))
    for _ in range(count):
        point = Point(np.split(q, 2)[0], coefficients)
        sums = [dictionary.products(model, point, *site) for site in study.sites]
        total, by = jax.tree.map(lambda *parts: sum(parts), *sums), dictionary.span(model, point)
        told += (len(total.cross) + 1) * (len(total.cross) + 2) // 2
        q = ascend(model, q, (total, by), beta, noise, study.people)
        mean, chol = _law(model, np.split(q, 2)[0], total, by, study.people)
        q = with_own_scales(model, study, q, mean, jnp.linalg.inv(chol @ chol.T))
        theta = model.unravel(jnp.asarray(np.split(q, 2)[0]))
        beta = coefficients = dictionary.coefficients(model, theta, mean)
        noise = float(dictionary.noise_level(theta))
        after.append((*score(model, study, q, partial(_law, model, total=total, by=by, people=study.people)), told))
    return after


def _law(model: SharedModel, vector: np.ndarray, total: Products, by: Span, people: float
         ) -> tuple[jax.Array, jax.Array]:
    found, _ = dictionary.statistics(model, total, by, jnp.asarray(vector), people)
    return evidence.posterior_of_draw(found.gram, found.cross)


@partial(jax.jit, static_argnames="model")
def _effects(model: SharedModel, vector: jax.Array, betas: jax.Array, site: Site,
             new: jax.Array) -> tuple[jax.Array, jax.Array]:
    """([B, n] expected effects of new people of a site, [n] the variance that its own function leaves)."""
    x, w, y = site
    theta, arms = model.unravel(vector), jnp.stack([1.0 - w, w], 1)
    root, apart = model.roots(theta)[0], jnp.array([-1.0, 1.0])
    phi = root @ root.T
    cross = kernels.cross(model.kernel, theta["kernel"], new, x) * (apart @ phi @ arms.T)[None]
    by = jnp.linalg.solve(dictionary.observed(model, theta, x, w), cross.T)
    shared = betas @ model.design(theta, new, jnp.broadcast_to(apart, (new.shape[0], 2))).T
    own = (y[None] - betas @ model.design(theta, x, arms).T) @ by
    left = (apart @ phi @ apart) * kernels.diagonal(model.kernel, theta["kernel"], new) - jnp.sum(cross.T * by, 0)
    return shared + own, left


def score(model: SharedModel, study: Study, q: np.ndarray,
          law: Callable[[np.ndarray], tuple[jax.Array, jax.Array]]) -> tuple[float, float]:
    thetas = evidence.draw(q, evidence.common_normals(0, 10**6, THETAS, model.size))
    laws, rng = [law(theta) for theta in thetas], np.random.default_rng(0)
    errors, covered = [], []
    for site, (new, truth) in zip(study.sites, study.tests, strict=True):
        means, left = [], []
        for theta, (mean, chol) in zip(thetas, laws, strict=True):
            away = np.linalg.solve(np.asarray(chol).T, rng.standard_normal((len(mean), BETAS // 2))).T
            made = _effects(model, jnp.asarray(theta), jnp.asarray(np.asarray(mean) + np.concatenate([away, -away])),
                            site, new)
            means.append(np.asarray(made[0]))
            left.append(np.asarray(made[1]))
        draws = np.concatenate(means)
        wrong, sd = draws.mean(0) - truth / study.unit, np.sqrt(draws.var(0) + np.mean(left, 0))
        errors.append(np.mean(wrong**2))
        covered.append(np.mean(np.abs(wrong) < 1.96 * sd))
    return float(np.sqrt(np.mean(errors))) * study.unit, float(np.mean(covered))


def of_default(splits: Sequence[Split], seed: int) -> tuple[float, float, int]:
    """The same of the preset: its numbers are those of its rounds and of its effects' draws."""
    from fedci.estimator import FedCI
    from fedci.study.study import Study as Agreed
    from fedci.table.table import Source

    agreed = Agreed(treatment="w", outcome="y", covariates=splits[0].train.names, policy="simulation",
                    diagnostics={"enabled": False})
    result = FedCI(agreed, seed=seed).fit([Source(f"s{s}", split.train.frame()) for s, split in enumerate(splits)])
    errors, covered = [], []
    for s, split in enumerate(splits):
        effect = result.effect_posterior(split.test.frame(), f"s{s}")
        low, high = effect.interval()
        errors.append(np.mean((effect.mean - split.test.cate) ** 2))
        covered.append(np.mean((low <= split.test.cate) & (split.test.cate <= high)))
    model = result.outcome.layout.model
    assert isinstance(model, SharedModel)
    draws = len(result.outcome.fit.rounds) * result.outcome.options.optimiser.draws + len(
        result.outcome.effects.draws["thetas"])
    each = sum(int(np.prod(shape)) for shape in evidence.shapes(model, 1).values())
    return float(np.sqrt(np.mean(errors))), float(np.mean(covered)), draws * each


# --- the table


def table(done: Sequence[Cell]) -> str:
    last = max(cell.exchange for cell in done)
    lines = ["| data | fits | `default` | " + " | ".join(f"{k} exchanges" for k in range(1, last + 1))
             + " | numbers, `default` / last |", "|---|---:|" + "---:|" * (last + 1) + "---:|"]
    for data in dict.fromkeys(cell.data for cell in done):
        by = [[cell for cell in done if (cell.data, cell.exchange) == (data, k)] for k in range(last + 1)]
        means = [f"{np.mean([c.pehe for c in part]):.2f} ({np.mean([c.coverage for c in part]):.2f})" for part in by]
        fewer = np.mean([c.numbers for c in by[0]]) / np.mean([c.numbers for c in by[-1]])
        lines.append(f"| {data} | {len(by[0])} | " + " | ".join(means) + f" | {fewer:.0f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=2)
    parser.add_argument("--exchanges", type=int, default=4)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--data", action="append", choices=[*SETS], help="once for each; without it, all")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    done = [Cell(**json.loads(line)) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    for replication in range(asked.replications):
        for data in asked.data or [*SETS]:
            if any((cell.data, cell.replication) == (data, replication) for cell in done):
                continue
            splits = SETS[data](replication, Sizes(train=asked.rows))
            all_of = [of_default(splits, replication), *fit(splits, asked.exchanges)]
            made = [Cell(data, replication, k, *values) for k, values in enumerate(all_of)]
            done += made
            with asked.out.open("a") as file:
                file.writelines(json.dumps(cell._asdict()) + "\n" for cell in made)
    print(table(done))


if __name__ == "__main__":
    main()
