"""What of a site is summed over sites: the rounds of a fit, the effects, diagnostics; followed, noised, masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from fedci.effect import population_sizes
from fedci.errors import DisclosureError, MessageError, NumericalError, SiteError
from fedci.model.family import Ask, Sums
from fedci.model.rows import Rows, SiteEffects
from fedci.protocol.ask import arrays_of, shapes
from fedci.protocol.messages import (
    AskDiagnostic,
    AskEffects,
    AskMaskKey,
    AskSharedEffects,
    AskStatistics,
    Evaluate,
    Message,
    OpenSum,
    PullBack,
    Reply,
    TakeCheckKey,
    TakeMaskKeys,
)
from fedci.protocol.packing import JITTERED, is_wide, rescaled, with_jitter
from fedci.protocol.requests import MASKED, OWN, asked, row_of
from fedci.site import diagnosing
from fedci.site.limits import check_asked
from fedci.site.masking import SiteSums, digest
from fedci.site.noising import site_noise
from fedci.site.people import Posterior, summed_sd
from fedci.site.prepared import Prepared
from fedci.site.run import Party, Run, reply_to, required

OfKeys = AskMaskKey | TakeMaskKeys | TakeCheckKey | OpenSum
OfFit = Evaluate | AskEffects | AskStatistics | PullBack | AskSharedEffects
"""Requests of the fit and of its effects, which tell the sum before them."""


def keys(party: Party, run: Run, request: OfKeys) -> tuple[Run, Reply]:
    """Keys of the secure sums, and the opening of one."""
    required(party.name, run.options, "a handshake")
    if run.study.policy.secure_sum is False:
        raise SiteError(f"site '{party.name}': this study's policy has no secure sums")
    if isinstance(request, AskMaskKey):
        sums = run.sums or SiteSums(study=run.study, name=party.name, run=request.run, secret=party.secret,
                                    credentials=party.credentials)
        return replace(run, sums=sums), reply_to(request, {}, **sums.offer(request))
    sums = required(party.name, run.sums, "a request for its key")
    if isinstance(request, OpenSum):
        return run, reply_to(request, {}, opened=sums.open(request))
    if isinstance(request, TakeMaskKeys):
        sums, notes = sums.take(request)
        return replace(run, sums=sums), reply_to(request, {}, **notes)
    return replace(run, sums=sums.take_check(request)), reply_to(request, {})


def summed(party: Party, run: Run, request: OfFit) -> tuple[Run, Reply]:
    """The answer to a request of the fit: followed if the policy says so, and masked under secure sums."""
    ready = required(party.name, run.prepared, "the common units")
    run = _counted(party.name, run, ready, request)
    if run.course is not None:
        course = run.course.followed(request, lambda _, *exchange: _told(party.name, run, request, *exchange))
        run = replace(run, course=course)
    effects = isinstance(request, AskEffects | AskSharedEffects)
    run, reply = (_effects(party, run, ready, request) if isinstance(request, AskEffects | AskSharedEffects)
                  else _round(party, run, ready, request))
    reply = _with_noise(party, run, request, reply)
    if run.sums is None or not run.masked:
        return run, reply
    steps = round(np.log10(reply.notes.get("jitter", ready.model.options.jitter) / ready.model.options.jitter))
    numbers = rescaled(reply.sums, 1.0 / ready.units.y_sd) | {JITTERED: np.array(steps)}
    sums, hidden, shares = run.sums.mask(request, numbers, is_wide(ready.model, asked(request)))
    own = _own_averages(run, reply) if effects else {}
    return replace(run, sums=sums), reply_to(request, {MASKED: hidden} | own, shares=shares)


def _counted(site: str, run: Run, ready: Prepared, request: Message) -> Run:
    """A fit asks no more often than the policy's rounds: each answer tells one more function of the rows."""
    rounds, most = run.evaluations | {request.round}, run.study.policy.max_rounds
    exchanges = ready.model.exchanges(most)
    if len(rounds) > exchanges:
        raise DisclosureError(f"site '{site}': this run has asked {exchanges} times, which is all that the policy's "
                              f"{most} rounds take. Start another run, or agree on more rounds")
    return replace(run, evaluations=rounds)


def _told(site: str, run: Run, request: OfFit, ask: Ask, number: int) -> Sums:
    """The sum of the exchange before, as the coordinator tells it; under secure sums the sites' checks bind it."""
    model = required(site, run.prepared, "the common units").model
    expected = shapes(model, ask, run.study.policy.noises("effects"))
    if run.sums is not None and run.masked:
        return run.sums.told(request.previous, number, with_jitter(expected), is_wide(model, ask.name))
    previous = request.previous
    if any(name not in previous or previous[name].shape != shape for name, shape in expected.items()):
        raise MessageError(f"site '{site}': the sum of round {number} is not told with the next request, and it "
                           f"cannot follow the fit without")
    return previous


def _with_noise(party: Party, run: Run, request: Message, reply: Reply) -> Reply:
    """The answer as differential privacy lets it out; as it is where the study asks for none."""
    policy = run.study.policy
    noise = site_noise(run.study, required(party.name, run.options, "a handshake"), run.table, party.secret)
    if noise is None:
        return reply
    if isinstance(request, AskEffects | AskSharedEffects) and policy.noises("effects"):
        counts = required(party.name, run.counts, "a request for its moments")
        return replace(reply, sums=noise.effects(reply.sums, counts), notes={})
    if isinstance(request, Evaluate) and policy.noises("gradients"):
        return replace(reply, sums=noise.evaluation(reply.sums, digest(request)), notes={})
    return reply


def _own_averages(run: Run, reply: Reply) -> dict[str, np.ndarray]:
    """The sums of effects over the site's people, averaged over the draws, if the study asks for them."""
    if not run.study.policy.site_effects:
        return {}
    sums, own = reply.sums, {name: reply.sums[name] for name in ("ite_sd", "people")}
    for kind in ("cate", "ite"):
        means, variances = sums[f"{kind}_mean"], sums[f"{kind}_var"]
        own |= {f"{kind}_mean": means.mean(0)[None], f"{kind}_var": (variances.mean(0) + means.var(0))[None]}
    return {OWN + name: part for name, part in own.items()}


# --- a round, the effects

def _round(party: Party, run: Run, ready: Prepared, request: Message) -> tuple[Run, Reply]:
    """The named sums of a question of the fit. A numerical failure is counted, not raised: the optimiser then steps
    back."""
    name, arrays = asked(request), arrays_of(request)
    check_asked(party.name, ready.model, name, arrays)
    answer = ready.model.answer(name, arrays, _rows(party.name, ready, arrays), run.memory)
    answer = required(party.name, answer, "statistics that are finite")
    return replace(run, memory=answer.memory), reply_to(request, answer.sums, **_jitter_note(ready, answer.jitter))


def _rows(site: str, ready: Prepared, arrays: Mapping[str, np.ndarray]) -> Rows:
    """Those that the question is about."""
    some = float(arrays.get("few", 0.0))
    if some and (some != ready.stage.rows or ready.first is None):
        raise MessageError(f"site '{site}': sums over {some:g} people are no stage of this fit")
    return ready.first if some and ready.first is not None else ready.rows


def _jitter_note(ready: Prepared, jitter: float) -> dict[str, float]:
    return {"jitter": jitter} if jitter != ready.model.options.jitter else {}


def _effects(party: Party, run: Run, ready: Prepared, request: AskEffects | AskSharedEffects) -> tuple[Run, Reply]:
    name, arrays = asked(request), arrays_of(request)
    check_asked(party.name, ready.model, name, arrays)
    vector, draws = ready.model.received(arrays)
    for jitter in ready.model.jitters:
        own = jax.device_get(ready.rows.effects(ready.model, vector, draws, request.correlations, jitter))
        if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(own)):
            posterior = Posterior(vector, draws, jitter)
            sums = _effect_sums(run, ready, posterior, own, request.correlations)
            return replace(run, posterior=posterior), reply_to(request, sums, **_jitter_note(ready, jitter))
    raise NumericalError(f"site '{party.name}': the covariance of the outcomes is not positive definite even with "
                         f"jitter {ready.model.jitters[-1]:g}. Look for repeated rows, or raise model.jitter.")


def _effect_sums(run: Run, ready: Prepared, q: Posterior, own: SiteEffects, correlations: np.ndarray) -> dict[str, Any]:
    """Per population and draw, in outcome units: Σ τ(x_i) 'cate' [L, 3], Σ τ_i 'ite' [L, C, 3]; and Σ_i sd(τ_i) from
    every eighth draw, which is enough for a mean over people and costs n³ only there."""
    s, t = ready.units.y_sd, run.table
    some = jax.tree.map(lambda leaf: leaf[::8], q.draws)
    spread = summed_sd(ready.model, replace(q, draws=some), ready.rows, correlations, s)
    return {"cate_mean": s * own.cate.mean, "cate_var": s**2 * own.cate.var,
            "ite_mean": s * own.ite.mean, "ite_var": s**2 * own.ite.var,
            "ite_sd": spread, "people": population_sizes(t.rows - t.treated, t.treated)}


# --- diagnostics

def diagnostic(party: Party, run: Run, request: AskDiagnostic) -> tuple[Run, Reply]:
    ready, policy = required(party.name, run.prepared, "the common units"), run.study.policy
    if policy.epsilon is not None:
        raise DisclosureError(f"site '{party.name}': diagnostics are sums without noise, and this study promises "
                              f"differential privacy: none are answered")
    run = replace(run, diagnosed=diagnosing.admitted(run.diagnosed, request))
    here = diagnosing.Here(
        table=run.table, policy=policy, indicators=ready.units.indicators, model=ready.model, arrays=ready.rows,
        index=int(ready.rows.index), y_mean=ready.units.y_mean, y_sd=ready.units.y_sd, posterior=run.posterior,
        tells_effect=not run.masked or policy.site_effects, silent=run.is_silent(request.round))
    if run.sums is None or not (run.masked and row_of(request).summed):
        return run, reply_to(request, diagnosing.answer(here, request))
    return _masked_diagnostic(run, run.sums, request, here)


def _masked_diagnostic(run: Run, sums: SiteSums, request: AskDiagnostic, here: diagnosing.Here) -> tuple[Run, Reply]:
    """Once a site could not tell its part of the propensity model it stays out: a sum that changes its people on the
    way has no maximum. Asked an earlier round again, it answers as it did."""
    part = diagnosing.part(here, request)
    if part.withheld and request.kind == "propensity" and not here.silent:
        run = replace(run, silent_from=request.round)
    sums, hidden, shares = sums.mask(request, part.sums | {JITTERED: np.zeros(())}, wide=True)
    notes = {"withheld": part.withheld} if part.withheld else {}
    own = {OWN + name: numbers for name, numbers in part.own.items()}
    return replace(run, sums=sums), reply_to(request, {MASKED: hidden} | own, shares=shares, **notes)
