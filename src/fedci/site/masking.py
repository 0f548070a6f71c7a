"""A site's side of the secure sums: its key of the run, its masked answers, and the shares it opens.

    AskMaskKey → TakeMaskKeys → TakeCheckKey (not the lead) → [ request → masked answer → OpenSum → shares ] …

Everything follows from the site's secret, the run and the request, so a site that starts again says the same bytes. A
sum is over the whole cohort or is not opened: every site unseals its shares only when it was given one of each other
site, sealed for the very request that it answered itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci.errors import DisclosureError, HandshakeError, NumericalError, SiteError
from fedci.privacy import agreement, secure_sum
from fedci.privacy.agreement import Context, Credentials
from fedci.privacy.secure_sum import Form, info
from fedci.protocol.codec import encode
from fedci.protocol.messages import AskMaskKey, Message, OpenSum, TakeCheckKey, TakeMaskKeys
from fedci.protocol.packing import flat, integers, masked_size, unflatten
from fedci.protocol.requests import Shapes
from fedci.study.policy import SECURE_SUM_SITES
from fedci.study.study import Study

KEY = "mask key"
"""What the signature of a public key is for."""
KEPT = 32
"""Rounds whose requests are remembered."""


def site_secret(credentials: Credentials) -> bytes:
    """What a site's masks and noise follow from: its identity, or where it has none, chance."""
    if credentials.secret is not None:
        return credentials.secret
    if credentials.identity is None:
        return os.urandom(secure_sum.SEED_BYTES)
    return secure_sum.derived(credentials.identity.private_bytes_raw(), info("site"))


def digest(request: Message) -> str:
    """Of what all sites must have been asked alike: the request without its addressee."""
    return hashlib.sha256(encode(replace(request, site=""))).hexdigest()


@dataclass(frozen=True, kw_only=True)
class SiteSums:
    """One run's secure sums at one site. Replaced, never changed."""

    study: Study
    name: str
    run: str
    secret: bytes = field(repr=False)
    credentials: Credentials = field(repr=False)
    agreed_cohort: tuple[str, ...]
    """The sites of this run, as the handshake named them."""
    publics: Mapping[str, str] | None = None
    pairs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Peer → what is shared with it in this run."""
    check_key: bytes | None = field(default=None, repr=False)
    digests: Mapping[int, str] = field(default_factory=dict)
    """Round → digest of the request that was answered in it."""
    unseals: tuple[int, Mapping[str, bytes]] = field(default=(-1, {}), repr=False)
    """The last answer's round, and peer → key of its share of it."""

    @property
    def cohort(self) -> tuple[str, ...]:
        return tuple(sorted(self.publics or ()))

    @property
    def ready(self) -> bool:
        return self.check_key is not None

    @property
    def lead(self) -> bool:
        return self.cohort[:1] == (self.name,)

    @property
    def _private(self) -> X25519PrivateKey:
        about = info(KEY, self.run, self.study.hash())
        return X25519PrivateKey.from_private_bytes(secure_sum.derived(self.secret, about))

    @property
    def _context(self) -> Context:
        return Context(self.run, self.study.hash())

    # --- keys

    def offer(self, request: AskMaskKey) -> dict[str, str]:
        public = agreement.public_key(self._private)
        return {"public": public,
                "signature": agreement.sign(self.credentials, self._context, self.name, public, KEY)}

    def take(self, request: TakeMaskKeys) -> tuple[SiteSums, dict[str, dict[str, str]]]:
        """The cohort's keys, checked; the lead site answers with the key of the checks, wrapped for the others."""
        publics = dict(request.publics)
        self._check_cohort(publics)
        if self.publics not in (None, publics):
            raise SiteError(f"site '{self.name}': the keys of this run's sums were given before, and are not changed")
        for site, public in publics.items():
            if site != self.name:
                agreement.check_signature(self.credentials, self._context, site, public,
                                          request.signatures.get(site, ""), KEY)
        private, about = self._private, info("pair", self.run, self.study.hash(), *sorted(publics))
        pairs = {site: agreement.shared_secret(private, public, about) for site, public in publics.items()
                 if site != self.name}
        known = replace(self, publics=publics, pairs=pairs)
        if not known.lead:
            return known, {}
        key = secure_sum.derived(self.secret, info("checks", self.run, self.study.hash()))
        wrapped = {site: agreement.wrap(key, private, publics[site], self._context, self.name, site)
                   for site in pairs}
        return replace(known, check_key=key), {"wrapped": wrapped}

    def _check_cohort(self, publics: Mapping[str, str]) -> None:
        if tuple(sorted(publics)) != self.agreed_cohort:
            raise HandshakeError(f"site '{self.name}': the keys are of {', '.join(sorted(publics))}, and this run is "
                                  f"of {', '.join(self.agreed_cohort)}: a sum over others would tell their difference")
        if publics.get(self.name) != agreement.public_key(self._private):
            raise HandshakeError(f"site '{self.name}': its own key is not among those of the cohort: someone between "
                                 f"the sites changed it. Do not run the study before you know who")
        if len(publics) < SECURE_SUM_SITES or len(set(publics.values())) < len(publics):
            raise DisclosureError(f"site '{self.name}': a secure sum needs {SECURE_SUM_SITES} different sites, got "
                                  f"{len(set(publics.values()))}: of two, each could read the other's part")

    def take_check(self, request: TakeCheckKey) -> SiteSums:
        if self.publics is None or self.lead:
            raise SiteError(f"site '{self.name}' was asked out of turn: it waits for the keys of all sites first")
        lead = self.cohort[0]
        key = agreement.unwrap(request.wrapped, self._private, self.publics[lead], self._context, lead, self.name)
        if self.check_key not in (None, key):
            raise SiteError(f"site '{self.name}': the key of this run's checks was given before, and is not changed")
        return replace(self, check_key=key)

    # --- an answer

    def mask(self, request: Message, sums: Mapping[str, np.ndarray],
             form: Form) -> tuple[SiteSums, np.ndarray, dict[str, str]]:
        """(what is remembered, the masked numbers, each site's sealed share of the self seed)."""
        asked, sites = digest(request), len(self.cohort)
        about = self._about(request.round, asked)
        numbers = secure_sum.with_checks(self._encoded(sums, form), self._check_key(about), self.lead)
        seed = secure_sum.derived(self.secret, info("self", self.run) + about)
        coins = secure_sum.derived(self.secret, info("coins", self.run) + about)
        pairs = {peer: secure_sum.pair_keys(secret, about, self.name, peer) for peer, secret in self.pairs.items()}
        shares = secure_sum.split(seed, coins, sites, secure_sum.threshold(sites))
        keys = {peer: pair.seal for peer, pair in pairs.items()} | {self.name: self._own_key(about)}
        sealed = {site: secure_sum.seal(share, keys[site], about)
                  for site, share in zip(self.cohort, shares, strict=True)}
        newest = {number: self.digests[number] for number in sorted(self.digests)[-KEPT:]}
        # an early round too: a coordinator that goes on from its checkpoint walks the design of the study anew
        known = replace(self, digests=newest | {request.round: asked},
                        unseals=(request.round, {peer: pair.unseal for peer, pair in pairs.items()}))
        return known, secure_sum.narrowed(secure_sum.masked(numbers, self.name, seed, pairs), form), sealed

    def _encoded(self, sums: Mapping[str, np.ndarray], form: Form) -> np.ndarray:
        """In the order of the names."""
        try:
            return secure_sum.encode(flat(sums), len(self.cohort), form)
        except NumericalError as problem:
            raise NumericalError(f"site '{self.name}': {problem}") from None

    def _about(self, number: int, asked: str) -> bytes:
        """What every key of one sum is bound to: the round, the request; run and cohort are in the secrets."""
        return info("sum", number, asked)

    def _check_key(self, about: bytes) -> bytes:
        if self.check_key is None:
            raise SiteError(f"site '{self.name}' was asked out of turn: it waits for the key of the checks first")
        return secure_sum.derived(self.check_key, about)

    def _own_key(self, about: bytes) -> bytes:
        return secure_sum.derived(self.secret, info("own share", self.run) + about)

    # --- opening

    def open(self, request: OpenSum) -> dict[str, str]:
        """Site → its share, unsealed: only when all sites answered what this one did, in the round before."""
        number = request.round - 1
        if number not in self.digests:
            raise SiteError(f"site '{self.name}' was asked out of turn: it opens a sum right after it answered")
        if set(request.shares) != set(self.cohort):
            raise DisclosureError(f"site '{self.name}': a sum is over all {len(self.cohort)} sites or is not opened")
        about = self._about(number, self.digests[number])
        known = self.unseals[1] if self.unseals[0] == number else {}
        shares = {site: secure_sum.unseal(request.shares[site], known.get(site) or self._unseal_key(site, about), about)
                  for site in self.cohort}
        others = [site for site, share in shares.items() if share is None]
        if others:
            raise DisclosureError(f"site '{self.name}': {', '.join(others)} was not asked the same, or its share was "
                                  f"changed on the way: the sum stays closed. The coordinator must ask all sites alike")
        return {site: share.hex() for site, share in shares.items() if share is not None}

    def _unseal_key(self, site: str, about: bytes) -> bytes:
        if site == self.name:
            return self._own_key(about)
        return secure_sum.pair_keys(self.pairs[site], about, self.name, site).unseal

    # --- the sum as the coordinator tells it

    def true_sum(self, previous: Mapping[str, np.ndarray], number: int, shapes: Shapes,
                 form: Form) -> dict[str, np.ndarray]:
        """The named sums of round `number`; DisclosureError unless they are what the sites sent."""
        total = previous.get("total", np.zeros(0))
        fits = total.dtype == np.int64 and total.shape == (masked_size(shapes, form),) and number in self.digests
        total = secure_sum.widened(total, integers(shapes, form), form) if fits else total
        if not fits or not secure_sum.is_true_sum(total, self._check_key(self._about(number, self.digests[number]))):
            raise SiteError(f"site '{self.name}': the sum that the coordinator tells is not what the sites sent in "
                            f"round {number}. Stop the study, and ask the coordinator")
        return unflatten(secure_sum.decode(total[:-secure_sum.CHECKS], form), shapes)
