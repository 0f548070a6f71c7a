"""The report's sections: all of them, in one order, whatever the result holds."""

import re

from fedci import Result
from fedci.report import aggregates, slots
from fedci.report.facts import Extra
from fedci.report.page import render
from support.reported import Names

SECTIONS = ["answer", "sources", "sites", "people", "balance", "overlap", "heterogeneity", "sensitivity", "refuters",
            "fit", "question", "studied", "left", "assumptions", "made", "target", "strobe"]


def test_every_section_stands_in_its_place(page):
    assert Names(page).ids == SECTIONS


def test_every_section_without_its_data_says_so(folder):
    result = Result.load(folder)
    bare = render(result, Extra(slots.Slots(), aggregates.aggregates(result, folder), {}, {}))
    assert Names(bare).ids == SECTIONS
    for what in ("balance of covariates", "overlap", "refutation tests", "calibration", "hidden confounder"):
        assert re.search(f"This result holds no [^.]*{what}", bare), what
    assert bare.count("<svg") == 3 + 1 + 4 + 1 + 1  # answer, sources, sites; spread; four covariates; noise; trace
