"""Coverage: exact binomial intervals, and the words beside the table."""

import math

import pytest

from fedci.benchmark.pages import coverage
from fedci.benchmark.pages.summary import summarise
from fedci.benchmark.run.cells import Cell
from support.figures import cells, failed, rows


def covered(shares, ate, dataset="data-1", sources=3):
    """A replication for each share of people; in the first `ate` the interval of the ATE holds."""
    return [Cell(dataset=dataset, method="FedCI", mode="fed", sources=sources, replication=r, protocol="P2",
                 pehe=1.0 + 2 * (r % 2), coverage=value, width=2.5,
                 ate_covered=float(r < ate)) for r, value in enumerate(shares)]


def line_starting(text, start):
    found = [line for line in text.splitlines() if line.startswith(start)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("successes, count, low, high", [
    (2, 2, math.sqrt(0.025), 1.0),  # p² = 0.025
    (0, 2, 0.0, 1 - math.sqrt(0.025)),
    (1, 2, 1 - math.sqrt(0.975), math.sqrt(0.975)),  # 1 − (1 − p)² = 0.025 and 1 − p² = 0.025
    (1, 1, 0.025, 1.0),
])
def test_exact_binomial_intervals(successes, count, low, high):
    assert coverage.binomial_interval(successes, count) == pytest.approx((low, high))


def test_the_ends_of_an_exact_binomial_interval_leave_a_fortieth_beyond():
    low, high = coverage.binomial_interval(93, 100)

    def upper(p):
        return sum(math.comb(100, k) * p**k * (1 - p) ** (100 - k) for k in range(93, 101))

    def lower(p):
        return sum(math.comb(100, k) * p**k * (1 - p) ** (100 - k) for k in range(94))

    assert (upper(low), lower(high)) == pytest.approx((0.025, 0.025))


def test_coverage_of_people_and_of_replications():
    text = coverage.coverage_table(summarise(covered([0.94, 0.96], 1) + covered([0.95], 1, sources=5)
                                             + cells([9.0], "BART", "com", coverage=0.5)
                                             + cells([9.0, 9.0], protocol="P3", coverage=0.5)))
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| DATA")]
    assert lines == [
        ["DATA-1", "3", "0.950 ± 0.010", "2.50", "0.50 [0.01, 0.99]", "2.00 ± 1.00", "2"],  # sd 0.02/√2, /√2
        ["DATA-1", "5", "0.950", "2.50", "1.00 [0.03, 1.00]", "1.00", "1"]]


def test_words_name_the_rows_whose_coverage_is_outside():
    found = (covered([0.92, 0.94], 2, sources=1) + covered([0.92, 0.93], 2) + covered([0.98, 0.97], 2, sources=5)
             + covered([0.97], 1, "data-2") + covered([0.5], 1, "linear"))
    line = line_starting(coverage.coverage_table(summarise(found)), "On DATA-1")
    assert line == ("On DATA-1 and DATA-2 the coverage of CATE lies outside 0.93-0.97 in 2 of 4 rows: "
                    "DATA-1 with 3 sources (0.925), DATA-1 with 5 sources (0.975).")
    inside = coverage.coverage_table(summarise(covered([0.93, 0.97], 2)))
    assert line_starting(inside, "On DATA-1").endswith("lies outside 0.93-0.97 in none of 1 rows.")
    assert "beyond the model's reach" not in inside


def test_words_say_whether_the_coverage_holds_beyond_the_models_reach():
    found = covered([0.88, 0.92], 2, "steps", 5) + covered([0.95], 1, "own-surfaces", 5)
    text = coverage.coverage_table(summarise(found))
    assert line_starting(text, "On data") == (
        "On data of a form beyond the model's reach the coverage of CATE is at least 0.90 on Steps with 5 sources "
        "(0.900), Own surfaces with 5 sources (0.950).")
    assert "DATA-1" not in text
    text = coverage.coverage_table(summarise(found + covered([0.89], 1, "interactions", 5)))
    assert line_starting(text, "On data").endswith("; below 0.90 on Interactions with 5 sources (0.890).")


def test_replications_that_failed_are_counted_beside_the_coverage():
    text = coverage.coverage_table(summarise(covered([0.95, 0.95], 2) + failed(1, "FedCI", "fed", start=2)))
    assert rows(text)["DATA-1"][-1] == "2 (1 failed)"
    assert "DATA-1 with 3 sources: ValueError: a \\| b" in text
    everywhere = coverage.coverage_table(summarise(failed(2, "FedCI", "fed")))
    assert rows(everywhere)["DATA-1"] == ["3", "–", "–", "–", "–", "0 (2 failed)"]


def test_no_rows_of_fedci_no_coverage():
    assert coverage.coverage_table({}) == ""
    assert coverage.coverage_table(summarise(cells([1.0], "BART", "com", coverage=0.9))) == ""
