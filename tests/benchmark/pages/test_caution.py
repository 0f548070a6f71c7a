"""When not to use FedCI, by hand."""

from fedci.benchmark.pages import caution
from fedci.benchmark.pages.standing import standings
from fedci.benchmark.pages.summary import summarise
from support.figures import cells


def told(rows):
    summaries = summarise(rows)
    return caution.section(summaries, standings(summaries, {}))


def test_what_holds_whatever_the_figures_say():
    text = told([])
    for words in ("Several events compete", "a dose", "`standard`", "not recorded"):
        assert words in text
    assert "brought together" not in text


def test_data_sets_on_which_a_peer_is_better_are_named_the_worst_first():
    text = told(cells([1.5, 1.5], ate_error=0.1) + cells([1.0, 1.0], "BART", "com", ate_error=0.2)
                + cells([2.0, 2.0], dataset="steps", ate_error=0.2)
                + cells([1.0, 1.0], "BCF", "com", dataset="steps", ate_error=0.1))
    assert ("as on Steps (BCF: FedCI has 2.00 times its error), DATA-1 (BART: FedCI has 1.50 times its error). A truth "
            "that is a deep tree") in text
    assert "some peer is better on 1 of 2 data sets" in text


def test_where_no_peer_is_better_that_is_said_and_trees_are_named_still():
    text = told(cells([1.0], ate_error=0.1) + cells([2.0], "BART", "com", ate_error=0.2))
    assert "no peer was better on any data set here" in text
    assert "deep tree" in text
    assert "Only the average" not in text


def test_intervals_that_are_too_narrow_and_rounds_are_reasons():
    text = told(cells([1.0], coverage=0.9, rounds=40.0) + cells([2.0], "BART", "com")
                + cells([1.0], coverage=0.95, rounds=61.0, dataset="linear")
                + cells([2.0], "BART", "com", dataset="linear"))
    assert "It holds too rarely on DATA-1 (0.90).\n" in text
    assert "A fit took 40 to 61 rounds here" in text
