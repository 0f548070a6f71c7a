"""The effects of a site's own people, from what the site knows of the fitted model: they stay at the site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from scipy.special import expit

from fedci.effect import Effect, Rates, Risks
from fedci.model import predict
from fedci.model.completed import completed_rows
from fedci.model.family import Family
from fedci.model.likelihood import BINARY, COUNT
from fedci.model.rows import Draws, Known, Moments, Rows
from fedci.model.shared.interval_rows import curves_at
from fedci.site.prepared import Prepared
from fedci.table.table import Table

SIZES = (8, 64, 512)
"""New people predicted at a time, some of them padding: the last bounds memory, and few shapes mean few compilations,
each of which takes longer than the padding."""


CURVES = (8, 64)
"""The same where each of them has a row for each interval."""
Pair = tuple[int, int]
"""(the arm that is compared with, the arm): (untreated, treated) where there are two."""
PAIR: Pair = (0, 1)


@dataclass(frozen=True)
class Posterior:
    """What a site needs for its own predictions; received with the last request, kept at the site."""

    vector: np.ndarray
    draws: Draws
    jitter: float
    known: Known | None = None
    """What predictions need of the site's rows, where it was worked out already."""


def lines_of(table: Table, rows: np.ndarray) -> np.ndarray:
    """Where people stand in the site's file, who stand in `rows` of the rows that were read from it."""
    return rows if table.lines is None else table.lines


@dataclass(frozen=True)
class People:
    """Those of one site, once it has the posterior: all that their effects need, and nothing of the run."""

    table: Table
    rows: np.ndarray
    """[n] where they stand in the site's file, from 0; linkage may have left others out."""
    ready: Prepared
    q: Posterior

    @cached_property
    def known(self) -> Known:
        """What predictions need of the site's rows; of a large site's it is work."""
        return self.q.known or self.ready.rows.known(self.ready.model, self.q.draws, self.q.jitter)

    def cate(self, x: np.ndarray | None = None, outcome_noise: bool = False, pair: Pair = PAIR) -> Effect:
        """τ(x) of new people (raw covariates [p, d]) or, without x, of the site's own; of risks their difference."""
        ready, q = self.ready, self.q
        if ready.model.outcome != "numeric":
            return self.risks(x, pair).difference
        x = self._covariates(x)
        return stream_cate(ready.model, q.vector, self.known, q.draws, x, q.jitter, ready.units.y_sd, outcome_noise,
                           pair)

    def _covariates(self, x: np.ndarray | None) -> np.ndarray:
        """In the model's units; [K, p, d] where what is missing is drawn: of the site's own people given their outcome
        as well."""
        ready = self.ready
        if x is None and ready.own is not None:
            return ready.own
        return ready.units.covariates(self.table.x if x is None else x, ready.levels)

    def risks(self, x: np.ndarray | None = None, pair: Pair = PAIR) -> Rates:
        """Risks (or rates) of new people (raw covariates [p, d]) or, without x, of the site's own."""
        ready, q = self.ready, self.q
        if ready.model.intervals:
            return by_the_end(self.curves(x), pair)
        x = self._covariates(x)
        return stream_risks(ready.model, q.vector, self.known, q.draws, x, q.jitter, rate=ready.rate, pair=pair)

    def curves(self, x: np.ndarray | None = None) -> np.ndarray:
        """[L, p, J, A] survival of new people or, without x, of the site's own."""
        ready, x = self.ready, self._covariates(x)
        return stream_curves(ready.model, self.known, x, int(ready.rows.index))

    def ite(self, noise_correlation: float | None = None) -> Effect:
        """Realised effects of the site's own people, in the table's order."""
        ready, everybody = self.ready, slice(0, len(self.table.y))
        return _squeezed(_each(ready.model, self.q, ready.rows, _given(noise_correlation), ready.units.y_sd, everybody,
                               self.known))

    def impute(self, x: np.ndarray, w: np.ndarray, y: np.ndarray, noise_correlation: float | None = None,
               draws: int | None = None) -> Effect:
        """Realised effects of *other* people whose outcome is known: they are conditioned on like the site's own."""
        ready, t = self.ready, self.table
        q = replace(self.q, draws=jax.tree.map(lambda leaf: leaf[:draws], self.q.draws))
        every_w, every_y = np.concatenate([t.w, w]), ready.units.outcome(np.concatenate([t.y, y]))

        def rows(every_x: np.ndarray) -> Rows:
            return ready.model.rows(every_x, every_w, every_y, np.asarray(ready.rows.u), int(ready.rows.index),
                                    float(ready.rows.added), _clusters(t, len(w)))

        both = (rows(ready.units.filled(np.vstack([t.x, x]))) if ready.own is None else
                completed_rows([rows(copy) for copy in np.concatenate([ready.own, self._completed(x, w, y)], 1)]))
        others = slice(len(t.y), len(every_y))
        return _squeezed(_each(ready.model, q, both, _given(noise_correlation), ready.units.y_sd, others))

    def _completed(self, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> np.ndarray:
        """[K, p, d] of other people of the site whose arm and outcome are known."""
        completion, levels = self.ready.units.completion, self.ready.levels
        if completion is None or levels is None:
            raise AssertionError("where copies of the site's people are, their laws are")
        v, keys = self.ready.units.known(x, w, y)
        return completion.people(v, w, keys, levels)


def _clusters(table: Table, more: int) -> np.ndarray | None:
    """Of the site's people, and of so many others, each in none of theirs."""
    own = table.cluster
    return None if own is None else np.concatenate([own, own.max(initial=-1) + 1 + np.arange(more)])


def _each(model: Family, q: Posterior, rows: Rows, correlations: np.ndarray, y_sd: float, which: slice,
          known: Known | None = None) -> Effect:
    """Realised effects [L, C, people] in outcome units, in the order of the rows."""
    parts = list(rows.realised(model, q.vector, q.draws, correlations, q.jitter, known))
    order = np.argsort(np.concatenate([places for places, _ in parts]))[which]
    mean, var = (np.concatenate([getattr(moments, name) for _, moments in parts], -1)[..., order]
                 for name in ("mean", "var"))
    return Effect(mean, var).scaled(y_sd)


def summed_sd(model: Family, q: Posterior, rows: Rows, correlations: np.ndarray, y_sd: float) -> np.ndarray:
    """[C] Σ_i sd(τ_i)."""
    parts = rows.realised(model, q.vector, q.draws, correlations, q.jitter, q.known)
    each = (Effect(np.asarray(moments.mean), np.asarray(moments.var)).sd for _, moments in parts)
    return y_sd * sum((sd.sum(1) for sd in each), np.zeros(len(correlations)))


def _given(noise_correlation: float | None) -> np.ndarray:
    return np.array([np.nan if noise_correlation is None else noise_correlation])


def _squeezed(effect: Effect) -> Effect:
    """[L, 1, n] → [L, n]."""
    return Effect(effect.means[:, 0], effect.variances[:, 0])


def by_the_end(curves: np.ndarray, pair: Pair = PAIR) -> Risks:
    """Risks by the last horizon, from curves [L, p, J, A]."""
    return Risks(*(1.0 - curves[:, :, -1, arm] for arm in pair))


def stream_curves(model: Any, known: Any, x: np.ndarray, index: int, drawn: bool = True) -> np.ndarray:
    """[L, p, J, A] survival of any number of people for every draw of (θ, β), with the site's own function drawn from
    its law, or at its mean."""
    key = jax.random.fold_in(jax.random.PRNGKey(9), index)
    parts = [np.asarray(curves_at(model, known, padded, key, drawn))[:, :count] for count, padded in _chunks(x, CURVES)]
    return np.concatenate(parts, 1)


def _chunks(x: np.ndarray, sizes: tuple[int, ...]) -> Iterator[tuple[int, np.ndarray]]:
    """(how many people, they and padding), of one shape; x [p, d], or completed copies [K, p, d]."""
    people = x.shape[-2]
    chunk = next((size for size in sizes if people <= size), sizes[-1])
    for start in range(0, max(people, 1), chunk):
        part = x[..., start:start + chunk, :]
        count = part.shape[-2]
        yield count, np.pad(part, [(0, 0)] * (x.ndim - 2) + [(0, chunk - count), (0, 0)])


def stream_risks(model: Family, vector: np.ndarray, known: Known, draws: Draws, x: np.ndarray, jitter: float,
                 drawn: bool = True, rate: float = 1.0, pair: Pair = PAIR) -> Rates:
    """r₀ and r₁ of any number of people for every draw of (θ, β): σ of log odds (or e to the log rates) drawn from
    their law, or its mean."""
    parts = []
    for count, padded in _chunks(x, SIZES):
        mean, cov = (np.asarray(law)[:, :count]
                     for law in predict.outcomes_at(model, vector, known, draws, padded, jitter))
        if model.arms > 2:
            mean, cov = mean[..., list(pair)], cov[..., list(pair), :][..., list(pair)]
        var = np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0)
        if model.outcome == "count":
            parts.append(rate * (np.exp(_drawn(mean, cov)) if drawn else COUNT.risk(mean, var)))
        else:
            parts.append(expit(_drawn(mean, cov)) if drawn else BINARY.risk(mean, var))
    return (Rates if model.outcome == "count" else Risks)(*np.moveaxis(np.concatenate(parts, 1), -1, 0))


def _drawn(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """[L, p, 2] one draw from each N(mean, cov), in antithetic pairs; all people of a draw share its two normals: an
    average over people is then more uncertain than it need be, never less."""
    half = np.random.default_rng(9).standard_normal((-(-len(mean) // 2), 2))
    normals = np.stack([half, -half], 1).reshape(-1, 2)[:len(mean)]
    first = np.sqrt(np.maximum(cov[..., 0, 0], 1e-300))
    across = cov[..., 0, 1] / first
    rest = np.sqrt(np.maximum(cov[..., 1, 1] - across**2, 0.0))
    return mean + np.stack([first * normals[:, :1], across * normals[:, :1] + rest * normals[:, 1:]], -1)


def stream_cate(model: Family, vector: np.ndarray, known: Known, draws: Draws, x: np.ndarray, jitter: float,
                y_sd: float, outcome_noise: bool, pair: Pair = PAIR) -> Effect:
    """τ(x) for any number of people, in chunks of one shape; with outcome noise it is a person's realised effect."""
    parts = []
    for count, padded in _chunks(x, SIZES):
        moments = (predict.cate_at(model, vector, known, draws, padded, jitter) if model.arms == 2 else
                   _contrast(predict.outcomes_at(model, vector, known, draws, padded, jitter), pair))
        parts.append(jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:, :n], moments))
    mean, var = (np.concatenate([getattr(p, k) for p in parts], axis=1) for k in ("mean", "var"))
    if outcome_noise:
        var = var + np.asarray(predict.noise_variance(model, vector, draws, pair))[:, None]
    return Effect(mean, var).scaled(y_sd)


def _contrast(arms: Any, pair: Pair) -> Moments:
    """Of one of more arms against another."""
    (mean, cov), (against, arm) = map(np.asarray, arms), pair
    var = cov[..., arm, arm] + cov[..., against, against] - 2.0 * cov[..., arm, against]
    return Moments(mean[..., arm] - mean[..., against], np.maximum(var, 0.0))
