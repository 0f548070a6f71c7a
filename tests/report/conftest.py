"""A result whose numbers were drawn, in a folder, and its report."""

import json

import pytest

from fedci.report import slots
from fedci.report.page import write_report
from support.reported import DIAGNOSTICS, hospital, plan
from tests_support import made_result


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("report") / "result"
    made_result(plan(), {"lyon": hospital(60, 0), "oslo": hospital(50, 1), "turin": hospital(40, 2)}).save(place)
    return place


@pytest.fixture(scope="session")
def page(folder):
    (folder / slots.FILE).write_text(json.dumps(DIAGNOSTICS), encoding="utf-8")
    return write_report(folder).read_text(encoding="utf-8")
