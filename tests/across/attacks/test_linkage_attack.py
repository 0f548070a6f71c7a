"""The coordinator keeps every message and tries every id: keyed tokens give nobody away, plain hashes everybody."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest

from fedci import Source
from fedci.coordinator.linkage import link
from fedci.coordinator.talk import Talk
from fedci.privacy import tokens as linkage
from fedci.privacy.agreement import Credentials, token_key
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Tokens
from fedci.site.site import Site
from fedci.study.identity import TEXT, normalise
from support.asked import greeting
from tests_support import frame, study

PLAN = study(ids=["pid"])
PEOPLE = 60


class Eavesdropper(InProcessEngine):
    """Every byte in either direction."""

    def __init__(self, local):
        super().__init__(local)
        self.heard: list[bytes] = []

    def _ask(self, name, request):
        reply = super()._ask(name, request)
        self.heard += [encode(request), encode(reply)]
        return reply


def listen(space: int, credentials: Credentials | None = None) -> tuple[list[bytes], set[str]]:
    """(all that was said in a linkage of three sites, the ids of their people)."""
    digits = len(str(space - 1))
    ids = [f"{i:0{digits}}" for i in np.random.default_rng(0).choice(space, 3 * PEOPLE, replace=False)]
    local = {}
    for s, name in enumerate("abc"):
        own = ids[s * (PEOPLE - 10):s * (PEOPLE - 10) + PEOPLE]  # ten stand at this site and the next
        local[name] = Site(PLAN, Source(name, frame(len(own), s).assign(pid=own)).read(PLAN), credentials)
        local[name].answer(greeting(PLAN, name, sites="abc"))
    engine = Eavesdropper(local)
    link(Talk(engine, "run"), PLAN, bytes(32))
    return engine.heard, {i for site in local.values() for i in site.party.whole.ids.pid}


def tokens_in(heard: list[bytes]) -> set[bytes]:
    sent = [message.tokens for message in map(decode, heard) if isinstance(message, Tokens)]
    return {row.astype(">i8").tobytes() for tokens in sent for row in tokens}


def words_in(heard: list[bytes]) -> set[bytes]:
    """Every text of the messages, as it stands and from hexadecimal: whatever could serve as a key."""
    found = set()
    stack = [value for data in heard for value in vars(decode(data)).values()]
    while stack:
        value = stack.pop()
        stack += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        if isinstance(value, str):
            found.add(value.encode())
            found |= {bytes.fromhex(value)} if _is_hex(value) else set()
    return found


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and all(c in "0123456789abcdef" for c in text)


def recovered(tokens: set[bytes], space: int, hashes) -> set[str]:
    """Ids of the whole space whose hash, under any of the functions, is among the tokens."""
    digits = len(str(space - 1))
    records = {f"{i:0{digits}}": normalise([f"{i:0{digits}}"], [TEXT]) for i in range(space)}
    return {text for hashed in hashes for text, record in records.items() if hashed(record)[:16] in tokens}


def plain_hash(record: bytes) -> bytes:
    """The paper's: SHA-256 without a key. It exists only here, as the control."""
    return hashlib.sha256(record).digest()


def keyed(key: bytes):
    return lambda record: hmac.digest(key, record, "sha256")


whole_space = pytest.mark.parametrize("space", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])


@whole_space
def test_every_message_and_every_id_give_nobody_away(space):
    """Plain hashes, and keyed ones under every text that passed between the parties."""
    heard, people = listen(space)
    tokens, keys = tokens_in(heard), words_in(heard) | {b"", bytes(32), PLAN.hash().encode()}
    assert len(tokens) == len(people) == 3 * PEOPLE - 20
    assert len(keys) > 10
    assert recovered(tokens, space, [plain_hash, *map(keyed, sorted(keys))]) == set()
    assert not keys & {person.encode() for person in people}  # whole: five digits stand in a random key by chance
    assert not any(normalise([person], [TEXT]) in data for person in people for data in heard)


@whole_space
def test_plain_hashes_give_everybody_away(space, monkeypatch):
    """The control: the same linkage with the paper's hash, attacked the same way."""
    monkeypatch.setattr(linkage, "tokens", lambda records, key: np.frombuffer(
        b"".join(plain_hash(record)[:16] for record in records), ">i8").reshape(-1, 2).astype(np.int64))
    heard, people = listen(space)
    assert recovered(tokens_in(heard), space, [plain_hash]) == people


def test_the_key_gives_everybody_away():
    """What linkage rests on: no site, which knows the key, works together with the coordinator."""
    key = bytes(range(32))
    heard, people = listen(100_000, Credentials(key=key))
    assert recovered(tokens_in(heard), 100_000, [keyed(token_key(key, PLAN.hash()))]) == people
