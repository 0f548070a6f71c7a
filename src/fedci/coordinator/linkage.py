"""The coordinator's side of the linkage: passes on keys that it cannot open, and compares tokens it cannot read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedci.coordinator.replies import check_tokens, noted
from fedci.coordinator.talk import Make, Talk
from fedci.errors import HandshakeError, MessageError
from fedci.privacy.tokens import choose
from fedci.protocol.messages import AskLinkKey, AskTokens, Exclude, Reply, TakeLinkKey, Tokens, WrapLinkKey
from fedci.study.study import Study

PART = 200_000
"""Tokens in one message, with their witnesses: 8 of the 16 MiB that a message may have."""


class Linked(NamedTuple):
    """What the coordinator keeps of a linkage."""

    excluded: dict[str, int]
    """Site → people it left out; empty when nothing was to be linked."""
    warnings: tuple[str, ...]


def link(talk: Talk, study: Study, secret: bytes, part: int = PART) -> Linked:
    """Every person at more than `linkage.keep` sites stays at that many, in an order that only `secret` gives."""
    if not study.links or len(talk.sites) < 2:
        return Linked({}, ())
    offers = talk.ask_all(lambda base: AskLinkKey(*base))
    _agree_key(talk, offers)
    people = {site: noted(reply, "people", int) for site, reply in offers.items()}
    parts = max(1, -(-max(people.values()) // part))
    tokens, witnesses = _gather(talk, parts, people)
    everywhere = np.concatenate([witnesses[site] for site in talk.sites])
    keep = study.linkage.keep
    leaving = {site: (tokens[site][mine], everywhere[elsewhere].reshape(len(mine), 3 * keep))
               for site, (mine, elsewhere) in choose(tokens, keep, secret).items()}
    replies = _exclude(talk, leaving, parts)
    return Linked({site: len(leaving[site][0]) for site in talk.sites},
                  tuple(warning for reply in replies.values() for warning in reply.notes.get("warnings", [])))


def _agree_key(talk: Talk, offers: Mapping[str, Reply]) -> None:
    """All sites hold the same key file, or the first site by name draws a key and the others get it wrapped."""
    given = {site: noted(reply, "fingerprint", str) for site, reply in offers.items() if "public" not in reply.notes}
    if given:
        return _check_given(given, offers)
    lead = min(offers)
    publics = {site: noted(reply, "public", str) for site, reply in offers.items()}
    signatures = {site: noted(reply, "signature", str) for site, reply in offers.items()}
    made = talk.ask_each({lead: lambda base: WrapLinkKey(*base, publics, signatures)})
    wrapped = noted(made[lead], "wrapped", dict)

    def pass_on(wrapped_key: str) -> Make:
        return lambda base: TakeLinkKey(*base, lead, publics[lead], signatures[lead], wrapped_key)

    talk.ask_each({site: pass_on(wrapped.get(site, "")) for site in offers if site != lead})
    return None


def _check_given(given: Mapping[str, str], offers: Mapping[str, Reply]) -> None:
    if without := sorted(set(offers) - set(given)):
        raise HandshakeError(f"linkage: {', '.join(sorted(given))} brought a key file, {', '.join(without)} did not. "
                             "Give all sites the same file, or none")
    if len(set(given.values())) > 1:
        raise HandshakeError(f"linkage: the key files of {', '.join(sorted(given))} differ. Give all the same file")


def _gather(talk: Talk, parts: int,
            people: Mapping[str, int]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Site → [n, 2] tokens, as many as it said it has people; and [n, 3] their witnesses."""
    def ask(k: int) -> Make:
        return lambda base: AskTokens(*base, k, parts)

    received: dict[str, list[Tokens]] = {site: [] for site in talk.sites}
    for k in range(parts):
        for site, reply in talk.ask_all_for(Tokens, ask(k)).items():
            check_tokens(reply, -(-people[site] // parts))
            received[site].append(reply)
    tokens = {site: np.concatenate([part.tokens for part in own]) for site, own in received.items()}
    for site, own in tokens.items():
        if len(own) != people[site]:
            raise MessageError(f"site '{site}' sent {len(own)} tokens for the {people[site]} people it said it has",
                               site=site)
    return tokens, {site: np.concatenate([part.witnesses for part in own]) for site, own in received.items()}


def _exclude(talk: Talk, leaving: Mapping[str, tuple[np.ndarray, np.ndarray]], parts: int) -> dict[str, Reply]:
    """The replies to the last part, which say how many people left."""
    def tell(tokens: np.ndarray, witnesses: np.ndarray, k: int) -> Make:
        return lambda base: Exclude(*base, np.array_split(tokens, parts)[k], np.array_split(witnesses, parts)[k], k,
                                    parts)

    for k in range(parts):
        replies = talk.ask_each({site: tell(*lists, k) for site, lists in leaving.items()})
    for site, reply in replies.items():
        if noted(reply, "excluded", int) != len(leaving[site][0]):
            raise MessageError(f"site '{site}' did not leave out the {len(leaving[site][0])} people it was told to",
                               site=site)
    return replies
