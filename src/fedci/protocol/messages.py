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
    """Handshake: both sides must run the same study, options and version."""

    version: str
    study_hash: str
    options: dict[str, Any]
    seed: int = 0
    """Of the run: the start and the draws follow from it, so a site can tell what it will be asked."""
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
class AskMoments(Message):
    """The four moments of each column (policy permitting)."""


@dataclass(frozen=True, kw_only=True)
class Prepare(Message):
    """The common units, and the site's place in the model."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float
    u: np.ndarray
    """The site's own moments in model units."""
    index: int
    sites: int
    indicators: np.ndarray
    """Columns with missing values somewhere: each gets a 0/1 column of its own at every site."""
    people: int = 0
    """Of all sites."""
    few_rows: int = 0
    """The first rounds look at so many people of a site at most (`protocol.stages`); 0: at all."""
    few_people: int = 0
    """That is so many of all sites."""
    all_u: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """[m, q] every site's moments in model units, where sites follow the fit of the model `paper`; else empty."""


@dataclass(frozen=True)
class Evaluate(Message):
    """The site's term of the objective, its gradient in Θ and in the draws."""

    theta: np.ndarray
    phi_roots: np.ndarray
    sigma_roots: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    """The sum over all sites that this request follows from, where sites follow the fit; else empty."""


@dataclass(frozen=True, kw_only=True)
class AskEffects(Message):
    """Per-draw sums of effects over the site's people; the site keeps Θ and the draws for its own predictions."""

    theta: np.ndarray
    phi_roots: np.ndarray
    sigma_roots: np.ndarray
    g: np.ndarray
    correlations: np.ndarray
    """Noise correlations at which realised effects are summed; the first, NaN, stands for Σ's own draws."""
    previous: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class AskStatistics(Message):
    """Model `shared`, first half of a round: the site's sums T, v, c, l for each draw of θ."""

    thetas: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    few: np.ndarray = field(default_factory=lambda: np.zeros(()))
    """Over at most so many of the site's people (Prepare.few_rows); 0.0: over all."""


@dataclass(frozen=True, kw_only=True)
class PullBack(Message):
    """Second half: the derivative of the objective in those sums; the site answers with its derivative in each θ."""

    thetas: np.ndarray
    gram: np.ndarray
    cross: np.ndarray
    square: np.ndarray
    log_det: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    few: np.ndarray = field(default_factory=lambda: np.zeros(()))


@dataclass(frozen=True)
class AskSharedEffects(Message):
    """As AskEffects, for draws of θ and of β."""

    thetas: np.ndarray
    betas: np.ndarray
    correlations: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class AskDiagnostic(Message):
    """One kind of diagnostic (`protocol.requests`), at parameters that the site checks (docs/diagnostics.md)."""

    kind: str
    values: dict[str, np.ndarray]


@dataclass(frozen=True)
class Reply(Message):
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    """Counts and warnings in words; never a value of a person."""


@dataclass(frozen=True)
class Tokens(Message):
    """Answers AskTokens: [k, 2] int64, the two halves of each token."""

    tokens: np.ndarray


@dataclass(frozen=True)
class Refusal(Message):
    """Why a site does not answer."""

    code: str
    reason: str


TYPES: dict[str, type[Message]] = {
    name: part for name, part in list(globals().items())
    if isinstance(part, type) and issubclass(part, Message) and part is not Message}
"""Every type of message by its name: all that this module defines."""
