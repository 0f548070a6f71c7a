"""The report: what it says follows from the result; no name can inject; a real browser shows every plot, offline."""

import json
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from fedci import Result
from fedci.cli import commands
from fedci.effect import Effect
from fedci.errors import OutputError, UsageError
from fedci.report import aggregates, plots, slots
from fedci.report.page import _fewer, render, write_report
from fedci.report.svg import Plot, number, ticks
from tests_support import frame, made_result, study

HOSTILE = '<img src=x onerror=alert(1)>"\'`{{7*7}}'
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]
SECTIONS = ["answer", "sources", "sites", "people", "balance", "overlap", "heterogeneity", "sensitivity", "refuters",
            "fit", "left", "assumptions", "made"]
DIAGNOSTICS = {
    "balance": [{"covariate": name, "before": 0.4 - 0.1 * k, "after": 0.02 * k} for k, name in enumerate("abc")],
    "overlap": {"edges": [0.0, 0.25, 0.5, 0.75, 1.0], "treated": [1, 4, 9, 6], "control": [7, 8, 4, 1]},
    "heterogeneity": {"sites": [{"site": HOSTILE, "mean": 1.0, "low": 0.5, "high": 1.5}], "figures": {"I²": 0.2},
                      "leave_one_out": [{"site": "oslo", "mean": 1.1, "low": 0.5, "high": 1.6}]},
    "sensitivity": [{"name": "Hidden confounder", "x_label": "strength", "x": [0, 1, 2], "mean": [1.0, 0.5, 0.0],
                     "low": [0.5, 0.0, -0.5], "high": [1.5, 1.0, 0.5]}],
    "refuters": [{"name": "placebo treatment", "estimate": 0.01, "low": -0.2, "high": 0.2, "expected": "no effect",
                  "verdict": "fine"}],
    "calibration": [{"expected": 0.1, "observed": 0.12, "count": 40}, {"expected": 0.6, "observed": 0.58}],
}


OUTLIER = 73.71234
"""One person's bmi: so far out that no mean or grid comes near it."""


def hospital(rows, seed):
    made = frame(rows, seed).assign(stage=np.array(["I", "II", "III"])[np.arange(rows) % 3])
    made.loc[5, "bmi"] = OUTLIER
    return made


def plan(**changes):
    covariates = {"age": {"range": [0, 120]}, "bmi": {}, "sex": "binary",
                  "stage": {"type": "categorical", "levels": ["I", "II", "III"]}}
    return study(**({"covariates": covariates, "preset": "default", "name": "statins"} | changes))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("report") / "result"
    made_result(plan(), {"lyon": hospital(60, 0), "oslo": hospital(50, 1), "turin": hospital(40, 2)}).save(place)
    return place


@pytest.fixture(scope="module")
def page(folder):
    (folder / slots.FILE).write_text(json.dumps(DIAGNOSTICS), encoding="utf-8")
    return write_report(folder).read_text(encoding="utf-8")


class Names(HTMLParser):
    """Tags, ids and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.attributes, self.text = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id" and tag == "section"]

    def handle_data(self, data):
        self.text.append(data)


def test_the_answer_stands_first_in_the_results_own_numbers(folder, page):
    result = Result.load(folder)
    said = re.search(r'<p class="answer">(.*?)</p>', page, re.DOTALL).group(1)
    low, high = result.ate().interval()
    assert f"raises y by {number(result.ate().mean)}" in said
    assert f"{number(low)} to {number(high)}" in said
    assert Names(page).ids == SECTIONS
    assert page.index('class="answer"') < page.index("<svg")


def test_every_section_without_its_data_says_so(folder):
    from fedci.report.facts import Extra

    result = Result.load(folder)
    bare = render(result, Extra(slots.Slots(), aggregates.aggregates(result, folder), {}, {}))
    assert Names(bare).ids == SECTIONS
    for what in ("balance of covariates", "overlap", "refutation tests", "calibration", "hidden confounder"):
        assert re.search(f"This result holds no [^.]*{what}", bare), what
    assert bare.count("<svg") == 3 + 1 + 4 + 1 + 1  # answer, sources, sites; spread; four covariates; noise; trace


def test_no_name_can_inject(tmp_path):
    hostile = "<script>alert(1)</script>"
    renamed = {"age": hostile, "w": 'w"><b>', "y": "y'--<i>"}
    stage = {"type": "categorical", "levels": ["I", "II", "<b>"]}
    covariates = {hostile: {}, "bmi": {}, "sex": "binary", "stage": stage}  # as many as in `plan`: compiled once
    asked = plan(covariates=covariates, treatment=renamed["w"], outcome=renamed["y"], name=HOSTILE)
    tables = {name: hospital(48, k).rename(columns=renamed).replace("III", "<b>") for k, name in enumerate("abc")}
    made_result(asked, tables).save(tmp_path / "result")
    (tmp_path / "result" / slots.FILE).write_text(json.dumps(DIAGNOSTICS), encoding="utf-8")
    text = write_report(tmp_path / "result").read_text(encoding="utf-8")
    found = Names(text)
    assert found.tags.count("script") == 1  # our own
    assert not {"img", "b", "i"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert HOSTILE in " ".join(found.text)  # shown as what it is


def test_nothing_in_the_page_points_elsewhere(page):
    links = [value for name, value in Names(page).attributes if name in ("src", "href", "action", "xlink:href")]
    assert all(value.startswith(("#", "data:")) for value in links)
    assert not re.search(r"url\(|@import|https?://", page.replace("http-equiv", ""))


def test_no_persons_row_is_in_the_page_or_the_aggregates(folder, page):
    """Every value of a continuous column: none of them stands in the report; nor, in the few digits that a page shows,
    one that stands out."""
    text = page + (folder / aggregates.FILE).read_text()
    assert number(OUTLIER) not in " ".join(Names(page).text).split()
    for seed, rows in ((0, 60), (1, 50), (2, 40)):
        table = hospital(rows, seed)
        for value in pd.concat([table.age, table.bmi, table.y]):
            assert f"{value:.8g}" not in text


def test_effects_along_a_covariate_are_the_results_own(folder):
    result = Result.load(folder)
    made = aggregates.aggregates(result)
    pooled = aggregates.Pooled(result)
    age = next(one for one in made["curves"] if one["covariate"] == "age")
    x = np.tile(pooled.mean, (1, 1))
    x[0, 0] = age["at"][7]
    drawn = result.effects_at(x).means[:, 0]
    assert age["effect"][7] == pytest.approx(drawn.mean(), rel=1e-12)
    assert (age["low"][7], age["high"][7]) == pytest.approx(tuple(np.quantile(drawn, (0.025, 0.975))), rel=1e-12)
    stage = next(one for one in made["curves"] if one["covariate"] == "stage")
    assert stage["at"] == ["I", "II", "III"]
    assert sum(made["population"]["share"]) == pytest.approx(1.0)
    kept = json.loads((folder / aggregates.FILE).read_text())
    assert kept == json.loads(json.dumps(made))  # what was kept is what is made anew


def test_a_slot_of_the_wrong_shape_costs_only_itself():
    found = slots.slots_from(DIAGNOSTICS | {"balance": [{"covariate": "a"}], "overlap": {
        "edges": [0, 1], "treated": [1, 2], "control": [1]}})
    assert found.balance is None
    assert found.overlap is None
    assert set(found.problems) == {"balance", "overlap"}
    assert found.refuters[0].verdict == "fine"


def test_a_studys_own_record_of_diagnostics_fills_the_slots():
    """In the record's words; what a site withheld is null there."""
    verdict = {"name": "balance", "value": 0.1, "threshold": 0.1, "verdict": "look", "words": "Look at age."}
    ends = {"mean": 1.0, "low": 0.5, "high": 1.5}
    record = {
        "format": 1, "notes": ["the refuter subset could not be fitted"], "blinded": False,
        "balance": {"columns": [{"column": "age", "before": 0.3, "after": 0.05, "after_overlap": 0.0},
                                {"column": "sex", "before": None, "after": None, "after_overlap": None}],
                    "sites": [], "verdicts": [verdict]},
        "overlap": {"edges": [0.0, 0.5, 1.0], "histogram": {"treated": [None, 30], "untreated": [25, 12]},
                    "verdicts": []},
        "fit": {"calibration": [{"people": 20, "predicted": 1.0, "observed": 1.1, "low": 0.9, "high": 1.3}],
                "verdicts": [verdict]},
        "heterogeneity": {"sites": [{"site": "lyon", "people": 60, "own": ends, "se": 0.2, "model": ends, "weight": 1}],
                          "random": ends, "prediction": [0.1, 1.9], "q": 2.0, "p": 0.3, "i2": 0.1, "tau2": 0.0,
                          "tau2_reml": 0.04, "left_out": [{"site": "lyon", "estimate": ends}], "verdicts": []},
        "sensitivity": {"effect": 1.0, "low": 0.5, "high": 1.5, "bounds": [
            {"strength": 2.0, "low": 0.4, "high": 1.6, "interval_low": -0.1, "interval_high": 2.1,
             "cate_half": [0.2, 0.3]}],
            "verdicts": [verdict]},
        "refuters": [{"name": "placebo", "estimate": ends, "reference": 0.0, "z": 1.0, "ended": "converged",
                      "verdict": verdict},
                     {"name": "blinded", "estimate": None, "reference": None, "z": 0.0, "ended": "converged",
                      "verdict": verdict}],
    }
    found = slots.slots_from(record)
    assert found.problems == {}
    assert [(row.covariate, row.after) for row in found.balance] == [("age", 0.05)]
    assert found.overlap.treated == [None, 30.0]
    assert "hidden, treated people are few" in plots.overlap(found.overlap)
    assert [row.site for row in found.heterogeneity.sites] == ["lyon", "– by the model"]
    assert found.heterogeneity.figures["τ, sd between sites"] == pytest.approx(0.2)
    assert found.heterogeneity.leave_one_out[0].site == "without lyon"
    assert found.sensitivity[0].x == [1.0, 2.0]
    assert found.sensitivity[0].low == [0.5, -0.1]
    assert (found.sensitivity[1].low, found.sensitivity[1].high) == ([-0.3], [0.3])
    assert [(row.name, row.verdict) for row in found.refuters] == [("placebo", "look")]
    assert found.calibration[0].count == 20
    assert found.verdicts["balance"][0].words == "Look at age."
    assert found.notes == ["the refuter subset could not be fitted"]
    endless = record["balance"] | {"verdicts": [verdict | {"words": "site, " * 999}]}
    long = slots.slots_from(record | {"balance": endless})
    assert long.problems == {}  # a long verdict is cut, and costs no other
    damaged = slots.slots_from(record | {"overlap": {"edges": [0.0]}})
    assert set(damaged.problems) == {"overlap"}


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


@pytest.mark.parametrize("low, high", [(0.0, 1.0), (-3.2, 8.9), (1e-9, 2e-9), (1000, 1e6), (-1.0, -0.999)])
def test_ticks_are_round_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 11
    assert all(low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high) for value in found)


def test_marks_are_escaped():
    plot = Plot(HOSTILE, (0, 1), (0, 1), x_label=HOSTILE)
    plot.x_axis()
    plot.dot(0.5, 0.5, HOSTILE)
    plot.row_label(0.5, HOSTILE)
    assert "<img" not in plot.svg()


def test_the_command_writes_the_page(folder, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        commands.main(["report", str(folder), "--out", str(tmp_path / "page.html"), "--with", str(folder), "--json"])
    assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["report"].endswith("page.html")
    assert "3 sources (result)" in (tmp_path / "page.html").read_text()


def test_results_of_one_name_are_told_apart_and_must_ask_the_same(folder, tmp_path):
    for place in ("a", "b"):
        shutil.copytree(folder, tmp_path / place / "result")
    others = [tmp_path / place / "result" for place in ("a", "b")]
    text = write_report(folder, tmp_path / "page.html", others).read_text()
    assert text.count("3 sources (") >= 2
    assert all(f"3 sources ({other})" in text for other in others)
    asks_another = replace(Result.load(folder), study=plan(outcome="other"))
    with pytest.raises(UsageError, match="it asks for the effect of 'w' on 'y', this study for that of 'w' on 'other'"):
        _fewer(asks_another, others)


def test_a_study_with_noised_effects_has_a_report(tmp_path):
    noisy = {"name": "simulation", "epsilon": 2.0, "delta": 1e-5, "outcome_range": [-2.0, 12.0], "effect_bound": 5.0}
    asked = plan(policy=noisy, covariates={"age": {"range": [0, 120]}, "bmi": {"range": [5, 90]}, "sex": "binary",
                                           "stage": {"type": "categorical", "levels": ["I", "II", "III"]}})
    made_result(asked, {"lyon": hospital(60, 0), "oslo": hospital(50, 1)}).save(tmp_path / "result")
    text = write_report(tmp_path / "result").read_text()
    assert "Realised effects are not told under differential privacy" in text
    assert "(epsilon 2), noise was added at the sites to: effects, moments" in text
    assert "vary together is not told" in text


def test_averages_over_some_sites_are_not_shown_where_draws_were_not_told(folder):
    """Averages over the draws are not independent between sites: adding their variances would be too narrow."""
    result = Result.load(folder)
    assert "over the people of more and more sites" in render(result, bare_extra(result, folder))
    whole = result.outcome.effects.over_all.parts
    total = {name: sum(one[name] for one in whole) for name in whole[0]}
    masked = replace(result, outcome=replace(result.outcome, effects=replace(result.outcome.effects, total=total)))
    text = render(masked, bare_extra(masked, folder))
    assert "over the people of more and more sites" not in text
    assert "vary together is not told" in text
    assert masked.ate().sd == pytest.approx(result.ate().sd, rel=1e-12)


def bare_extra(result, folder, **slot):
    from fedci.report.facts import Extra

    return Extra(slots.Slots(**slot), aggregates.aggregates(result, folder), {}, {})


def test_what_could_not_be_made_is_noted(folder):
    result = Result.load(folder)
    text = render(result, bare_extra(result, folder, notes=["the refuter subset could not be fitted"],
                                     problems={"verdicts": "of another form"}))
    assert "Note: the refuter subset could not be fitted" in text
    assert "verdicts cannot be shown (of another form)" in text


def test_names_of_many_curves_stay_in_the_plot():
    effect = Effect(np.zeros(4), np.ones(4))
    svg = str(plots.densities({f"site {k}": effect for k in range(30)}, "effect", "many"))
    height = float(re.search(r'viewBox="0 0 [0-9.]+ ([0-9.]+)"', svg).group(1))
    places = [float(y) for y in re.findall(r'<text[^>]* y="([0-9.]+)"[^>]*>site \d+', svg)]
    assert len(places) == 30
    assert max(places) < height


def test_a_share_above_zero_tells_what_is_not_known():
    """Effects all alike and of unknown sign: everybody's or nobody's is above zero, not half of the people's."""
    drawn = np.repeat(np.array([0.3, -0.1, 0.2, -0.2])[:, None], 50, axis=1)
    assert aggregates._above_zero(drawn) == {"positive": 1.0, "positive_low": 0.0, "positive_high": 1.0}


# ── in a real browser ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Debian's chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=FLAGS, timeout=120_000)
        yield started
        started.close()


@pytest.mark.parametrize("width, height", [(1280, 900), (390, 844)])
def test_a_browser_shows_every_plot_offline(browser, folder, page, width, height):
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=width < 500)
    try:
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        said, asked, dialogs = [], [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda problem: said.append(str(problem)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        address = (folder / "report.html").as_uri()
        tab.goto(address)
        assert (said, dialogs) == ([], [])
        assert [url for url in asked if not url.startswith("data:")] == [address]
        boxes = tab.eval_on_selector_all("svg.plot", "all => all.map(e => [e.getBoundingClientRect().width, "
                                         "e.querySelectorAll('[data-tip]').length])")
        assert len(boxes) == 16  # ten of the result's own, six of the diagnostics
        assert all(0 < wide <= width and marks > 0 for wide, marks in boxes)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        mark = tab.locator("#sites .dot").first
        mark.scroll_into_view_if_needed()
        mark.hover()
        assert re.match(r"lyon: .*\d+ people", tab.locator("#tip").inner_text())
        tab.locator("#sites svg").focus()
        tab.keyboard.press("ArrowRight")
        assert tab.locator("#tip").is_visible()
        if shots := os.environ.get("FEDCI_SCREENSHOTS"):
            tab.screenshot(path=f"{shots}/report-{width}.png", full_page=True)
    finally:
        context.close()
