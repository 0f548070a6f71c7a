"""`make pictures`: the README's three pictures of the demonstration's report, taken by Debian's chromium.

    report-answer   the first page        report-curves   effects along covariates        report-phone   on a phone
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
DESK, PHONE = {"width": 860, "height": 1108}, {"width": 390, "height": 844}


def take(page: Page, address: str) -> None:
    page.set_viewport_size(DESK)
    page.goto(address)
    page.screenshot(path=HERE / "report-answer.png")
    page.locator("#people .small").first.screenshot(path=HERE / "report-curves.png")
    page.set_viewport_size(PHONE)
    page.locator("#sources").evaluate("part => part.scrollIntoView()")
    page.screenshot(path=HERE / "report-phone.png")


def main(report: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is missing: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        take(browser.new_page(), report.resolve().as_uri())
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
