"""Every file that fedci reads, made by somebody who wishes it ill: an error of ours, and no memory taken first."""

import json
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedci import Result, Source, Study
from fedci.coordinator.checkpoint import Checkpoint, Mark, load
from fedci.diagnostics.findings import Diagnostics
from fedci.errors import MessageError, OutputError, SizeError, StudyError, UsageError
from fedci.network import kit
from fedci.privacy.agreement import read_key
from fedci.protocol.codec import MAGIC, decode, sealed
from fedci.result.prediction import kept_at
from fedci.site import ledger
from fedci.table import columns
from fedci.table.columns import column_names, read_columns
from tests_support import study

DEEP = "[" * 100_000
HUGE = '{"format": 1' + "0" * 4000 + "}"
ROWS = 60_000_000


def claims(shape) -> bytes:
    """An .npy file of a few bytes whose header claims `shape` of float64."""
    words = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape!r}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words + bytes(64)


def claimed_npz(path, **more) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in ("facts", "theta", "x", "0-0", "0-1", *more):
            file.writestr(f"{name}.npy", claims((2**40,)))


def bomb(path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("facts.npy", "w") as part:
        for _ in range(64):
            part.write(bytes(2**20))


# --- tables


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory):
    """Sixty million people in about a megabyte."""
    path = tmp_path_factory.mktemp("many") / "lyon.parquet"
    column = pa.chunked_array([pa.array(np.zeros(10**6, np.int8))] * (ROWS // 10**6))
    pyarrow.parquet.write_table(pa.table(dict.fromkeys(("age", "bmi", "sex", "w", "y"), column)), path,
                                compression="zstd", row_group_size=ROWS)
    assert path.stat().st_size < 2 * 2**20
    return path


def test_a_small_parquet_file_of_many_rows_is_refused_by_its_metadata(many_rows):
    before = pa.total_allocated_bytes()
    with pytest.raises(SizeError, match=f"site 'lyon'.*{ROWS} rows of 5 columns"):
        Source("lyon", many_rows).read(study())
    assert pa.total_allocated_bytes() - before < 2**24
    assert column_names(many_rows, 2**40) == ["age", "bmi", "sex", "w", "y"]


def test_a_word_that_stands_in_every_row_is_counted_before_it_unfolds(tmp_path, monkeypatch):
    path = tmp_path / "lyon.parquet"
    table = pa.table({"stage": pa.array(["x" * 10_000] * 1000), "age": np.zeros(1000)})
    pyarrow.parquet.write_table(table, path, compression="zstd")
    assert read_columns(path, ["stage"], 2**40)["stage"].cells.to_pylist() == ["x" * 10_000] * 1000
    monkeypatch.setattr(columns, "MOST_LETTERS", 10**6)
    with pytest.raises(SizeError, match="more than 1000000 letters"):
        read_columns(path, ["stage"], 2**40)


def test_the_cells_of_a_csv_and_its_columns_are_counted_before_they_are_read(tmp_path, monkeypatch):
    (tmp_path / "wide.csv").write_text(",".join(f"c{k}" for k in range(10_001)) + "\n")
    with pytest.raises(SizeError, match="10001 columns"):
        read_columns(tmp_path / "wide.csv", None, 2**40)
    (tmp_path / "long.csv").write_text("a,b\n" + "1,2\n" * 60)
    assert len(read_columns(tmp_path / "long.csv", None, 2**40)["a"].cells) == 60
    monkeypatch.setattr(columns, "MOST_CELLS", 100)
    with pytest.raises(SizeError, match="more than the 100 cells"):
        read_columns(tmp_path / "long.csv", None, 2**40)


def varint(number: int, size: int) -> bytes:
    """As Thrift writes a whole number, zigzag, in so many bytes."""
    left, parts = 2 * number, []
    for k in range(size):
        parts.append(left & 0x7F | (0x80 if k < size - 1 else 0))
        left >>= 7
    return bytes(parts)


def test_a_count_of_rows_that_lies_is_held_against_the_groups_of_rows(many_rows, tmp_path):
    data = many_rows.read_bytes()
    place = data.index(varint(ROWS, 4), len(data) - 8 - struct.unpack("<I", data[-8:-4])[0])
    lying = tmp_path / "lyon.parquet"
    lying.write_bytes(data[:place] + varint(50, 4) + data[place + 4:])
    assert pyarrow.parquet.ParquetFile(lying).metadata.num_rows == 50
    with pytest.raises(SizeError, match=f"{ROWS} rows"):
        Source("lyon", lying).read(study())


# --- messages, studies, keys


@pytest.mark.parametrize("header", [DEEP, HUGE, '{"type": "Hello", "fields": ' + '{"a":' * 100_000, "9" * 5000])
def test_a_message(header):
    data = sealed(MAGIC + struct.pack(">I", len(header)) + header.encode())
    with pytest.raises(MessageError, match="header"):
        decode(data)


@pytest.mark.parametrize("text", ["treatment = " + DEEP, "seed = " + "9" * 5000, ".".join("a" * 5000) + " = 1"])
def test_a_study(text, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(StudyError):
        Study.read(tmp_path / "study.toml")


def test_a_key_without_end(tmp_path):
    (tmp_path / "key").write_text("ab" * 10**6)
    with pytest.raises(UsageError, match="linkage key file"):
        read_key(tmp_path / "key")


# --- what a run keeps


@pytest.mark.parametrize("harm", [
    lambda folder: (folder / "result.json").write_text(DEEP),
    lambda folder: (folder / "result.json").write_text(HUGE),
    lambda folder: (folder / "result.json").write_text("[]"),
    lambda folder: claimed_npz(folder / "arrays.npz"),
    lambda folder: bomb(folder / "arrays.npz"),
    lambda folder: claimed_npz(folder / "sites" / "site-0" / "rows.npz"),
    lambda folder: (folder / "trace.csv").write_text("number," + "x" * 200_000 + "\n"),
], ids=["deep", "huge", "no table", "claims", "unfolds", "rows that claim", "a long cell"])
def test_a_result(classic, tmp_path, harm):
    """Also one that has no digests."""
    classic.save(tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "result.json").read_text())
    (tmp_path / "out" / "result.json").write_text(json.dumps(
        {name: value for name, value in facts.items() if name not in ("files", "digest")}))
    harm(tmp_path / "out")
    with pytest.raises(OutputError, match="damaged or of another version"):
        Result.load(tmp_path / "out")


@pytest.mark.parametrize("harm", [claimed_npz, bomb, lambda path: path.write_text(DEEP)])
def test_a_checkpoint(tmp_path, harm):
    path = tmp_path / "checkpoint.npz"
    Checkpoint(mark=Mark("h", ("a",)), run="r", path=path).write()
    assert load(path, Mark("h", ("a",)), "new").run == "r"
    harm(path)
    with pytest.raises(OutputError, match="checkpoint .* is damaged"):
        load(path, Mark("h", ("a",)), "new")


def test_a_checkpoint_whose_facts_are_deep(tmp_path):
    np.savez(tmp_path / "checkpoint.npz", facts=np.frombuffer(DEEP.encode(), np.uint8))
    with pytest.raises(OutputError, match="is damaged"):
        load(tmp_path / "checkpoint.npz", Mark("h", ("a",)), "new")


@pytest.mark.parametrize("text", [DEEP, HUGE, "[]", "3"])
def test_a_kit_and_its_seal(tmp_path, text):
    (tmp_path / kit.FACTS).write_text(text)
    with pytest.raises(OutputError, match="damaged|another version"):
        kit.read(tmp_path)
    (tmp_path / kit.SEAL).write_text(text)
    own = kit.Kit(folder=tmp_path, **{name: "" for name in kit.Kit.__dataclass_fields__ if name != "folder"})
    found = kit.check_seal(own)
    assert found == [f"{kit.SEAL} is missing or damaged"] or "was added" in found[0]


@pytest.mark.parametrize("text", [DEEP, HUGE, '{"count": 1e400, "hash": ""}'])
def test_a_ledger_and_its_head(tmp_path, text):
    (tmp_path / ledger.LEDGER).write_text(text + "\n")
    assert not ledger.verify(tmp_path).ok
    (tmp_path / ledger.LEDGER).write_text("")
    (tmp_path / ledger.HEAD).write_text(text)
    assert not ledger.verify(tmp_path).ok


def test_diagnostics(tmp_path):
    for text in (DEEP, HUGE):
        (tmp_path / "diagnostics.json").write_text(text)
        with pytest.raises(OutputError, match="damaged"):
            Diagnostics.read(tmp_path / "diagnostics.json")


def test_the_rows_that_linkage_left(classic, tmp_path):
    from dataclasses import replace

    result = replace(classic, outcome=replace(classic.outcome, excluded={"site-0": 3}))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f"kept-{result.outcome.run}.npy").write_bytes(claims((2**40,)))
    with pytest.raises(UsageError, match="does not hold"):
        kept_at(result, "site-0", tmp_path)
