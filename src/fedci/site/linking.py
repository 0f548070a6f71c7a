"""A site's side of the linkage: its key pair, its tokens, and in the end which of its rows it keeps.

    AskLinkKey → WrapLinkKey (lead site) or TakeLinkKey (the others) → AskTokens … → Exclude …

With a key from a file the second step falls away. After the last Exclude nothing of all this is left but `staying`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci.errors import DisclosureError, HandshakeError, MessageError, SiteError
from fedci.privacy import agreement, tokens
from fedci.privacy.agreement import Context, Credentials
from fedci.privacy.secure_sum import derived, info
from fedci.protocol.messages import AskLinkKey, AskTokens, Exclude, Message, Reply, TakeLinkKey, Tokens, WrapLinkKey
from fedci.study.study import Study
from fedci.table.table import Table, id_records

Part = TypeVar("Part")
LEADING = "the keys of all sites, once, and to come first among them"
"""What the lead site waits for."""


@dataclass(frozen=True, kw_only=True)
class SiteLinkage:
    """One linkage of one site. Replaced, never changed."""

    study: Study
    name: str
    run: str
    people: int
    credentials: Credentials = field(repr=False)
    secret: bytes = field(repr=False)
    """What the nonces of its witnesses follow from."""
    records: list[bytes] | None = field(repr=False)
    """What identifies each person, until there are tokens."""
    private: X25519PrivateKey | None = field(repr=False)
    key: bytes | None = field(repr=False)
    publics: dict[str, str] | None = None
    """The keys that the lead site wrapped its key for: never a second time for others."""
    tokens: np.ndarray | None = field(default=None, repr=False)
    """[n, 2] in their own order."""
    witnesses: np.ndarray | None = field(default=None, repr=False)
    """[n, 3] of them: that their people stand here."""
    order: np.ndarray | None = field(default=None, repr=False)
    """[n] the row behind each of them."""
    excluded: tuple[np.ndarray, ...] = ()
    """Rows, one array for each part of the exclusion so far."""
    staying: np.ndarray | None = None
    """[k] rows that stay, in the table's order; none: the linkage goes on."""

    @property
    def context(self) -> Context:
        return Context(self.run, self.study.hash())

    def answered(self, request: Message) -> tuple[SiteLinkage, Reply | Tokens]:
        """(the linkage after this request, the reply)."""
        if request.run != self.run or self.staying is not None:
            raise self._out_of_turn("a new linkage")
        handlers: Mapping[type[Message], Callable[[Any], tuple[SiteLinkage, Reply | Tokens]]] = {
            AskLinkKey: self._offer, WrapLinkKey: self._wrap, TakeLinkKey: self._take, AskTokens: self._send,
            Exclude: self._exclude}
        return handlers[type(request)](request)

    def _out_of_turn(self, what: str) -> SiteError:
        return SiteError(f"site '{self.name}' was asked out of turn: it waits for {what} first")

    def _having(self, part: Part | None, what: str) -> Part:
        if part is None:
            raise self._out_of_turn(what)
        return part

    def _reply(self, request: Message, **notes: Any) -> Reply:
        return Reply(request.run, request.round, self.name, {}, notes)

    # --- the key

    def _offer(self, request: AskLinkKey) -> tuple[SiteLinkage, Reply]:
        if self.private is None:
            fingerprint = agreement.fingerprint(self._having(self.key, "a key from a file"), self.context)
            return self, self._reply(request, people=self.people, fingerprint=fingerprint)
        public = agreement.public_key(self.private)
        return self, self._reply(request, people=self.people, public=public,
                                 signature=agreement.sign(self.credentials, self.context, self.name, public))

    def _wrap(self, request: WrapLinkKey) -> tuple[SiteLinkage, Reply]:
        """Every site's copy of the key, which is drawn here."""
        private = self._having(self.private, LEADING)
        self._check_lead(private, request)
        key, publics = self.key or _drawn(self.credentials, "key", self.run), dict(request.publics)
        return replace(self, key=key, publics=publics), self._reply(request, wrapped={
            site: agreement.wrap(key, private, public, self.context, self.name, site)
            for site, public in sorted(publics.items()) if site != self.name})

    def _check_lead(self, private: X25519PrivateKey, request: WrapLinkKey) -> None:
        sites = set(request.publics)
        asked_again = self.key is not None and self.publics != request.publics
        if asked_again or not sites or min(sites) != self.name:
            raise self._out_of_turn(LEADING)
        if request.publics[self.name] != agreement.public_key(private):
            raise HandshakeError(f"site '{self.name}': its own linkage key came back changed. Someone between the "
                                 "sites puts other keys in place of theirs: do not run the study before you know who")
        for site in sorted(sites - {self.name}):
            self.study.check_site(site)
            agreement.check_signature(self.credentials, self.context, site, request.publics[site],
                                      request.signatures.get(site, ""))

    def _take(self, request: TakeLinkKey) -> tuple[SiteLinkage, Reply]:
        if self.private is None or not request.lead < self.name:
            raise self._out_of_turn("the key of the lead site")
        self.study.check_site(request.lead)
        agreement.check_signature(self.credentials, self.context, request.lead, request.public, request.signature)
        key = agreement.unwrap(request.wrapped, self.private, request.public, self.context, request.lead, self.name)
        if self.key not in (None, key):
            raise self._out_of_turn("no second key")
        return replace(self, key=key), self._reply(request)

    # --- tokens out, exclusions in

    def _send(self, request: AskTokens) -> tuple[SiteLinkage, Tokens]:
        if self.key is None:
            raise self._out_of_turn("the linkage key")
        linkage = self if self.tokens is not None else self._with_tokens(self.key)
        ordered = linkage._having(linkage.tokens, "its tokens")
        self._check_part(request)
        start, end = (self.people * part // request.parts for part in (request.part, request.part + 1))
        witnesses = linkage._having(linkage.witnesses, "its tokens")
        return linkage, Tokens(request.run, request.round, self.name, ordered[start:end], witnesses[start:end])

    def _with_tokens(self, key: bytes) -> SiteLinkage:
        made = tokens.tokens(self._having(self.records, "its records"), agreement.token_key(key, self.study.hash()))
        order = tokens.sorting(made)
        made = made[order]
        witnesses = tokens.witnesses(made, agreement.witness_key(key, self.study.hash()), self.secret)
        return replace(self, order=order, tokens=made, witnesses=witnesses, records=None)

    def _check_part(self, request: AskTokens | Exclude) -> None:
        if not 0 <= request.part < request.parts:
            raise MessageError(f"site '{self.name}': there is no part {request.part} of {request.parts}")

    def _exclude(self, request: Exclude) -> tuple[SiteLinkage, Reply]:
        if self.tokens is None or self.order is None or request.part != len(self.excluded):
            raise self._out_of_turn("its tokens to be asked for, and the parts of the exclusion in order")
        self._check_part(request)
        places = tokens.find(self.tokens, request.tokens)
        self._check_elsewhere(places, request)
        excluded = (*self.excluded, self.order[places])
        if len(excluded) < request.parts:
            return replace(self, excluded=excluded), self._reply(request)
        rows = np.unique(np.concatenate(excluded))
        staying = np.setdiff1d(np.arange(self.people), rows)
        return replace(self, staying=staying, excluded=(), private=None, key=None, tokens=None, witnesses=None,
                       order=None, credentials=Credentials()), self._reply(request, excluded=len(rows))


    def _check_elsewhere(self, places: np.ndarray, request: Exclude) -> None:
        """A coordinator that chose whom a site leaves out could take the sums of two such choices apart."""
        key, own = self._having(self.key, "the linkage key"), self._having(self.witnesses, "its tokens")
        made = self._having(self.tokens, "its tokens")[places]
        if not tokens.are_elsewhere(made, request.witnesses, own[places], self.study.linkage.keep,
                                    agreement.witness_key(key, self.study.hash())):
            raise DisclosureError(f"site '{self.name}': it is told to leave people out without proof that they stand "
                                  f"at other sites. Nobody was left out. Stop the study, and ask the coordinator")


def begin_linkage(study: Study, table: Table, run: str, credentials: Credentials, secret: bytes) -> SiteLinkage:
    """Ids are checked here: what is wrong is told before anything leaves."""
    return SiteLinkage(study=study, name=table.site, run=run, people=table.rows, credentials=credentials,
                       secret=derived(secret, info("witnesses", run, study.hash())),
                       records=id_records(study, table), key=credentials.key,
                       private=None if credentials.key else _private(credentials, run))


def _private(credentials: Credentials, run: str) -> X25519PrivateKey:
    if credentials.linkage_seed is None:
        return X25519PrivateKey.generate()
    return X25519PrivateKey.from_private_bytes(_drawn(credentials, "private", run))


def _drawn(credentials: Credentials, purpose: str, run: str) -> bytes:
    """[32] by chance; or by the seed that is kept while the linkage goes on, the same each time."""
    if credentials.linkage_seed is None:
        return secrets.token_bytes(agreement.KEY_BYTES)
    return derived(credentials.linkage_seed, info("linkage", purpose, run))
