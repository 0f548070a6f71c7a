"""Numbers, titles and reasons in a table."""

import math

import pytest

from fedci.benchmark.pages import markdown


@pytest.mark.parametrize("value, text", [(1.604, "1.60"), (0.0421, "0.042"), (12.34, "12.3"), (123.4, "123"),
                                         (9.999, "10.0"), (-0.5, "−0.50"), (1234567.0, "1.2e+06"), (math.nan, "–")])
def test_numbers_have_about_three_digits(value, text):
    assert markdown.number(value) == text


@pytest.mark.parametrize("mean, se, text", [(1.6, 0.05, "1.60 ± 0.05"), (18.04, 0.4, "18.0 ± 0.4"),
                                            (11.9, 0.04, "11.90 ± 0.04"), (0.004, 1.2, "0.00 ± 1.20"),
                                            (2.0, math.nan, "2.00"), (math.nan, math.nan, "–")])
def test_mean_and_error_share_their_decimals(mean, se, text):
    assert markdown.plus_minus(mean, se) == text


@pytest.mark.parametrize("dataset, text", [
    ("data-1", "DATA-1"), ("ihdp", "IHDP, contiguous thirds"), ("data-1/std", "DATA-1, standard deviation 2"),
    ("data-2/per-replication/200-rows", "DATA-2, parameters drawn anew in each replication, 200 rows"), ("new", "new")])
def test_titles(dataset, text):
    assert markdown.title(dataset) == text


def test_a_reason_stays_in_its_cell_of_the_table():
    assert markdown.reason("a | b\nc") == "a \\| b c"
    assert len(markdown.reason("x" * 500)) == markdown.LONGEST_REASON
