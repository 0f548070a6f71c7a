"""A verdict: which way is worse, and the sentence it makes."""

from fedci.diagnostics.verdict import Verdict, graded
from support.diagnosed import record

# --- verdicts


def test_limits_say_which_way_is_worse():
    assert [graded(v, 0.1, 0.25) for v in (0.1, 0.2, 0.3, None)] == ["fine", "look", "problem", "unknown"]
    assert [graded(v, 0.2, 0.1) for v in (0.2, 0.15, 0.05)] == ["fine", "look", "problem"]


# --- the record


def test_words_and_numbers_stand_in_the_sentences():
    text = str(record())
    for title in ("Balance", "Fit", "Heterogeneity", "Sensitivity", "Refuters", "note: so it is"):
        assert title in text
    for verdict in record().verdicts:
        assert f"{verdict.verdict:<8} {verdict.name}: {verdict.words}" in text
    assert Verdict(name="a", value=None, threshold=1, verdict="unknown", words="b").value is None
