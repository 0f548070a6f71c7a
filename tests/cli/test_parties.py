"""What the parties type: a missing engine, a stopped command, kits told as JSON."""

import importlib.util
import json
import sys

import pytest

from fedci.cli import parties
from fedci.errors import UsageError
from support.commanded import told
from tests_support import study


def test_without_the_engine_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'fedci\[network\]'"):
        parties._network_extra()


def test_a_stopped_command_says_how_to_go_on(capsys):
    with pytest.raises(KeyboardInterrupt), parties._goes_on():
        raise KeyboardInterrupt
    assert "run the same command again" in capsys.readouterr().err


def test_kits_are_told_as_json(tmp_path, capsys):
    pytest.importorskip("nvflare", reason="the extra `network` is not installed: pip install 'fedci[network]'")
    study(sites=("lyon", "oslo")).write(tmp_path / "study.toml")
    code, out, err = told(capsys, "network", "new", tmp_path / "study.toml", "--host", "localhost", "--out",
                          tmp_path / "kits", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["port"] == 8002
    assert set(found["kits"]) == {"coordinator", "lyon", "oslo"}
    assert all((tmp_path / "kits" / party).is_dir() for party in found["kits"])


# --- by files


@pytest.fixture
def parties_by_files(tmp_path, monkeypatch):
    """A study's folder, without the engine installed: nothing of it is needed."""
    from fedci.site import floors
    from tests_support import frame

    monkeypatch.setitem(sys.modules, "nvflare", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("FEDCI_SITE_STORE", str(tmp_path / "store"))
    monkeypatch.setenv(floors.VARIABLE, str(tmp_path / floors.FILE))
    monkeypatch.chdir(tmp_path)
    floors.write_floors(floors.based_on("simulation", "drawn at random"), tmp_path / floors.FILE)
    study(sites=("lyon", "oslo")).write(tmp_path / "study.toml")
    frame(40, 0).to_csv("cohort.csv", index=False)
    return tmp_path


def test_how_messages_travel_is_said_once(parties_by_files, capsys):
    for words in ((), ("--files", "--host", "localhost")):
        code, _, err = told(capsys, "network", "new", "study.toml", *words)
        assert (code, "say how messages travel" in err) == (2, True)


def test_a_study_by_files_is_begun_without_the_engine(parties_by_files, capsys):
    code, out, err = told(capsys, "network", "new", "study.toml", "--files")
    assert code == 0, err
    assert "fedci site answer request-1.fedci --kit lyon --data FILE" in out
    code, out, err = told(capsys, "site", "check", "--kit", "kits/lyon", "--data", "cohort.csv")
    assert code == 0, err
    assert "connects   to nobody: requests come as files" in out
    code, out, err = told(capsys, "coordinator", "next", "--kit", "kits/coordinator")
    assert code == 0, err
    assert "step       1 of run" in out
    assert "written    requests/lyon/request-1.fedci: send it to lyon" in out
    code, out, err = told(capsys, "site", "answer", "requests/lyon/request-1.fedci", "--kit", "kits/lyon", "--data",
                          "cohort.csv")
    assert code == 0, err
    assert "handshake (Hello)" in out
    assert "written    requests/lyon/lyon-answer-1.fedci: send it to the coordinator" in out
    code, out, err = told(capsys, "ledger", "kits/lyon")
    assert "to the coordinator by files" in out


def test_who_is_missing_and_what_is_refused_is_said_in_words_and_as_json(parties_by_files, capsys):
    told(capsys, "network", "new", "study.toml", "--files", "--json")
    _, out, _ = told(capsys, "coordinator", "next", "--kit", "kits/coordinator", "--json")
    stands = json.loads(out)
    assert (stands["step"], stands["missing"], set(stands["requests"])) == (1, ["lyon", "oslo"], {"lyon", "oslo"})
    code, out, _ = told(capsys, "site", "answer", stands["requests"]["lyon"], "--kit", "kits/lyon", "--data",
                        "cohort.csv", "--out", "answer-1.fedci", "--json")
    assert (code, json.loads(out)["out"], json.loads(out)["refused"]) == (0, "answer-1.fedci", "")
    parties_by_files.joinpath("wrong.fedci").write_bytes(b"PK")
    code, out, err = told(capsys, "coordinator", "next", "--kit", "kits/coordinator", ".")
    assert code == 4
    assert "refused    wrong.fedci: it is no letter" in out
    assert "step 1 waits for oslo" in err
    code, _, err = told(capsys, "site", "answer", "answer-1.fedci", "--kit", "kits/lyon", "--data", "cohort.csv")
    assert code == 4
    assert "it is an answer, and this command reads a request. Nothing was changed" in err
    code, _, err = told(capsys, "site", "run", "--kit", "kits/lyon", "--data", "cohort.csv")
    assert (code, "made for files: use `fedci site answer`" in err) == (2, True)
