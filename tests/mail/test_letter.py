"""Letters: what was sealed is opened by one party alone, and any change is found."""

import os
import struct
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fedci.errors import MessageError
from fedci.mail import letter
from fedci.mail.letter import (
    ANSWER,
    LARGEST,
    MAGIC,
    REQUEST,
    Address,
    Header,
    Keys,
    cohort_of,
    header_of,
    opened,
    sealed,
)


def party() -> tuple[Keys, Address]:
    keys = Keys(Ed25519PrivateKey.generate(), X25519PrivateKey.generate())
    return keys, Address(keys.identity.public_key(), keys.mailbox.public_key())


COORDINATOR, LYON, OSLO = party(), party(), party()
HEADER = Header(kind=REQUEST, study="a" * 64, run="0123", step=3, sender="coordinator", receiver="lyon",
                cohort=cohort_of(("lyon", "oslo")))
DATA = sealed(HEADER, b"the message", COORDINATOR[0], LYON[1])


@given(st.binary(max_size=300))
def test_what_is_sealed_is_opened_by_its_receiver(message):
    data = sealed(HEADER, message, COORDINATOR[0], LYON[1])
    assert opened(data, LYON[0], COORDINATOR[1]) == (HEADER, message)
    assert header_of(data) == HEADER


def test_the_same_message_is_the_same_letter_and_another_shares_no_key_with_it():
    assert sealed(HEADER, b"the message", COORDINATOR[0], LYON[1]) == DATA
    front = len(letter._front(HEADER))
    keys = {data[front:front + 32] for data in (
        DATA, sealed(HEADER, b"the messagf", COORDINATOR[0], LYON[1]),
        sealed(HEADER, b"the message", OSLO[0], LYON[1]),
        sealed(replace(HEADER, step=4), b"the message", COORDINATOR[0], LYON[1]))}
    assert len(keys) == 4
    assert b"the message" not in DATA


def test_only_the_receiver_opens_it_and_only_the_senders_name_holds():
    with pytest.raises(MessageError, match="sealed for another kit"):
        opened(DATA, OSLO[0], COORDINATOR[1])
    with pytest.raises(MessageError, match="bears the name of 'coordinator' and not its signature"):
        opened(DATA, LYON[0], OSLO[1])


def test_a_letter_signed_anew_in_another_name_does_not_open():
    """Whoever takes a sealed message for his own has to change the header, to which it is bound."""
    front = len(letter._front(HEADER))
    body = letter._front(replace(HEADER, sender="oslo")) + DATA[front:-64]
    with pytest.raises(MessageError, match="sealed for another kit"):
        opened(body + OSLO[0].identity.sign(body), LYON[0], OSLO[1])


def test_a_letter_that_another_wrote_in_a_partys_name_does_not_open():
    """Anyone can seal a letter for a party, whose mailbox is no secret; to sign it in another's name nobody can."""
    forged = sealed(HEADER, b"any", OSLO[0], LYON[1])
    with pytest.raises(MessageError, match="bears the name of 'coordinator' and not its signature"):
        opened(forged, LYON[0], COORDINATOR[1])


def is_refused(data: bytes) -> bool:
    try:
        opened(data, LYON[0], COORDINATOR[1])
    except MessageError:
        return True
    return False


def test_one_flipped_bit_is_found_wherever_it_is():
    assert all(is_refused(DATA[:place] + bytes([DATA[place] ^ 1 << place % 8]) + DATA[place + 1:])
               for place in range(len(DATA)))
    assert not is_refused(DATA)


def test_cut_short_or_made_longer_it_is_refused():
    for length in range(len(DATA)):
        assert is_refused(DATA[:length])
        assert is_refused(DATA[:length + 1] + DATA)
        assert is_refused(DATA + DATA[:length + 1])


def packed(text: bytes) -> bytes:
    return MAGIC + struct.pack(">H", len(text)) + text + bytes(200)


@pytest.mark.parametrize("text", [
    b"", b"[]", b"{}", b"\xff", b"null", b"[" * 1000, b'{"kind":1' + b"0" * 900 + b"}", HEADER.packed() + b" ",
    HEADER.packed().replace(b"request", b"command"), HEADER.packed().replace(b'"step":3', b'"step":0'),
    HEADER.packed().replace(b'"step":3', b'"step":true'), HEADER.packed().replace(b'"step":3', b'"step":1.5'),
    HEADER.packed().replace(b'"step":3', b'"step":9999999'), HEADER.packed().replace(b'"0123"', b'"../etc"'),
    HEADER.packed().replace(b'"lyon"', b'"../lyon"'), HEADER.packed().replace(b'"answers":""', b'"answers":"x"'),
    HEADER.packed().replace(b'"answers":"",', b""), HEADER.packed().replace(b'"lyon"', b"7"),
    replace(HEADER, kind=ANSWER).packed(), HEADER.packed().replace(b"a" * 64, b"A" * 64)])
def test_a_header_of_another_form_is_none(text):
    with pytest.raises(MessageError, match="header"):
        header_of(packed(text))
    with pytest.raises(MessageError, match="header"):
        opened(packed(text), LYON[0], COORDINATOR[1])


def test_a_point_that_makes_every_secret_the_same_is_refused():
    front = letter._front(HEADER)
    body = front + bytes(32) + bytes(40)
    with pytest.raises(MessageError, match="sealed for another kit"):
        opened(body + COORDINATOR[0].identity.sign(body), LYON[0], COORDINATOR[1])


def test_a_file_is_read_within_bounds_and_a_pipe_not_at_all(tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(MessageError, match=f"more than {LARGEST:,} bytes"):
        letter.read(tmp_path / "huge")
    assert len(letter.read(tmp_path / "huge", 100)) == 101
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none", "."):
        with pytest.raises(MessageError, match="is no file"):
            letter.read(tmp_path / name)


def test_the_order_in_which_sites_are_named_is_none():
    assert cohort_of(("oslo", "lyon")) == cohort_of(("lyon", "oslo")) != cohort_of(("lyon",))
    assert cohort_of(("lyo", "noslo")) != cohort_of(("lyon", "oslo"))


@given(st.binary(max_size=400))
def test_any_bytes_are_a_letter_or_refused(data):
    for one in (data, MAGIC + data, MAGIC + struct.pack(">H", len(data)) + data + bytes(200)):
        with pytest.raises(MessageError):
            opened(one, LYON[0], COORDINATOR[1])
