"""The tables say what the rows say: numbers by hand, the right ones in bold, nothing that failed left out."""

from fedci.benchmark.pages import intervals, tables
from fedci.benchmark.pages.summary import summarise
from fedci.benchmark.run.cells import Cell
from support.figures import cells, failed, rows

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


def test_what_another_paper_printed_stands_above_what_was_measured():
    """Of expected effects (P2), each method in its main mode; its error of the ATE has no ±."""
    text = tables.other_paper_table(summarise(
        cells([1.0, 2.0], dataset="ihdp-missing", sources=2, ate_error=0.5)
        + cells([3.0, 5.0], "BART", "com", dataset="ihdp-missing", sources=2)
        + cells([9.0], "BART", "agg", dataset="ihdp-missing", sources=2)), "ihdp-missing")
    found = rows(text)
    assert list(found)[2:] == ["*CausalFI, fed*", "FedCI, fed", "BART, com"]
    assert found["*CausalFI, fed*"][:4] == ["*3.67 ± 1.7*", "*3.33 ± 1.4*", "*2.99 ± 1.2*", "*0.73*"]
    assert found["FedCI, fed"][:4] == ["**1.50 ± 0.50 (1.50)**", "–", "–", "**0.50 ± 0.00 (0.50)**"]
    assert "CausalFI (arXiv 2308.13047)" in text
    assert tables.other_paper_table(summarise(cells([1.0])), "data-1") == ""


def test_no_rows_no_table():
    summaries = summarise(cells([1.0], dataset="linear"))
    assert tables.paper_table(summaries, "data-1") == ""
    assert tables.protocol_table(summaries, "data-1", "P2") == ""
    assert intervals.interval_table(summaries, "linear") == ""
    assert intervals.cost_table(summaries, "linear") == ""
    assert intervals.null_table(summaries) == ""


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
        "3", "2.00 ± 0.00", "CEVAE", "3.00 ± 0.50", "2.00 ± 0.00", "0.67 ± 0.11", "+1.00 ± 0.50", "2 of 2", "2 of 2",
        "0.50 ± 0.00"]  # 2 − r·t = ±1/3: sd √2/3, over √2 · 3


def test_the_best_baseline_is_found_on_the_replications_it_has_in_common_with_fedci():
    """CEVAE has the least mean, 1.5, on the two replications that were easy, where FedCI has 1; BART is nearer."""
    summaries = summarise(cells([0.5, 1.5, 4.0, 6.0]) + cells([1.0, 2.0], "CEVAE", "com")
                          + cells([1.0, 1.5, 4.5, 6.2], "BART", "com"))
    assert rows(tables.headline(summaries))["DATA-1"] == [
        "3", "3.00 ± 1.24", "BART", "3.30 ± 1.24", "3.00 ± 1.24", "0.91 ± 0.05", "+0.30 ± 0.12", "3 of 4", "4 of 4",
        "–"]
    # squared deviations 18.5 and 18.38, of the differences 0.5, 0, 0.5, 0.2: 0.18; each over 3 · 4
    fewer = summarise(cells([0.5, 1.5, 4.0, 6.0]) + cells([1.0, 2.0], "CEVAE", "com"))
    assert rows(tables.headline(fewer))["DATA-1"] == [
        "3", "3.00 ± 1.24", "CEVAE", "1.50 ± 0.50", "1.00 ± 0.50", "0.67 ± 0.11", "+0.50 ± 0.00", "2 of 2", "2 of 4",
        "–"]


def test_a_baseline_without_a_common_replication_is_not_compared():
    other = [Cell(dataset="data-1", method="BART", mode="com", sources=3, replication=9, protocol="P2", pehe=0.1)]
    assert rows(tables.headline(summarise(cells([2.0]) + other)))["DATA-1"] == ["3", "2.00", *["–"] * 8]


# --- intervals, cost, false alarms, failures


def test_failures_have_a_table_of_their_own():
    summaries = summarise(cells([1.0]) + cells([1.0], protocol="P3") + failed(2) + failed(1, sources=5))
    assert rows(tables.failure_table(summaries))["DATA-1"] == [
        "BCF, com", "3: 2 of 2, 5: 1 of 1", "ValueError: a / b"]
    assert tables.failure_table(summarise(cells([1.0]))) == "None.\n"
