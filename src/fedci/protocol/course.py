"""The course of a study, from the first sum to the last effect: one program of the study and of the sums so far.

    opening   which columns stay → means → spreads (or both at once) → (each site's moments) → the site is ready
    design    propensity … → balance → overlap
    completing   sums of completed people, where what is missing is drawn
    start → round … round
    closing   effects → outcome

Every party runs it. A leg is a generator: it yields what is asked of all sites and is sent the sum of their answers, so
whoever knows the study and the sums knows the next question. A coordinator can stop a study, or give a diagnostic up,
and nothing else: a step names no number that a site does not work out for itself.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from fedci.diagnostics import fit as fitting
from fedci.diagnostics import propensity
from fedci.errors import DataError
from fedci.model import leave_one_out
from fedci.model.families import model_of
from fedci.model.family import NO_ANCHOR, Ask, Family, FirstStage, Rules, Sums
from fedci.model.rows import BetaLaw
from fedci.protocol import completing, optimise, refuting, rounds, stages, timing
from fedci.protocol import rule as rules
from fedci.protocol.requests import MEANS, MOMENTS, SPREADS, diagnostic, diagnostics_in
from fedci.study.options import FitOptions, ModelOptions, SharedOptions
from fedci.study.study import Study
from fedci.study.subgroups import cuts_of
from fedci.table.design import design_columns
from fedci.table.moments import Moments, Scales, pool

OPENING, DESIGN, COMPLETING, START = "opening", "design", "completing", "start"
ROUND, CLOSING, OVER = "round", "closing", "over"
BEFORE = OPENING, DESIGN, COMPLETING
"""Legs before the fit: a site that starts again walks them again."""
SUBGROUPS, DECISIONS = diagnostic("subgroups"), diagnostic("decisions")
SHARES = (0.2, 0.4, 0.6, 0.8)
"""Of people, who are treated first."""
READY, BEGIN = "Prepare", "Begin"
"""Steps that ask for nothing: the one before them is told, and what it leads to holds. Where exchanges are few the next
step is enough for that."""
LARGEST_LAW = 2**20
"""Numbers of β̃'s law in a site's memory at most: fewer draws where it has many columns."""
FAR_OFF = 1e-7
"""Of a column's squares about 0 that must be left about its mean: a float's 1e-16 is then 1e-9 of its variance."""
NO_VALUE = np.inf
"""The spread of a column that stays at the sites: in model units everybody has 0."""


@dataclass(frozen=True)
class Contract:
    """What binds all parties before anything is asked."""

    agreed: Study
    """As its file has it; its hash binds seed, preset, options and cohort."""
    sites: tuple[str, ...]
    """The cohort, sorted."""
    refuter: str = ""

    @cached_property
    def study(self) -> Study:
        """The agreed one, or while a refuter runs, the refuter's: as all parties have it, whatever a site's floors."""
        return refuting.plan(self.agreed.under(None), self.refuter)

    @cached_property
    def options(self) -> FitOptions:
        options = self.agreed.fit_options()
        return refuting.options_of(options) if self.refuter else options

    @property
    def seed(self) -> int:
        return self.agreed.seed

    @property
    def diagnoses(self) -> bool:
        """Whether diagnostics are asked for: they are sums without noise."""
        return (self.study.diagnostics.enabled and self.study.policy.epsilon is None and not self.noises_sums
                and self.study.arm_count == 2)

    @property
    def noises_sums(self) -> bool:
        """Whether sites add noise to all sums of people's values (`policy.sum_noise`)."""
        return self.options.model.sum_noise > 0


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What all parties know before the fit, from sums over all sites alone."""

    withheld: np.ndarray
    """[d] columns in which too few people stand apart at some site: they enter nothing, anywhere."""
    indicators: np.ndarray
    """Columns with missing values somewhere: each gets a 0/1 column of its own at every site. Where what is missing is
    drawn they are the diagnostics' alone."""
    lacking: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    """Columns whose missing values are drawn (`missing = "model"`)."""
    laws: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """From which they are drawn: known after the leg COMPLETING."""
    scales: Scales
    """The model's units."""
    columns: Moments
    """Mean and variance of each column over all people, in the data's units."""
    outcome: tuple[float, float]
    """Mean and sd of the outcome, in its own units."""
    people: int
    treated: int
    """Of more arms all but the reference's."""
    model: Family
    first: FirstStage
    u: np.ndarray
    """[m, q] the sites' moments in model units; zeros where the model does not compare sites by them."""
    pooled_u: np.ndarray
    """[q] of all people together."""
    timing: np.ndarray
    """Of a time to an event [J], where its intervals end; of a count [1], events per unit of exposure; else nothing."""

    @property
    def unit(self) -> float:
        """`site.prepared.Units.of_effects`."""
        return float(self.timing[0]) if self.model.outcome == "count" else float(self.scales.y_sd)

    @property
    def share(self) -> float:
        """Of the treated."""
        return self.treated / self.people

    @property
    def centre(self) -> np.ndarray:
        """[p] of the covariates and the indicators, for the diagnostics."""
        return np.append(self.columns.values[0], np.zeros(len(self.indicators)))

    @property
    def spread(self) -> np.ndarray:
        sd = np.sqrt(self.columns.values[1])  # a trait that nobody has yet is no error, and says nothing here
        return np.append(np.where(sd > 0, sd, 1.0), np.ones(len(self.indicators)))


def column_names(contract: Contract) -> tuple[str, ...]:
    return design_columns(contract.study)[0]


def rules_of(contract: Contract, opened: Opening) -> Rules:
    return Rules(opened.model, contract.options, contract.seed, opened.u, opened.people, opened.first)


# --- opening


def opening(contract: Contract) -> Generator[Ask, Sums, Opening]:
    """Nothing here has a coordinate of one site, but for a model that compares sites by their moments."""
    names, kinds = design_columns(contract.study)
    counts = yield Ask("AskColumns", {"columns": np.array(len(names))})
    withheld = _withheld(contract, counts)
    indicators = np.flatnonzero((counts["incomplete"] > 0) & (counts["gaps_withheld"] == 0) & ~withheld)
    asked = {"columns": np.array(len(names)), "withheld": withheld, "arms": np.array(contract.study.arm_count)}
    at_once = asks_moments_at_once(contract.study, contract.options.model)
    means = yield Ask(MOMENTS if at_once else MEANS, asked)
    known = np.maximum(means["count"], 1.0)
    centre, y_mean = means["total"] / known, float(means["y_total"].sum() / means["y_count"].sum())
    spreads: Sums = squares_about(means, centre, y_mean) if at_once else {}
    if not spreads or _is_lost(means, spreads):
        spreads = yield Ask(SPREADS, {"x_mean": centre, "y_mean": np.array(y_mean), "withheld": withheld})
    columns = Moments(_standing(centre, spreads["square"] / known), means["count"])
    people, treated = (round(float(part)) for part in (means["y_count"].sum(), means["y_count"][1:].sum()))
    outcome = y_mean, float(np.sqrt(_standing(np.array(y_mean), spreads["y_square"] / people)[1]))
    _check_variation(contract, columns, outcome, names, withheld)
    scales = _scales(contract, columns, outcome, kinds, withheld)
    clock = yield from _timing(contract, means)
    kind = contract.study.outcome_type
    drawn = contract.study.completes
    lacking = np.flatnonzero((counts["incomplete"] > 0) & ~withheld) if drawn else np.zeros(0, int)
    marked = 0 if drawn else len(indicators)
    model = model_of(contract.options.model, len(names) + marked, len(names), len(contract.sites), kind,
                     len(clock) if kind == "survival" else 0, contract.study.arm_count)
    first = stages.first(model, contract.options, people, means["stages"])
    u, pooled_u = yield from _descriptions(contract, model, scales)
    if not model.fits_at_home:
        yield Ask(READY, {})
    return Opening(withheld=withheld, indicators=indicators, lacking=lacking, scales=scales, columns=columns,
                   outcome=outcome, people=people, treated=treated, model=model, first=first, u=u, pooled_u=pooled_u,
                   timing=clock)


def asks_moments_at_once(study: Study, options: ModelOptions | SharedOptions) -> bool:
    """Where exchanges are few. Noise on squares is measured about the means."""
    return options.rounds_tell == "products" and not options.sum_noise and not study.policy.noises("moments")


def squares_about(told: Sums, centre: np.ndarray, y_mean: float) -> dict[str, np.ndarray]:
    """What SPREADS asks for, from what MOMENTS told: Σ (v − c)² = Σ v² − 2c Σ v + n c²."""
    total, count = told["y_total"].sum(), told["y_count"].sum()
    return {"square": told["square"] - 2.0 * centre * told["total"] + told["count"] * centre**2,
            "y_square": told["y_square"] - 2.0 * y_mean * total + count * y_mean**2}


def _is_lost(told: Sums, squares: Mapping[str, np.ndarray]) -> bool:
    """Whether a column lies so far from 0, for its spread, that its squares about 0 are all mean: then those about the
    means are asked for."""
    return any(bool(np.any(squares[name] < FAR_OFF * told[name])) for name in ("square", "y_square"))


def _timing(contract: Contract, means: Sums) -> Generator[Ask, Sums, np.ndarray]:
    """`Opening.timing`."""
    study = contract.study
    arms = {"arms": np.array(study.arm_count)}
    if study.outcome_type == "survival":
        told = yield Ask("AskTimes", dict(arms))
        return timing.cuts(study, told["events"], told["censored"], means["y_count"], study.policy.min_cell)
    if study.outcome_type != "count":
        return np.zeros(0)
    over = (yield Ask("AskExposure", dict(arms)))["exposure"] if study.exposure else means["y_count"]
    return np.array([means["y_total"].sum() / over.sum()])


def _withheld(contract: Contract, counts: Sums) -> np.ndarray:
    """[d]: too few stand apart at some site; or, in a masked sum, at one site alone, whose part the column would single
    out."""
    m, masked = len(contract.sites), contract.study.policy.secures(len(contract.sites))
    alone = (counts["varies"] == 1) & bool(masked and m > 1 and contract.study.policy.min_cell)
    return np.asarray((counts["withheld"] > 0) | alone)


def _standing(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """[4, c] mean, variance, and no more; no variance where it is only the mean's rounding."""
    varies = variance > (1e-13 * np.abs(mean)) ** 2
    return np.stack([mean, np.where(varies, variance, 0.0), np.zeros_like(mean), np.zeros_like(mean)])


def _scales(contract: Contract, columns: Moments, outcome: tuple[float, float], kinds: Sequence[str],
            withheld: np.ndarray) -> Scales:
    """With `binary_sd` all 0/1 columns have that spread. An outcome of 0 and 1 stays what it is."""
    model = contract.options.model
    outcome = outcome if contract.study.outcome_type == "numeric" else (0.0, 1.0)
    if not model.standardise:
        return Scales(np.zeros(len(kinds)), np.where(withheld, NO_VALUE, 1.0), 0.0, 1.0)
    mean, sd = columns.values[0], np.sqrt(columns.values[1])
    sd = sd if model.binary_sd is None else np.where(np.array(kinds) != "numeric", model.binary_sd, sd)
    return Scales(np.where(withheld, 0.0, mean), np.where(withheld, NO_VALUE, sd), *outcome)


def _check_variation(contract: Contract, columns: Moments, outcome: tuple[float, float], names: Sequence[str],
                     withheld: np.ndarray) -> None:
    where = "at the site" if len(contract.sites) == 1 else f"at all {len(contract.sites)} sites"
    kinds, binary_sd = design_columns(contract.study)[1], contract.options.model.binary_sd
    for name, kind, variance, away in zip(names, kinds, columns.values[1], withheld, strict=True):
        has_spread = variance > 0 or (kind != "numeric" and binary_sd is not None)
        if not has_spread and not away and contract.options.model.standardise:
            raise DataError(f"column '{name}' is constant {where}: it cannot explain anything. "
                            f"Remove it from the covariates of the study.")
    timed = contract.study.outcome_type == "survival"
    over = timed or contract.study.exposure is not None  # where all have the event, or as many, times may differ
    if not outcome[1] > 0 and not (over and outcome[0] > 0):
        within = " within the last horizon" if timed else ""
        raise DataError(f"the outcome '{contract.study.outcome}' is constant {where}{within}: there is no effect to "
                        f"estimate.")


def _descriptions(contract: Contract, model: Family,
                  scales: Scales) -> Generator[Ask, Sums, tuple[np.ndarray, np.ndarray]]:
    """(u [m, q], pooled u [q]): the four moments of ỹ(0), ỹ(1), x̃, w̃, of each site and of all people."""
    d, m = len(scales.x_mean), len(contract.sites)
    if not model.needs_moments:
        return np.zeros((m, 4 * (d + 3))), np.zeros(4 * (d + 3))
    description = yield Ask("AskDescription", {"columns": np.array(d), "slots": np.array(m), **scales._asdict()})
    sites = [Moments(*part) for part in zip(description["moments"], description["counts"], strict=True)]
    spread = contract.options.model.moments_spread
    return np.stack([_u(site, spread) for site in sites]), _u(pool(sites), spread)


def _u(moments: Moments, spread: str) -> np.ndarray:
    """A column's four moments stand together."""
    mean, variance, skewness, kurtosis = moments.values
    return np.stack([mean, variance if spread == "variance" else np.sqrt(variance), skewness, kurtosis]).T.ravel()


# --- design, closing


def design(contract: Contract, opened: Opening) -> Generator[Ask, Sums, propensity.Propensity | None]:
    """Nothing here has seen an outcome. None: it was not asked for, or given up: then all of it is, at every party."""
    if not contract.diagnoses:
        return None
    common: dict[str, Any] = {"centre": opened.centre, "spread": opened.spread}
    model = yield from _propensity(contract, common)
    if model is None:
        return None
    common |= {"slopes": model.slopes, "share": np.array(opened.share), "columns": np.array(len(opened.scales.x_mean))}
    for name in diagnostics_in("design", contract.study):
        if not (yield Ask(name, dict(common))):
            return None
    return model


def _propensity(contract: Contract, common: Mapping[str, Any]) -> Generator[Ask, Sums, propensity.Propensity | None]:
    steps = propensity.fit(len(common["centre"]), contract.study.policy.min_cell)
    slopes = next(steps)
    while True:
        sums = yield Ask(diagnostic("propensity"), dict(common) | {"slopes": slopes})
        if not sums:
            return None
        try:
            slopes = steps.send(propensity.Sums(*(np.asarray(sums[name]) for name in propensity.Sums._fields)))
        except StopIteration as done:
            return done.value


def completed(contract: Contract, opened: Opening) -> Generator[Ask, Sums, Opening]:
    """With the laws of what is missing, where it is drawn. After the design, which may not see an outcome."""
    people = np.array([opened.people - opened.treated, opened.treated], float)
    gone = 1.0 - opened.columns.count / opened.people
    laws = yield from completing.completing(contract.study, contract.options, opened, people, gone,
                                            len(contract.sites), contract.seed)
    return replace(opened, laws=laws)


def start(contract: Contract, opened: Opening) -> Generator[Ask, Sums, np.ndarray]:
    """Θ to begin with."""
    if not opened.model.fits_at_home:
        yield Ask(BEGIN, {})
    return (yield from rounds.start(rules_of(contract, opened)))


class Drawn(NamedTuple):
    """Draws from q once for all sites."""

    draws: dict[str, np.ndarray]
    law: BetaLaw | None
    """Of β for each θ, where the model has one."""
    rule: np.ndarray = NO_ANCHOR
    """`protocol.rule`, of a study with decisions."""
    cutoffs: np.ndarray = NO_ANCHOR
    """Of predicted benefits, in model units of a number: the cost, and where SHARES of people are above."""


def closing(contract: Contract, opened: Opening, model: propensity.Propensity | None, theta: np.ndarray,
            anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, Drawn]:
    drawn = Drawn(*(yield from rounds.effects(rules_of(contract, opened), theta, anchor)))
    if contract.diagnoses:
        law = _law(drawn)
        known = {"centre": opened.centre, "spread": opened.spread,
                 "edges": _edges(opened),
                 "slopes": np.zeros(0) if model is None else model.slopes,
                 "beta_mean": np.asarray(law.mean), "beta_root": np.asarray(law.root)}
        same: Sums = {}
        for name in diagnostics_in("checks", contract.study):
            more = subgroups_asked(contract.study, drawn.draws) if name in (SUBGROUPS, DECISIONS) else {}
            if name == DECISIONS:
                asked = decisions_asked(contract, opened, theta, drawn, same)
                more, drawn = more | asked, drawn._replace(rule=asked["rule"], cutoffs=asked["cutoffs"])
            total = yield Ask(name, known | more)
            same = total if name == diagnostic("outcome") else same
    return drawn


def subgroups_asked(study: Study, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """How many numbers are told of subgroups."""
    betas = draws.get("betas")
    count = len(next(iter(draws.values()))) if betas is None else betas.shape[0] * betas.shape[1]
    return {"told_draws": np.array(count), "groups": np.array(len(study.groups)), "levels": np.array(study.levels)}


def decisions_asked(contract: Contract, opened: Opening, theta: np.ndarray, drawn: Drawn,
                    same: Sums) -> dict[str, np.ndarray]:
    """The rule, and the cutoffs of predicted benefits: by their mean and spread, which `sameness` told."""
    study = contract.study
    if study.decisions is None:
        raise AssertionError("only a study with decisions asks for them")
    columns = study.decisions.columns(study.covariates)
    mean, variance = opened.columns.values[:2]
    told = opened.columns.count > 0
    moments = np.stack([np.where(told, mean, 0.5), np.where(told, np.sqrt(variance), 0.5)])
    found = rules.learnt(opened.model, drawn.draws, theta, opened.u, opened.pooled_u, opened.scales[:2], moments,
                         len(opened.indicators), study.covariates, columns, cuts_of(study.groups),
                         contract.seed)
    cutoffs = np.full(1 + len(SHARES), np.inf)
    cutoffs[0] = study.decisions.cost / opened.unit
    sums = same.get("sameness")
    if sums is not None and sums[0, 0] > 0:
        n, d, dd = float(sums[0, 0]), float(sums[0, 1]), float(sums[0, 2])
        spread = np.sqrt(max(dd / n - (d / n) ** 2, 0.0))
        cutoffs[1:] = study.decisions.sign * d / n + spread * ndtri(1.0 - np.array(SHARES))
    return {"rule": found, "cutoffs": cutoffs, "along": np.array(1 + len(columns)),
            "sign": np.array(study.decisions.sign)}


def decisions_sizes(study: Study) -> dict[str, int]:
    """Of what is told for decisions."""
    if study.decisions is None:
        return {}
    return {"along": 1 + len(study.decisions.columns(study.covariates)), "leaves": rules.LEAVES,
            "cutoffs": 1 + len(SHARES)}


def _edges(opened: Opening) -> np.ndarray:
    """Of the bins of the calibration; of a time to an event of hazards."""
    if opened.model.outcome in ("numeric", "count"):
        return fitting.calibration_edges(*opened.outcome)
    return fitting.risk_edges(opened.outcome[0] / max(opened.model.intervals, 1))


def _law(drawn: Drawn) -> BetaLaw:
    which = leave_one_out.chosen(len(next(iter(drawn.draws.values()))))
    if drawn.law is None:
        return leave_one_out.no_beta(len(which))
    which = which[:max(1, LARGEST_LAW // drawn.law.root.shape[-1] ** 2)]
    return BetaLaw(np.asarray(drawn.law.mean)[which], np.asarray(drawn.law.root)[which])


# --- where a study stands


class Place(NamedTuple):
    """A leg, what was known at its beginning, and the sums told since."""

    leg: str = OPENING
    sums: tuple[Sums, ...] = ()
    opened: Opening | None = None
    model: propensity.Propensity | None = None
    state: optimise.State | None = None

    @property
    def known(self) -> Opening:
        if self.opened is None:
            raise AssertionError("after the opening its sums are known")
        return self.opened


def now(contract: Contract, place: Place) -> tuple[Place, Ask | None]:
    """(the place without legs that are over, what is asked there; None: the study is over)."""
    if place.leg == OVER:
        return place, None
    steps = _steps(contract, place)
    try:
        ask = next(steps)
        for total in place.sums:
            ask = steps.send(total)
    except StopIteration as done:
        return now(contract, _after(contract, place, done.value))
    return place, ask


def after(contract: Contract, place: Place, total: Sums) -> tuple[Place, Ask | None]:
    return now(contract, place._replace(sums=(*place.sums, total)))


def _steps(contract: Contract, place: Place) -> Generator[Ask, Sums, Any]:
    if place.leg == OPENING:
        return opening(contract)
    opened = place.known
    if place.leg == DESIGN:
        return design(contract, opened)
    if place.leg == COMPLETING:
        return completed(contract, opened)
    if place.state is None:
        return start(contract, opened)
    if place.leg == ROUND:
        return rounds.evaluation(rules_of(contract, opened), place.state)
    return closing(contract, opened, place.model, place.state.best, place.state.latest)


def _after(contract: Contract, place: Place, value: Any) -> Place:
    """`value`: what the leg's steps came to."""
    if place.leg == OPENING:
        return Place(DESIGN, opened=value)
    if place.leg == DESIGN:
        return Place(COMPLETING, opened=place.opened, model=value)
    if place.leg == COMPLETING:
        return Place(START, opened=value, model=place.model)
    if place.leg == CLOSING:
        return Place(OVER)
    rules = rules_of(contract, place.known)
    state = rounds.begin(rules, value) if place.state is None else rounds.after(rules, place.state, *value)
    return place._replace(leg=ROUND if state.verdict is None else CLOSING, sums=(), state=state)


# --- on disk, so that a site that starts again knows where the fit stood


def pack(place: Place) -> dict[str, np.ndarray]:
    """A place of the fit or after it as named arrays, bit for bit; what was known before the fit is walked again."""
    sums = {f"told/{k}/{name}": np.asarray(part) for k, total in enumerate(place.sums) for name, part in total.items()}
    state = {} if place.state is None else {f"state/{k}": v for k, v in optimise.pack(place.state).items()}
    facts = {"leg": np.array(place.leg), "count": np.array(len(place.sums)),
             "verdict": np.array("" if place.state is None else place.state.verdict or "")}
    return facts | sums | state


def resumed(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A place as `pack` gives it, from the optimiser's state in a coordinator's checkpoint: a round is to begin."""
    return {"leg": np.array(ROUND), "count": np.array(0), "verdict": np.array("")} | {
        f"state/{name}": part for name, part in state.items()}


def unpack(contract: Contract, before: Place, packed: Mapping[str, np.ndarray]) -> Place:
    """The place that `pack` was given; `before`: any place of the run from BEGIN on."""
    if before.leg in BEFORE:
        raise AssertionError("what was known before the fit is walked again before its places are used")
    sums = tuple({name.split("/", 2)[2]: part for name, part in packed.items() if name.startswith(f"told/{k}/")}
                 for k in range(int(packed["count"])))
    packed_state = {name.removeprefix("state/"): part for name, part in packed.items() if name.startswith("state/")}
    optimiser, sites = contract.options.optimiser, len(contract.sites)
    state = optimise.unpack(optimiser, sites, packed_state) if packed_state else None
    state = state and state._replace(verdict=str(packed["verdict"]) or None)
    return before._replace(leg=str(packed["leg"]), sums=sums, state=state)
