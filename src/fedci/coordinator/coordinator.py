"""The coordinator: runs a study by asking sites, and never sees a row.

    handshake → linkage → keys of the secure sums → the course: moments → design → fit (rounds) → effects → checks

`run_study` reads as the protocol. What is asked, step by step, the study's course says (`protocol.course`), which every
site follows too. Everything a site sends is a named sum; sums over sites are taken in the order of the sites' names, so
the order in which they were listed or answered cannot change a bit of the result.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedci.coordinator import diagnoses, masked_sums
from fedci.coordinator.checkpoint import Checkpoint, Mark, load
from fedci.coordinator.linkage import Linked, link
from fedci.coordinator.talk import GIVEN_UP, PlainSums, Talk, Terms, Total
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.fit import Step
from fedci.diagnostics.propensity import Propensity
from fedci.effect import CORRELATIONS, EffectSums, population_sizes
from fedci.errors import FederationError, MessageError, NumericalError
from fedci.model.family import NO_ANCHOR, Family, Rules
from fedci.model.rows import BetaLaw
from fedci.protocol import course, optimise, timing
from fedci.protocol import rounds as exchanges
from fedci.protocol.completing import explained, gaps_of
from fedci.protocol.course import Contract, Opening
from fedci.protocol.engine import Engine
from fedci.protocol.messages import Hello
from fedci.protocol.requests import MEANS, MOMENTS, REQUESTS, diagnostic
from fedci.study.options import FitOptions
from fedci.study.policy import check_available
from fedci.study.study import Study
from fedci.table.moments import Moments, Scales
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


class AtSite(NamedTuple):
    """How many take part at a site."""

    rows: int
    treated: int
    """Of more than two arms, all but the reference's people."""
    others: tuple[int, ...] = ()
    """Then how many got each of these."""

    @classmethod
    def of(cls, counts: Iterable[float]) -> AtSite:
        """From how many people there are, and how many in each arm but the reference."""
        rows, *arms = (round(float(count)) for count in counts)
        return cls(rows, sum(arms), tuple(arms) if len(arms) > 1 else ())

    @property
    def by_arm(self) -> tuple[int, ...]:
        """How many got each arm, the reference first."""
        return self.rows - self.treated, *(self.others or (self.treated,))

    @property
    def counts(self) -> tuple[int, ...]:
        """What `of` takes."""
        return self.rows, *(self.others or (self.treated,))



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
    people: dict[str, AtSite]
    columns: Moments
    """Mean and variance of each column over all people, in the data's units."""
    withheld: np.ndarray
    """[d] columns in which too few people stand apart somewhere: they enter nothing."""
    timing: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """`course.Opening.timing`."""
    lacking: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    """`course.Opening.lacking`."""
    laws: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """`course.Opening.laws`."""

    @property
    def rows(self) -> int:
        """Of all sites."""
        return sum(site.rows for site in self.people.values())

    @property
    def share(self) -> float:
        """Of the treated."""
        return sum(site.treated for site in self.people.values()) / self.rows


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Θ and how it was reached."""

    theta: np.ndarray
    verdict: str
    objective: float
    rounds: tuple[Round, ...]
    jitters: dict[str, float]
    """The largest jitter each site needed beyond the model's own; under '' where masks hide which site."""
    anchor: np.ndarray = field(default_factory=NO_ANCHOR.copy)
    """Where a bound of the likelihood touches there; not saved."""


@dataclass(frozen=True, kw_only=True)
class Effects:
    """The draws from q, and the sums of effects in outcome units."""

    draws: dict[str, np.ndarray]
    """Model `paper`: 'phi_roots', 'sigma_roots' [L, 2, 2], 'g' [L, m, 2]. Model `shared`: 'thetas' [L, p], 'betas'
    [L, B, q]."""
    sums: dict[str, dict[str, np.ndarray]]
    """Site → the named sums of `EffectSums`. Under secure sums L = 1: the site's averages over the draws, or no site at
    all."""
    total: dict[str, np.ndarray] | None = None
    """The same summed over sites, under secure sums; none: `sums` has all."""
    subgroups: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Sums over the people of each subgroup that the study names (`result.subgroup_effects`); none: it names none, or
    they were given up."""
    decisions: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Of a study with decisions (`result.deciding`)."""
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


def run_study(engine: Engine, study: Study, progress: Callable[[Round], None] | None = None,
              link_secret: bytes | None = None, checkpoint: Path | None = None, refuter: str = "",
              run: str | None = None) -> Outcome:
    """The whole study, from handshake to effects. `link_secret` orders a person's sites; none: drawn here.

    With a `checkpoint` file a run that was interrupted goes on where it stood, under its own name. With a `refuter`
    the sites change their rows first, and `run` names the run (`refits`).
    """
    contract = Contract(study, tuple(sorted(engine.sites)), refuter)
    standing = load(checkpoint, Mark(f"{study.hash()}{run or ''}", contract.sites), run or secrets.token_hex(8))
    talk = Talk(engine, standing.run)
    clock = _Clock()
    warnings = handshake(talk, contract)
    clock.lap("handshake")
    linked = _linked(talk, contract.study, link_secret or secrets.token_bytes(32), standing)
    talk = talk.at(standing.linked_round)
    clock.lap("linkage")
    talk, opened = open_course(talk, contract)
    clock.lap("moments")
    model = talk.follow(course.design(contract, opened))
    clock.lap("design")
    opened = talk.follow(course.completed(contract, opened))
    layout = layout_of(contract, opened, talk)
    talk, fit = fit_theta(talk, contract, opened, progress, standing)
    clock.lap("fit")
    effects = gather_effects(talk, contract, opened, model, fit)
    clock.lap("effects")
    diagnosed = diagnoses.summary(talk, contract, opened, model, _fitted(layout, fit, effects))
    clock.lap("checks")
    said = (warnings + linked.warnings + _withheld(contract, opened) + _drawn(contract, opened)
            + _between(contract.study, opened))
    return Outcome(run=talk.run, seed=contract.seed, options=contract.options, layout=layout, fit=fit, effects=effects,
                   warnings=said, seconds=clock.laps, excluded=linked.excluded,
                   diagnostics=diagnosed)


def _withheld(contract: Contract, opened: Opening) -> tuple[str, ...]:
    """In words, for the result: what was left out everywhere because too few people stand apart somewhere."""
    names = [name for name, away in zip(course.column_names(contract), opened.withheld, strict=True) if away]
    least = contract.study.policy.min_cell
    return tuple(f"column '{name}' is left out at all sites: at one of them fewer than {least} people of an arm stand "
                 f"apart in it, or at one site alone enough do. A level counts with its reference" for name in names)


def _drawn(contract: Contract, opened: Opening) -> tuple[str, ...]:
    """In words, for the result: of what is missing how much is told by what is seen, and what nobody can tell."""
    if not opened.laws.size:
        return ()
    names, gaps = course.column_names(contract), gaps_of(contract.study, opened, len(contract.sites))
    told = explained(gaps, opened.laws, opened.columns.values[1] / opened.scales.x_sd**2)
    gone = 1.0 - opened.columns.count[opened.lacking] / opened.people
    each = (f"'{names[c]}' ({100 * share:.0f}% missing, {100 * known:.0f}% of its variance told by the columns without "
            f"gaps)" for c, share, known in zip(opened.lacking, gone, told, strict=True))
    return (f"what is missing is drawn given what is seen: {', '.join(each)}. Whether values are missing because of "
            f"what they are, given all that is seen, no data can tell: effects suppose that they are not",)


def _between(study: Study, opened: Opening) -> tuple[str, ...]:
    """In words, for the result: at which horizons a curve is no more than a line between two others."""
    if study.outcome_type != "survival":
        return ()
    least = max(study.policy.min_cell, 1)
    return tuple(f"the horizon {horizon:g} is no end of an interval: between it and the next fewer than {least} people "
                 f"have the event, or are followed in an arm. What is said of that time takes the hazard to be the "
                 f"same from {start:g} to {end:g}, which hides when events happen; choose horizons with events between "
                 f"them" for horizon, start, end in timing.lost(study, opened.timing))


def _fitted(layout: Layout, fit: Fit, effects: Effects) -> diagnoses.Fitted:
    steps = tuple(Step(round=r.number, objective=r.objective, gradient_norm=r.gradient_norm, seconds=r.seconds)
                  for r in fit.rounds if not r.few and np.isfinite(r.objective) and np.isfinite(r.gradient_norm))
    total = effects.total or {name: np.asarray(sum(part[name] for _, part in sorted(effects.sums.items())))
                              for name in next(iter(effects.sums.values()))}
    return diagnoses.Fitted(
        model=layout.model, theta=fit.theta, draws=effects.draws, trace=steps, cap=fit.rounds[-1].cap,
        ended=fit.verdict, sums=effects.sums, total=total, correlations=CORRELATIONS,
        people={name: np.array([site.rows - site.treated, site.treated]) for name, site in layout.people.items()})


def _linked(talk: Talk, study: Study, secret: bytes, standing: Checkpoint) -> Linked:
    """Once in a run: its keys are destroyed, so what came of it is kept, here and at the sites."""
    if standing.linked is None:
        linked = link(talk, study, secret)
        standing.linked, standing.linked_round = [linked.excluded, list(linked.warnings)], talk.round
        standing.write()
    excluded, warnings = standing.linked
    return Linked(excluded, tuple(warnings))


def open_course(talk: Talk, contract: Contract) -> tuple[Talk, Opening]:
    """(the talk on the terms of the fit, what all know before it): keys of the secure sums, then the opening."""
    secured = contract.study.policy.secures(len(contract.sites))
    talk = talk.on(Terms(sums=masked_sums.agree(talk) if secured else PlainSums()))
    opened = talk.follow(course.opening(contract))
    return talk.on(replace(talk.terms, model=opened.model, unit=opened.scales.y_sd, people=opened.people,
                           averaged=contract.study.policy.noises("effects"))), opened


def handshake(talk: Talk, contract: Contract) -> tuple[str, ...]:
    """Every site runs this study and this version, in this cohort; returns the sites' warnings about their data."""
    check_available(contract.agreed.policy, len(talk.sites))
    replies = talk.ask_all(lambda base: Hello(*base, __version__, contract.agreed.hash(),
                                              dict.fromkeys(contract.sites, True), contract.refuter))
    return tuple(warning for reply in replies.values() for warning in reply.notes.get("warnings", []))


def layout_of(contract: Contract, opened: Opening, talk: Talk) -> Layout:
    """What is kept of the opening; how many people a site has it tells itself."""
    sites = (talk.totals.get(MEANS) or talk.totals[MOMENTS]).sites
    people = {name: AtSite.of(own["people"]) for name, own in sites.items()}
    return Layout(sites=contract.sites, model=opened.model, scales=opened.scales, u=opened.u, pooled_u=opened.pooled_u,
                  indicators=opened.indicators, people=people, columns=opened.columns, withheld=opened.withheld,
                  timing=opened.timing, lacking=opened.lacking, laws=opened.laws)


def fit_theta(talk: Talk, contract: Contract, opened: Opening, progress: Callable[[Round], None] | None,
              standing: Checkpoint) -> tuple[Talk, Fit]:
    """(the talk as it went on, Θ): ascend the summed objective until it settles; the verdict says how it ended."""
    rules: Rules = course.rules_of(contract, opened)
    optimiser, sites = contract.options.optimiser, len(contract.sites)
    rounds = [Round.of(values) for values in standing.rounds]
    talk = talk.at(talk.round, talk.previous, standing.jitters)
    start = time.perf_counter() - (rounds[-1].seconds if rounds else 0.0)
    state = exchanges.begin(rules, talk.follow(course.start(contract, opened)))
    if standing.state is not None:
        state = optimise.unpack(optimiser, sites, standing.state)
        talk = talk.at(standing.fit_round, standing.previous, talk.jitters)
    while state.verdict is None:
        ahead = state.ahead > 0
        objective, gradient, anchor = talk.follow(exchanges.evaluation(rules, state))
        state = exchanges.after(rules, state, objective, gradient, anchor)
        rounds.append(Round(number=state.round, cap=optimiser.rounds, objective=objective,
                            gradient_norm=float(np.linalg.norm(gradient)), seconds=time.perf_counter() - start,
                            few=ahead))
        if standing.due(state.round) and state.verdict is None and not opened.model.fits_at_home:
            standing.state, standing.fit_round = optimise.pack(state), talk.round
            standing.previous = dict(talk.previous)
            standing.rounds, standing.jitters = [list(vars(evaluated).values()) for evaluated in rounds], talk.jitters
            standing.write()
        if progress:
            progress(rounds[-1])
    if not np.isfinite(state.best_objective) and np.isfinite(state.before):
        raise NumericalError(f"in round {state.round} the objective was no longer finite. Look for values of the "
                             f"outcome that are far larger than all others, set optimiser.rounds to fewer, or raise "
                             f"model.jitter.")
    if not np.isfinite(state.best_objective):
        raise NumericalError("the objective is not finite at the starting values. Look for extreme values in the "
                             "covariates, set model.standardise = true, or raise model.jitter.")
    return talk, Fit(theta=state.best, verdict=state.verdict, objective=state.best_objective, rounds=tuple(rounds),
                     jitters=talk.jitters, anchor=state.latest)


def gather_effects(talk: Talk, contract: Contract, opened: Opening, model: Propensity | None, fit: Fit) -> Effects:
    """Draw from q once for all sites; each answers with the per-draw sums over its people."""
    drawn = talk.follow(course.closing(contract, opened, model, fit.theta, fit.anchor))
    total = next(total for name, total in talk.totals.items() if REQUESTS[name].phase == "effects")
    _check_people(layout_of(contract, opened, talk), total)
    return Effects(draws=drawn.draws, sums={name: dict(part) for name, part in total.sites.items()},
                   total=dict(total.sums) if talk.secure else None, subgroups=_told(talk, opened, course.SUBGROUPS),
                   decisions=_decisions(talk, opened, drawn), beta=drawn.law)


def _check_people(layout: Layout, total: Total) -> None:
    """Effects are averages over the people that each site told of at the start, and over no others; MessageError names
    the site. Of a masked sum nobody knows which."""
    asked = {site: population_sizes(at.by_arm) for site, at in layout.people.items()}
    for site, part in total.sites.items():
        if "people" in part and not np.array_equal(part["people"], asked[site]):
            raise MessageError(f"site '{site}' answered with effects of {part['people'][0]:.0f} people, and told of "
                               f"{asked[site][0]} (or they are of other arms): it is broken, or lies. Ask the site, or "
                               f"run the study without the site", site=site)
    if "people" in total.sums and np.abs(total.sums["people"] - sum(asked.values())).max() >= 0.5:
        raise FederationError(f"the sites' effects are of {total.sums['people'][0]:.0f} people, and they told of "
                              f"{layout.rows} (or they are of other arms): one of them is broken, or lies, and under "
                              f"masks which one cannot be told. Leave sites out one by one")


UNITS = {"effects": 1, "effects_cov": 2, "projected": 1, "projected_cov": 2, "leaf_effects": 1, "leaf_cov": 2}
"""Powers of the effect's unit in what is told of subgroups and decisions."""


def _told(talk: Talk, opened: Opening, name: str) -> dict[str, np.ndarray]:
    """In the outcome's units; nothing where it was given up."""
    return {key: np.asarray(part) * opened.unit ** UNITS.get(key, 0)
            for key, part in talk.totals.get(name, GIVEN_UP).sums.items()}


def _decisions(talk: Talk, opened: Opening, drawn: course.Drawn) -> dict[str, np.ndarray]:
    """With the rule and the cutoffs, and doubly robust sums in the outcome's units."""
    told, unit = _told(talk, opened, course.DECISIONS), opened.unit
    if not told:
        return {}
    centre = opened.scales.y_mean
    n, psi, psi2, zero, zero2, both = told["scores"]
    told["scores"] = np.array([n, unit * psi, unit**2 * psi2, unit * zero + n * centre,
                               unit**2 * zero2 + 2 * unit * centre * zero + n * centre**2,
                               unit**2 * both + unit * centre * psi])
    for name in ("leaf_scores", "above_scores"):
        psi, psi2, both, *d = told[name].T
        told[name] = np.column_stack([unit * psi, unit**2 * psi2, unit**2 * both + unit * centre * psi,
                                      *(unit * part for part in d)])
    return told | {"rule": drawn.rule, "cutoffs": drawn.cutoffs * unit, "same": _same(talk, unit)}


def _same(talk: Talk, unit: float) -> np.ndarray:
    """[3] n, Σd, Σd² of the effects that are expected of people without their outcomes."""
    sums = talk.totals.get(diagnostic("outcome"), GIVEN_UP).sums.get("sameness")
    return np.zeros(3) if sums is None else np.array([sums[0, 0], unit * sums[0, 1], unit**2 * sums[0, 2]])


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now
