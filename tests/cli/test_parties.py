"""What the parties type: a missing engine, a stopped command, kits told as JSON."""

import importlib.util
import json

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
