"""The key of a linkage: agreed between the sites through a coordinator that cannot read it, or brought in a file.

    every site    X25519 key pair of this run
    lead site     draws 256 random bits and wraps them for each site:
                  X25519 → HKDF-SHA256(info = rule, run, study, lead, site) → ChaCha20-Poly1305
    tokens' key   HKDF-SHA256(those bits, info = rule, study): another study has other tokens even with the same file

Sites that know each other's Ed25519 identities sign their public keys and check the others': then a coordinator that
puts its own keys between them is refused. Without identities it must be trusted to pass the keys on as they are.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedci.bounded import text_file
from fedci.errors import HandshakeError, MessageError, UsageError
from fedci.study.identity import RULE

KEY_BYTES = 32
MANY_VALUES = 16
"""Different bytes in a key: 32 random ones have fewer less than once in 10¹⁵ times, a typed one nearly always."""
MAX_KEY_BYTES = 2**16
ONE_NONCE = bytes(12)
"""A wrapping key is made for one site in one run and encrypts one message, so its nonce need not differ."""
MAKE_A_KEY = "Make one with `openssl rand -hex 32`, and give the same file to every site and to nobody else"


@dataclass(frozen=True)
class Credentials:
    """What a site brings to the linkage beside its rows; nothing of it ever leaves."""

    key: bytes | None = None
    """From a file given out of band; none: the sites agree on one."""
    identity: Ed25519PrivateKey | None = None
    """Signs this site's public key."""
    peers: Mapping[str, Ed25519PublicKey] = field(default_factory=dict)
    """Site → its public identity; when there are any, the other sites' keys must be signed by them."""
    secret: bytes | None = None
    """What the masks and the noise follow from; none: the identity or, without one, chance."""
    linkage_seed: bytes | None = None
    """What the keys of a linkage follow from, where it goes on over several commands and is forgotten with it; none:
    chance."""


@dataclass(frozen=True)
class Context:
    """What a signature or a wrapped key is good for, and nothing else."""

    run: str
    study_hash: str

    def info(self, purpose: str, *parts: str) -> bytes:
        """Every part length-prefixed: no two contexts read the same."""
        words = (RULE, purpose, self.run, self.study_hash, *parts)
        return b"".join(len(word.encode()).to_bytes(4, "big") + word.encode() for word in words)


def read_key(path: str | Path) -> bytes:
    """The key in a file: 64 hexadecimal characters (256 bits) or more."""
    try:
        text = text_file(Path(path), MAX_KEY_BYTES).strip()
        key = bytes.fromhex(text)
    except OSError as problem:
        raise UsageError(f"linkage key file {path} cannot be read: {(problem.strerror or 'unknown').lower()}. "
                         "Check the path") from None
    except ValueError:
        raise UsageError(f"linkage key file {path} is not hexadecimal. {MAKE_A_KEY}") from None
    if len(key) < KEY_BYTES:
        raise UsageError(f"linkage key file {path} holds {8 * len(key)} bits, needs {8 * KEY_BYTES}. {MAKE_A_KEY}")
    if len(set(key)) < MANY_VALUES:
        raise UsageError(f"linkage key file {path} holds a pattern and no random key. {MAKE_A_KEY}")
    return key


def token_key(key: bytes, study_hash: str) -> bytes:
    """[32] the key of the tokens. Not bound to the run: the same file and study link the same people again."""
    return _derived(key, Context("", study_hash).info("tokens"))


def witness_key(key: bytes, study_hash: str) -> bytes:
    """[32] the key of the proofs that a person stands at another site."""
    return _derived(key, Context("", study_hash).info("witnesses"))


def fingerprint(key: bytes, context: Context) -> str:
    """Equal at two sites that were given the same file; says nothing about a random key."""
    return hmac.digest(key, context.info("fingerprint"), "sha256")[:16].hex()


def public_key(private: X25519PrivateKey) -> str:
    return private.public_key().public_bytes_raw().hex()


def sign(credentials: Credentials, context: Context, site: str, public: str, purpose: str = "public key") -> str:
    """Of this site's public key in this run and study, for this purpose alone; empty without an identity."""
    if credentials.identity is None:
        return ""
    return credentials.identity.sign(context.info(purpose, site, public)).hex()


def check_signature(credentials: Credentials, context: Context, site: str, public: str, signature: str,
                    purpose: str = "public key") -> None:
    """HandshakeError unless the site's known identity signed this key; nothing to check without identities."""
    if not credentials.peers:
        return
    if site not in credentials.peers:
        raise HandshakeError(f"site '{site}' has no identity here: its key cannot be trusted. Add it to the "
                             "known identities, or leave the site out")
    try:
        credentials.peers[site].verify(_raw(signature), context.info(purpose, site, public))
    except InvalidSignature:
        raise HandshakeError(f"the key in the name of site '{site}' is not signed by it. Someone between the "
                             "sites may have put it there: ask the site, and do not run the study before") from None


def wrap(key: bytes, private: X25519PrivateKey, public: str, context: Context, lead: str, site: str) -> str:
    """The study's key, readable only by the owner of `public`."""
    bound = context.info("wrap", lead, site)
    return ChaCha20Poly1305(shared_secret(private, public, bound)).encrypt(ONE_NONCE, key, bound).hex()


def unwrap(wrapped: str, private: X25519PrivateKey, public: str, context: Context, lead: str, site: str) -> bytes:
    """The key that the owner of `public` wrapped for this site; MessageError when it is for another, or changed."""
    bound = context.info("wrap", lead, site)
    try:
        key = ChaCha20Poly1305(shared_secret(private, public, bound)).decrypt(ONE_NONCE, _raw(wrapped), bound)
    except InvalidTag:
        raise MessageError(f"site '{site}' cannot open the linkage key: it is not for this site, run and study, or was "
                           "changed on the way. Run the study again") from None
    if len(key) != KEY_BYTES:
        raise MessageError(f"site '{site}': the linkage key has {8 * len(key)} bits, needs {8 * KEY_BYTES}")
    return key


def shared_secret(private: X25519PrivateKey, public: str, info: bytes) -> bytes:
    """[32] what only the owners of the two keys know, for the purpose that `info` says."""
    try:
        return _derived(private.exchange(X25519PublicKey.from_public_bytes(_raw(public))), info)
    except ValueError:  # wrong length, or a point that makes every secret the same
        raise MessageError("a site's key is no public key of X25519. Run the study again") from None


def _derived(secret: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)


def _raw(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError):
        raise MessageError("a linkage key or signature is not hexadecimal") from None
