"""Documents as HTML and Word: the same words in both, nothing of a name taken for code, the same bytes again."""

import builtins
import io
from html.parser import HTMLParser

import pytest
from markupsafe import Markup

from fedci.errors import OutputError, UsageError
from fedci.report.documents import docx, format_of, html, write
from fedci.report.parts import Document, Figure, Grid, Section, Table
from support.reported import HOSTILE

NUMBERS = Table(["x", "y"], [["1", "2"]], "behind it")
DOCUMENT = Document(f"of {HOSTILE}", "A question?", "facts\x07", [
    Section("one", "First", ["A sentence.", Table(["a", HOSTILE], [["cell", "two\nlines"]], "A table")]),
    Section("two", "Second", [Figure(Markup("<svg></svg>"), "A plot", NUMBERS),
                              Grid([Figure(Markup("<svg></svg>"), "small", NUMBERS)])])])


class Words(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.said, self.tags = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.said.append(data)


def test_html_and_word_hold_the_same_words():
    word = pytest.importorskip("docx").Document(io.BytesIO(docx(DOCUMENT)))
    said = [p.text for p in word.paragraphs] + [c.text for t in word.tables for row in t.rows for c in row.cells]
    page = Words(html(DOCUMENT).decode())
    for text in ("A question?", "A sentence.", "A table", "cell", "two\nlines", "A plot", f"of {HOSTILE}"):
        assert text in said
        assert text in "".join(page.said)
    assert page.tags.isdisjoint({"script", "img"})
    assert said.count("behind it") == 2  # in place of each plot, its numbers


def test_the_same_document_has_the_same_bytes():
    pytest.importorskip("docx")
    assert docx(DOCUMENT) == docx(DOCUMENT)


def test_without_python_docx_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "docx":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'fedci\[report\]'"):
        docx(DOCUMENT)


def test_the_format_is_asked_for_or_the_ending_says_it(tmp_path):
    assert format_of(tmp_path / "plan.docx", None) == "docx"
    assert format_of(tmp_path / "plan", None) == "html"
    assert format_of(tmp_path / "plan.html", "docx") == "docx"
    with pytest.raises(UsageError, match="html or docx"):
        format_of(tmp_path / "plan.pdf", None)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        write(DOCUMENT, tmp_path / "nowhere" / "plan.html", "html")
    assert write(DOCUMENT, tmp_path / "plan.html", "html").read_bytes() == html(DOCUMENT)
