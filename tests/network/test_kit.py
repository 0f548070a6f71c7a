"""A kit is whole, private and hardened, and says what is not."""

import pytest

from fedci.errors import OutputError
from fedci.network import kit, operations
from fedci.network.provision import COORDINATOR


@pytest.mark.parametrize("name", ["study.toml", "local/resources.json", "startup/fed_client.json", "identities.json"])
def test_a_changed_file_is_named(kits, name):
    path = kits / "kits" / "lyon" / name
    path.write_text(path.read_text() + " ")
    with pytest.raises(OutputError, match=f"{name} was changed"):
        operations.check_kit(kits / "kits" / "lyon", "site")


def test_missing_and_added_files_are_named(kits):
    (kits / "kits" / "lyon" / "identity.key").unlink()
    (kits / "kits" / "lyon" / "local" / "custom.py").write_text("")
    with pytest.raises(OutputError, match=r"identity.key is missing.*custom.py was added"):
        operations.check_kit(kits / "kits" / "lyon", "site")


def test_what_a_crash_left_of_the_ledgers_head_does_not_spoil_the_kit(kits):
    own = kits / "kits" / "lyon"
    for name in (".ledger.head.new",):
        (own / name).write_bytes(b"half")
    assert kit.check_seal(operations.check_kit(own, "site")) == []
    (own / ".study.toml.new").write_bytes(b"half")
    with pytest.raises(OutputError, match=r"\.study\.toml\.new was added"):
        operations.check_kit(own, "site")


def test_a_coordinators_kit_that_moved_keeps_its_jobs_in_its_own_folder(kits):
    own = operations.check_kit(kits / "kits" / COORDINATOR, "coordinator")
    assert str(own.engine.resolve()) in (own.engine / "local" / "resources.json").read_text()


def test_events_are_read_line_by_line_as_they_come(tmp_path):
    kit.note(tmp_path, "one", n=1)
    seen, at = kit.events(tmp_path)
    assert seen == [{"event": "one", "n": 1}]
    with (tmp_path / kit.EVENTS).open("a") as file:
        file.write('{"event": "tw')
    assert kit.events(tmp_path, at) == ([], at)
    with (tmp_path / kit.EVENTS).open("a") as file:
        file.write('o"}\n')
    assert kit.events(tmp_path, at)[0] == [{"event": "two"}]
