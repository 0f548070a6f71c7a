"""A letter: one message in a file, signed by who sends it, sealed for who receives it, bound to its place in a study.

    bytes     b"FCL1" | header's length (u16) | header (JSON) | the letter's X25519 key (32) | sealed | signature (64)
    header    kind, study, run, step, sender, receiver, cohort; in an answer the SHA-256 of the request that it answers
    sealed    ChaCha20-Poly1305 of the message, bound to the header, under
              HKDF-SHA256(X25519(the letter's key, the receiver's); header, both keys)
    signature Ed25519 of all before it

The letter's key follows from the sender's identity, the header and the message: the same message is the same letter, to
the bit, and no key ever seals two. The header is in the clear: a letter that went astray can be named in words. Nothing
is unpacked before the signature holds, and nothing is longer than it was in the file.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedci.bounded import json_of
from fedci.errors import MessageError
from fedci.plain import plain
from fedci.privacy.agreement import ONE_NONCE
from fedci.privacy.secure_sum import derived, info
from fedci.protocol.codec import MAX_BYTES

MAGIC = b"FCL1"
REQUEST, ANSWER = "request", "answer"
SUFFIX = ".fedci"
KEY_BYTES, TAG_BYTES, SIGNATURE_BYTES = 32, 16, 64
HEADER_BYTES = 1024
LARGEST = MAX_BYTES + 4096
"""Bytes of a letter: a message, its header, key, tag and signature."""
MOST_STEPS = 10**6
RUN = re.compile(r"[A-Za-z0-9-]{1,80}")
PARTY = re.compile(r"[a-z0-9-]{1,40}")
DIGEST = re.compile(r"[0-9a-f]{64}")
AGAIN = "Ask for it again, and send it as it is"


@dataclass(frozen=True)
class Keys:
    """A party's own."""

    identity: Ed25519PrivateKey
    mailbox: X25519PrivateKey


@dataclass(frozen=True)
class Address:
    """What others know of a party: whose signature to expect, and for whom to seal."""

    identity: Ed25519PublicKey
    mailbox: X25519PublicKey


@dataclass(frozen=True, kw_only=True)
class Header:
    """Where a letter belongs; readable by all, changed by nobody."""

    kind: str
    study: str
    """Its hash."""
    run: str
    step: int
    """The number of the exchange in the run."""
    sender: str
    receiver: str
    cohort: str
    """`cohort_of` the run's sites."""
    answers: str = ""
    """In an answer: SHA-256 of the request's message."""

    def packed(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()


def cohort_of(sites: Iterable[str]) -> str:
    """SHA-256 of the sites' names, sorted."""
    return hashlib.sha256(json.dumps(sorted(sites)).encode()).hexdigest()


def sealed(header: Header, message: bytes, own: Keys, to: Address) -> bytes:
    """The letter; the same for the same message, to the bit."""
    front = _front(header)
    about = hashlib.sha256(front + message).hexdigest()
    private = X25519PrivateKey.from_private_bytes(derived(own.identity.private_bytes_raw(), info("letter", about)))
    public = private.public_key().public_bytes_raw()
    key = _key(private.exchange(to.mailbox), front, public, to.mailbox)
    body = front + public + ChaCha20Poly1305(key).encrypt(ONE_NONCE, message, front)
    return body + own.identity.sign(body)


def header_of(data: bytes) -> Header:
    """What a letter says of itself; its beginning is enough. MessageError where it is none. Nothing of it holds before
    `opened`."""
    if data[:4] != MAGIC or len(data) < 6:
        raise MessageError("it is no letter of this version of fedci: its opening bytes differ")
    (length,) = struct.unpack(">H", data[4:6])
    packed = data[6:6 + length]
    if length > HEADER_BYTES or len(packed) < length:
        raise MessageError(f"its header is cut short, or too long. {AGAIN}")
    try:
        header = Header(**json_of(packed))
    except (ValueError, TypeError):
        raise MessageError(f"its header cannot be read. {AGAIN}") from None
    if not _sound(header) or header.packed() != packed:
        raise MessageError(f"its header does not have the form of one. {AGAIN}")
    return header


def opened(data: bytes, own: Keys, sender: Address) -> tuple[Header, bytes]:
    """(header, message) of a letter that the sender signed and sealed for this party; MessageError of any other."""
    header = header_of(data)
    front = _front(header)
    start, end = len(front), len(data) - SIGNATURE_BYTES
    if len(data) > LARGEST or end - start < KEY_BYTES + TAG_BYTES:
        raise MessageError(f"it is cut short, or longer than a letter. {AGAIN}")
    try:
        sender.identity.verify(data[end:], data[:end])
    except InvalidSignature:
        raise MessageError(f"it bears the name of '{header.sender}' and not its signature: it was cut or changed on "
                           f"the way, or made by somebody else. {AGAIN}") from None
    public = data[start:start + KEY_BYTES]
    try:
        shared = own.mailbox.exchange(X25519PublicKey.from_public_bytes(public))
        key = _key(shared, front, public, own.mailbox.public_key())
        return header, ChaCha20Poly1305(key).decrypt(ONE_NONCE, data[start + KEY_BYTES:end], front)
    except (InvalidTag, ValueError):  # ValueError: a key that makes every secret the same
        raise MessageError("it is sealed for another kit than this one: only the kit that it was made for can read it"
                           ) from None


def read(path: Path, most: int = LARGEST) -> bytes:
    """At most so many bytes of a file; MessageError where it is none, or longer than a letter."""
    try:
        if not path.is_file():  # a pipe or a device has no end
            raise MessageError(f"'{plain(path.name)}' is no file")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as problem:
        raise MessageError(f"'{plain(path.name)}' cannot be read: {(problem.strerror or 'unknown').lower()}") from None
    if len(data) > LARGEST:
        raise MessageError(f"'{plain(path.name)}' has more than {LARGEST:,} bytes, and no letter has")
    return data


def _front(header: Header) -> bytes:
    packed = header.packed()
    return MAGIC + struct.pack(">H", len(packed)) + packed


def _key(shared: bytes, front: bytes, public: bytes, to: X25519PublicKey) -> bytes:
    return derived(shared, info("letter key", front.hex(), public.hex(), to.public_bytes_raw().hex()))


def _sound(header: Header) -> bool:
    words = [getattr(header, part.name) for part in fields(header) if part.name != "step"]
    if not all(isinstance(word, str) for word in words) or type(header.step) is not int:
        return False
    named = all(PARTY.fullmatch(party) for party in (header.sender, header.receiver))
    bound = all(DIGEST.fullmatch(digest) for digest in (header.study, header.cohort))
    kind = {REQUEST: header.answers == "", ANSWER: DIGEST.fullmatch(header.answers)}.get(header.kind)
    return bool(named and bound and kind and RUN.fullmatch(header.run) and 0 < header.step <= MOST_STEPS)
