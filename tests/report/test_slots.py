"""Slots for diagnostics: of the wrong shape, of another run, damaged."""

import json
import shutil

import pytest

from fedci.errors import OutputError
from fedci.report import slots
from fedci.report.page import write_report
from support.reported import DIAGNOSTICS


def test_a_slot_of_the_wrong_shape_costs_only_itself():
    found = slots.slots_from(DIAGNOSTICS | {"balance": [{"covariate": "a"}], "overlap": {
        "edges": [0, 1], "treated": [1, 2], "control": [1]}})
    assert found.balance is None
    assert found.overlap is None
    assert set(found.problems) == {"balance", "overlap"}
    assert found.refuters[0].verdict == "fine"


def test_diagnostics_of_another_run_are_not_shown(tmp_path):
    (tmp_path / slots.FILE).write_text(json.dumps(DIAGNOSTICS | {"run": "another"}))
    found = slots.read_slots(tmp_path, "this one")
    assert found.balance is None
    assert "another run" in found.problems["balance"]
    (tmp_path / slots.FILE).write_text(json.dumps(DIAGNOSTICS | {"run": "this one"}))
    assert slots.read_slots(tmp_path, "this one").balance is not None


def test_damaged_diagnostics_are_told(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "r")
    (tmp_path / "r" / slots.FILE).write_text("{")
    with pytest.raises(OutputError, match="not JSON"):
        write_report(tmp_path / "r")
