"""What coordinator and sites say to each other, type by type.

A request asks a site for one thing; a `Reply` carries *named sums* (gradients, moments, per-draw sums of effects)
and never anything per person. Only linkage sends something for each person, keyed `Tokens` (docs/linkage.md).
Their bytes are `protocol.codec`'s; what answers each request, `protocol.requests` says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Base = tuple[str, int, str]
"""(run, round, site): what every message begins with."""


@dataclass(frozen=True)
class Message:
    run: str
    """The study's run: a message of another run is refused."""
    round: int
    """Counts all exchanges of a run; a reply repeats its request's."""
    site: str
    """The site asked, or the site that answers."""


@dataclass(frozen=True)
class Hello(Message):
    """Handshake: both sides must run the same study and version. The study says all else: seed, options, cohort."""

    version: str
    study_hash: str
    sites: dict[str, Any]
    """The cohort: the study's sites, or where it has a quorum, those of them that are there (site → true)."""
    refuter: str = ""
    """Of a run that refutes: what the site changes in its rows (`protocol.refuting`)."""


@dataclass(frozen=True)
class AskLinkKey(Message):
    """Linkage begins: the site's public key of this run (or that it has a key from a file), and how many people."""


@dataclass(frozen=True)
class WrapLinkKey(Message):
    """To the lead site: every site's public key and signature (hex), for it to wrap the study's key with."""

    publics: dict[str, Any]
    signatures: dict[str, Any]


@dataclass(frozen=True)
class TakeLinkKey(Message):
    """To every other site: the study's key that the lead site wrapped for it."""

    lead: str
    public: str
    signature: str
    wrapped: str


@dataclass(frozen=True)
class AskTokens(Message):
    """The site's keyed tokens in their own order, in `parts` of about equal size."""

    part: int
    parts: int


@dataclass(frozen=True)
class Exclude(Message):
    """Those of the site's own tokens whose people stay at other sites; after the last part it forgets the key."""

    tokens: np.ndarray
    witnesses: np.ndarray
    """[k, keep · 3] of the sites where each of them stays (`privacy.tokens`)."""
    part: int
    parts: int


@dataclass(frozen=True)
class AskMaskKey(Message):
    """Secure sums begin: the site's public key of this run, signed by its identity."""


@dataclass(frozen=True)
class TakeMaskKeys(Message):
    """All sites' public keys and signatures (hex): the cohort of every sum of this run. The lead site answers with the
    key of the checks, wrapped for each of the others."""

    publics: dict[str, Any]
    signatures: dict[str, Any]


@dataclass(frozen=True)
class TakeCheckKey(Message):
    """To every other site: the key of the checks that the lead site wrapped for it."""

    wrapped: str


@dataclass(frozen=True)
class OpenSum(Message):
    """All sites' uploads are there: every site's share for this site (hex), which it unseals and answers with."""

    shares: dict[str, Any]


@dataclass(frozen=True)
class Step(Message):
    """The next step of the study's course (`protocol.course`), by name. It carries no question: the site works that out
    from the study and the sums so far."""

    name: str
    """A row of `protocol.requests`."""
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    """The sum that the step before came to; empty at the first step, and where a diagnostic was given up."""


@dataclass(frozen=True)
class Reply(Message):
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    """Counts and warnings in words; never a value of a person."""


@dataclass(frozen=True)
class Tokens(Message):
    """Answers AskTokens: [k, 2] int64, the two halves of each token, and [k, 3] its witness."""

    tokens: np.ndarray
    witnesses: np.ndarray


@dataclass(frozen=True)
class Refusal(Message):
    """Why a site does not answer."""

    code: str
    reason: str


TYPES: dict[str, type[Message]] = {
    name: part for name, part in list(globals().items())
    if isinstance(part, type) and issubclass(part, Message) and part is not Message}
"""Every type of message by its name: all that this module defines."""
