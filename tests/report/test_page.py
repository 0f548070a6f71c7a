"""The report: what it says follows from the result; no name can inject; a real browser shows every plot, offline."""

import json
import os
import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from fedci import Result
from fedci.cli import commands
from fedci.errors import UsageError
from fedci.report import aggregates, slots
from fedci.report.page import _fewer, write_report
from fedci.report.svg import number
from support.reported import DIAGNOSTICS, HOSTILE, OUTLIER, Names, hospital, plan
from support.worded import OfPage, of_page, whole_text_is_the_same
from tests_support import made_result

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]


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


def test_the_command_writes_the_page(folder, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        commands.main(["report", str(folder), "--out", str(tmp_path / "page.html"), "--with", str(folder), "--json"])
    assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["report"].endswith("page.html")
    assert "3 sources (result)" in (tmp_path / "page.html").read_text()


def test_word_and_tables_hold_the_numbers_of_the_page(folder, page, tmp_path):
    word = pytest.importorskip("docx")
    made = write_report(folder, tmp_path / "report.docx", form="docx", tables=tmp_path / "numbers")
    opened = word.Document(str(made))
    said = "\n".join([p.text for p in opened.paragraphs] +
                     [cell.text for table in opened.tables for row in table.rows for cell in row.cells])
    shown = " ".join(Names(page).text)
    result = Result.load(folder)
    for text in (number(result.ate().mean), result.study.hash(), "Table 1" if result.diagnostics else "table 1"):
        assert text in said
        assert text in shown
    effects = pd.read_csv(tmp_path / "numbers" / "sites-1.csv", dtype=str)
    assert number(result.ate().mean) in effects["effect"].tolist()
    assert len(list((tmp_path / "numbers").glob("*.csv"))) > 15


def test_word_holds_every_sentence_and_number_of_the_page(folder, page, tmp_path):
    made = whole_text_is_the_same(folder, tmp_path)
    assert len(of_page(made)) > 800
    found = OfPage(made)
    assert found.plots == made.count("The numbers behind this plot") == 16
    numbers = {word.strip(".,:;()%") for text in of_page(made) for word in text.split()}
    points = [tip for tip in found.tips if "people" in tip]  # of a site or a group; a curve's points are read off it
    assert points
    for tip in points:
        assert {word.strip(".,:;()%") for word in tip.split() if word[:1].isdigit()} <= numbers, tip


def test_word_holds_every_sentence_where_names_are_hostile_and_there_are_no_diagnostics(tmp_path):
    asked = plan(name=HOSTILE, outcome={"name": "y", "label": HOSTILE})
    made_result(asked, {"lyon": hospital(60, 0), "oslo": hospital(50, 1)}).save(tmp_path / "result")
    whole_text_is_the_same(tmp_path / "result", tmp_path)


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
        glance = tab.locator("#answer table").first.bounding_box()
        assert glance["y"] + glance["height"] <= height  # the four questions are answered on the first screen
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
