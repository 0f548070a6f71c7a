"""The unit of a party: its own command, its own folders, and no restart where a person has to act."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from fedci.errors import UsageError
from fedci.network import kit
from fedci.network.provision import COORDINATOR, new_by_files
from fedci.network.service import name_of, unit


def read(text):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(text)
    return parser


def test_a_sites_unit_runs_its_command_and_writes_to_its_own_folders(made, tmp_path):
    own = kit.read(made[0] / "kits" / "lyon")
    text = unit(own, ["site", "run", "--kit", str(own.folder), "--data", "/srv/a b.csv"], [tmp_path / "store"],
                tmp_path / "env", program="/opt/py")
    service = read(text)["Service"]
    assert service["ExecStart"].startswith(f"/opt/py -m fedci site run --kit {own.folder}")
    assert "'/srv/a b.csv'" in service["ExecStart"]
    assert service["ReadWritePaths"] == f"{own.folder} {tmp_path / 'store'}"
    assert service["EnvironmentFile"] == str(tmp_path / "env")
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "1 2 3 5")
    assert name_of(own) == "fedci-lyon.service"
    if tool := shutil.which("systemd-analyze"):
        place = tmp_path / name_of(own)
        place.write_text(unit(own, ["site", "run"], [tmp_path / "store"]))
        done = subprocess.run([tool, "verify", str(place)], capture_output=True, text=True, check=False)
        assert "Unknown" not in done.stderr


def test_percent_and_dollar_are_not_expanded_and_odd_paths_refused(made, tmp_path):
    own = kit.read(made[0] / "kits" / COORDINATOR)
    assert "50%%$$x" in unit(own, ["run", "50%$x"], [])
    with pytest.raises(UsageError, match="no path with quotes"):
        unit(own, [], [Path("/srv/it's")])
    assert name_of(own) == "fedci-coordinator.service"


def test_a_kit_by_files_has_no_service(study, tmp_path):
    made = new_by_files(study, ("lyon", "oslo", "turin"), tmp_path / "kits")
    with pytest.raises(UsageError, match="nothing to keep running"):
        unit(kit.read(made["lyon"]), [], [])
