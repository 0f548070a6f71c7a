"""All that a report says, block by block, as a browser shows it and as Word does."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from fedci import Result
from fedci.report.page import write_report

BLOCKS = {"p", "h1", "h2", "caption", "figcaption", "th", "td"}
ASIDE = {"head", "nav", "svg", "footer", "script", "style", "summary"}
"""What has no place on paper: contents that are links, plots (their captions and numbers stand outside of them), the
button before the numbers."""


class OfPage(HTMLParser):
    """`blocks`: paragraphs, headings, captions and cells in their order; `tips`: what marks of plots tell."""

    def __init__(self, page: str):
        super().__init__()
        self.blocks, self.tips, self.plots, self.aside, self.open = [], [], 0, 0, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tips += [value for name, value in attributes if name == "data-tip"]
        self.plots += tag == "svg"
        if tag in ASIDE:
            self.aside += 1
        elif tag in BLOCKS and not self.aside:
            self.open = ""

    def handle_endtag(self, tag):
        if tag in ASIDE:
            self.aside -= 1
        elif tag in BLOCKS and self.open is not None:
            self.blocks.append(self.open)
            self.open = None

    def handle_data(self, data):
        if self.open is not None and not self.aside:
            self.open += data


def of_page(page: str) -> list[str]:
    return plainly(OfPage(page).blocks)


def of_word(opened) -> list[str]:
    """Of a document that python-docx has opened: paragraphs and cells as they follow each other on paper."""
    from docx.table import Table
    from docx.text.paragraph import Paragraph

    found = []
    for part in opened.element.body.iterchildren():
        if part.tag.endswith("}p"):
            found.append(Paragraph(part, opened).text)
        elif part.tag.endswith("}tbl"):
            found += [cell.text for row in Table(part, opened).rows for cell in row.cells]
    return plainly(found)


def plainly(blocks: list[str]) -> list[str]:
    """Without what only lays out: line ends, spaces, empty blocks."""
    return [text for block in blocks if (text := re.sub(r"\s+", " ", block).strip())]


def whole_text_is_the_same(folder, out):
    """Every sentence, head, cell and caption of the page stands in Word, in that order and with nothing between; Word
    has the study's hash besides, and no plot without its numbers."""
    word = pytest.importorskip("docx")
    page = write_report(folder, out / "page.html").read_text(encoding="utf-8")
    shown = of_page(page)
    said = of_word(word.Document(str(write_report(folder, out / "report.docx", form="docx"))))
    assert said[:2] == shown[:2]
    assert said[2].startswith(f"{shown[2]} Study hash {Result.load(folder).study.hash()}; made ")
    assert said[3:-1] == shown[3:]
    assert said[-1].startswith("Made by fedci")
    return page
