"""A site: owns its rows, answers typed requests with sums, and makes its own people's effects locally.

    Hello → (linkage) → AskMoments → Prepare → Evaluate … → AskEffects

`answer` is the one door: whatever leaves the site leaves through it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from fedci.data import Table, restricted
from fedci.errors import (
    DisclosureError,
    FedciError,
    HandshakeError,
    MessageError,
    NumericalError,
    SiteError,
    UsageError,
)
from fedci.estimands import Effect
from fedci.federation.site_linkage import SiteLinkage
from fedci.messages import (
    AskEffects,
    AskLinkKey,
    AskMoments,
    AskSharedEffects,
    AskStatistics,
    AskTokens,
    Evaluate,
    Exclude,
    Hello,
    Message,
    Prepare,
    PullBack,
    Refusal,
    Reply,
    TakeLinkKey,
    Tokens,
    WrapLinkKey,
)
from fedci.model import elbo, evidence, padding, predict
from fedci.model.evidence import Statistics
from fedci.model.law import AnyModel
from fedci.model.posterior import Roots
from fedci.model.shared import SharedModel
from fedci.model.structure import model_of
from fedci.moments import describe_site
from fedci.options import FitOptions, validated
from fedci.privacy.agreement import Credentials
from fedci.study import Study
from fedci.version import __version__

POPULATIONS = ("all", "treated", "control")
"""Whom an average effect is over: ATE, ATT, ATC."""
JITTERS = 7
"""The ladder: the model's jitter, then ten times more, … six times (1e-10 → 1e-4)."""
CHUNK = 512
"""New people predicted at a time: bounds memory, and one shape means one compilation."""


@dataclass(frozen=True)
class Units:
    """How this study's rows become the model's: pooled centre and spread, and indicators of missing values."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float
    indicators: np.ndarray

    def covariates(self, x: np.ndarray) -> np.ndarray:
        """[n, d] raw, NaN where missing → [n, d + indicators]: centred, missing set to the pooled mean, flags added."""
        missing = np.isnan(x)
        scaled = np.where(missing, 0.0, (x - self.x_mean) / self.x_sd)
        return np.hstack([scaled, missing[:, self.indicators].astype(float)])

    def outcome(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_mean) / self.y_sd


@dataclass(frozen=True)
class Prepared:
    """The site once it knows the common units."""

    model: AnyModel
    units: Units
    arrays: elbo.SiteArrays


@dataclass(frozen=True)
class Posterior:
    """What a site needs for its own predictions; received with the last request, kept at the site."""

    vector: np.ndarray
    draws: predict.Draws | predict.SharedDraws
    jitter: float


class Site:
    """One party of a study. `table` never leaves; `answer` sends sums."""

    def __init__(self, study: Study, table: Table, credentials: Credentials | None = None):
        self.study, self.table, self.name = study, table, table.site
        self.whole, self.credentials = table, credentials or Credentials()
        self.linkage: SiteLinkage | None = None
        self.kept = np.arange(table.rows)
        """Rows of the whole table that are in `table`; linkage may leave some out."""
        self.described = False
        """Whether moments have left: then the rows stay as they are, or two answers would tell one person's."""
        self.options: FitOptions | None = None
        self.prepared: Prepared | None = None
        self.posterior: Posterior | None = None
        self.jitter: float | None = None
        """What the last statistics needed; their pull-back takes the same."""

    def answer(self, request: Message) -> Reply | Tokens | Refusal:
        """The reply to one request; an error becomes a Refusal with its code and reason, never a traceback."""
        try:
            return self._handler(request)(request)
        except FedciError as problem:
            return Refusal(request.run, request.round, self.name, problem.code, str(problem))

    def _handler(self, request: Message):
        handlers = {Hello: self._hello, AskMoments: self._moments, Prepare: self._prepare,
                    Evaluate: self._evaluate, AskEffects: self._effects, AskStatistics: self._statistics,
                    PullBack: self._pull_back, AskSharedEffects: self._effects}
        handlers |= dict.fromkeys((AskLinkKey, WrapLinkKey, TakeLinkKey, AskTokens, Exclude), self._link)
        if request.site != self.name:
            raise SiteError(f"site '{self.name}' got a request meant for another site")
        if type(request) not in handlers:
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__}")
        return handlers[type(request)]

    def _reply(self, request: Message, sums: dict, **notes) -> Reply:
        arrays = {name: np.asarray(value) for name, value in sums.items()}
        return Reply(request.run, request.round, self.name, arrays, notes)

    # --- the phases

    def _hello(self, request: Hello) -> Reply:
        for what, ours, theirs in (("version of fedci", __version__, request.version),
                                   ("study", self.study.hash(), request.study_hash)):
            if ours != theirs:
                raise HandshakeError(f"site '{self.name}': the {what} differs: {ours} here, "
                                     f"{theirs} at the coordinator")
        self.options = validated(FitOptions, request.options, where="options sent by the coordinator")
        padding.check_memory(self.name, len(self.table.y), self.options.optimiser.draws)
        return self._reply(request, {}, warnings=list(self.whole.warnings))

    def _link(self, request: Message) -> Reply | Tokens:
        """Linkage, and after its last request the table without the people who stay elsewhere."""
        self._require(self.options, "a handshake")
        if not self.study.links or self.described:
            raise SiteError(f"site '{self.name}' was asked out of turn: linkage comes before the moments, in a study "
                            f"with ids")
        if isinstance(request, AskLinkKey) and (self.linkage is None or self.linkage.run != request.run):
            self.linkage = SiteLinkage(self.study, self.whole, request.run, self.credentials)
        answer = self._require(self.linkage, "a linkage").answer(request)
        if self.linkage.kept is None:
            return answer
        self.restore_linkage(self.linkage.kept)
        return replace(answer, notes=answer.notes | {"warnings": list(self.table.warnings[len(self.whole.warnings):])})

    def restore_linkage(self, kept: np.ndarray) -> None:
        """Only these rows of the whole table take part; the policy's minimum sizes hold for them too."""
        self.table, self.kept = restricted(self.study, self.whole, kept), kept

    def _moments(self, request: AskMoments) -> Reply:
        self._require(self.options, "a handshake")
        self.described = True
        t = self.table
        told = describe_site(t.x, t.w, t.y, t.kinds, self.study.policy)
        return self._reply(request, {
            "x": told.x.values, "x_count": told.x.count, "suppressed": told.suppressed, "incomplete": told.incomplete,
            "y0": told.y[0].values, "y0_count": told.y[0].count, "y1": told.y[1].values, "y1_count": told.y[1].count,
            "w": told.w.values, "w_count": told.w.count})

    def _prepare(self, request: Prepare) -> Reply:
        self._require(self.options, "a handshake")
        units = Units(request.x_mean, request.x_sd, request.y_mean, request.y_sd, request.indicators)
        x = units.covariates(self.table.x)
        model = model_of(self.options.model, x.shape[1], self.table.x.shape[1], request.sites)
        check_statistics(self.study, self.name, self.table.rows, model)
        arrays = padding.pad_site(x, self.table.w, units.outcome(self.table.y), request.u, request.index)
        self.prepared = Prepared(model, units, arrays)
        return self._reply(request, {})

    def _evaluate(self, request: Evaluate) -> Reply:
        """The named sums of one round. A numerical failure is counted, not raised: the optimiser then steps back."""
        ready = self._require(self.prepared, "the common units")
        self._check_shapes(request)
        roots = Roots(request.phi_roots, request.sigma_roots)
        for jitter in self._jitters(ready.model):
            value, (gradient, by_roots) = jax.device_get(
                elbo.evaluate_site(ready.model, request.theta, roots, ready.arrays, jitter))
            if all(np.isfinite(part).all() for part in (value, gradient, *by_roots)):
                return self._reply(request, {
                    "objective": value, "gradient": gradient, "phi_roots": by_roots.phi,
                    "sigma_roots": by_roots.sigma, "failed": 0}, **self._jitter_note(jitter))
        zeros = np.zeros_like(request.phi_roots)
        return self._reply(request, {"objective": 0.0, "gradient": np.zeros_like(request.theta), "phi_roots": zeros,
                                     "sigma_roots": zeros, "failed": 1})

    def _statistics(self, request: AskStatistics) -> Reply:
        """The sums of the first half of a round; a numerical failure is counted, as in `_evaluate`."""
        ready = self._require(self.prepared, "the common units")
        self._check_thetas(request)
        for jitter in self._jitters(ready.model):
            found = jax.device_get(evidence.statistics(ready.model, request.thetas, ready.arrays, jitter))
            if all(np.isfinite(part).all() for part in found):
                self.jitter = jitter
                return self._reply(request, found._asdict() | {"failed": 0}, **self._jitter_note(jitter))
        return self._reply(request, {name: np.zeros_like(part) for name, part in found._asdict().items()}
                           | {"failed": 1})

    def _pull_back(self, request: PullBack) -> Reply:
        ready = self._require(self.prepared, "the common units")
        self._check_thetas(request)
        cotangents = Statistics(*(getattr(request, name) for name in Statistics._fields))
        self._check_arrays(dict(zip(Statistics._fields, cotangents, strict=True)),
                           evidence.shapes(ready.model, len(request.thetas)))
        gradient = evidence.pull_back(ready.model, request.thetas, ready.arrays, self.jitter, cotangents)
        return self._reply(request, {"gradient": gradient})

    def _check_thetas(self, request: AskStatistics | PullBack | AskSharedEffects) -> None:
        model = self.prepared.model
        if not isinstance(model, SharedModel):
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__} in this study: its model "
                            f"is not 'shared'")
        self._check_arrays({"thetas": request.thetas}, {"thetas": (len(np.atleast_1d(request.thetas)), model.size)})

    def _check_shapes(self, request: Evaluate | AskEffects) -> None:
        """Θ of this model, and as many Φ as Σ (and g): refused before anything is computed."""
        model = self.prepared.model
        if isinstance(model, SharedModel):
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__} in this study: its model "
                            f"is 'shared'")
        draws = len(np.atleast_1d(request.phi_roots))
        expected = {"theta": (model.size,), "phi_roots": (draws, 2, 2), "sigma_roots": (draws, 2, 2)}
        expected |= {"g": (draws, 2)} if isinstance(request, AskEffects) else {}
        self._check_arrays({name: getattr(request, name) for name in expected}, expected)

    def _check_arrays(self, arrays: dict[str, np.ndarray], expected: dict[str, tuple]) -> None:
        for name, shape in expected.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64:
                raise MessageError(f"site '{self.name}': {name} has shape {array.shape} and type {array.dtype}, "
                                   f"needs {shape} and float64")

    def _jitters(self, model: AnyModel) -> list[float]:
        return [model.options.jitter * 10.0**k for k in range(JITTERS)]

    def _jitter_note(self, jitter: float) -> dict:
        return {"jitter": jitter} if jitter != self.prepared.model.options.jitter else {}

    def _effects(self, request: AskEffects | AskSharedEffects) -> Reply:
        ready = self._require(self.prepared, "the common units")
        vector, draws = self._received_draws(request)
        for jitter in self._jitters(ready.model):
            own = predict.site_effects(ready.model, vector, ready.arrays, draws, self._weights(),
                                       request.correlations, jitter)
            own = jax.device_get(own)
            if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(own)):
                self.posterior = Posterior(vector, draws, jitter)
                return self._reply(request, self._effect_sums(own, request.correlations), **self._jitter_note(jitter))
        raise NumericalError(f"site '{self.name}': the covariance of the outcomes is not positive definite even with "
                             f"jitter {jitter:g}. Look for repeated rows, or raise model.jitter.")

    def _received_draws(self, request: AskEffects | AskSharedEffects):
        """(Θ, draws) of the request, checked; the model `shared` has a θ for each draw and no Θ."""
        if isinstance(request, AskEffects):
            self._check_shapes(request)
            roots = Roots(jnp.asarray(request.phi_roots), jnp.asarray(request.sigma_roots))
            return np.asarray(request.theta), predict.Draws(roots, jnp.asarray(request.g))
        self._check_thetas(request)
        shape = (len(request.thetas), request.betas.shape[1] if request.betas.ndim == 3 else 1,
                 self.prepared.model.columns)
        self._check_arrays({"betas": request.betas}, {"betas": shape})
        return np.zeros(0), predict.SharedDraws(jnp.asarray(request.thetas), jnp.asarray(request.betas))

    def _effect_sums(self, own: predict.SiteEffects, correlations: np.ndarray) -> dict:
        """Per population and draw, in outcome units: Σ τ(x_i) 'cate' [L, 3], Σ τ_i 'ite' [L, C, 3]; and Σ_i sd(τ_i)
        from every eighth draw, which is enough for a mean over people and costs n³ only there."""
        s, ready, q = self.prepared.units.y_sd, self.prepared, self.posterior
        some = jax.tree.map(lambda leaf: leaf[::8], q.draws)
        each = _each(ready.model, replace(q, draws=some), ready.arrays, correlations, s, slice(0, len(self.table.y)))
        return {"cate_mean": s * own.cate.mean, "cate_var": s**2 * own.cate.var,
                "ite_mean": s * own.ite.mean, "ite_var": s**2 * own.ite.var,
                "ite_sd": each.sd.sum(1), "people": self._weights().sum(1).astype(np.int64)}

    def _weights(self) -> np.ndarray:
        """[3, padded rows] indicators of the populations."""
        a = self.prepared.arrays
        return np.stack([a.mask, a.mask * a.w, a.mask * (1 - a.w)])

    def _require(self, value, what: str):
        if value is None:
            raise SiteError(f"site '{self.name}' was asked out of turn: it waits for {what} first")
        return value

    # --- for the site's own people: nothing below is ever sent

    def _posterior(self) -> Posterior:
        if self.posterior is None:
            raise UsageError(f"site '{self.name}' has no fitted model yet: run the study first")
        return self.posterior

    def cate(self, x: np.ndarray | None = None, outcome_noise: bool = False) -> Effect:
        """τ(x) of new people (raw covariates [p, d]) or, without x, of the site's own."""
        x = self.table.x if x is None else x
        return self._streamed(self.prepared.units.covariates(x), outcome_noise)

    def _streamed(self, x: np.ndarray, outcome_noise: bool) -> Effect:
        ready, q = self.prepared, self._posterior()
        return stream_cate(ready.model, q.vector, ready.arrays, q.draws, x, q.jitter, ready.units.y_sd, outcome_noise)

    def ite(self, noise_correlation: float | None = None) -> Effect:
        """Realised effects of the site's own people, in the table's order."""
        ready, q = self.prepared, self._posterior()
        rows = slice(0, len(self.table.y))
        return _one(_each(ready.model, q, ready.arrays, _given(noise_correlation), ready.units.y_sd, rows))

    def impute(self, x: np.ndarray, w: np.ndarray, y: np.ndarray, noise_correlation: float | None = None,
               draws: int | None = None) -> Effect:
        """Realised effects of *other* people whose outcome is known: they are conditioned on like the site's own."""
        ready, q = self.prepared, self._posterior()
        q = replace(q, draws=jax.tree.map(lambda leaf: leaf[:draws], q.draws))
        x = ready.units.covariates(np.vstack([self.table.x, x]))
        y = ready.units.outcome(np.concatenate([self.table.y, y]))
        both = padding.pad_site(x, np.concatenate([self.table.w, w]), y, np.asarray(ready.arrays.u),
                                int(ready.arrays.index))
        rows = slice(len(self.table.y), len(y))
        return _one(_each(ready.model, q, both, _given(noise_correlation), ready.units.y_sd, rows))


def check_statistics(study: Study, site: str, rows: int, model: AnyModel) -> None:
    """T of the model `shared` may tell rows apart when it has nearly as many columns as the site has people."""
    limit = study.policy.statistics_per_row
    if isinstance(model, SharedModel) and model.columns > limit * rows:
        raise DisclosureError(
            f"site '{site}': the model 'shared' would send sums over {model.columns} columns of {rows} people; the "
            f"policy allows {limit:g} columns per person in the clear. Use fewer covariates or model.knots, more "
            f"people, or the preset 'paper'.")


def _each(model, q: Posterior, arrays, correlations: np.ndarray, y_sd: float, rows: slice) -> Effect:
    """Realised effects [L, C, rows] in outcome units."""
    each = jax.device_get(predict.ite_each(model, q.vector, arrays, q.draws, correlations, q.jitter))
    return Effect(each.mean[..., rows], each.var[..., rows]).scaled(y_sd)


def _given(noise_correlation: float | None) -> np.ndarray:
    return np.array([np.nan if noise_correlation is None else noise_correlation])


def _one(effect: Effect) -> Effect:
    """[L, 1, n] → [L, n]."""
    return Effect(effect.means[:, 0], effect.variances[:, 0])


def stream_cate(model: AnyModel, vector, arrays: elbo.SiteArrays, draws: predict.Draws | predict.SharedDraws,
                x: np.ndarray, jitter: float,
                y_sd: float, outcome_noise: bool) -> Effect:
    """τ(x) for any number of people, in chunks of one shape; with outcome noise it is a person's realised effect."""
    parts = []
    for start in range(0, max(len(x), 1), CHUNK):
        part = x[start:start + CHUNK]
        padded = np.pad(part, ((0, CHUNK - len(part)), (0, 0))) if len(x) > CHUNK else part
        moments = predict.cate_at(model, vector, arrays, draws, padded, jitter)
        parts.append(jax.tree.map(lambda leaf, n=len(part): np.asarray(leaf)[:, :n], moments))
    mean, var = (np.concatenate([getattr(p, k) for p in parts], axis=1) for k in ("mean", "var"))
    if outcome_noise:
        var = var + np.asarray(predict.noise_variance(model, vector, draws))[:, None]
    return Effect(mean, var).scaled(y_sd)
