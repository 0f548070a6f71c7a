"""How near anyone can come to a person's columns, whatever he tries: the local bound. And what noise costs.

    every told number has noise τ in its units M (`gram_told`)        H = Σ_draws J'J,   J the slopes of all of them
    prior N(0, sd²) of every unknown                                  posterior sd² = diag((I + S H S/τ²)⁻¹) sd²

With S the sds. It is the Cramér-Rao bound with a prior, at the truth: it holds for every attack that is not far away
from the truth, with any computing. Three attackers: one who knows nothing; one who knows all columns but one; one who
knows everybody else (then H is the person's own block, and nobody's help is needed to compute it).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import erf, sqrt
from typing import Any, NamedTuple

import gram_told
import jax
import jax.numpy as jnp
import numpy as np
from gram_attack import UNITS, noised, spread_over
from gram_record import COLUMNS, table
from gram_told import Sizes, Told
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

RESOLVED = 1e-7
"""Noise below it is reckoned as this much: normal equations in float64 see no finer, so what is found is 'at least'."""
LEVELS = (0.1, 0.3)


class Line(NamedTuple):
    """People whose every unknown column is known to 0.1 sd, and to 0.3 sd, at best."""

    people: int
    sites: int
    covariates: int
    columns: int
    """q + 1 of T̃."""
    draws: int
    shape: str
    tau: float
    known: str
    to_01: int
    to_03: int
    any_03: int
    """People of whom at least one column is known to 0.3 sd."""
    expected: float
    """People within 0.1 sd in all unknown columns, if each is drawn from what is known of it."""
    chance: float
    """The same of one who was told nothing."""
    least: float
    """The smallest posterior sd of anybody's column."""
    median: float
    effective: float
    """Σ (1 − sd²) over unknowns: the numbers told that noise has not drowned; at most those that were told."""
    unknowns: int
    own: float
    """ι τ², the median over people: the largest information on a direction of a person's row (in sds), all others
    known, added over draws. Nobody, whatever he knows, comes nearer than 1/√(1 + ι) sd."""
    own_95: float
    """That of the person whom 5 % exceed."""
    own_most: float


def made_rows(people: int, sites: int, covariates: int, seed: int, clip: float = np.inf) -> tuple[np.ndarray, Sizes]:
    """Rows in model units of sites of about one size; nobody beyond ±`clip` sds in a column."""
    sizes = tuple(len(part) for part in np.array_split(np.arange(people), sites))
    rows = np.concatenate([table(n, 10 * seed + s)[[*COLUMNS[:covariates], "w", "y"]].to_numpy(float)
                           for s, n in enumerate(sizes)])
    scale = np.where(np.arange(rows.shape[1]) == covariates, 1.0, rows.std(0))
    centre = np.where(np.arange(rows.shape[1]) == covariates, 0.0, rows.mean(0))
    return np.clip((rows - centre) / scale, -clip, clip), sizes


def spread_of(rows: np.ndarray) -> np.ndarray:
    """The prior sd of each column."""
    return rows.std(0)


@partial(jax.jit, static_argnames=("model", "sizes", "shape"), donate_argnames="matrix")
def added(model: Any, sizes: Sizes, thetas: Float[Array, "L p"], rows: Array, matrix: Float[Array, "N N"] | None,
          shape: str) -> tuple[Array | None, Array]:
    """(H with more draws, the sum of people's own blocks of it); without H, which grows with (people)², the blocks."""
    people = float(sum(sizes))

    def add(total: tuple[Any, Array], theta: Array) -> tuple[tuple[Any, Array], None]:
        found = gram_told.slopes(model, sizes, theta, rows)
        root = UNITS[shape](gram_told.of_draw(model, sizes, theta, rows).gram[None])[0]
        more = None if total[0] is None else total[0] + gram_told.information(found, root, people)
        return (more, total[1] + gram_told.own_information(found, root, people)), None

    n, entries = rows.shape
    return jax.lax.scan(add, (matrix, jnp.zeros((n, entries, entries))), thetas)[0]


@jax.jit
def posterior_sd(matrix: Float[Array, "N N"], unit: Float[Array, "N"], tau: float) -> Float[Array, "N"]:
    """In units of the prior's: √diag((I + S H S/τ²)⁻¹)."""
    precision = matrix * unit[:, None] * unit[None] / tau**2 + jnp.eye(len(unit))
    scale = jax.lax.rsqrt(jnp.diag(precision))
    even = precision * scale[:, None] * scale[None] + 1e-15 * len(unit) * jnp.eye(len(unit))
    inverse = solve_triangular(jnp.linalg.cholesky(even), jnp.eye(len(unit)), lower=True)
    return jnp.minimum(scale * jnp.sqrt(jnp.sum(inverse**2, 0)), 1.0)


def sds(matrix: Array, own: Array, unit: np.ndarray, tau: float, known: str) -> np.ndarray:
    """[n, unknown columns] posterior sds, in units of the prior's."""
    n, entries, tau = own.shape[0], own.shape[1], max(tau, RESOLVED)
    if known == "person":
        scaled = own * jnp.asarray(unit[:, None] * unit[None])[None] / tau**2 + jnp.eye(entries)[None]
        return np.sqrt(np.asarray(jnp.diagonal(jnp.linalg.inv(scaled), axis1=1, axis2=2)))
    if known == "column":
        places = np.arange(n) * entries + 1
        return np.asarray(posterior_sd(matrix[places][:, places], jnp.full(n, unit[1]), tau)).reshape(n, 1)
    return np.asarray(posterior_sd(matrix, jnp.asarray(np.tile(unit, n)), tau)).reshape(n, entries)


def within(sd: np.ndarray, distance: float) -> np.ndarray:
    """P(|N(0, sd²)| ≤ distance)."""
    return np.vectorize(erf)(distance / np.maximum(sd, 1e-300) / sqrt(2.0))


def lines(model: Any, thetas: np.ndarray, people: int, sites: int, counts: list[int], taus: list[float], shape: str,
          knowns: tuple[str, ...] = ("nothing", "column", "person"), seed: int = 0,
          clip: float = np.inf) -> Iterator[Line]:
    """One for each number of draws, noise and knowledge. Draws are spread evenly over the fit they were told in."""
    covariates = model.covariates
    rows, sizes = made_rows(people, sites, covariates, seed, clip)
    unit, places = spread_of(rows), np.random.default_rng(seed).permutation(len(thetas))
    matrix = None if knowns == ("person",) else jnp.zeros((rows.size, rows.size))
    own, done = 0.0, 0
    for count in sorted({min(count, len(thetas)) for count in counts}):
        more = jnp.asarray(thetas[places[done:count]])
        matrix, blocks = added(model, sizes, more, jnp.asarray(rows), matrix, shape)
        own, done = own + blocks, count
        scaled = np.asarray(own) * unit[None, :, None] * unit[None, None]
        most = np.linalg.eigvalsh(scaled)[:, -1]
        for tau in taus:
            for known in knowns:
                sd = sds(matrix, own, unit, tau, known)
                yield line_of(sd, most, people=people, sites=sites, covariates=covariates, columns=model.columns + 1,
                              draws=count, shape=shape, tau=tau, known=known)


def line_of(sd: np.ndarray, own: np.ndarray, **what: Any) -> Line:
    """From posterior sds [n, unknown columns], and everybody's own information [n]."""
    near, far = LEVELS
    nothing = np.ones_like(sd)
    return Line(**what, to_01=int((sd <= near).all(1).sum()), to_03=int((sd <= far).all(1).sum()),
                any_03=int((sd <= far).any(1).sum()), expected=float(within(sd, near).prod(1).sum()),
                chance=float(within(nothing, near).prod(1).sum()), least=float(sd.min()), median=float(np.median(sd)),
                effective=float(np.sum(1.0 - sd**2)), unknowns=sd.size, own=float(np.median(own)),
                own_95=float(np.quantile(own, 0.95)), own_most=float(own.max()))


# --- the price

class Price(NamedTuple):
    """Root mean squares over repetitions and draws, in posterior sds."""

    people: int
    shape: str
    tau: float
    coefficients: float
    """Of P^½ (β̂ with noise − β̂)/√q: 0.3 makes an error of estimation 4 % larger."""
    effect: float
    """Of the average effect."""


def prices(model: Any, thetas: np.ndarray, people: int, sites: int, taus: list[float], shape: str, seed: int = 0,
           repeats: int = 8, draws: int = 8) -> Iterator[Price]:
    """What noise on one draw's T̃ does to β̂ = (I + T)⁻¹v; what was heard is first moved to the nearest T̃."""
    rows, sizes = made_rows(people, sites, model.covariates, seed)
    some = jnp.asarray(thetas[spread_over(len(thetas), draws)])
    exact = gram_told.told(model, sizes, some, jnp.asarray(rows))
    contrasts = np.asarray(jax.vmap(lambda theta: contrast(model, theta, jnp.asarray(rows)))(some))
    mean, precision = _estimate(np.asarray(exact.gram))
    sd_of_effect = np.sqrt(np.einsum("lq,lq->l", contrasts, _solve(precision, contrasts)))
    roots = np.linalg.cholesky(precision)
    for tau in taus:
        off = []
        for repeat in range(repeats):
            heard = noised(Told(*map(np.asarray, exact)), tau, shape, seed + repeat, people)
            away = _estimate(np.asarray(heard.gram))[0] - mean
            white = np.einsum("lij,li->lj", roots, away)
            off.append((np.mean(white**2), np.mean((np.sum(contrasts * away, 1) / sd_of_effect) ** 2)))
        yield Price(people, shape, tau, *np.sqrt(np.mean(off, 0)).tolist())


def contrast(model: Any, theta: Array, rows: Array) -> Float[Array, "q"]:
    """The average over people of z(1) − z(0): its product with β̃ is the average effect."""
    d = model.covariates
    return jnp.mean(model.design(model.unravel(theta), rows[:, :d], jnp.tile(jnp.array([[-1.0, 1.0]]), (len(rows), 1))),
                    0)


def _estimate(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(β̂, P) of each draw, from the nearest T̃ that could be one."""
    values, vectors = np.linalg.eigh(gram)
    whole = (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
    precision = whole[:, :-1, :-1] + np.eye(whole.shape[1] - 1)
    return _solve(precision, whole[:, :-1, -1]), precision


def _solve(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.linalg.solve(matrix, vector[..., None])[..., 0]
