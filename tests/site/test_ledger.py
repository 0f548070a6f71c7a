"""The ledger: a whole chain is whole, and any change to it is found."""

import json
import os
import stat

import pytest

from fedci.errors import OutputError
from fedci.site import ledger
from fedci.site.ledger import GENESIS, HEAD, LEDGER, TORN, Head, Ledger, Verdict, read, sha256, verify
from support.written import left, lines, written


def test_what_is_appended_is_read_back_and_whole(tmp_path):
    entries = written(tmp_path)
    assert read(tmp_path) == entries
    assert verify(tmp_path) == Verdict(True)
    assert [entry["n"] for entry in entries] == [1, 2, 3, 4]


def test_each_line_is_bound_to_the_one_before(tmp_path):
    entries = written(tmp_path)
    assert [entry["previous"] for entry in entries] == [GENESIS, *(entry["hash"] for entry in entries[:-1])]
    for entry in entries:
        text = json.dumps({k: v for k, v in entry.items() if k != "hash"}, sort_keys=True, separators=(",", ":"))
        assert entry["hash"] == sha256(text.encode())


def test_a_line_says_what_left(tmp_path):
    with Ledger(tmp_path) as book:
        entry = book.append(left(1, values={"w": [[0.1], [1e-300]]}, notes={"warnings": ["one"]}))
    assert entry.keys() == {"n", "time", "run", "round", "phase", "request", "request_sha256", "reply", "sums", "bytes",
                            "reply_sha256", "values", "notes", "previous", "hash"}
    assert entry["time"].endswith("+00:00")
    assert read(tmp_path)[0]["values"] == {"w": [[0.1], [1e-300]]}


def test_a_reopened_ledger_goes_on(tmp_path):
    first = written(tmp_path, 2)
    second = written(tmp_path, 1)
    assert second[0]["previous"] == first[-1]["hash"]
    assert verify(tmp_path) == Verdict(True)


def test_only_the_owner_reads_it(tmp_path):
    written(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    for name in (LEDGER, HEAD):
        assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o600


def test_every_flipped_byte_is_found(tmp_path):
    written(tmp_path, 2)
    whole = (tmp_path / LEDGER).read_bytes()
    first = len(lines(tmp_path)[0])
    for at in range(len(whole)):
        (tmp_path / LEDGER).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        verdict = verify(tmp_path)
        assert (verdict.ok, verdict.line) == (False, 1 if at < first else 2), at


def test_every_flipped_byte_of_the_head_is_found(tmp_path):
    written(tmp_path, 3)
    whole = (tmp_path / HEAD).read_bytes()
    for at in range(len(whole) - 1):
        (tmp_path / HEAD).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        assert not verify(tmp_path).ok, at


@pytest.mark.parametrize("kept, broken", [
    ([1, 2, 3], 1), ([0, 2, 3], 2), ([0, 1, 3], 3), ([0, 1, 2], 4), ([0, 1], 3), ([], 1),
    ([0, 2, 1, 3], 2), ([0, 1, 3, 2], 3), ([0, 1, 1, 2, 3], 3), ([0, 1, 2, 3, 3], 5)])
def test_deleted_swapped_repeated_and_cut_lines_are_found(tmp_path, kept, broken):
    written(tmp_path)
    whole = lines(tmp_path)
    (tmp_path / LEDGER).write_bytes(b"".join(whole[k] for k in kept))
    assert verify(tmp_path)[:2] == (False, broken)
    with pytest.raises(OutputError, match=f"line {broken}:"):
        Ledger(tmp_path)
    assert (tmp_path / LEDGER).read_bytes() == b"".join(whole[k] for k in kept)


def test_a_line_forged_with_a_right_hash_breaks_the_next(tmp_path):
    entries = written(tmp_path)
    forged = {**entries[1], "bytes": 7}
    forged["hash"] = sha256(ledger.canonical({k: v for k, v in forged.items() if k != "hash"}))
    whole = lines(tmp_path)
    (tmp_path / LEDGER).write_bytes(b"".join([whole[0], ledger.canonical(forged) + b"\n", *whole[2:]]))
    assert verify(tmp_path)[:2] == (False, 3)


def test_lines_are_counted(tmp_path):
    """A last line with a wrong number, a right hash, and a head that knows it."""
    entries = written(tmp_path, 2)
    wrong = {**entries[1], "n": 3}
    wrong["hash"] = sha256(ledger.canonical({k: v for k, v in wrong.items() if k != "hash"}))
    (tmp_path / LEDGER).write_bytes(lines(tmp_path)[0] + ledger.canonical(wrong) + b"\n")
    (tmp_path / HEAD).write_bytes(ledger.canonical({"count": 2, "hash": wrong["hash"]}))
    assert verify(tmp_path)[:2] == (False, 2)


def test_lines_spelled_otherwise_are_found(tmp_path):
    entries = written(tmp_path, 1)
    (tmp_path / LEDGER).write_text(json.dumps(entries[0]) + "\n")
    assert verify(tmp_path)[:2] == (False, 1)


@pytest.mark.parametrize("junk", [b"\n", b"[]\n", b"{}\n", b"null\n", b"\xff\n", b"[" * 100_000 + b"\n", b"NaN\n"])
def test_lines_that_are_no_entries_are_found(tmp_path, junk):
    written(tmp_path, 1)
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(junk)
    assert verify(tmp_path)[:2] == (False, 2)


def test_a_missing_head_is_found(tmp_path):
    written(tmp_path)
    (tmp_path / HEAD).unlink()
    assert verify(tmp_path)[:2] == (False, 1)


def test_a_missing_ledger_is_found(tmp_path):
    written(tmp_path)
    (tmp_path / LEDGER).unlink()
    assert verify(tmp_path)[:2] == (False, 1)


def test_a_head_noted_elsewhere_shows_that_the_end_was_rewritten(tmp_path):
    noted = Head(4, written(tmp_path)[-1]["hash"])
    assert verify(tmp_path, noted) == Verdict(True)
    for name in (LEDGER, HEAD):
        (tmp_path / name).unlink()
    written(tmp_path, 3)
    assert verify(tmp_path) == Verdict(True)
    assert verify(tmp_path, noted)[:2] == (False, 4)


@pytest.mark.parametrize("cut", [1, 2, 50])
def test_a_torn_last_line_is_set_aside_and_noted(tmp_path, cut):
    """The crash came while the fifth line was written: the head knows four."""
    entries = written(tmp_path)
    whole = (tmp_path / LEDGER).read_bytes()
    torn = ledger.canonical(ledger.sealed(left(5), Head(4, entries[-1]["hash"]), "now"))[:-cut]
    (tmp_path / LEDGER).write_bytes(whole + torn)
    assert verify(tmp_path)[:2] == (False, 5)
    with Ledger(tmp_path) as book:
        assert book.entries[:4] == entries
    assert (tmp_path / TORN).read_bytes() == torn + b"\n"
    assert stat.S_IMODE((tmp_path / TORN).stat().st_mode) == 0o600
    note = read(tmp_path)[4]
    assert (note["reply"], note["reply_sha256"], note["bytes"]) == ("Note", sha256(torn), 0)
    assert verify(tmp_path) == Verdict(True)


def test_a_line_that_the_head_knows_is_not_torn_but_cut(tmp_path):
    written(tmp_path)
    cut = (tmp_path / LEDGER).read_bytes()[:-10]
    (tmp_path / LEDGER).write_bytes(cut)
    with pytest.raises(OutputError, match="line 4"):
        Ledger(tmp_path)
    assert (tmp_path / LEDGER).read_bytes() == cut
    assert not (tmp_path / TORN).exists()


def test_a_crash_between_line_and_head_loses_nothing(tmp_path):
    written(tmp_path, 3)
    old = (tmp_path / HEAD).read_bytes()
    written(tmp_path, 1)
    for _ in range(2):  # each start catches up, so that lines never run two ahead
        (tmp_path / HEAD).write_bytes(old)
        assert verify(tmp_path) == Verdict(True)
        Ledger(tmp_path).close()
        assert json.loads((tmp_path / HEAD).read_bytes())["count"] == 4
    assert len(read(tmp_path)) == 4


def test_a_ledger_two_lines_ahead_of_its_head_is_found(tmp_path):
    written(tmp_path, 2)
    old = (tmp_path / HEAD).read_bytes()
    written(tmp_path, 2)
    (tmp_path / HEAD).write_bytes(old)
    assert verify(tmp_path)[:2] == (False, 3)


def test_one_process_at_a_time(tmp_path):
    with Ledger(tmp_path), pytest.raises(OutputError, match="in use"):
        Ledger(tmp_path)
    Ledger(tmp_path).close()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / LEDGER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="cannot be written"):
        Ledger(tmp_path)


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_is_an_error_and_the_next_start_goes_on(tmp_path, monkeypatch, step):
    written(tmp_path, 2)
    real = os.write

    def half(handle, data):
        real(handle, data[:40])
        raise OSError(28, "No space left on device")

    def none(*_):
        raise OSError(28, "No space left on device")

    with Ledger(tmp_path) as book:
        with monkeypatch.context() as patch:
            patch.setattr(os, step, half if step == "write" else none)
            with pytest.raises(OutputError, match="No space left"):
                book.append(left(3))
        with pytest.raises(OutputError, match="closed"):
            book.append(left(3))
    entry = written(tmp_path, 1)[0]
    assert verify(tmp_path) == Verdict(True)
    assert entry["n"] == 4  # after the note on a torn line, or after the whole line whose answer was not sent


def test_the_line_is_on_disk_before_append_returns(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    with Ledger(tmp_path) as book:
        monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_ino, len(lines(tmp_path))))
                            or real(handle))
        book.append(left(1))
    assert synced[0] == ((tmp_path / LEDGER).stat().st_ino, 1)


def test_totals_per_run_and_phase(tmp_path):
    with Ledger(tmp_path) as book:
        for number in (1, 2):
            book.append(left(number))
        book.append(left(3, phase="effects", reply="Refusal", sums={}, code="site", reason="no"))
        book.append(left(1, run="r2", phase="moments", sums={"x": [4, 3]}))
        found = ledger.totals(book.entries)
    assert [one[:7] for one in found] == [
        ("r1", "fit", 2, 0, 14, 203, ("failed", "gradient")), ("r1", "effects", 0, 1, 0, 103, ()),
        ("r2", "moments", 1, 0, 12, 101, ("x",))]
    times = [entry["time"] for entry in ledger.read(tmp_path)]
    assert (found[0].first, found[0].last, found[2].last) == (times[0], times[1], times[3])


def test_numbers_told_per_person_are_those_of_a_run_over_its_people(tmp_path):
    with Ledger(tmp_path) as book:
        book.append(left(1, request="AskMeans", sums={"masked": [40], "own/people": [2]},
                         values={"own/people": [70.0, 30.0]}))
        book.append(left(2, request="AskStatistics", sums={"masked": [10, 66]}))
    (run, told), = ledger.per_person(read(tmp_path)).items()
    assert run == read(tmp_path)[0]["run"]
    assert told == (40 + 2 + 660, 70)
    assert told.each == 702 / 70


def test_an_answer_that_is_given_again_tells_nothing_new(tmp_path):
    """After an interruption the coordinator asks again, and the same bytes leave: the ledger has both lines."""
    with Ledger(tmp_path) as book:
        book.append(left(1, request="AskMeans", sums={"own/people": [2]}, values={"own/people": [70.0, 30.0]}))
        for _ in range(3):
            book.append(left(2, sums={"gradient": [10]}))
        book.append(left(2, run="r2", sums={"gradient": [10]}))  # another run's, whatever its bytes
    entries = read(tmp_path)
    assert [entry["n"] for entry in ledger.told_once(entries)] == [entry["n"] for entry in (*entries[:2], entries[4])]
    assert ledger.per_person(entries)[entries[0]["run"]].numbers == 12
    assert sum(total.answers for total in ledger.totals(entries)) == 5
