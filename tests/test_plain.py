"""Words from others: printable, on one line, bounded."""

import pickle

import numpy as np
import pytest

from fedci import FedCI, Query, Rates, Risks, Survival, UsageError, compare, release
from fedci.errors import SiteError
from fedci.plain import LONGEST, MOST, all_plain, plain, printable
from tests_support import fit, frame, hospitals, study


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


CURVES = Survival(np.array([90.0, 180.0]), np.full((4, 2), 0.8), np.full((4, 2), 0.9))


@pytest.mark.parametrize(("one", "words"), [
    (Rates(np.full(4, 1.5), np.full(4, 1.25)), "Rates: untreated 1.5, treated 1.25; difference -0.25 ("),
    (Risks(np.full(4, 0.2), np.full(4, 0.3)), "Risks: untreated 0.2, treated 0.3; difference 0.1 ("),
    (Rates(np.ones((4, 3)), np.ones((4, 3))), "Rates of 3 people"),
    (CURVES, "Survival at 2 times up to 180: at the last untreated 0.8, treated 0.9; difference 0.1 ("),
    (CURVES.rmst(), "Mean times: untreated "),
    (Query("SELECT 1\n" * 99, "lyon", "query a.sql"), "Query of site 'lyon': query a.sql, 99 lines")])
def test_what_is_compared_says_what_it_is(one, words):
    assert words in repr(one)


def test_what_people_look_at_is_within_a_screen_and_shows_no_row():
    """Every public object that somebody may leave at the end of a cell."""
    sources = hospitals(40, 37)
    sources[0].data.loc[3, "bmi"] = 26.123456789
    result = fit(sources, diagnostics={"enabled": True})
    people = result.effect_posterior(sources[0].data)
    table = sources[0].read(result.study)
    frozen = [sources[0], table, result.study, result, result.ate(), people, result.diagnostics, FedCI(result.study),
              release(result.study, table), compare(result, result),
              *(kind(np.full(4, 0.2), np.full(4, 0.3)) for kind in (Risks, Rates)), CURVES, CURVES.rmst(),
              Risks(np.zeros((4, 3)), np.ones((4, 3))), Survival(CURVES.times, np.ones((4, 3, 2)), np.ones((4, 3, 2)))]
    assert [type(one).__name__ for one in frozen if "array(" in repr(one)] == []
    for one in frozen:
        text = repr(one)
        assert len(text.splitlines()) <= 24, text
        assert max(map(len, text.splitlines())) <= 400, text
        assert "26.1234" not in text
        assert one._repr_html_().startswith("<pre>")


def test_a_pickle_of_a_result_is_small_and_says_the_same():
    sources = hospitals(40, 37)
    result = fit(sources)
    result.effect(sources[0].data, site="site-0")
    packed = pickle.dumps(result)
    assert len(packed) < 3_000_000
    np.testing.assert_array_equal(pickle.loads(packed).ate().means, result.ate().means)


@pytest.mark.parametrize(("habit", "words"), [
    (lambda fedci, table: fedci.fit(table), "site="), (lambda fedci, table: fedci.fit({"a": table}), "got a dict"),
    (lambda fedci, table: fedci.fit("a.csv"), "got str"), (lambda fedci, table: fedci.fit([table]), "DataFrame among"),
    (lambda fedci, table: fedci.fit(table, table["y"]), "fit takes no y")])
def test_habits_of_other_packages_are_told_what_to_pass(habit, words):
    with pytest.raises(UsageError, match=words):
        habit(FedCI(study()), frame(40, 1))


def test_names_of_other_packages_are_told_what_to_ask():
    with pytest.raises(AttributeError, match=r"result.effect\(X\)"):
        FedCI(study()).predict  # noqa: B018
    assert not hasattr(FedCI(study()), "anything")
