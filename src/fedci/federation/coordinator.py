"""The coordinator: runs a study by asking sites, and never sees a row.

    handshake → linkage → moments → common units → design (diagnostics) → fit (rounds) → effects → checks

`run_study` reads as the protocol. Everything a site sends is a named sum; sums over sites are taken in the order of
the sites' names, so the order in which they were listed or answered cannot change a bit of the result.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from fedci import optimise
from fedci.data import design_columns
from fedci.diagnostics.fit import Step
from fedci.diagnostics.record import Diagnostics
from fedci.errors import DataError, NumericalError
from fedci.federation import diagnostics, shared
from fedci.federation.checkpoint import Checkpoint, Mark, load
from fedci.federation.engine import Engine
from fedci.federation.linkage import Linked, link
from fedci.federation.talk import Talk, note_jitters, summed
from fedci.messages import AskEffects, AskMoments, Evaluate, Hello, Prepare, Reply
from fedci.model import elbo, evidence, posterior
from fedci.model.law import AnyModel
from fedci.model.posterior import Roots
from fedci.model.shared import SharedModel
from fedci.model.structure import model_of
from fedci.moments import Moments, Scales, SiteMoments, describe_in_model_units, no_scales, pool, scales
from fedci.options import FitOptions
from fedci.privacy.policy import check_available
from fedci.study import Study
from fedci.version import __version__

CORRELATIONS = np.array([np.nan, 0.0, 0.5, 0.9])
"""Noise correlations at which realised effects are reported; NaN: Σ's own draws, which equal its prior."""


@dataclass(frozen=True)
class Round:
    """One evaluation of the objective, for progress bars and the trace."""

    number: int
    cap: int
    objective: float
    gradient_norm: float
    seconds: float
    """Since the fit began."""


@dataclass(frozen=True)
class Layout:
    """What all parties agreed on before the fit."""

    sites: tuple[str, ...]
    model: AnyModel
    scales: Scales
    u: np.ndarray
    """[m, q] the sites' moments in model units."""
    pooled_u: np.ndarray
    """[q] the moments of all rows together: where a site outside the study is thought to be."""
    indicators: np.ndarray
    moments: dict[str, SiteMoments]


@dataclass(frozen=True)
class Fit:
    """Θ and how it was reached."""

    theta: np.ndarray
    verdict: str
    objective: float
    rounds: tuple[Round, ...]
    jitters: dict[str, float]
    """The largest jitter each site needed beyond the model's own."""


@dataclass(frozen=True)
class Effects:
    """The draws from q, and each site's per-draw sums in outcome units."""

    draws: dict[str, np.ndarray]
    """Model `paper`: 'phi_roots', 'sigma_roots' [L, 2, 2], 'g' [L, m, 2]. Model `shared`: 'thetas' [L, p], 'betas'
    [L, B, q]."""
    sums: dict[str, dict[str, np.ndarray]]
    """Site → 'cate_mean' [L, 3], 'cate_var', 'ite_mean' [L, C, 3], 'ite_var', 'ite_sd' [C], 'people' [3]."""
    beta: evidence.Collapsed | None = None
    """Model `shared`: β's law for each θ, which the checks need; not saved."""


@dataclass(frozen=True)
class Outcome:
    """All that the coordinator knows at the end."""

    run: str
    seed: int
    options: FitOptions
    layout: Layout
    fit: Fit
    effects: Effects
    warnings: tuple[str, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    """Per phase."""
    excluded: dict[str, int] = field(default_factory=dict)
    """Site → people left out by linkage; empty when there was none."""
    diagnostics: Diagnostics | None = None
    """None where the study does not want them."""


def run_study(engine: Engine, study: Study, options: FitOptions, seed: int,
              progress: Callable[[Round], None] | None = None, link_secret: bytes | None = None,
              checkpoint: Path | None = None) -> Outcome:
    """The whole study, from handshake to effects. `link_secret` orders a person's sites; none: drawn here.

    With a `checkpoint` file a run that was interrupted goes on where it stood, under its own name.
    """
    kept = load(checkpoint, Mark(study.hash(), seed, tuple(sorted(engine.sites))), secrets.token_hex(8))
    talk = Talk(engine, kept.run)
    clock = _Clock()
    warnings = handshake(talk, study, options)
    clock.lap("handshake")
    linked = _linked(talk, study, link_secret or secrets.token_bytes(32), kept)
    clock.lap("linkage")
    layout = agree_units(talk, study, options)
    clock.lap("moments")
    wanted = study.diagnostics.enabled
    design = diagnostics.design(talk, study, layout.moments, layout.indicators) if wanted else None
    clock.lap("design")
    fit = fit_theta(talk, layout, options, seed, progress, kept)
    clock.lap("fit")
    effects = gather_effects(talk, layout, fit, options.prediction.draws, seed)
    clock.lap("effects")
    found = diagnostics.checks(talk, layout.moments, design, _fitted(layout, fit, effects)) if wanted else None
    clock.lap("checks")
    return Outcome(talk.run, seed, options, layout, fit, effects, warnings + linked.warnings, clock.laps,
                   linked.excluded, found)


def _fitted(layout: Layout, fit: Fit, effects: Effects) -> diagnostics.Fitted:
    steps = tuple(Step(round=r.number, objective=r.objective, gradient_norm=r.gradient_norm, seconds=r.seconds)
                  for r in fit.rounds if np.isfinite(r.objective) and np.isfinite(r.gradient_norm))
    return diagnostics.Fitted(layout.model, fit.theta, effects.draws, effects.beta, steps, fit.rounds[-1].cap,
                              fit.verdict, effects.sums, CORRELATIONS, layout.scales.y_sd)


def _linked(talk: Talk, study: Study, secret: bytes, kept: Checkpoint) -> Linked:
    """Once in a run: its keys are destroyed, so what came of it is kept, here and at the sites."""
    if kept.linked is None:
        found = link(talk, study, secret)
        kept.linked, kept.linked_round = [found.excluded, list(found.warnings)], talk.round
        kept.write()
    talk.round = kept.linked_round
    excluded, warnings = kept.linked
    return Linked(excluded, tuple(warnings))


def handshake(talk: Talk, study: Study, options: FitOptions) -> tuple[str, ...]:
    """Every site runs this study, these options and this version; returns the sites' warnings about their data."""
    check_available(study.policy, len(talk.sites))
    replies = talk.ask_all(lambda base: Hello(*base, __version__, study.hash(), options.model_dump(mode="json")))
    return tuple(warning for reply in replies.values() for warning in reply.notes.get("warnings", []))


def agree_units(talk: Talk, study: Study, options: FitOptions) -> Layout:
    """Pool the sites' moments, tell every site the common units and its own place in the model."""
    told = {name: _site_moments(reply) for name, reply in talk.ask_all(lambda base: AskMoments(*base)).items()}
    names, kinds = design_columns(study)
    common = scales(list(told.values()), kinds, options.model.binary_sd)
    _check_variation(common, names, study.outcome, len(told))
    if not options.model.standardise:
        common = no_scales(len(names))
    pooled_x = pool([site.x for site in told.values()])
    u = np.stack([describe_in_model_units(site, pooled_x, common, options.model.moments_spread)
                  for site in told.values()])
    indicators = np.flatnonzero(np.any([site.incomplete for site in told.values()], axis=0))
    model = model_of(options.model, len(names) + len(indicators), len(names), len(told))
    talk.ask_each({name: (lambda base, s=s: Prepare(*base, common.x_mean, common.x_sd, common.y_mean, common.y_sd,
                                                    u[s], s, len(told), indicators))
                   for s, name in enumerate(talk.sites)})
    pooled_u = describe_in_model_units(_pooled_site(told), pooled_x, common, options.model.moments_spread)
    return Layout(talk.sites, model, common, u, pooled_u, indicators, told)


def _site_moments(reply: Reply) -> SiteMoments:
    s = reply.sums
    return SiteMoments(Moments(s["x"], s["x_count"]), s["suppressed"], s["incomplete"],
                       (Moments(s["y0"], s["y0_count"]), Moments(s["y1"], s["y1_count"])),
                       Moments(s["w"], s["w_count"]))


def _pooled_site(told: Mapping[str, SiteMoments]) -> SiteMoments:
    """The moments of all rows together, as if of one site."""
    parts = list(told.values())
    x = pool([site.x for site in parts])
    arms = tuple(pool([site.y[j] for site in parts]) for j in (0, 1))
    never = np.zeros(x.count.shape, bool)
    return SiteMoments(x, never, never, arms, pool([site.w for site in parts]))


def _check_variation(common: Scales, names, outcome: str, sites: int) -> None:
    where = "at the site" if sites == 1 else f"at all {sites} sites"
    for name, sd in zip(names, common.x_sd, strict=True):
        if not sd > 0:
            raise DataError(f"column '{name}' is constant {where}: it cannot explain anything. "
                            f"Remove it from the covariates of the study.")
    if not common.y_sd > 0:
        raise DataError(f"the outcome '{outcome}' is constant {where}: there is no effect to estimate.")


def fit_theta(talk: Talk, layout: Layout, options: FitOptions, seed: int, progress, kept: Checkpoint) -> Fit:
    """Ascend the summed objective until it settles; the verdict says how it ended."""
    rounds, jitters = [Round(*values) for values in kept.rounds], dict(kept.jitters)
    start = time.perf_counter() - (rounds[-1].seconds if rounds else 0.0)
    ask, begin = _objective(talk, layout, options, seed, jitters)
    state = optimise.init(options.optimiser, begin, len(layout.sites))
    if kept.state is not None:
        state, talk.round = optimise.unpack(options.optimiser, len(layout.sites), kept.state), kept.fit_round
    while state.verdict is None:
        objective, gradient = ask(state.query, state.round)
        state = optimise.step(state, objective, gradient)
        rounds.append(Round(state.round, options.optimiser.rounds, objective, float(np.linalg.norm(gradient)),
                            time.perf_counter() - start))
        if kept.due(state.round) and state.verdict is None:
            kept.state, kept.fit_round = optimise.pack(state), talk.round
            kept.rounds, kept.jitters = [list(vars(one).values()) for one in rounds], jitters
            kept.write()
        if progress:
            progress(rounds[-1])
    if not state.objectives:
        raise NumericalError("the objective is not finite at the starting values. Look for extreme values in the "
                             "covariates, set model.standardise = true, or raise model.jitter.")
    return Fit(state.best, state.verdict, state.best_objective, tuple(rounds), jitters)


def _objective(talk: Talk, layout: Layout, options: FitOptions, seed: int, jitters: dict):
    """((vector, round) → (L, ∇L), the vector to start from) for the study's model."""
    model = layout.model
    if isinstance(model, SharedModel):
        people = sum(site.rows for site in layout.moments.values())
        return (lambda q, number: shared.evaluate(talk, model, q, people, _normals(options, seed, number, model.size),
                                                  jitters),
                shared.start(talk, model))
    return (lambda theta, number: evaluate(talk, layout, theta, _uniforms(options, seed, number), jitters),
            model.start(seed))


def _normals(options: FitOptions, seed: int, number: int, size: int) -> np.ndarray:
    stream = number if options.optimiser.fresh_draws else 0
    return evidence.common_normals(seed, stream, options.optimiser.draws, size)


def _uniforms(options: FitOptions, seed: int, number: int) -> np.ndarray:
    """Behind round `number`'s draws: the same in all rounds (common random numbers) unless fresh ones are asked for."""
    return posterior.common_uniforms(seed, number if options.optimiser.fresh_draws else 0, options.optimiser.draws)


def evaluate(talk: Talk, layout: Layout, theta: np.ndarray, uniforms: np.ndarray, jitters: dict):
    """(L, ∇_Θ L) at Θ: one exchange with every site, and the data-free terms. (−inf, 0) where a site failed."""
    failed = -np.inf, np.zeros_like(theta)
    drawn = elbo.draw(layout.model, theta, uniforms)
    phi, sigma = drawn.roots
    if not (np.isfinite(phi).all() and np.isfinite(sigma).all()):
        return failed
    replies = talk.ask_all(lambda base: Evaluate(*base, theta, phi, sigma))
    note_jitters(jitters, replies)
    total = summed(replies)
    if total["failed"] > 0:
        return failed
    by_roots = Roots(total["phi_roots"], total["sigma_roots"])
    value, gradient = elbo.evaluate_global(layout.model, theta, layout.u)
    objective = float(total["objective"] + value)
    gradient = total["gradient"] + np.asarray(gradient) + elbo.pull_back(layout.model, drawn.jacobian, by_roots)
    return (objective, gradient) if np.isfinite(objective) and np.isfinite(gradient).all() else failed


def gather_effects(talk: Talk, layout: Layout, fit: Fit, draws: int, seed: int) -> Effects:
    """Draw from q once for all sites; each returns the per-draw sums over its people."""
    if isinstance(layout.model, SharedModel):
        drawn, replies, beta = shared.gather(talk, layout.model, fit.theta, draws, seed, CORRELATIONS)
    else:
        (drawn, replies), beta = _gather_paper(talk, layout, fit, draws, seed), None
    return Effects(drawn, {name: dict(reply.sums) for name, reply in replies.items()}, beta)


def _gather_paper(talk: Talk, layout: Layout, fit: Fit, draws: int, seed: int):
    """Draws of (Φ, Σ, g), and the sites' answers."""
    uniforms = posterior.common_uniforms(seed, 10**6, draws)
    phi, sigma = elbo.draw(layout.model, fit.theta, uniforms).roots
    g = draw_source_level(layout, fit.theta, draws, seed)
    replies = talk.ask_each({
        name: (lambda base, s=s: AskEffects(*base, fit.theta, phi, sigma, g[:, s], CORRELATIONS))
        for s, name in enumerate(layout.sites)})
    return {"phi_roots": np.asarray(phi), "sigma_roots": np.asarray(sigma), "g": g}, replies


def draw_source_level(layout: Layout, theta: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """[L, m, 2] draws of g from q; zeros where inter-dependency is off."""
    m = len(layout.sites)
    if not layout.model.options.inter_dependency:
        return np.zeros((draws, m, 2))
    normals = np.random.default_rng(np.random.SeedSequence((seed, 2))).standard_normal((draws, m, 2))
    law = posterior.g_posterior(layout.model, layout.model.unravel(jnp.asarray(theta)), jnp.asarray(layout.u))
    return np.asarray(posterior.draw_g(law, jnp.asarray(normals)))


class _Clock:
    def __init__(self):
        self.laps, self._last = {}, time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now
