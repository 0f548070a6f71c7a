"""What of a site is summed over sites: every step of the course; followed, answered, noised, masked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from fedci.effect import CORRELATIONS, Effect, draw_averages, effect_sums, population_sizes
from fedci.errors import DisclosureError, MessageError, NumericalError, SiteError
from fedci.model.exact import ExactRows
from fedci.model.family import Ask, Sums
from fedci.model.rows import ArmSums, RiskSums, Rows, SiteEffects, SurvivalSums, on_device
from fedci.model.shared import sum_noise
from fedci.model.shared.few_family import PRODUCTS
from fedci.privacy import secure_sum
from fedci.protocol import course as courses
from fedci.protocol import stages
from fedci.protocol.ask import shapes
from fedci.protocol.course import READY, Opening, Place
from fedci.protocol.messages import AskMaskKey, OpenSum, Reply, Step, TakeCheckKey, TakeMaskKeys
from fedci.protocol.packing import JITTERED, POWERS, flat, form_of, from_units, in_units, units_of, with_jitter
from fedci.protocol.requests import COMPLETION, MASKED, MEANS, MOMENTS, OWN, REQUESTS, SPREADS
from fedci.site import copies, describing, diagnosing, targeting
from fedci.site.admission import admit, situation
from fedci.site.describing import Part
from fedci.site.masking import SiteSums
from fedci.site.noising import FARTHEST, SumNoise, digest_of_numbers, site_noise
from fedci.site.people import Posterior, summed_sd
from fedci.site.prepared import Prepared, common_units
from fedci.site.run import Party, Run, reply_to, required
from fedci.study.policy import SECURE_SUM_SITES

SLACK = 1.1
"""Of a sum of squares, for the noise on it."""
FIRST = "AskColumns"
"""The first step that tells of rows."""
OfKeys = AskMaskKey | TakeMaskKeys | TakeCheckKey | OpenSum


def _is_of_effects(ask: Ask) -> bool:
    return REQUESTS[ask.name].phase == "effects"


def keys(party: Party, run: Run, request: OfKeys) -> tuple[Run, Reply]:
    """Keys of the secure sums, and the opening of one."""
    required(party.name, run.course, "a handshake")
    if run.study.policy.secure_sum is False:
        raise SiteError(f"site '{party.name}': this study's policy has no secure sums")
    if isinstance(request, AskMaskKey):
        sums = run.sums or SiteSums(study=run.study, name=party.name, run=request.run, secret=party.secret,
                                    credentials=party.credentials, agreed_cohort=run.contract.sites)
        return run.remembering(sums), reply_to(request, {}, **sums.offer(request))
    sums = required(party.name, run.sums, "a request for its key")
    if isinstance(request, OpenSum):
        return run, reply_to(request, {}, opened=sums.open(request))
    if isinstance(request, TakeMaskKeys):
        sums, notes = sums.take(request)
        return replace(run, sums=sums), reply_to(request, {}, **notes)
    return replace(run, sums=sums.take_check(request)), reply_to(request, {})


def step(party: Party, run: Run, request: Step) -> tuple[Run, Reply]:
    """The answer to the next step of the course, and only to that."""
    course = required(party.name, run.course, "a handshake")
    _check_secured(party.name, run)
    course, ask = course.followed(request, lambda *exchange: _sum_before(party.name, run, request, *exchange))
    place, run = course.place(request.round), replace(run, course=course)
    if ask.name == READY:
        return replace(run, prepared=_prepared(party.name, run, _opened(run, place))), reply_to(request, {})
    if ask.name == courses.BEGIN:
        return run, reply_to(request, {})
    if ask.name == FIRST:
        _foresee(run)
    if run.prepared is None and place.opened is not None and place.opened.model.fits_at_home:
        run = replace(run, prepared=_prepared(party.name, run, place.opened))
    run = _completed(run, place)
    run, part = _answer(party, run, place, ask)
    part = _with_noise(party, run, ask, part)
    own = {OWN + name: numbers for name, numbers in part.own.items()}
    if run.sums is None or not run.masked:
        notes = {} if part.jitter is None else {"jitter": part.jitter}
        return run, reply_to(request, part.sums | own, **notes)
    return _masked(run, run.sums, request, ask, part, own)


def passed(party: Party, run: Run, request: Step) -> Run:
    """The run after the next step of the course, unanswered."""
    course = required(party.name, run.course, "a handshake")
    course, _ = course.followed(request, lambda *exchange: _sum_before(party.name, run, request, *exchange))
    return replace(run, course=course)


def _masked(run: Run, sums: SiteSums, request: Step, ask: Ask, part: Part,
            own: dict[str, np.ndarray]) -> tuple[Run, Reply]:
    ready, effects = run.prepared, _is_of_effects(ask)
    scales = units_of(ready.model, ask, ready.units.y_sd, ready.people) if ready else {}
    steps = round(np.log10(part.jitter / ready.model.options.jitter)) if part.jitter and ready else 0
    numbers = in_units(part.sums, scales) | {JITTERED: np.array(steps)}
    sums, hidden, shares = sums.mask(request, numbers, form_of(ready.model if ready else None, ask.name))
    own |= _own_averages(run, part.sums) if effects else {}
    return replace(run, sums=sums), reply_to(request, {MASKED: hidden} | own, shares=shares)


def _check_secured(site: str, run: Run) -> None:
    """A coordinator may not talk a site out of its masks."""
    if run.study.policy.secures(len(run.contract.sites)) and not run.masked:
        raise DisclosureError(f"site '{site}': the policy asks for secure sums, and no keys were agreed. At least "
                              f"{SECURE_SUM_SITES} sites must take part")


def _sum_before(site: str, run: Run, request: Step, place: Place, ask: Ask, number: int) -> Sums:
    """The sum of the exchange before, as the coordinator tells it; under secure sums the sites' checks bind it."""
    model = place.opened.model if place.opened else None
    expected = shapes(model, ask, run.study.policy.noises("effects"))
    if run.sums is not None and run.masked:
        total = run.sums.true_sum(request.previous, number, with_jitter(expected), form_of(model, ask.name))
        return from_units(total, units_of(model, ask, 1.0, place.opened.people)) if place.opened else total
    previous = request.previous
    if any(name not in previous or previous[name].shape != shape for name, shape in expected.items()):
        raise MessageError(f"site '{site}': the sum of round {number} is not told with the next step, and it "
                           f"cannot follow the study without")
    return previous


def _with_noise(party: Party, run: Run, ask: Ask, part: Part) -> Part:
    """The answer as differential privacy lets it out; as it is where the study asks for none."""
    policy = run.study.policy
    if ask.name == PRODUCTS and (known := describing.noise_on_sums(party, run)) and run.prepared:
        draw = known.drawn("products", digest_of_numbers(ask.arrays["point"], *_units(run.prepared)))
        return part._replace(sums=run.prepared.model.noised_products(ask.arrays, part.sums, draw))
    noise = site_noise(run.study, run.contract.options, run.table, party.noise_secret)
    if noise is None:
        return part
    if _is_of_effects(ask) and policy.noises("effects"):
        own = describing.moments(party, run)
        return Part(noise.effects(part.sums, population_sizes((own.rows - own.treated, own.treated))))
    if ask.name == "Evaluate" and policy.noises("gradients"):
        asked = digest_of_numbers(*(part for _, part in sorted(ask.arrays.items())))  # whichever run asks it
        return Part(noise.evaluation(part.sums, asked))
    return part


def _units(ready: Prepared) -> tuple[Any, ...]:
    """In other units, of another cohort, sums have other noise: the same would cancel in their difference."""
    units = ready.units
    return units.x_mean, units.x_sd, units.y_mean, units.y_sd


def _own_averages(run: Run, sums: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The sums of effects over the site's people, averaged over the draws, if the study asks for them."""
    if not run.study.policy.site_effects or run.contract.noises_sums:
        return {}
    if "arm_mean" in sums:
        mean, cov = draw_averages(sums["arm_mean"])
        return {OWN + "arm_mean": mean, OWN + "arm_cov": cov + sums["arm_cov"], OWN + "people": sums["people"]}
    for name in ("risks", "rates", "survival"):
        if name in sums:
            mean, cov = draw_averages(sums[name])
            return {OWN + name: mean, OWN + f"{name}_cov": cov, OWN + "people": sums["people"]}
    own = {name: sums[name] for name in ("ite_sd", "people")}
    for kind in ("cate", "ite"):
        means, variances = sums[f"{kind}_mean"], sums[f"{kind}_var"]
        own |= {f"{kind}_mean": means.mean(0)[None], f"{kind}_var": (variances.mean(0) + means.var(0))[None]}
    return {OWN + name: part for name, part in own.items()}


# --- ready for the fit

def _opened(run: Run, place: Place) -> Opening:
    """What the opening comes to: its last step asks nothing."""
    opened = courses.after(run.contract, place, {})[0].opened
    if opened is None:
        raise AssertionError("the opening ends with the step that asks whether the site is ready")
    return opened


def _foresee(run: Run) -> None:
    """What would be refused once the units are known is refused before anything is told. Other sites can only add to
    it: columns of missing values, and a first stage with fewer people; so nothing is refused that they would let be."""
    admit(situation(run.study, run.table, len(run.contract.sites), run.contract.options, stage=0))


def _prepared(site: str, run: Run, opened: Opening) -> Prepared:
    """The rows in the common units, and those that a first stage looks at."""
    units = common_units(run.study, opened, len(run.contract.sites), run.contract.seed)
    x, w, y = units.filled(run.table.x), run.table.w, units.outcome(run.table.y)
    time = units.time(run.table.time, opened.model.outcome, len(y))
    model, stage, place = opened.model, opened.first, run.contract.sites.index(site)
    whole, (x, y) = np.column_stack([x, y]), model.clipped(x, y)
    admit(situation(run.study, run.table, len(run.contract.sites), run.contract.options, len(units.indicators),
                    stage.rows))
    if model.noises_sums:
        _check_units(site, whole, np.column_stack([x, y]), opened.people)
        _check_near(site, x, w, y)
    rows = model.rows(x, w, y, opened.u[place], place, run.table.added / units.y_sd**2, run.table.cluster, time)
    first = model.rows_of_stage(rows, stages.chosen(w, stage.rows, model.arms), x, w, y, time) if stage.rows else None
    return Prepared(model=model, units=units, rows=rows, stage=stage, first=first, people=opened.people)


def _completed(run: Run, place: Place) -> Run:
    """Once the laws of what is missing are known, with rows that are drawn from them."""
    ready, opened = run.prepared, place.opened
    if ready is None or opened is None or not opened.laws.size or ready.own is not None:
        return run
    units = common_units(run.study, opened, len(run.contract.sites), run.contract.seed)
    site = run.contract.sites.index(run.table.site)
    return replace(run, prepared=copies.rows_of(ready, units, run.table, site,
                                                  run.study.policy.min_cell))


def _check_units(site: str, whole: np.ndarray, clipped: np.ndarray, people: int) -> None:
    """Noise is in the common units, and they are not smaller than people are apart: a site that tells false squares
    could make them so, less than nothing of its own."""
    cut = FARTHEST * whole.std(0)
    own = np.sum(np.clip(whole, -cut, cut) ** 2, 0)  # in all squares, people at the least
    if clipped.std(0).max() > sum_noise.WIDE or own.max() > SLACK * people:
        raise DisclosureError(
            f"site '{site}': the noise on sums (policy.sum_noise) is in the common units, and a column of this site "
            f"spreads more than {sum_noise.WIDE:g} times as wide, or has more squares than all sites together. Leave "
            f"the site out, or the column that differs")


def _check_near(site: str, x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
    """What the noise is measured by: nobody is farther from the site's own levels than it takes them to be. That each
    arm has the people it is measured for was asked before (`admission`)."""
    both = np.column_stack([x, y])
    for arm in (0, 1):
        some = both[w == arm]
        if np.abs(some.mean(0)).max() > sum_noise.AWAY:
            raise DisclosureError(
                f"site '{site}': the noise on sums (policy.sum_noise) is measured for sites whose means, in each arm, "
                f"are within {sum_noise.AWAY:g} sd of all sites' in every column; this site's are not. Leave the site "
                f"out, or the column that differs")


# --- the answers

def _answer(party: Party, run: Run, place: Place, ask: Ask) -> tuple[Run, Part]:
    if ask.name in DESCRIBED:
        return replace(run, described=True), DESCRIBED[ask.name](party, run, ask.arrays)
    ready = required(party.name, run.prepared, "the common units")
    if ask.name == COMPLETION:
        return run, copies.answer(party.name, run.contract, place.known, ready, run.table,
                                   run.study.policy.min_cell, ask.arrays)
    kind = REQUESTS[ask.name].kind
    if kind in targeting.KINDS:
        return run, targeting.KINDS[kind](party, run, ready, _here(run, ready), ask.arrays)
    if kind:
        return run, diagnosing.answer(_here(run, ready), kind, ask.arrays)
    return (_effects if _is_of_effects(ask) else _round)(party, run, ready, ask)


DESCRIBED: Mapping[str, Callable[[Party, Run, Any], Part]] = {
    "AskTimes": describing.times, "AskExposure": describing.exposures, "AskColumns": describing.columns,
    MEANS: describing.means, SPREADS: describing.spreads, MOMENTS: describing.means_and_squares,
    "AskDescription": describing.description}


def _here(run: Run, ready: Prepared) -> diagnosing.Here:
    return diagnosing.Here(
        table=run.table, policy=run.study.policy, units=ready.units, model=ready.model, arrays=ready.rows,
        posterior=run.posterior, tells_effect=not run.masked or run.study.policy.site_effects)


def _round(party: Party, run: Run, ready: Prepared, ask: Ask) -> tuple[Run, Part]:
    """The named sums of a question of the fit. A numerical failure is counted, not raised: the optimiser then steps
    back."""
    some = float(np.asarray(ask.arrays.get("few", 0.0)))
    rows: Rows = ready.first if some and ready.first is not None else ready.rows
    answer = ready.model.answer(ask.name, ask.arrays, rows, run.memory)
    answer = required(party.name, answer, "statistics that are finite")
    sums = {name: np.asarray(part) for name, part in answer.sums.items()}
    if not _is_summable(run, ready, ask, sums):
        sums = {name: np.zeros_like(part) for name, part in sums.items()} | {"failed": np.ones(())}
    return replace(run, memory=answer.memory), Part(sums, jitter=_raised(ready, answer.jitter))


def _is_summable(run: Run, ready: Prepared, ask: Ask, sums: Mapping[str, np.ndarray]) -> bool:
    """Whether all sites' numbers of this size would have a sum under masks; without masks alike, so that both go one
    way. At the far end of a step too long they do not."""
    numbers = flat(in_units(sums, units_of(ready.model, ask, ready.units.y_sd, ready.people)))
    if not (run.masked or ready.model.options.standardise):  # in the data's own units, whatever these are
        return bool(np.isfinite(numbers).all())
    return secure_sum.fits(numbers, len(run.contract.sites), len(run.table.y) / ready.people,
                           form_of(ready.model, ask.name))


def _raised(ready: Prepared, jitter: float) -> float | None:
    return jitter if jitter != ready.model.options.jitter else None


def _effects(party: Party, run: Run, ready: Prepared, ask: Ask) -> tuple[Run, Part]:
    if noise := describing.noise_on_sums(party, run):
        return _noised_effects(run, ready, ask, noise)
    correlations = np.asarray(ask.arrays.get("correlations", CORRELATIONS))
    arrays = {name: np.asarray(part) for name, part in ask.arrays.items()}
    vector, draws = ready.model.received(arrays, int(ready.rows.index))
    for jitter in ready.model.jitters:
        known = ready.rows.known(ready.model, draws, jitter)
        own = jax.device_get(ready.rows.effects(ready.model, vector, draws, correlations, jitter, known))
        if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(own)):
            posterior = Posterior(vector, draws, jitter, known)
            sums = _effect_sums(run, ready, posterior, own, correlations)
            return replace(run, posterior=posterior), Part(sums, jitter=_raised(ready, jitter))
    raise NumericalError(f"site '{party.name}': the covariance of the outcomes is not positive definite even with "
                         f"jitter {ready.model.jitters[-1]:g}. Look for repeated rows, or raise model.jitter.")


def _noised_effects(run: Run, ready: Prepared, ask: Ask, noise: SumNoise) -> tuple[Run, Part]:
    """In outcome units. What the site needs for its own people's effects stays there."""
    t, s = run.table, ready.units.y_sd
    x, y = ready.model.clipped(ready.units.filled(t.x), ready.units.outcome(t.y))
    draw = noise.drawn("effects", digest_of_numbers(*_units(ready)))
    sums = ready.model.noised_effects(ask.arrays, x, t.w, y, draw)
    told = {name: part * s ** POWERS[name] for name, part in sums.items()}
    posterior = Posterior(*ready.model.received(ask.arrays, int(ready.rows.index)), ready.model.options.jitter)
    return replace(run, posterior=posterior), Part(told | {"people": population_sizes(t.by_arm)})


def _effect_sums(run: Run, ready: Prepared, q: Posterior, own: SiteEffects | ArmSums | RiskSums | SurvivalSums,
                 correlations: np.ndarray) -> dict[str, np.ndarray]:
    """Per population, in outcome units: Σ τ(x_i), Σ τ_i; and Σ_i sd(τ_i) from every eighth draw, which is enough for a
    mean over people and costs n³ only there. Of other outcomes the sums of risks, rates or curves; of more than two
    arms those of what is expected in each, about the outcome's mean."""
    s, people = ready.units.y_sd, population_sizes(run.table.by_arm)
    if isinstance(own, ArmSums):
        return {"arm_mean": s * np.asarray(own.mean), "arm_cov": s**2 * np.asarray(own.cov).mean(0, keepdims=True),
                "people": people}
    if not isinstance(own, SiteEffects):
        name = "rates" if ready.model.outcome == "count" else "risks"
        sums = own._asdict() if isinstance(own, SurvivalSums) else {name: own.risks * ready.rate}
        return {name: np.asarray(part) for name, part in sums.items()} | {"people": people}
    known = None if isinstance(q.known, ExactRows) else q.known  # which has no draws
    some, known = jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[::8]), (q.draws, known))
    spread = summed_sd(ready.model, replace(q, draws=some, known=known), ready.rows, correlations, s)
    cate, ite = (Effect(np.asarray(part.mean), np.asarray(part.var)).scaled(s) for part in (own.cate, own.ite))
    return effect_sums(cate, ite, spread, people)
