"""The coordinator: runs a study by asking sites, and never sees a row.

    handshake → linkage → keys of the secure sums → moments → common units → design (diagnostics) → fit (rounds)
    → effects → checks (diagnostics)

`run_study` reads as the protocol. Everything a site sends is a named sum; sums over sites are taken in the order of
the sites' names, so the order in which they were listed or answered cannot change a bit of the result.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedci.coordinator import diagnoses, masked_sums
from fedci.coordinator.checkpoint import Checkpoint, Mark, load
from fedci.coordinator.linkage import Linked, link
from fedci.coordinator.talk import Make, PlainSums, SumsOverSites, Talk, Terms, check_form
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.fit import Step
from fedci.effect import CORRELATIONS, EffectSums
from fedci.errors import DataError, NumericalError
from fedci.model.families import model_of
from fedci.model.family import Family, Rules
from fedci.model.rows import BetaLaw
from fedci.protocol import optimise, refuting, stages
from fedci.protocol import rounds as exchanges
from fedci.protocol.engine import Engine
from fedci.protocol.messages import AskMoments, Hello, Prepare, Reply
from fedci.protocol.requests import REQUESTS
from fedci.study.options import FitOptions
from fedci.study.policy import check_available
from fedci.study.study import Study
from fedci.table.moments import Moments, Scales, SiteMoments, describe_in_model_units, no_scales, pool, scales
from fedci.table.table import design_columns
from fedci.version import __version__

__all__ = ["Effects", "Fit", "Layout", "Outcome", "Round", "Talk", "run_study"]


@dataclass(frozen=True, kw_only=True)
class Round:
    """One evaluation of the objective, for progress bars and the trace."""

    number: int
    cap: int
    objective: float
    gradient_norm: float
    seconds: float
    """Since the fit began."""
    few: bool = False
    """Whether it looked at few people of each large site (optimiser.first_rows): its objective is theirs alone."""

    @classmethod
    def of(cls, values: Iterable[Any]) -> Round:
        """From its values in their order, as a checkpoint keeps them."""
        return cls(**dict(zip(cls.__dataclass_fields__, values, strict=True)))

    def left(self, first: Round) -> str:
        """The time left at most, by the rounds since the first one seen: that one compiles, and is no measure."""
        if self.number == first.number:
            return ""
        each = (self.seconds - first.seconds) / (self.number - first.number)
        return f", at most {each * (self.cap - self.number):.0f} s left"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What all parties agreed on before the fit."""

    sites: tuple[str, ...]
    model: Family
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
    """The largest jitter each site needed beyond the model's own; under '' where masks hide which site."""


@dataclass(frozen=True)
class Effects:
    """The draws from q, and the sums of effects in outcome units."""

    draws: dict[str, np.ndarray]
    """Model `paper`: 'phi_roots', 'sigma_roots' [L, 2, 2], 'g' [L, m, 2]. Model `shared`: 'thetas' [L, p], 'betas'
    [L, B, q]."""
    sums: dict[str, dict[str, np.ndarray]]
    """Site → 'cate_mean' [L, 3], 'cate_var', 'ite_mean' [L, C, 3], 'ite_var', 'ite_sd' [C], 'people' [3]. Under secure
    sums L = 1: the site's averages over the draws, or no site at all."""
    total: dict[str, np.ndarray] | None = None
    """The same summed over sites, under secure sums; none: `sums` has all."""
    beta: BetaLaw | None = None
    """Model `shared`: β's law for each θ, which the checks need; not saved."""

    @property
    def over_all(self) -> EffectSums:
        """Of all sites together."""
        return EffectSums(tuple(self.sums.values()) if self.total is None else (self.total,))


@dataclass(frozen=True, kw_only=True)
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
              checkpoint: Path | None = None, refuter: str = "", run: str | None = None) -> Outcome:
    """The whole study, from handshake to effects. `link_secret` orders a person's sites; none: drawn here.

    With a `checkpoint` file a run that was interrupted goes on where it stood, under its own name. With a `refuter`
    the sites change their rows first, and `run` names the run (`refits`).
    """
    mark = Mark(f"{study.hash()}{run or ''}", seed, tuple(sorted(engine.sites)))
    standing = load(checkpoint, mark, run or secrets.token_hex(8))
    talk = Talk(engine, standing.run)
    clock = _Clock()
    warnings = handshake(talk, study, options, seed, refuter)
    study = refuting.plan(study, refuter)
    clock.lap("handshake")
    linked = _linked(talk, study, link_secret or secrets.token_bytes(32), standing)
    talk = talk.at(standing.linked_round)
    clock.lap("linkage")
    sums = masked_sums.agree(talk) if study.policy.secures(len(talk.sites)) else PlainSums()
    layout = agree_units(talk, study, options)
    clock.lap("moments")
    rules, talk = rules_of(layout, options, seed), talk.on(terms_of(layout, study, sums))
    wanted = study.diagnostics.enabled and study.policy.epsilon is None
    design = diagnoses.design(talk, study, layout.moments, layout.indicators) if wanted else None
    clock.lap("design")
    talk, fit = fit_theta(talk, rules, progress, standing)
    clock.lap("fit")
    effects = gather_effects(talk, rules, fit)
    clock.lap("effects")
    diagnosed = (None if design is None else
                 diagnoses.checks(talk, layout.moments, design, _fitted(layout, fit, effects)))
    clock.lap("checks")
    return Outcome(run=talk.run, seed=seed, options=options, layout=layout, fit=fit, effects=effects,
                   warnings=warnings + linked.warnings, seconds=clock.laps, excluded=linked.excluded,
                   diagnostics=diagnosed)


def _fitted(layout: Layout, fit: Fit, effects: Effects) -> diagnoses.Fitted:
    steps = tuple(Step(round=r.number, objective=r.objective, gradient_norm=r.gradient_norm, seconds=r.seconds)
                  for r in fit.rounds if not r.few and np.isfinite(r.objective) and np.isfinite(r.gradient_norm))
    total = effects.total or {name: np.asarray(sum(part[name] for _, part in sorted(effects.sums.items())))
                              for name in next(iter(effects.sums.values()))}
    return diagnoses.Fitted(
        model=layout.model, theta=fit.theta, draws=effects.draws, beta=effects.beta, trace=steps,
        cap=fit.rounds[-1].cap, ended=fit.verdict, sums=effects.sums, total=total, correlations=CORRELATIONS,
        y_mean=layout.scales.y_mean, y_sd=layout.scales.y_sd)


def _linked(talk: Talk, study: Study, secret: bytes, standing: Checkpoint) -> Linked:
    """Once in a run: its keys are destroyed, so what came of it is kept, here and at the sites."""
    if standing.linked is None:
        linked = link(talk, study, secret)
        standing.linked, standing.linked_round = [linked.excluded, list(linked.warnings)], talk.round
        standing.write()
    excluded, warnings = standing.linked
    return Linked(excluded, tuple(warnings))


def terms_of(layout: Layout, study: Study, sums: SumsOverSites) -> Terms:
    return Terms(model=layout.model, sums=sums, unit=layout.scales.y_sd, tells=study.policy.check_trajectory,
                 averaged=study.policy.noises("effects"))


def rules_of(layout: Layout, options: FitOptions, seed: int) -> Rules:
    moments = list(layout.moments.values())
    return Rules(layout.model, options, seed, layout.u, sum(site.rows for site in moments),
                 stages.first(layout.model, options, moments))


def handshake(talk: Talk, study: Study, options: FitOptions, seed: int = 0, refuter: str = "") -> tuple[str, ...]:
    """Every site runs this study, these options and this version; returns the sites' warnings about their data."""
    check_available(study.policy, len(talk.sites))
    replies = talk.ask_all(lambda base: Hello(*base, __version__, study.hash(), options.model_dump(mode="json"),
                                              int(seed), refuter))
    return tuple(warning for reply in replies.values() for warning in reply.notes.get("warnings", []))


def agree_units(talk: Talk, study: Study, options: FitOptions) -> Layout:
    """Pool the sites' moments, tell every site the common units and its own place in the model."""
    names, kinds = design_columns(study)
    moments = {name: _site_moments(reply, len(names))
               for name, reply in talk.ask_all(lambda base: AskMoments(*base)).items()}
    common = scales(list(moments.values()), kinds, options.model.binary_sd)
    _check_variation(common, names, study.outcome, len(moments))
    if not options.model.standardise:
        common = no_scales(len(names))
    pooled_x = pool([site.x for site in moments.values()])
    u = np.stack([describe_in_model_units(site, pooled_x, common, options.model.moments_spread)
                  for site in moments.values()])
    indicators = np.flatnonzero(np.any([site.incomplete for site in moments.values()], axis=0))
    model = model_of(options.model, len(names) + len(indicators), len(names), len(moments))
    pooled_u = describe_in_model_units(_pooled_site(moments), pooled_x, common, options.model.moments_spread)
    layout = Layout(sites=talk.sites, model=model, scales=common, u=u, pooled_u=pooled_u, indicators=indicators,
                    moments=moments)
    talk.ask_each(_preparations(layout, study, options))
    return layout


def _preparations(layout: Layout, study: Study, options: FitOptions) -> dict[str, Make]:
    """What each site is told of the common units."""
    common, moments = layout.scales, list(layout.moments.values())
    people, stage = sum(site.rows for site in moments), stages.first(layout.model, options, moments)
    shown = layout.u if study.policy.check_trajectory and layout.model.needs_moments else np.zeros((0, 0))

    def to_site(index: int) -> Make:
        return lambda base: Prepare(
            *base, x_mean=common.x_mean, x_sd=common.x_sd, y_mean=common.y_mean, y_sd=common.y_sd, u=layout.u[index],
            index=index, sites=len(moments), indicators=layout.indicators, people=people, few_rows=stage.rows,
            few_people=stage.people, all_u=shown)

    return {name: to_site(index) for index, name in enumerate(layout.sites)}


def _site_moments(reply: Reply, columns: int) -> SiteMoments:
    """Of d design columns; MessageError names a site whose moments have another form."""
    s = reply.sums
    check_form(reply, REQUESTS[AskMoments.__name__], {"columns": columns})
    return SiteMoments(Moments(s["x"], s["x_count"]), s["suppressed"], s["incomplete"],
                       (Moments(s["y0"], s["y0_count"]), Moments(s["y1"], s["y1_count"])),
                       Moments(s["w"], s["w_count"]))


def _pooled_site(moments: Mapping[str, SiteMoments]) -> SiteMoments:
    """The moments of all rows together, as if of one site."""
    sites = list(moments.values())
    x = pool([site.x for site in sites])
    arms = pool([site.y[0] for site in sites]), pool([site.y[1] for site in sites])
    never = np.zeros(x.count.shape, bool)
    return SiteMoments(x, never, never, arms, pool([site.w for site in sites]))


def _check_variation(common: Scales, names: Sequence[str], outcome: str, sites: int) -> None:
    where = "at the site" if sites == 1 else f"at all {sites} sites"
    for name, sd in zip(names, common.x_sd, strict=True):
        if not sd > 0:
            raise DataError(f"column '{name}' is constant {where}: it cannot explain anything. "
                            f"Remove it from the covariates of the study.")
    if not common.y_sd > 0:
        raise DataError(f"the outcome '{outcome}' is constant {where}: there is no effect to estimate.")


def fit_theta(talk: Talk, rules: Rules, progress: Callable[[Round], None] | None,
              standing: Checkpoint) -> tuple[Talk, Fit]:
    """(the talk as it went on, Θ): ascend the summed objective until it settles; the verdict says how it ended."""
    optimiser, sites = rules.options.optimiser, len(rules.u)
    rounds = [Round.of(values) for values in standing.rounds]
    talk = talk.at(talk.round, talk.previous, standing.jitters)
    start = time.perf_counter() - (rounds[-1].seconds if rounds else 0.0)
    state = exchanges.begin(rules, talk.follow(exchanges.start(rules))[0])
    if standing.state is not None:
        state = optimise.unpack(optimiser, sites, standing.state)
        talk = talk.at(standing.fit_round, standing.previous, talk.jitters)
    while state.verdict is None:
        ahead = state.ahead > 0
        (objective, gradient), _ = talk.follow(exchanges.evaluation(rules, state))
        state = exchanges.after(rules, state, objective, gradient)
        rounds.append(Round(number=state.round, cap=optimiser.rounds, objective=objective,
                            gradient_norm=float(np.linalg.norm(gradient)), seconds=time.perf_counter() - start,
                            few=ahead))
        if standing.due(state.round) and state.verdict is None:
            standing.state, standing.fit_round = optimise.pack(state), talk.round
            standing.previous = dict(talk.previous)
            standing.rounds, standing.jitters = [list(vars(evaluated).values()) for evaluated in rounds], talk.jitters
            standing.write()
        if progress:
            progress(rounds[-1])
    if not np.isfinite(state.best_objective):
        raise NumericalError("the objective is not finite at the starting values. Look for extreme values in the "
                             "covariates, set model.standardise = true, or raise model.jitter.")
    return talk, Fit(state.best, state.verdict, state.best_objective, tuple(rounds), talk.jitters)


def gather_effects(talk: Talk, rules: Rules, fit: Fit) -> Effects:
    """Draw from q once for all sites; each answers with the per-draw sums over its people."""
    (drawn, beta), total = talk.follow(exchanges.effects(rules, fit.theta))
    if total is None:
        raise AssertionError("the effects are the last sum that a fit asks for")
    return Effects(drawn, {name: dict(part) for name, part in total.sites.items()},
                   dict(total.sums) if talk.secure else None, beta)


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now
