"""A party's post: its keys and its correspondents', from its kit; what it sends, and whether a letter is for it.

    KIT/  identity.key   Ed25519, signs what leaves      mailbox.key   X25519, opens what comes
          mail.json      {party: {identity, mailbox}}    of a site: the coordinator; of the coordinator: all sites
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedci.bounded import json_file, text_file
from fedci.errors import HandshakeError, MessageError, OutputError
from fedci.mail import letter
from fedci.mail.letter import ANSWER, REQUEST, Address, Header, Keys
from fedci.network import kit
from fedci.network.kit import Kit
from fedci.network.provision import COORDINATOR

MOST_KEY_BYTES = 1024


def digest(message: bytes) -> str:
    return hashlib.sha256(message).hexdigest()


@dataclass(frozen=True)
class Post:
    own: Kit
    keys: Keys
    peers: Mapping[str, Address]

    # --- what leaves

    def request(self, message: bytes, site: str, run: str, step: int, cohort: Iterable[str]) -> bytes:
        """The coordinator's letter to a site."""
        header = Header(kind=REQUEST, study=self.own.study_hash, run=run, step=step, sender=self.own.name,
                        receiver=site, cohort=letter.cohort_of(cohort))
        return letter.sealed(header, message, self.keys, self.peers[site])

    def answer(self, asked: Header, request: bytes, reply: bytes) -> bytes:
        """A site's letter back: to this request and to no other."""
        header = replace(asked, kind=ANSWER, sender=asked.receiver, receiver=asked.sender, answers=digest(request))
        return letter.sealed(header, reply, self.keys, self.peers[asked.sender])

    # --- what comes

    def opened(self, data: bytes, kind: str) -> tuple[Header, bytes]:
        """(header, message) of a letter of this kind, for this party, from one of its correspondents, in this study."""
        self.check(letter.header_of(data), kind)
        return letter.opened(data, self.keys, self.peers[letter.header_of(data).sender])

    def check(self, header: Header, kind: str) -> None:
        """HandshakeError where a letter says of itself that it belongs elsewhere."""
        own = self.own
        if header.kind != kind:
            raise HandshakeError(f"it is {_article(header.kind)}, and this command reads {_article(kind)}")
        if header.study != own.study_hash:
            raise HandshakeError(f"it belongs to another study: {header.study[:12]}, and the kit is of "
                                 f"{own.study_hash[:12]}. Look for the kit of that study")
        if header.receiver != own.name:
            raise HandshakeError(f"it is for '{header.receiver}', and this is the kit of '{own.name}'. Send it on "
                                 f"unopened: nobody else can read it")
        if header.sender not in self.peers:
            raise HandshakeError(f"it is from '{header.sender}', whom this kit does not know")


def _article(kind: str) -> str:
    return "an answer" if kind == ANSWER else "a request"


def post_of(own: Kit) -> Post:
    """From the kit's files; OutputError where they are damaged."""
    try:
        keys = Keys(Ed25519PrivateKey.from_private_bytes(_raw(own, kit.IDENTITY)),
                    X25519PrivateKey.from_private_bytes(_raw(own, kit.MAILBOX)))
        peers = {party: Address(Ed25519PublicKey.from_public_bytes(bytes.fromhex(known["identity"])),
                                X25519PublicKey.from_public_bytes(bytes.fromhex(known["mailbox"])))
                 for party, known in json_file(own.folder / kit.MAIL).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise OutputError(f"the kit '{own.folder}' is damaged: its keys cannot be read. Ask for a new one") from None
    expected = set(own.sites) if own.role == "coordinator" else {COORDINATOR}
    if peers.keys() != expected:
        raise OutputError(f"the kit '{own.folder}' is damaged: it does not know all whom it writes to. Ask for a new "
                          f"one")
    return Post(own, keys, peers)


def _raw(own: Kit, name: str) -> bytes:
    return bytes.fromhex(text_file(own.folder / name, MOST_KEY_BYTES))


def named(problem: Exception, name: str) -> MessageError:
    """The same error, of the file that it is about; nothing of the file was used."""
    return MessageError(f"'{name}' is refused: {problem}. Nothing was changed")
