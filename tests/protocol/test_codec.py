"""Messages: what goes in comes out, and nothing but a MessageError comes out of anything else."""

from __future__ import annotations

import json
import struct
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedci.bounded import LARGEST_INTEGER
from fedci.errors import MessageError
from fedci.protocol import codec, messages
from fedci.protocol.codec import CHECK_BYTES, decode, encode, sealed
from fedci.protocol.messages import (
    AskLinkKey,
    AskMaskKey,
    AskTokens,
    Exclude,
    Hello,
    OpenSum,
    Refusal,
    Reply,
    Step,
    TakeCheckKey,
    TakeLinkKey,
    TakeMaskKeys,
    Tokens,
    WrapLinkKey,
)

BASE = ("run-1", 3, "oslo")
EXAMPLES = [
    Hello(*BASE, "0.1", "abc", {"lyon": True, "oslo": True}, "placebo"),
    Step(*BASE, "AskMeans"),
    Tokens(*BASE, np.array([[-1, 2], [2**62, -(2**63)]]), np.array([[1, 2, 3], [4, 5, -6]])),
    Exclude(*BASE, np.array([[1, -2], [3, 4]]), np.array([[1, 2, 3], [4, 5, 6]]), 1, 2),
    Reply(*BASE, {"ab": np.array(2.5), "cd": np.array([[1, 2], [3, 4]]), "ef": np.array([True, False])}, {"k": [1]}),
    Refusal(*BASE, "size", "too few rows"),
    AskLinkKey(*BASE),
    WrapLinkKey(*BASE, {"lyon": "0f", "oslo": "1e"}, {"lyon": "", "oslo": ""}),
    TakeLinkKey(*BASE, "lyon", "0f", "", "2d"),
    AskTokens(*BASE, 0, 2),
    AskMaskKey(*BASE),
    TakeMaskKeys(*BASE, {"lyon": "0f", "oslo": "1e"}, {"lyon": "", "oslo": ""}),
    TakeCheckKey(*BASE, "2d"),
    OpenSum(*BASE, {"lyon": "0f", "oslo": "1e"}),
    Step(*BASE, "AskStatistics", {"total": np.array([1, -(2**63)]), "gram": np.ones((2, 6))}),
]
each_example = pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)


def same(one, two) -> bool:
    """Equal in type and in every field; arrays to the bit, dtype and shape."""
    return type(one) is type(two) and all(_equal(getattr(one, f.name), getattr(two, f.name)) for f in fields(one))


def _equal(a, b) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return a == b


def raw(header: dict | bytes, body: bytes = b"") -> bytes:
    """A message by hand."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return sealed(b"FCI2" + struct.pack(">I", len(text)) + text + body)


def changed(data: bytes, position: int, value: int) -> bytes:
    """With one other byte, and a check that fits: what somebody made, not what a wire did."""
    return sealed(data[:position] + bytes([value]) + data[position + 1:-CHECK_BYTES])


def taken_apart(message) -> tuple[dict, bytes]:
    """Header and arrays of a message."""
    data = encode(message)
    end = 8 + struct.unpack(">I", data[4:8])[0]
    return json.loads(data[8:end]), data[end:-CHECK_BYTES]


def refused(data: bytes) -> str:
    with pytest.raises(MessageError) as problem:
        decode(data)
    return str(problem.value)


def reply_header(**changes) -> dict:
    return {"type": "Reply", "fields": {"run": "r", "round": 1, "site": "s", "notes": {}}, "arrays": []} | changes


# ── round trips ─────────────────────────────────────────────────────────────────────────────────────────────


def test_there_is_an_example_of_every_type():
    assert {type(message) for message in EXAMPLES} == set(messages.TYPES.values())


@each_example
def test_every_type_comes_back_as_it_went(message):
    assert same(decode(encode(message)), message)
    assert encode(decode(encode(message))) == encode(message)


shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
finite = st.floats(allow_nan=False, allow_infinity=False)
any_array = (arrays.arrays(np.float64, shapes, elements=finite) | arrays.arrays(np.int64, shapes)
             | arrays.arrays(np.bool_, shapes))
word = st.none() | st.booleans() | st.integers(-2**53, 2**53) | finite | st.text(max_size=5)
plain = word | st.lists(word, max_size=3) | st.dictionaries(st.text(max_size=3), st.lists(word, max_size=2), max_size=2)


@given(sums=st.dictionaries(st.text(max_size=6), any_array, max_size=4), run=st.text(max_size=5),
       number=st.integers(-LARGEST_INTEGER, LARGEST_INTEGER),
       notes=st.dictionaries(st.text(max_size=5), plain, max_size=2))
def test_any_sums_come_back_as_they_went(sums, notes, run, number):
    """0-d and empty arrays, any names, any words."""
    message = Reply(run, number, "s", sums, notes)
    assert same(decode(encode(message)), message)


@pytest.mark.parametrize("array", [
    np.arange(6.0).reshape(2, 3).T, np.arange(10.0)[::2], np.arange(3, dtype=">f8"), np.arange(3, dtype=np.int32),
    np.arange(3, dtype=np.float32), np.arange(3, dtype=np.uint8)], ids=["transposed", "strided", "big endian", "int32",
                                                                       "float32", "uint8"])
def test_any_layout_travels_as_plain_little_endian(array):
    back = decode(encode(Reply(*BASE, {"a": array}))).sums["a"]
    np.testing.assert_array_equal(back, array)
    assert back.dtype.str in ("<f8", "<i8")


def test_a_received_array_cannot_be_written_to():
    """It is a view of the bytes that came."""
    with pytest.raises(ValueError, match="read-only"):
        decode(encode(EXAMPLES[3])).tokens[0] = 1


@pytest.mark.parametrize("array", [np.array(["x"]), np.array([object()]), np.array([1j]), np.array(["2020"], "M8[Y]")],
                         ids=["text", "object", "complex", "date"])
def test_only_numbers_and_flags_are_sent(array):
    with pytest.raises(MessageError, match="'sums/a'"):
        encode(Reply(*BASE, {"a": array}))


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────


@each_example
def test_every_truncation_is_refused(message):
    data = encode(message)
    for length in range(len(data)):
        refused(data[:length])


@each_example
def test_trailing_bytes_are_refused(message):
    refused(encode(message) + b"\0")


@each_example
def test_every_flipped_byte_is_refused(message):
    data = encode(message)
    for position in range(len(data)):
        refused(data[:position] + bytes([data[position] ^ 0x20]) + data[position + 1:])


@each_example
def test_a_flipped_bit_in_the_header_is_refused_or_makes_another_message(message):
    """Every bit of magic, length and header. No bit turns one JSON spelling of these headers into another."""
    data = encode(message)
    for position in range(8 + struct.unpack(">I", data[4:8])[0]):
        for bit in range(8):
            try:
                other = decode(changed(data, position, data[position] ^ 1 << bit))
            except MessageError:
                continue
            assert not same(other, message), (position, bit)
            assert same(decode(encode(other)), other)


@pytest.mark.parametrize("message", [EXAMPLES[0], EXAMPLES[4]], ids=lambda m: type(m).__name__)
def test_any_other_header_byte_is_refused_or_makes_a_message(message):
    """All 255 wrong values of every byte: MessageError or a message of a known type, nothing else."""
    data = encode(message)
    for position in range(8 + struct.unpack(">I", data[4:8])[0]):
        for value in set(range(256)) - {data[position]}:
            try:
                other = decode(changed(data, position, value))
            except MessageError:
                continue
            assert type(other) in messages.TYPES.values()


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data):
    refused(data)
    refused(b"FCI2" + data)
    refused(sealed(b"FCI2" + data))
    refused(raw(data))


junk = st.recursive(st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(
    ["", "a", "sums/a", "<f8", "|b1", "O", "Reply", "Step", "previous", "run"]),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=5), part, max_size=3), max_leaves=8)
declaration = st.tuples(junk, st.sampled_from(["<f8", "<i8", "|b1", "O", None, 3]), junk).map(list)


@settings(max_examples=300)
@given(kind=junk | st.sampled_from(sorted(messages.TYPES)), plain=junk,
       declared=st.lists(declaration | st.none(), max_size=3) | junk, body=st.binary(max_size=40))
def test_any_json_header_is_refused_or_read(kind, plain, declared, body):
    """Well-formed JSON of the wrong form: never another exception than MessageError."""
    try:
        message = decode(raw({"type": kind, "fields": plain, "arrays": declared}, body))
    except MessageError:
        return
    assert type(message) in messages.TYPES.values()


@pytest.mark.parametrize("dtype", [[], {}])
def test_an_array_type_that_is_no_text_is_refused(dtype):
    refused(raw(reply_header(arrays=[["sums/a", dtype, []]])))


def test_an_empty_array_of_absurd_shape_is_refused():
    refused(raw(reply_header(arrays=[["sums/a", "<f8", [0, *[2**24] * 7]]])))


@pytest.mark.parametrize("shape", [[-1], [2**24, 2**24], [1.0], ["1"], [True], None, 3, [1] * 9, [2**70]])
def test_a_shape_that_does_not_fit_is_refused(shape):
    refused(raw(reply_header(arrays=[["sums/a", "<f8", shape]]), b"\0" * 8))


@pytest.mark.parametrize("dtype", ["O", ">f8", "<f4", "<U1", "<M8[s]", None, 8])
def test_an_unknown_array_type_is_refused(dtype):
    refused(raw(reply_header(arrays=[["sums/a", dtype, [1]]]), b"\0" * 8))


# ── what a message must be ──────────────────────────────────────────────────────────────────────────────────


@each_example
def test_a_missing_field_is_refused(message):
    header, body = taken_apart(message)
    for name in header["fields"]:
        rest = {key: value for key, value in header["fields"].items() if key != name}
        assert name in refused(raw(header | {"fields": rest}, body))


@pytest.mark.parametrize("message", [EXAMPLES[2], EXAMPLES[3]], ids=lambda m: type(m).__name__)
def test_a_missing_array_is_refused(message):
    header, body = taken_apart(message)
    (name, _, shape), *rest = header["arrays"]
    assert name in refused(raw(header | {"arrays": rest}, body[8 * int(np.prod(shape)):]))


@each_example
def test_an_extra_field_is_refused(message):
    header, body = taken_apart(message)
    refused(raw(header | {"fields": header["fields"] | {"more": 1}}, body))


@each_example
@pytest.mark.parametrize("key", ["type", "fields", "arrays"])
def test_a_header_without_a_part_is_refused(message, key):
    header, body = taken_apart(message)
    refused(raw({name: value for name, value in header.items() if name != key}, body))
    refused(raw(header | {key: 3}, body))


def test_an_extra_array_is_refused():
    refused(raw({"type": "AskMaskKey", "fields": {"run": "r", "round": 1, "site": "s"},
                 "arrays": [["more", "<f8", []]]}, b"\0" * 8))


def test_an_array_declared_twice_is_refused():
    refused(raw(reply_header(arrays=[["sums/a", "<f8", []]] * 2), b"\0" * 16))


@pytest.mark.parametrize("header", [
    reply_header(arrays=[["a", "<i8", []], ["sums/a", "<i8", []]]), reply_header(arrays=[["a", "<i8", []]]),
    reply_header(fields={"run": "r", "round": 1, "site": "s", "notes": {}, "sums": 3})],
    ids=["two names of one sum", "no prefix", "sums among the fields"])
def test_the_sums_of_a_reply_have_one_spelling(header):
    refused(raw(header, b"\0" * 8 * len(header["arrays"])))


@pytest.mark.parametrize("kind", ["Message", "reply", "", "dict", "__init__"])
def test_an_unknown_type_is_refused(kind):
    assert "type" in refused(raw(reply_header(type=kind)))


@pytest.mark.parametrize(("field", "value"), [
    ("run", 1), ("run", None), ("site", ["s"]), ("round", "1"), ("round", 1.5), ("round", True), ("notes", []),
    ("notes", None)])
def test_a_field_of_the_wrong_type_is_refused(field, value):
    header = reply_header()
    assert field in refused(raw(header | {"fields": header["fields"] | {field: value}}))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(bad):
    for message in (Reply(*BASE, {"a": np.array([1.0, bad])}), Step(*BASE, "PullBack", {"gram": np.full((2, 2), bad)}),
                    Step(*BASE, "AskEffects", {"correlations": np.array([bad])}),
                    Exclude(*BASE, np.array([[bad, 1.0]]), np.zeros((1, 3)), 0, 1)):
        refused(encode(message))


def test_a_message_too_large_is_refused_on_both_sides(monkeypatch):
    big = Reply(*BASE, {"a": np.zeros(100)})
    data = encode(big)
    monkeypatch.setattr(codec, "MAX_BYTES", len(data))
    assert same(decode(encode(big)), big)
    monkeypatch.setattr(codec, "MAX_BYTES", len(data) - 1)
    with pytest.raises(MessageError, match="limit"):
        encode(big)
    assert "limit" in refused(data)


def test_too_many_arrays_are_refused():
    most = {f"a{i}": np.array(0) for i in range(codec.MAX_ARRAYS)}
    assert same(decode(encode(Reply(*BASE, most))), Reply(*BASE, most))
    refused(encode(Reply(*BASE, most | {"more": np.array(0)})))


def test_deep_nesting_is_refused():
    deep: dict = {}
    for _ in range(codec.MAX_NESTING):
        deep = {"k": deep}
    refused(encode(Reply(*BASE, {}, deep)))
    refused(raw(b"[" * 10**6))
    refused(raw(b'{"a":' * 10**5))
