"""The unit of a party: its own command, its own folders, and no restart where a person has to act."""

import configparser
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from fedci.errors import UsageError
from fedci.network import kit
from fedci.network.provision import COORDINATOR, new_by_files
from fedci.network.service import name_of, unit
from fedci.site.store import exists
from support.commanded import told


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
    assert service["Environment"] == f"XDG_CACHE_HOME={own.run / 'cache'}"
    if tool := shutil.which("systemd-analyze"):
        place = tmp_path / name_of(own)
        place.write_text(unit(own, ["site", "run"], [tmp_path / "store"]))
        done = subprocess.run([tool, "verify", str(place)], capture_output=True, text=True, check=False)
        assert "Unknown" not in done.stderr


def test_the_command_makes_the_folders_that_systemd_asks_for(made, tmp_path, capsys):
    """A unit that may write to what is not there is not started; a site's store is there after its first run."""
    store, result = tmp_path / "kept" / "store", tmp_path / "study" / "result"
    data = made[0] / "lyon" / "cohort.csv"
    assert told(capsys, "site", "service", "--kit", made[0] / "kits" / "lyon", "--data", data, "--store", store)[0] == 0
    assert told(capsys, "coordinator", "service", "--kit", made[0] / "kits" / COORDINATOR, "--result", result)[0] == 0
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert not exists(store)  # a folder is no store: the first run still begins one
    assert result.parent.is_dir()
    (tmp_path / "file").write_text("")
    code, _, said = told(capsys, "site", "service", "--kit", made[0] / "kits" / "lyon", "--data", data, "--store",
                         tmp_path / "file" / "store")
    assert (code, "cannot be made" in said) == (2, True)


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
