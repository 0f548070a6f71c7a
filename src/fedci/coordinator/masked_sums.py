"""The coordinator's side of the secure sums: passes keys on, adds what it cannot read, and opens only the sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedci.coordinator.replies import Rules, check_numbers, noted
from fedci.coordinator.talk import Make, Talk, Total
from fedci.errors import AwayError, FederationError, MessageError, SiteError
from fedci.model.family import Ask
from fedci.privacy import secure_sum
from fedci.privacy.secure_sum import Form
from fedci.protocol.messages import AskMaskKey, OpenSum, Reply, TakeCheckKey, TakeMaskKeys
from fedci.protocol.packing import (
    JITTERED,
    form_of,
    from_units,
    integers,
    masked_size,
    unflatten,
    units_of,
    with_jitter,
)
from fedci.protocol.requests import MASKED, OWN, REQUESTS, Shapes


def agree(talk: Talk) -> SecureSums:
    """The cohort's keys, passed on as they are: the sites check each other's signatures."""
    offers = talk.ask_all(lambda base: AskMaskKey(*base))
    publics = {site: noted(reply, "public", str) for site, reply in offers.items()}
    signatures = {site: noted(reply, "signature", str) for site, reply in offers.items()}
    taken = talk.ask_all(lambda base: TakeMaskKeys(*base, publics, signatures))
    lead = min(publics)
    wrapped = noted(taken[lead], "wrapped", dict)

    def pass_on(wrapped_key: str) -> Make:
        return lambda base: TakeCheckKey(*base, wrapped_key)

    talk.ask_each({site: pass_on(wrapped.get(site, "")) for site in talk.sites if site != lead})
    return SecureSums()


class SecureSums:
    """Two exchanges for one sum: masked answers, then shares of the seeds that open their sum."""

    def total(self, talk: Talk, ask: Ask) -> Total:
        replies = talk.ask_sum(ask)
        expected = with_jitter(talk.shapes(ask))
        form = form_of(talk.terms.model, ask.name)
        uploads = {site: secure_sum.widened(_upload(reply, masked_size(expected, form)), integers(expected, form), form)
                   for site, reply in replies.items()}
        seeds = _seeds(talk.sites, _open(talk, replies))
        total = secure_sum.opened([uploads[site] for site in talk.sites], [seeds[site] for site in talk.sites], form)
        sums = unflatten(secure_sum.decode(total[:-secure_sum.CHECKS], form), expected)
        _check_sane(sums, form)
        _note_jitter(talk, sums.pop(JITTERED))
        sums = from_units(sums, units_of(talk.terms.model, ask, talk.terms.unit, talk.terms.people))
        own = {site: _own(reply, talk.own_shapes(ask), REQUESTS[ask.name].rules()) for site, reply in replies.items()}
        for_sites = {"total": secure_sum.narrowed(total, form)}
        return Total(sums, for_sites, {site: part for site, part in own.items() if part})


def _upload(reply: Reply, size: int) -> np.ndarray:
    upload = reply.sums.get(MASKED)
    if upload is None or upload.shape != (size,) or upload.dtype != np.int64:
        got = "nothing masked" if upload is None else f"masked numbers of shape {upload.shape} and type {upload.dtype}"
        raise MessageError(f"site '{reply.site}' answered with {got}, needs ({size},) and int64. Is it of another "
                           f"version? Ask the site, or run the study without it", site=reply.site)
    return upload


def _own(reply: Reply, expected: Shapes, rules: Rules) -> dict[str, np.ndarray]:
    """What the site tells of itself, if it sent any."""
    own = {name: part for name, part in reply.sums.items() if name.startswith(OWN)}
    check_numbers(reply, {name: expected[name.removeprefix(OWN)] for name in own}, rules)
    return {name.removeprefix(OWN): part for name, part in own.items()}


def _open(talk: Talk, replies: Mapping[str, Reply]) -> dict[str, dict[str, str]]:
    """Site that answers → site → its share. A site that answered and then went away is not missed while enough stay."""
    sealed = {site: noted(reply, "shares", dict) for site, reply in replies.items()}

    def to_site(site: str) -> Make:
        return lambda base: OpenSum(*base, {other: sealed[other].get(site, "") for other in sealed})

    make = {site: to_site(site) for site in talk.sites}
    try:
        opened = talk.ask_each(make)
    except AwayError:
        opened = _open_with_those_there(talk, make)
    return {site: noted(reply, "opened", dict) for site, reply in opened.items()}


def _open_with_those_there(talk: Talk, make: Mapping[str, Make]) -> dict[str, Reply]:
    opened: dict[str, Reply] = {}
    needed = secure_sum.threshold(len(talk.sites))
    for site in talk.sites:
        requests = {site: make[site]((talk.run, talk.round, site))}
        try:
            opened |= talk.checked(requests, talk.engine.exchange(requests))
        except (AwayError, SiteError):  # one that has started again knows nothing of this sum
            continue
        if len(opened) == needed:
            return opened
    raise AwayError(f"{len(opened)} of {len(talk.sites)} sites are there to open a sum, {needed} are needed")


def _seeds(sites: tuple[str, ...], opened: Mapping[str, Mapping[str, str]]) -> dict[str, bytes]:
    """Every site's self seed, from as many shares as it takes."""
    giving = sorted(opened)[:secure_sum.threshold(len(sites))]
    at = secure_sum.weights([sites.index(site) + 1 for site in giving])
    try:
        return {site: secure_sum.join([bytes.fromhex(opened[giver][site]) for giver in giving], at) for site in sites}
    except (KeyError, TypeError, ValueError):
        raise MessageError(f"a share of the sum is missing or is no share, from one of {', '.join(giving)}; from which "
                           f"cannot be told") from None


def _check_sane(sums: Mapping[str, np.ndarray], form: Form) -> None:
    """Masks hide who sent what: of garbage only the sum shows, beyond what honest sites send."""
    most = secure_sum.largest(form)
    for name, value in sums.items():
        if value.size and not np.abs(value).max() < most:
            raise FederationError(f"the sum of {name!r} is absurd: a site sent garbage under its mask, and which one "
                                  f"cannot be told. Run the study without masks (policy.secure_sum = false) if the "
                                  f"sites agree, or leave sites out one by one")


def _note_jitter(talk: Talk, steps: np.ndarray) -> None:
    if steps > 0 and talk.terms.model is not None:
        jitter = talk.terms.model.options.jitter * 10.0 ** min(float(steps), 6.0)
        talk.jitters[""] = max(talk.jitters.get("", 0.0), jitter)
