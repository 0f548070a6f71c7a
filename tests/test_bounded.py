"""Files that anybody may have written: refused before they take memory, and read as they are otherwise."""

import io
import json
import struct
import tomllib
import zipfile

import numpy as np
import pytest

from fedci.bounded import JSON_BYTES, Unreadable, json_file, json_of, npy_file, npz_file, text_file, toml_of

DEEP = 200_000


@pytest.mark.parametrize("text", ["[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP, "[" * 65 + "]" * 65,
                                  "1" * 5000, "[1" + "0" * 400 + "]", str(2**64 + 1), f"-{2**64 + 1}", "", "{", "nul"])
def test_hostile_json_is_a_value_error(text):
    with pytest.raises((Unreadable, json.JSONDecodeError)):
        json_of(text)


@pytest.mark.parametrize("value", [2**64, -(2**63), 1e300, [[{"a": [True, None, "x"]}]], {"n": 0.1}])
def test_honest_json_is_what_it_was(value):
    assert json_of(json.dumps(value)) == value
    assert np.isnan(json_of("NaN"))
    with pytest.raises(ZeroDivisionError):
        json_of("[NaN]", lambda word: 1 / 0)


def test_a_file_that_does_not_end_is_not_read_to_its_end(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(JSON_BYTES + 1)
    for read in (json_file, text_file):
        with pytest.raises(Unreadable, match="more than"):
            read(tmp_path / "large")


@pytest.mark.parametrize("text", ["a = " + "[" * DEEP, "a = " + "[" * 100 + "]" * 100, "a = " + "9" * 5000,
                                  ".".join("a" * 100) + " = 1"])
def test_hostile_toml_is_refused(text):
    with pytest.raises(Unreadable):
        toml_of(text)
    with pytest.raises(tomllib.TOMLDecodeError):
        toml_of("a = ")
    assert toml_of("a = [1, 2]\n[b]\nc = 'd'") == {"a": [1, 2], "b": {"c": "d"}}


def header(shape, descr="<f8", fortran=False) -> bytes:
    words = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words


ARRAYS = {
    "claims a terabyte": header((2**37,)) + bytes(64),
    "claims more than the machine": header((2**46, 2**46)) + bytes(64),
    "negative": header((-1, 8)) + bytes(64),
    "objects": header((8,), "|O") + bytes(64),
    "long strings": header((1,), "|S1000000000000") + bytes(64),
    "records": header((8,), [("a", "<f8")]) + bytes(64),
    "cut short": header((9,)) + bytes(64),
    "too long": header((7,)) + bytes(64),
    "no array": b"PK" + bytes(100),
    "nothing": b"",
    "deep header": b"\x93NUMPY\x01\x00" + struct.pack("<H", 4000) + b"(" * 4000,
    "header that claims gigabytes": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{",
}


@pytest.mark.parametrize("data", ARRAYS.values(), ids=ARRAYS.keys())
def test_arrays_that_are_not_what_they_claim(data, tmp_path):
    (tmp_path / "a.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("a.npy", data)
    with pytest.raises(Unreadable):
        npy_file(tmp_path / "a.npy")
    with pytest.raises(Unreadable):
        npz_file(tmp_path / "a.npz")


def test_a_file_that_unfolds_is_refused_before_it_does(tmp_path):
    """A gigabyte of zeros in a megabyte; and members that lie over each other."""
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as part:
        part.write(header((2**24,)))
        for _ in range(2**7):
            part.write(bytes(2**20))
    with pytest.raises(Unreadable, match="larger than its file"):
        npz_file(tmp_path / "bomb.npz")
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as file:
        file.writestr("a.npy", header((1000,)) + bytes(8000))
    data = plain.getvalue()
    at = data.index(b"PK\x01\x02")
    entry, end = data[at:data.index(b"PK\x05\x06")], data[data.index(b"PK\x05\x06"):]
    end = end[:8] + struct.pack("<HHI", 500, 500, 500 * len(entry)) + end[16:]
    (tmp_path / "over.npz").write_bytes(data[:at] + entry * 500 + end)
    with pytest.raises(Unreadable):
        npz_file(tmp_path / "over.npz")


def test_honest_arrays_are_what_they_were(tmp_path):
    given = {"x": np.arange(6.0).reshape(2, 3), "none": np.zeros((0, 4)), "one": np.array(2.5),
             "flags": np.array([True]), "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
             "words": np.array(["a", "bc"]), "a/b": np.zeros(1, np.uint8)}
    np.savez(tmp_path / "a.npz", **given)
    found = npz_file(tmp_path / "a.npz")
    assert found.keys() == given.keys()
    for name, array in given.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        np.save(tmp_path / "one.npy", array)
        np.testing.assert_array_equal(npy_file(tmp_path / "one.npy"), array)
    found["x"][0, 0] = 7.0  # may be written to, as NumPy's own


def test_a_damaged_file_of_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(100.0))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = data.copy()
        for place in rng.integers(0, len(data), 3):
            broken[place] = rng.integers(256)
        (tmp_path / "b.npz").write_bytes(broken[:rng.integers(1, len(data) + 1)] if rng.random() < 0.3 else broken)
        try:
            npz_file(tmp_path / "b.npz")
        except ValueError:
            continue
