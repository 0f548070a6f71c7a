"""Where a run stands, from a kit's files: never run, in the fit, complete, failed; looking changes nothing."""

import json

import pytest

from fedci.errors import OutputError
from fedci.network import kit
from fedci.network.provision import COORDINATOR, README, new_by_files
from fedci.network.status import coordinator_status, site_status
from fedci.site.ledger import Ledger, Left
from support.commanded import told


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def answered(own, request, number, sums, values=None):
    with Ledger(own.folder) as book:
        book.append(Left(run="r1", round=number, phase="fit" if number > 2 else "moments", request=request,
                         request_sha256="0" * 64, reply="Reply", reply_sha256="1" * 64, bytes=9, sums=sums,
                         values=values))


def test_a_site_from_before_its_first_run_to_the_end(kits):
    own = kit.read(kits / "kits" / "lyon")
    assert site_status(own.folder).state.startswith("never run")
    kit.note(own.run, "started", rows=40)
    answered(own, "AskMeans", 2, {"total": [3]}, {"own/people": [40.0, 20.0]})
    answered(own, "AskStatistics", 3, {"gram": [2, 5]})
    kit.note(own.run, "answered", phase="fit", reason="")
    before = snapshot(own.folder)
    found = site_status(own.folder)
    assert snapshot(own.folder) == before
    assert found.state.startswith("stopped; `fedci site run`")
    assert (found.run, found.phase, found.request, found.step) == ("r1", "fit", "AskStatistics", 3)
    assert (found.ledger["ledger lines"], found.ledger["numbers told"]) == (2, 13)
    assert found.last
    assert not found.running
    kit.note(own.run, "finished")
    assert site_status(own.folder).state.startswith("complete")
    kit.note(own.run, "broken", code="source", reason="'cohort.csv' cannot be read")
    assert site_status(own.folder).state == "failed: 'cohort.csv' cannot be read"


def test_a_coordinator_says_round_pause_and_result(kits, tmp_path):
    own = kit.read(kits / "kits" / COORDINATOR)
    assert coordinator_status(own.folder).state.startswith("never run")
    for event, facts, state in (
            ("ready", {"sites": ["lyon"]}, "before the fit, with lyon"),
            ("round", {"number": 3, "cap": 12}, "in the fit"),
            ("paused", {"reason": "site 'oslo' left"}, "paused: site"),
            ("failed", {"reason": "site 'oslo': 3 rows"}, "failed: site 'oslo'"),
            ("result", {"out": str(tmp_path)}, "complete")):
        kit.note(own.run, event, **facts)
        found = coordinator_status(own.folder)
        assert found.state.startswith(state)
    assert found.round == "3 of at most 12"
    assert found.files["result"] == str(tmp_path)


def test_parties_by_files(study, tmp_path):
    made = new_by_files(study, ("lyon", "oslo", "turin"), tmp_path / "kits")
    assert "fedci site answer" in site_status(made["lyon"]).state
    own = kit.read(made[COORDINATOR])
    assert "fedci coordinator next" in coordinator_status(own.folder).state
    mail = own.run / "mail"
    (mail / "r1").mkdir(parents=True)
    (mail / "standing.json").write_text(json.dumps({"asked": ["r1", 4], "sites": ["lyon", "oslo"], "result": ""}))
    (mail / "r1" / "4-lyon.fedci").write_bytes(b"")
    assert coordinator_status(own.folder).state == "waits for the files of oslo"
    (mail / "standing.json").write_text("{")
    with pytest.raises(OutputError, match="damaged"):
        coordinator_status(own.folder)


def test_the_commands_say_it_in_words_and_as_json(kits, capsys):
    lyon, coordinator = (str(kits / "kits" / name) for name in ("lyon", COORDINATOR))
    code, out, _ = told(capsys, "site", "status", "--kit", lyon)
    assert code == 0
    assert "never run" in out
    code, out, _ = told(capsys, "coordinator", "status", "--kit", coordinator, "--json")
    assert code == 0
    assert json.loads(out)["role"] == "coordinator"
    unit = kits / "unit.service"
    assert told(capsys, "site", "service", "--kit", lyon, "--data", kits / "lyon" / "cohort.csv", "--out", unit)[0] == 0
    assert "ExecStart=" in unit.read_text()
    code, out, _ = told(capsys, "coordinator", "service", "--kit", coordinator, "--json")
    assert "coordinator run" in json.loads(out)["unit"]


def test_the_readme_of_a_kit_is_ours(kits, study, tmp_path):
    for party in ("lyon", COORDINATOR):
        folder = kits / "kits" / party
        text = (folder / README).read_text()
        assert study.hash() in text
        assert f"fedci {'site' if party == 'lyon' else 'coordinator'} run" in text
        assert not [path for path in folder.rglob("*") if path.name in ("readme.txt", "start.sh", "system_info.ipynb")]
    made = new_by_files(study, ("lyon", "oslo", "turin"), tmp_path / "files")
    assert "fedci site answer" in (made["lyon"] / README).read_text()
