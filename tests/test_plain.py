"""Words from others: printable, on one line, bounded."""

import pytest

from fedci.errors import SiteError
from fedci.plain import LONGEST, MOST, all_plain, plain, printable


@pytest.mark.parametrize("text, shown", [
    ("\x1b[31mred\x1b[0m", "red"), ("\x1b]0;a title\x07after", "after"), ("\x9b2Jgone", "gone"), ("a\x00b\x7fc", "abc"),
    ("\u202eabc\u202c", "abc"), ("zero\u200bwidth\ufeff", "zerowidth"), ("two\n\r\tlines\u2028here", "two lines here"),
    ("half \ud800", "half"), ("Größe 身長 ≥ 3 – fine", "Größe 身長 ≥ 3 – fine"), ("\x1bPq#0\x1b\\image", "image"),
    ("\x1b(0line", "line"), ("end\x1b", "end"), ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link")])
def test_only_what_a_screen_shows_is_left(text, shown):
    assert printable(text) == shown
    assert plain(text) == shown
    assert str(SiteError(text)) == shown


def test_length_and_number_are_bounded():
    assert plain("a" * LONGEST) == "a" * LONGEST
    assert plain("a" * (LONGEST + 1)) == "a" * (LONGEST - 2) + " …"
    assert plain(plain("a" * 10**6)) == plain("a" * 10**6)
    assert len(plain("\x00" * 10**6 + "b")) <= LONGEST
    assert all_plain(["a"] * MOST) == ["a"] * MOST
    assert all_plain(["a"] * (MOST + 7)) == ["a"] * MOST + ["and 7 more"]
