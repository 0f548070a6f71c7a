"""The coordinator's tray: where a study stands, and which letters it keeps."""

import json
from dataclasses import replace

import pytest

from fedci.errors import OutputError
from fedci.mail.tray import FOLDER, STANDING, Tray, tray_of
from fedci.network import kit
from fedci.network.provision import COORDINATOR, new_by_files
from fedci.protocol.engine import Traffic
from support.mailed import plan


@pytest.fixture
def own(tmp_path):
    return kit.read(new_by_files(plan(), (), tmp_path / "kits")[COORDINATOR])


@pytest.fixture
def tray(own) -> Tray:
    return Tray(folder=own.run / FOLDER, study="a" * 64, run="0123", sites=("lyon", "oslo"), secret="00" * 32,
                asked=("0123", 4), traffic={"lyon": Traffic(1, 2, 3)})


def test_what_is_written_is_read_and_only_its_owner_can(own, tray):
    assert tray_of(own) is None
    tray.write()
    assert tray_of(own) == tray
    tray.keep(("0123", 1, "lyon"), b"letter")
    assert all(not path.stat().st_mode & 0o077 for path in [tray.folder, *tray.folder.rglob("*")])
    assert kit.check_seal(own) == []


def test_letters_that_are_not_needed_go(tray):
    keys = [("0123", step, site) for step in (1, 2, 12) for site in ("lyon", "saint-denis")]
    tray.write()
    for key in keys:
        tray.keep(key, str(key).encode())
    tray.forget({keys[1], keys[4]})
    assert [key for key in keys if tray.place(key).exists()] == [keys[1], keys[4]]
    tray.clear()
    assert [path.name for path in tray.folder.iterdir()] == [STANDING]


def test_an_exchange_is_past_when_a_later_one_is_open(tray):
    assert [tray.is_past("0123", step) for step in (3, 4, 5)] == [True, False, False]
    refuting = replace(tray, asked=("0123-placebo", 2))
    assert (refuting.is_past("0123", 99), refuting.is_past("0123-placebo", 1)) == (True, True)
    assert not refuting.is_past("0123-placebo", 2)
    assert not replace(tray, asked=("", 0)).is_past("0123", 1)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"format": 1}', b'{"format": 1, "asked": 3}', b"[" * 10**5])
def test_a_damaged_standing_is_named_with_what_to_do(own, tray, text):
    tray.write()
    (tray.folder / STANDING).write_bytes(text)
    with pytest.raises(OutputError, match="is damaged. Bring it back from a backup, or begin a new run"):
        tray_of(own)


def test_a_standing_of_another_version_is_named(own, tray):
    tray.write()
    facts = json.loads((tray.folder / STANDING).read_text())
    (tray.folder / STANDING).write_text(json.dumps(facts | {"format": 0}))
    with pytest.raises(OutputError, match="begun by another version of fedci"):
        tray_of(own)


def test_a_full_disk_is_said(tray, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedci.mail.tray.whole_file", full)
    for use in (tray.write, lambda: tray.keep(("0123", 1, "lyon"), b"letter")):
        with pytest.raises(OutputError, match="no space left on device. Nothing was lost"):
            use()
