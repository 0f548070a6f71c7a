"""The coordinator's side of the linkage: passes on keys that it cannot open, and compares tokens it cannot read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedci.coordinator.talk import Make, Talk
from fedci.errors import HandshakeError, MessageError
from fedci.privacy.tokens import choose
from fedci.protocol.messages import AskLinkKey, AskTokens, Exclude, Reply, TakeLinkKey, Tokens, WrapLinkKey
from fedci.study.study import Study

PART = 500_000
"""Tokens in one message: 8 of the 16 MiB that a message may have."""
Note = TypeVar("Note", int, str, dict[str, Any])


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
    parts = max(1, -(-max(_noted(reply, "people", int) for reply in offers.values()) // part))
    leaving = choose(_gather(talk, parts), study.linkage.keep, secret)
    replies = _exclude(talk, leaving, parts)
    return Linked({site: len(leaving[site]) for site in talk.sites},
                  tuple(warning for reply in replies.values() for warning in reply.notes.get("warnings", [])))


def _noted(reply: Reply, name: str, kind: type[Note]) -> Note:
    value = reply.notes.get(name)
    if not isinstance(value, kind):
        raise MessageError(f"site '{reply.site}' answered the linkage without '{name}'. Is it of another version?",
                           site=reply.site)
    return value


def _agree_key(talk: Talk, offers: Mapping[str, Reply]) -> None:
    """All sites hold the same key file, or the first site by name draws a key and the others get it wrapped."""
    given = {site: _noted(reply, "fingerprint", str) for site, reply in offers.items() if "public" not in reply.notes}
    if given:
        return _check_given(given, offers)
    lead = min(offers)
    publics = {site: _noted(reply, "public", str) for site, reply in offers.items()}
    signatures = {site: _noted(reply, "signature", str) for site, reply in offers.items()}
    made = talk.ask_each({lead: lambda base: WrapLinkKey(*base, publics, signatures)})
    wrapped = _noted(made[lead], "wrapped", dict)

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


def _gather(talk: Talk, parts: int) -> dict[str, np.ndarray]:
    """Site → [n, 2] tokens."""
    def ask(k: int) -> Make:
        return lambda base: AskTokens(*base, k, parts)

    received = [talk.ask_all_for(Tokens, ask(k)) for k in range(parts)]
    for reply in (reply for part in received for reply in part.values()):
        if reply.tokens.ndim != 2 or reply.tokens.shape[1] != 2 or reply.tokens.dtype != np.int64:
            raise MessageError(f"site '{reply.site}' sent tokens of shape {reply.tokens.shape} and type "
                               f"{reply.tokens.dtype}, needs [any, 2] and int64", site=reply.site)
    return {site: np.concatenate([part[site].tokens for part in received]) for site in talk.sites}


def _exclude(talk: Talk, leaving: Mapping[str, np.ndarray], parts: int) -> dict[str, Reply]:
    """The replies to the last part, which say how many people left."""
    def tell(tokens: np.ndarray, k: int) -> Make:
        return lambda base: Exclude(*base, np.array_split(tokens, parts)[k], k, parts)

    for k in range(parts):
        replies = talk.ask_each({site: tell(tokens, k) for site, tokens in leaving.items()})
    for site, reply in replies.items():
        if _noted(reply, "excluded", int) != len(leaving[site]):
            raise MessageError(f"site '{site}' did not leave out the {len(leaving[site])} people it was told to",
                               site=site)
    return replies
