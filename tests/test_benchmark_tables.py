"""The tables say what the rows say: numbers by hand, the right ones in bold, nothing that failed left out."""

import csv
import math

import pytest

from fedci.benchmark import tables
from fedci.benchmark.cells import Cell
from fedci.benchmark.summary import summarise


def cells(values, method="FedCI", mode="fed", *, dataset="data-1", sources=3, protocol="P2", **figures):
    return [Cell(dataset, method, mode, sources, replication, protocol, pehe=value, **figures)
            for replication, value in enumerate(values)]


def failed(count, method="BCF", mode="com", *, dataset="data-1", sources=3, start=0):
    return [Cell(dataset, method, mode, sources, start + k, "P2", failed="ValueError: a | b") for k in range(count)]


def rows(text):
    """{first cell: the others} of the lines of a table."""
    lines = [line.strip("| ").replace("\\|", "/").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in lines}


# --- words and numbers

@pytest.mark.parametrize("value, text", [(1.604, "1.60"), (0.0421, "0.042"), (12.34, "12.3"), (123.4, "123"),
                                         (9.999, "10.0"), (-0.5, "−0.50"), (1234567.0, "1.2e+06"), (math.nan, "–")])
def test_numbers_have_about_three_digits(value, text):
    assert tables.number(value) == text


@pytest.mark.parametrize("mean, se, text", [(1.6, 0.05, "1.60 ± 0.05"), (18.04, 0.4, "18.0 ± 0.4"),
                                            (11.9, 0.04, "11.90 ± 0.04"), (0.004, 1.2, "0.00 ± 1.20"),
                                            (2.0, math.nan, "2.00"), (math.nan, math.nan, "–")])
def test_mean_and_error_share_their_decimals(mean, se, text):
    assert tables.plus_minus(mean, se) == text


@pytest.mark.parametrize("dataset, text", [
    ("data-1", "DATA-1"), ("ihdp", "IHDP, contiguous thirds"), ("data-1/std", "DATA-1, standard deviation 2"),
    ("data-2/per-replication/200-rows", "DATA-2, parameters drawn anew in each replication, 200 rows"), ("new", "new")])
def test_titles(dataset, text):
    assert tables.title(dataset) == text


def test_a_reason_stays_in_its_cell_of_the_table():
    assert tables.reason("a | b\nc") == "a \\| b c"
    assert len(tables.reason("x" * 500)) == tables.LONGEST_REASON


# --- the paper's layout

def test_paper_layout_has_fedci_under_p1_baselines_under_p3_and_the_published_figures():
    found = rows(tables.paper_table(summarise(
        cells([2.0, 4.0], protocol="P1") + cells([99.0], protocol="P2")
        + cells([5.0, 7.0], "BART", "com", protocol="P3", ate_error=0.5)), "data-1"))
    assert list(found)[2:7] == ["BART, loc", "X-Learner, loc", "R-Learner, loc", "OrthoRF, loc", "CEVAE, loc"]
    assert list(found)[-2:] == ["FedCI (paper), fed", "FedCI, fed"]
    assert len(found) == 2 + 17  # header and rule
    assert found["FedCI, fed"][1] == "**3.00 ± 1.00**<br>*2.35 ± 0.09*"
    assert found["BART, com"][1] == "**6.00 ± 1.00**<br>*5.97 ± 0.06*"
    assert found["BART, com"][4] == "**0.50 ± 0.00**<br>*0.56 ± 0.16*"
    assert found["X-Learner, com"][0] == "–<br>*5.48 ± 0.15*"


def test_paper_layout_bolds_the_three_best_and_names_repeated_fits():
    means = {"BART": 5.0, "X-Learner": 4.0, "R-Learner": 3.0, "CEVAE": 2.0}
    rows_in = [row for method, mean in means.items() for mode in ("com", "loc")
               for row in cells([mean, mean], method, mode, sources=1, protocol="P3")]
    found = rows(tables.paper_table(summarise(rows_in), "data-1"))
    assert [method for method in means if found[f"{method}, com"][0].startswith("**")] == [
        "X-Learner", "R-Learner", "CEVAE"]
    assert found["BART, loc"][0] == "= com"


def test_paper_layout_of_a_baseline_that_failed():
    found = rows(tables.paper_table(summarise(cells([1.0], protocol="P1") + failed(2, "BART")
                                              + cells([1.0], "CEVAE", "com", protocol="P3")), "data-1"))
    assert found["BART, com"][0] == "failed every time (2 of 2): ValueError: a / b"


def test_no_rows_no_table():
    summaries = summarise(cells([1.0], dataset="linear"))
    assert tables.paper_table(summaries, "data-1") == ""
    assert tables.protocol_table(summaries, "data-1", "P2") == ""
    assert tables.interval_table(summaries, "linear") == ""
    assert tables.cost_table(summaries, "linear") == ""
    assert tables.null_table(summaries) == ""


# --- one protocol

def test_protocol_table_has_mean_error_median_and_bold_for_the_best_but_the_limit():
    text = tables.protocol_table(summarise(cells([1.0, 2.0, 6.0]) + cells([2.0, 2.5, 3.0], "BART", "com")
                                           + cells([0.5, 0.5, 0.5], "oracle", "com")), "data-1", "P2")
    found = rows(text)
    assert found["FedCI, fed"][0] == "3.00 ± 1.53 (2.00)"
    assert found["BART, com"][0] == "**2.50 ± 0.29 (2.50)**"
    assert list(found)[-1] == "parametric limit"
    assert found["parametric limit"][0] == "0.50 ± 0.00 (0.50)"
    assert "over 3 replications" in text


def test_an_unusual_number_of_replications_is_shown():
    found = rows(tables.protocol_table(summarise(cells([1.0, 2.0, 6.0]) + cells([2.0, 3.0, 4.0], "BART", "com")
                                                 + cells([5.0], "CEVAE", "com")), "data-1", "P2"))
    assert found["CEVAE, com"][0] == "5.00 (5.00) [1]"
    assert "[" not in found["BART, com"][0]


def test_failures_are_a_row_or_a_footnote():
    text = tables.protocol_table(summarise(
        cells([1.0, 2.0]) + failed(2) + cells([3.0], "BART", "com") + failed(1, "BART", start=1)
        + cells([3.0, 3.0], "CEVAE", "com", sources=1) + failed(2, "CEVAE")), "data-1", "P2")
    found = rows(text)
    assert found["BCF, com"][0] == "failed every time (2 of 2): ValueError: a / b"
    assert found["BART, com"][1] == "3.00 (3.00) [1]¹"
    assert found["CEVAE, com"][1] == "failed²"
    assert "¹ BART, com, 3 sources: failed in 1 of 2 replications: ValueError: a \\| b" in text
    assert "² CEVAE, com, 3 sources: failed in all 2 replications: ValueError: a \\| b" in text


# --- differences to FedCI

def test_paired_table_and_where_fedci_does_not_win():
    summaries = summarise(cells([1.0, 2.0, 3.0]) + cells([1.5, 4.0, 2.5], "BART", "com")
                          + cells([0.9, 1.8, 3.0], "ridge T-learner", "com") + cells([0.1] * 3, "oracle", "com")
                          + cells([9.0] * 3, "CEVAE", "loc"))
    found = rows(tables.paired_table(summaries, "data-1"))
    assert found["BART, com"][0] == "+0.67 ± 0.73 (2 of 3)"
    assert found["ridge T-learner, com"][0] == "−0.10 ± 0.06 (0 of 3)"
    assert "parametric limit" in found
    assert "CEVAE, loc" not in found
    text = tables.shortfalls(summaries, "data-1")
    assert "does not beat the baseline in 1 of 2 comparisons" in text
    assert ("√PEHE, 3 sources: ridge T-learner 1.90, FedCI 2.00, worse by 0.10 ± 0.06 "
            "(better in 0 of 3 replications).") in text
    assert "less than two standard errors. √PEHE, 3 sources: BART (+0.67 ± 0.73)." in text
    assert "parametric limit" not in text


def test_nothing_lost_is_said_too():
    summaries = summarise(cells([1.0, 1.0]) + cells([2.0, 2.1], "BART", "com"))
    assert tables.shortfalls(summaries, "data-1") == (
        "- **DATA-1**: none; FedCI has the lower mean error in 1 of 1 comparisons.\n")
    assert "nothing to compare" in tables.shortfalls(summarise(cells([1.0])), "data-1")


def test_headline_names_the_best_baseline_on_combined_rows():
    summaries = summarise(cells([2.0, 2.0]) + cells([3.0, 4.0], "BART", "com") + cells([2.5, 3.5], "CEVAE", "com")
                          + cells([0.1, 0.1], "CEVAE", "agg") + cells([0.5, 0.5], "oracle", "com"))
    assert rows(tables.headline(summaries))["DATA-1"] == [
        "3", "2.00 ± 0.00", "CEVAE", "3.00 ± 0.50", "+1.00 ± 0.50", "2 of 2", "0.50 ± 0.00"]


# --- intervals, cost, false alarms, failures

def test_intervals_are_listed_by_number_of_sources():
    figures = {"coverage": 0.9, "width": 2.5, "ate_covered": 1.0, "ate_width": 0.25}
    summaries = summarise(cells([1.0, 1.0], sources=1, **figures) + cells([1.0], **figures)
                          + cells([1.0], "X-Learner", "com") + cells([1.0], protocol="P1", coverage=0.8, width=4.0))
    found = rows(tables.interval_table(summaries, "data-1"))
    assert found["FedCI, fed"] == ["0.90 / 0.90", "2.50 / 2.50", "1.00 / 1.00", "0.25 / 0.25", "2 / 1"]
    assert "X-Learner, com" not in found
    assert rows(tables.realised_interval_table(summaries, "data-1"))["FedCI, fed"] == ["0.80", "4.00", "–", "–", "1"]


def test_cost_has_bytes_for_federated_fits_alone():
    figures = {"seconds": 1.5, "rounds": 100.0, "bytes": 300_000.0}
    found = rows(tables.cost_table(summarise(cells([1.0], **figures) + cells([1.0], mode="com", **figures)
                                             + cells([1.0], "BART", "com", seconds=20.0)), "data-1"))
    assert found["FedCI, fed"] == ["1.50", "100", "300"]
    assert found["FedCI, com"] == ["1.50", "100", "–"]
    assert found["BART, com"] == ["20.0", "–", "–"]


def test_rejection_rates_beside_the_nominal_one():
    def alarms(method, count, of, mode="com"):
        return [Cell("null", method, mode, 3, k, "P2", pehe=1.0, coverage=0.75, ate_rejects=float(k < count))
                for k in range(of)]

    text = tables.null_table(summarise(alarms("FedCI", 1, 25, "fed") + alarms("BART", 5, 25)
                                       + alarms("CausalForestDML", 0, 25) + alarms("CEVAE", 1, 3)))
    found = rows(text)
    assert found["FedCI, fed"] == ["0.04 ± 0.04", "0.05", "0.25", "25"]  # √(0.04 · 0.96 / 25) = 0.039
    assert found["BART, com"][0] == "**0.20 ± 0.08**"  # P(X ≥ 5 of 25) = 0.007
    assert found["CEVAE, com"][0] == "0.33 ± 0.27"  # P(X ≥ 1 of 3) = 0.14
    assert found["CausalForestDML, com¹"][0] == "0.00 ± 0.00"
    assert "¹ econml's interval of the ATE is an upper bound" in text


def test_failures_have_a_table_of_their_own():
    summaries = summarise(cells([1.0]) + cells([1.0], protocol="P3") + failed(2) + failed(1, sources=5))
    assert rows(tables.failure_table(summaries))["DATA-1"] == [
        "BCF, com", "3: 2 of 2, 5: 1 of 1", "ValueError: a / b"]
    assert tables.failure_table(summarise(cells([1.0]))) == "None.\n"


# --- CSV

def test_csv_holds_the_same_figures(tmp_path):
    summaries = summarise(cells([1.0, 3.0]) + cells([2.0, 6.0], "BART", "com")
                          + cells([2.0, 6.0], "BART", "com", protocol="P3") + failed(1))
    tables.write_csv(tmp_path / "summary.csv", summaries)
    lines = list(csv.DictReader((tmp_path / "summary.csv").read_text().splitlines()))
    found = {(line["method"], line["protocol"]): line for line in lines}
    assert len(lines) == len(found) == len(summaries)
    bart = found["BART", "P2"]
    assert [bart[name] for name in ("pehe", "pehe_se", "pehe_median", "pehe_minus_fedci", "pehe_minus_fedci_se",
                                    "pehe_fedci_wins", "pehe_common_replications", "replications")] == [
        "4", "2", "4", "2", "1", "2", "2", "2"]
    assert (bart["coverage"], bart["pehe_published"]) == ("", "")
    assert found["BART", "P3"]["pehe_published"] == "5.97"
    assert (found["BCF", "P2"]["failures"], found["BCF", "P2"]["reason"]) == ("1", "ValueError: a | b")
