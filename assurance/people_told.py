"""All that a study tells after its units, as a smooth function of one column of covariates, and its derivative.

    statistics   T, v, yᵀC⁻¹y, log|C| of every θ              of all sites together
    gradients    pulled back from what those sums came to     of all sites together
    products     of the preset `few`: of a dictionary's columns, and the series of own functions, in their place
    effects      sums of effects of every draw                of all sites together
    own          averages of effects                          of each site, in the clear
    moments      mean and mean square of the column           of all sites together

It is the package's own code that is differentiated, so nothing that leaves can be forgotten here and the model may
change: f(u) [K] of the column u [n] in model units, all else as it is, and J [K, n]. With noise τ on each number, in
units of its size (rounding: 1e-12), and a prior of one sd on everybody, what is left of a person is

    sd_i² = [(I + JᵀJ/τ²)⁻¹]_ii = 1 − h_i,    h_i = Σ_k V_ki² s_k²/(s_k² + τ²),    J = U diag(s) V,    Σ h ≤ K

so h_i is the leverage of person i in all that was told: who weighs more than 0.91 in some combination of the numbers
is known to 0.3 sd, by one who knows all else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedci.coordinator.talk import Talk, Total
from fedci.effect import REALISED, person_weights
from fedci.model import exact
from fedci.model.exact import ExactRows
from fedci.model.family import Ask
from fedci.model.rows import BetaLaw
from fedci.model.shared import dictionary, evidence, home, learnt, sparse
from fedci.model.shared.dictionary import Stage
from fedci.model.shared.evidence import SharedDraws, Statistics
from fedci.model.shared.exchanges import EFFECTS, PULL_BACK, STATISTICS
from fedci.model.shared.few_family import PRODUCTS
from fedci.model.shared.home import OwnSeries
from fedci.model.shared.sparse import Blocks

ROUNDING = 1e-12
"""τ of exact numbers: what float64 leaves of them."""
SPARSE_SD = 8
"""Σ_i sd(τ_i) is told from every eighth draw (`site.summing`)."""
OWN_AVERAGES = 2 * 3 + 2 * 4 * 3 + 4
"""Means and variances of expected effects in three populations, of realised ones at four correlations; sds."""
KINDS = ("statistics", "gradients", "products", "effects", "own", "moments")
NAMES = {STATISTICS: "statistics", PULL_BACK: "gradients", PRODUCTS: "products", EFFECTS: "effects"}


class Exchange(NamedTuple):
    """What was asked of all sites, and what the coordinator has of it."""

    ask: Ask
    total: Total


class Part(NamedTuple):
    """Numbers of one kind: f(u) and J."""

    kind: str
    values: np.ndarray
    slopes: np.ndarray


@contextmanager
def listening(kept: list[Exchange]) -> Iterator[None]:
    """While it lasts, every exchange of a fit and its effects is kept, as the coordinator in this process has it."""
    original = Talk.total

    def total(talk: Talk, ask: Any) -> Total:
        found = original(talk, ask)
        if ask.name in NAMES:
            kept.append(Exchange(ask, found))
        return found

    Talk.total = total
    try:
        yield
    finally:
        Talk.total = original


# --- what one site tells

class Site(NamedTuple):
    """Its rows in model units; which column is free; of a large site, who the inducing inputs are."""

    rows: ExactRows | Blocks
    free: int
    induced: Any = None

    def column(self) -> np.ndarray:
        """[n] in the order of the site's table."""
        x = np.asarray(self.rows.x)[..., self.free]
        if isinstance(self.rows, ExactRows):
            return x[:self.rows.people()]
        found = np.empty(self.rows.people() + 1)
        found[np.asarray(self.rows.row)] = x
        return found[:-1]

    def moved(self, column: Any) -> Any:
        if isinstance(self.rows, ExactRows):
            return self.rows._replace(x=self.rows.x.at[:len(column), self.free].set(column))
        padded = jnp.append(column, 0.0)
        return self.rows._replace(x=self.rows.x.at[..., self.free].set(padded[self.rows.row]),
                                  inducing=self.rows.inducing.at[:, self.free].set(column[self.induced]))


def site_of(rows: ExactRows | Blocks, free: int) -> Site:
    bare = Site(rows, free)
    if isinstance(rows, ExactRows):
        return bare
    x = np.empty((rows.people() + 1, rows.x.shape[-1]))
    x[np.asarray(rows.row)] = np.asarray(rows.x)
    away = np.abs(x[:-1, None] - np.asarray(rows.inducing)[None]).sum(-1)
    return Site(rows, free, away.argmin(0))


def _of_draw(model: Any, vector: Any, rows: Any) -> Statistics:
    jitter = model.options.jitter
    return evidence.of_draw(model, vector, rows, jitter, rows.sums_over_rows(model, vector, jitter))


def _statistics(model: Any, vector: Any, site: Site, column: Any) -> Any:
    found = _of_draw(model, vector, site.moved(column))
    return jnp.concatenate([jnp.ravel(part) for part in found])


def _gradient(model: Any, vector: Any, cotangent: Statistics, site: Site, column: Any) -> Any:
    rows = site.moved(column)
    return jax.vjp(lambda v: _of_draw(model, v, rows), vector)[1](cotangent)[0]


def _first_products(model: Any, point: Any, site: Site, column: Any) -> Any:
    """At a point of which nothing is known yet."""
    return jnp.concatenate([jnp.ravel(part) for part in _of_draw(dictionary.of(model, Stage.FIRST), point,
                                                                 site.moved(column))])


def _products(stage: Stage, model: Any, point: Any, law: BetaLaw, site: Site, column: Any) -> Any:
    rows = site.moved(column)
    total = _of_draw(dictionary.of(model, stage), point, rows)
    series = home.own_series(model, point[:model.size], law, rows, model.options.jitter)
    return jnp.concatenate([jnp.ravel(part) for part in (*total, *series)])


LATER = {stage: partial(_products, stage) for stage in Stage if stage != Stage.FIRST}
"""Of the messages after the first; one function of each, so that it is compiled once."""


def _effects(model: Any, draws: SharedDraws, correlations: Any, weights: Any, unit: Any, site: Site,
             column: Any) -> Any:
    """[K] as `effect.effect_sums` has them, and then the site's own averages [k]; `unit`: the outcome's."""
    rows, jitter = site.moved(column), model.options.jitter
    some = jax.tree.map(lambda leaf: leaf[::SPARSE_SD], draws)
    if isinstance(rows, ExactRows):
        found = exact.weighted_effects(model, np.zeros(0), rows, draws, weights, correlations, jitter)
        each = exact.realised_each(model, np.zeros(0), rows, some, correlations, jitter)
        spread = _spread(each) @ rows.mask
    else:
        found = sparse._effects(model, rows, sparse._learnt(model, rows, draws, jitter), correlations)
        known = sparse._learnt(model, rows, some, jitter)
        spread = sum(_spread(sparse._realised(model, learnt.Block(rows.x[k], rows.y[k], rows.weight[k], rows.arm[k]),
                                              correlations, rows.added, known)) @ rows.mask[k]
                     for k in range(rows.x.shape[0]))
    (cate, cate_var), (ite, ite_var) = found.cate, found.ite
    told = ite[::REALISED]
    told = told + (ite.mean(0) - told.mean(0))[None]
    cate, told, spread = unit * cate, unit * told, unit * spread
    cate_var, ite_var = unit**2 * cate_var, unit**2 * ite_var
    summed = cate, cate_var.mean(0), told, ite_var.mean(0), spread
    own = cate.mean(0), cate_var.mean(0) + cate.var(0), told.mean(0), ite_var.mean(0) + told.var(0), spread
    return jnp.concatenate([jnp.ravel(part) for part in (*summed, *own)])


def _spread(each: Any) -> Any:
    """[C, n] sd(τ_i)."""
    return jnp.sqrt(jnp.maximum(each.var.mean(0) + each.mean.var(0), 1e-300))


@partial(jax.jit, static_argnums=(0, 1))
def _values(function: Callable[..., Any], model: Any, given: tuple[Any, ...], column: Any) -> Any:
    return function(model, *given, column)


@partial(jax.jit, static_argnums=(0, 1))
def _slopes(function: Callable[..., Any], model: Any, given: tuple[Any, ...], column: Any) -> Any:
    """J [K, n], row by row: memory of one."""
    values, back = jax.vjp(lambda u: function(model, *given, u), column)
    return jax.lax.map(lambda one: back(one)[0], jnp.eye(len(values)))


@partial(jax.jit, static_argnums=(0, 1))
def _pulled(function: Callable[..., Any], model: Any, given: tuple[Any, ...], column: Any, weights: Any) -> Any:
    """Jᵀ weights."""
    return jax.vjp(lambda u: function(model, *given, u), column)[1](weights)[0]


# --- what all of them tell


class Piece(NamedTuple):
    """Numbers that every site has a part of: function(model, *given, site, column) [K] of each; of the first `summed`
    the sum over sites is told, the others by each."""

    kind: str
    function: Callable[..., Any]
    given: Sequence[tuple[Any, ...]]
    """Of each site."""
    summed: int | None = None


class Listener:
    """Who has all exchanges of a study, and knows everything but one column."""

    def __init__(self, model: Any, sites: Sequence[ExactRows | Blocks], exchanges: Sequence[Exchange], free: int,
                 names: Sequence[str] = (), unit: float = 1.0):
        """`unit`: of the outcome; `names`: of the sites, in their order."""
        self.model, self.exchanges, self.names, self.unit = model, tuple(exchanges), tuple(names), unit
        self.sites = [site_of(rows, free) for rows in sites]
        self.sizes = [rows.people() for rows in sites]
        self.truth = np.concatenate([site.column() for site in self.sites])
        self.pieces = [piece for exchange in self.exchanges for piece in self._pieces(exchange.ask)]
        column = self.columns(self.truth)[0]
        self.lengths = [jax.eval_shape(partial(piece.function, model), *piece.given[0], column).shape[0]
                        for piece in self.pieces]

    def _pieces(self, ask: Ask) -> Iterator[Piece]:
        arrays, kind = ask.arrays, NAMES[ask.name]
        if float(np.asarray(arrays.get("few", 0.0))):
            raise ValueError("a first stage looks at some people only: optimiser.first_rows = 0")
        if kind == "effects":
            draws = SharedDraws(jnp.asarray(arrays["thetas"]), jnp.asarray(arrays["betas"]))
            correlations = np.asarray(arrays["correlations"])
            given = [(draws, correlations, _weights(site.rows), self.unit, site) for site in self.sites]
            yield Piece(kind, _effects, given, summed=-OWN_AVERAGES)
            return
        if kind == "products":
            stage = Stage(int(arrays["stage"]))
            law = BetaLaw(jnp.asarray(arrays["beta_mean"]), jnp.asarray(arrays["beta_root"]))
            point = jnp.asarray(arrays["point"])
            yield Piece(kind, LATER.get(stage, _first_products),
                        [(point, law, site) if stage else (point, site) for site in self.sites])
            return
        for k, vector in enumerate(np.asarray(arrays["thetas"])):
            asked: tuple[Any, ...] = (vector,)
            if kind == "gradients":
                asked = vector, Statistics(*(jnp.asarray(arrays[name][k]) for name in Statistics._fields))
            yield Piece(kind, _gradient if kind == "gradients" else _statistics,
                        [(*asked, site) for site in self.sites])

    def columns(self, column: np.ndarray) -> list[np.ndarray]:
        """Of each site."""
        return np.split(np.asarray(column), np.cumsum(self.sizes)[:-1])

    def parts(self, column: np.ndarray) -> list[Part]:
        """Of a column [n] in model units, kind by kind."""
        found = [_moments(column)]
        for piece in self.pieces:
            each = [(np.asarray(_values(piece.function, self.model, given, own)),
                     np.asarray(_slopes(piece.function, self.model, given, own)))
                    for given, own in zip(piece.given, self.columns(column), strict=True)]
            cut = piece.summed
            found.append(_added(piece.kind, [(values[:cut], slopes[:cut]) for values, slopes in each]))
            if cut is not None:
                found.append(_side_by_side([(values[cut:], slopes[cut:]) for values, slopes in each]))
        return found

    def values(self, column: np.ndarray) -> np.ndarray:
        """[K] in the order of `parts`."""
        found = [_moments(column).values]
        for piece in self.pieces:
            each = [np.asarray(_values(piece.function, self.model, given, own))
                    for given, own in zip(piece.given, self.columns(column), strict=True)]
            found.append(sum(values[:piece.summed] for values in each))
            found += [values[piece.summed:] for values in each] if piece.summed is not None else []
        return np.concatenate(found)

    def pulled(self, column: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """[n] Jᵀ weights [K], at the price of two evaluations."""
        found, at = _moments(column).slopes.T @ weights[:2], 2
        for piece, length in zip(self.pieces, self.lengths, strict=True):
            beside = -piece.summed if piece.summed is not None else 0
            shared, at = weights[at:at + length - beside], at + length - beside
            mine = np.split(weights[at:at + beside * len(self.sizes)], len(self.sizes))
            at += beside * len(self.sizes)
            found = found + np.concatenate([
                np.asarray(_pulled(piece.function, self.model, given, own, np.concatenate([shared, extra])))
                for given, own, extra in zip(piece.given, self.columns(column), mine, strict=True)])
        return found

    def units(self) -> np.ndarray:
        """[K] the size of each number as it was told."""
        return size_of(self._told())

    def told(self) -> np.ndarray:
        return np.concatenate(self._told())

    def _told(self) -> list[np.ndarray]:
        """The numbers as the coordinator has them, in the order of `parts`; of the column its moments, which units
        are made of."""
        found = [_moments(self.truth).values]
        for ask, total in self.exchanges:
            sums = {name: np.asarray(part) for name, part in total.sums.items()}
            if ask.name == STATISTICS:
                found += [np.concatenate([np.ravel(sums[name][k]) for name in Statistics._fields])
                          for k in range(len(sums["square"]))]
            elif ask.name == PULL_BACK:
                found += list(sums["gradient"])
            elif ask.name == PRODUCTS:
                series = [f"own_{name}" for name in OwnSeries._fields] if ask.arrays["stage"] else []
                names = [*Statistics._fields, *series]
                found.append(np.concatenate([np.ravel(sums[name]) for name in names]))
            else:
                found += [_flat(sums), np.concatenate([_flat(total.sites[name]) for name in self.names])]
        return found


def _weights(rows: ExactRows | Blocks) -> np.ndarray | None:
    return person_weights(np.asarray(rows.w), np.asarray(rows.mask)) if isinstance(rows, ExactRows) else None


def _flat(sums: Any) -> np.ndarray:
    """Of effects."""
    return np.concatenate([np.ravel(sums[name]) for name in ("cate_mean", "cate_var", "ite_mean", "ite_var", "ite_sd")])


def _moments(column: np.ndarray) -> Part:
    n = len(column)
    slopes = np.stack([np.full(n, 1.0 / n), 2.0 * np.asarray(column) / n])
    return Part("moments", np.array([np.mean(column), np.mean(np.square(column))]), slopes)


def _added(kind: str, each: Sequence[tuple[Any, Any]]) -> Part:
    return Part(kind, sum(values for values, _ in each), np.hstack([slopes for _, slopes in each]))


def _side_by_side(each: Sequence[tuple[Any, Any]]) -> Part:
    """Each site's own: of nobody elsewhere."""
    starts = np.cumsum([0, *(slopes.shape[1] for _, slopes in each)])
    slopes = [np.pad(one, ((0, 0), (start, starts[-1] - start - one.shape[1])))
              for (_, one), start in zip(each, starts[:-1], strict=True)]
    return Part("own", np.concatenate([values for values, _ in each]), np.vstack(slopes))


# --- the bound


def in_units(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
    """(f [K], J [K, n]), each number in units of its size."""
    values, unit = [part.values for part in parts], size_of([part.values for part in parts])
    return np.concatenate(values) / unit, np.vstack([part.slopes for part in parts]) / unit[:, None]


def size_of(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Of each number: its own and that of those beside it."""
    return np.concatenate([np.abs(part) + np.sqrt(np.mean(part**2)) for part in parts])


def left(parts: Sequence[Part], kinds: Sequence[str] = KINDS, tau: float = ROUNDING) -> np.ndarray:
    """[n] the sd, of its prior's, to which each person's value is left open by the numbers of these kinds."""
    _, slopes = in_units([part for part in parts if part.kind in kinds])
    _, values, vectors = np.linalg.svd(slopes, full_matrices=False)
    share = values**2 / (values**2 + tau**2)
    return np.sqrt(np.maximum(1.0 - share @ vectors**2, 0.0))
