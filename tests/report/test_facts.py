"""The report's sentences follow from the result."""

import re

from fedci import Result
from fedci.report import aggregates, slots
from fedci.report.page import render
from fedci.report.svg import number
from support.reported import Names

SECTIONS = ["answer", "sources", "sites", "people", "balance", "overlap", "heterogeneity", "sensitivity", "refuters",
            "fit", "question", "studied", "left", "assumptions", "made", "target", "strobe"]


def test_the_answer_stands_first_in_the_results_own_numbers(folder, page):
    result = Result.load(folder)
    said = re.search(r'<p class="answer">(.*?)</p>', page, re.DOTALL).group(1)
    low, high = result.ate().interval()
    assert f"raises y by {number(result.ate().mean)}" in said
    assert f"{number(low)} to {number(high)}" in said
    assert Names(page).ids == SECTIONS
    assert page.index('class="answer"') < page.index("<svg")


def test_thresholds_stand_among_what_drives_the_effect(folder, page):
    from fedci.report.facts import Extra

    result = Result.load(folder)
    made = aggregates.aggregates(result, folder)
    assert made["thresholds"] == result.thresholds().to_dict("records")
    found = {"of": "effect", "covariate": "age", "place": 60.0, "place_low": 57.7, "place_high": 62.4, "change": 1.9,
             "change_low": 1.1, "change_high": 2.7, "probability": 0.93}
    for rows, said in (([found], "rises by 1.9 [1.1, 2.7] where age passes 60.0 [57.7, 62.4]"), ([], "seen to change")):
        assert said in render(result, Extra(slots.Slots(), made | {"thresholds": rows}, {}, {}))
    assert "change abruptly" not in render(result, Extra(slots.Slots(), made | {"thresholds": None}, {}, {}))


def test_every_section_without_its_data_says_so(folder):
    from fedci.report.facts import Extra

    result = Result.load(folder)
    bare = render(result, Extra(slots.Slots(), aggregates.aggregates(result, folder), {}, {}))
    assert Names(bare).ids == SECTIONS
    for what in ("balance of covariates", "overlap", "refutation tests", "calibration", "hidden confounder"):
        assert re.search(f"This result holds no [^.]*{what}", bare), what
    assert bare.count("<svg") == 3 + 1 + 4 + 1 + 1  # answer, sources, sites; spread; four covariates; noise; trace
