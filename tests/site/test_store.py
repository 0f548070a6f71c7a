"""The store of what a site has told: nothing of it can change, vanish or be written twice without being found."""

import os
import signal
import stat
import time

import pytest

from fedci.errors import OutputError
from fedci.site import store
from fedci.site.store import FILE, HEAD, LOCK, Store, backup, create, place, restore
from support.stored import CONTEXT, adding


@pytest.fixture
def made(tmp_path):
    """A store of four lines."""
    folder = tmp_path / "store"
    create(folder)
    filled(folder, 3)
    return folder


def filled(folder, count: int, kept: bool = True) -> None:
    found = Store(folder)
    with found.locked():
        for number in range(count):
            found.add({"kind": "told", "run": "r", "numbers": number}, kept)


def numbers(folder) -> list[int]:
    return [line["numbers"] for line in Store(folder).lines if line["kind"] == "told"]


# --- where it stands


def test_its_place_is_the_operators_the_environments_or_the_users_and_never_the_kits(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCI_SITE_STORE", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert place(tmp_path / "said") == tmp_path / "said"
    assert place() == tmp_path / "environment"
    monkeypatch.delenv("FEDCI_SITE_STORE")
    assert place() == tmp_path / "data" / "fedci" / "site"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place() == tmp_path / ".local" / "share" / "fedci" / "site"


def test_only_its_owner_can_read_it(made):
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert {name: stat.S_IMODE((made / name).stat().st_mode) for name in (FILE, HEAD, LOCK)} == dict.fromkeys(
        (FILE, HEAD, LOCK), 0o600)


def test_each_store_has_a_secret_of_its_own(made, tmp_path):
    create(tmp_path / "other")
    assert len(Store(made).secret) == 32
    assert Store(made).secret != Store(tmp_path / "other").secret


# --- damage


def test_every_flipped_byte_is_found(made):
    whole = (made / FILE).read_bytes()
    for at in range(len(whole)):
        (made / FILE).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        with pytest.raises(OutputError, match="fedci site store restore"):
            Store(made)
    (made / FILE).write_bytes(whole)
    assert numbers(made) == [0, 1, 2]


def test_every_cut_is_found(made):
    """A line that is cut short was never relied on, unless the head knows it."""
    whole = (made / FILE).read_bytes()
    for at in range(len(whole)):
        (made / FILE).write_bytes(whole[:at])
        with pytest.raises(OutputError, match="damaged"):
            Store(made)


def test_lines_taken_out_put_in_and_swapped_are_found(made):
    first, a, b, c = (made / FILE).read_bytes().splitlines(keepends=True)
    for lines in ([first, a, c], [first, b, a, c], [first, a, a, b, c], [a, b, c], [first, first, a, b, c], []):
        (made / FILE).write_bytes(b"".join(lines))
        with pytest.raises(OutputError, match="damaged"):
            Store(made)


def test_a_missing_or_foreign_head_is_found(made, tmp_path):
    head = (made / HEAD).read_bytes()
    create(tmp_path / "other")
    for bad in (None, b"", b"{}", b'{"count": 0, "hash": ""}', head.replace(b"4", b"3"),
                (tmp_path / "other" / HEAD).read_bytes()):
        (made / HEAD).unlink(missing_ok=True) if bad is None else (made / HEAD).write_bytes(bad)
        with pytest.raises(OutputError, match="damaged"):
            Store(made)


def test_a_store_that_is_gone_is_missed(made):
    (made / FILE).unlink()
    with pytest.raises(OutputError, match="Nothing is sent without it"):
        Store(made)
    (made / HEAD).unlink()
    assert store.exists(made)  # its lock remembers
    with pytest.raises(OutputError, match="is not in"):
        Store(made)


def test_one_that_is_replaced_while_a_site_runs_is_found(made):
    found = Store(made)
    create(made, "a test")
    with pytest.raises(OutputError, match="replaced while the site ran"), found.locked():
        pass


def test_a_line_that_a_crash_cut_short_is_set_aside(made):
    with (made / FILE).open("ab") as file:
        file.write(b"0123456789 {half a li")
    assert numbers(made) == [0, 1, 2]
    filled(made, 1)
    assert numbers(made) == [0, 1, 2, 0]


def test_a_line_whose_head_a_crash_prevented_stays(made):
    head = (made / HEAD).read_bytes()
    filled(made, 1)
    (made / HEAD).write_bytes(head)
    assert numbers(made) == [0, 1, 2, 0]


def test_killed_while_it_writes_it_can_be_read(made):
    """Thirty times, anywhere: each time the store is whole, and holds at least what it held."""
    held = 3
    for pause in range(30):
        process = CONTEXT.Process(target=adding, args=(made, 0))
        process.start()
        size = (made / FILE).stat().st_size
        while (made / FILE).stat().st_size == size and process.is_alive():  # it has begun
            time.sleep(0.001)
        time.sleep(0.0007 * pause)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        now = len(numbers(made))
        assert now > held
        held = now


# --- two processes


def test_two_processes_at_once_lose_nothing(made):
    both = [CONTEXT.Process(target=adding, args=(made, 40)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    lines = Store(made).lines[4:]
    assert len(lines) == 80
    for process in both:
        assert [line["numbers"] for line in lines if line["run"] == str(process.pid)] == list(range(40))


def test_a_lock_that_is_never_given_back_is_an_error_in_words(made, monkeypatch):
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.05)
    first, second = Store(made), Store(made)
    with first.locked(), pytest.raises(OutputError, match="in use by another process"), second.locked():
        pass


def test_of_two_that_begin_at_once_the_second_takes_what_is_there(made):
    secret = Store(made).secret
    create(made)
    assert Store(made).secret == secret


def test_a_disk_that_cannot_be_written_is_an_error_in_words(made, monkeypatch):
    def full(handle, data):
        raise OSError(28, "No space left on device")

    found = Store(made)
    monkeypatch.setattr(os, "write", full)
    with found.locked(), pytest.raises(OutputError, match="No space left on device. Nothing was sent"):
        found.add({"kind": "told", "run": "r", "numbers": 1})


# --- backup and restore


def test_a_backup_brings_back_the_very_store(made, tmp_path):
    data = (made / FILE).read_bytes()
    assert backup(made, tmp_path / "copy") == 4
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    assert restore(tmp_path / "elsewhere", tmp_path / "copy") == 4
    assert (tmp_path / "elsewhere" / FILE).read_bytes() == data
    assert Store(tmp_path / "elsewhere").secret == Store(made).secret


def test_a_damaged_store_is_set_aside_and_the_backup_takes_its_place(made, tmp_path):
    backup(made, tmp_path / "copy")
    (made / FILE).write_bytes(b"damaged")
    restore(made, tmp_path / "copy")
    assert numbers(made) == [0, 1, 2]
    assert (made / "accountant.1.aside").read_bytes() == b"damaged"


def test_a_store_that_holds_more_is_not_replaced(made, tmp_path):
    backup(made, tmp_path / "copy")
    filled(made, 2)
    with pytest.raises(OutputError, match="nothing was changed"):
        restore(made, tmp_path / "copy")
    assert numbers(made) == [0, 1, 2, 0, 1]


def test_a_damaged_backup_is_refused(made, tmp_path):
    backup(made, tmp_path / "copy")
    whole = (tmp_path / "copy").read_bytes()
    for bad in (whole[:-3], whole[:100] + b"x" + whole[101:], b"junk\n"):
        (tmp_path / "copy").write_bytes(bad)
        with pytest.raises(OutputError, match="is damaged"):
            restore(tmp_path / "elsewhere", tmp_path / "copy")
    assert not (tmp_path / "elsewhere").exists()


def test_a_reason_stays_in_the_store(made, tmp_path):
    assert Store(made).since == ""
    backup(made, tmp_path / "copy")
    restore(made, tmp_path / "copy", "the newer one burnt")
    first = Store(made).since
    assert Store(made).lines[-1]["reason"] == "the newer one burnt"
    create(made, "no backup left")
    assert Store(made).since > first
    assert Store(made).lines[0]["reason"] == "no backup left"
