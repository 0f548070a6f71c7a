"""The tables say what the rows say: numbers by hand, the right ones in bold, nothing that failed left out."""

import csv
import math

import pytest

from fedci.benchmark.pages import ablation, coverage, intervals, markdown, sheet, tables
from fedci.benchmark.pages.summary import summarise
from fedci.benchmark.run.cells import Cell
from fedci.benchmark.run.methods import ABLATIONS


def cells(values, method="FedCI", mode="fed", *, dataset="data-1", sources=3, protocol="P2", **figures):
    return [Cell(dataset=dataset, method=method, mode=mode, sources=sources, replication=replication, protocol=protocol,
                 pehe=value, **figures)
            for replication, value in enumerate(values)]


def failed(count, method="BCF", mode="com", *, dataset="data-1", sources=3, start=0):
    return [Cell(dataset=dataset, method=method, mode=mode, sources=sources, replication=start + k, protocol="P2",
                 failed="ValueError: a | b") for k in range(count)]


def rows(text):
    """{first cell: the others} of the lines of a table."""
    lines = [line.strip("| ").replace("\\|", "/").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in lines}


# --- words and numbers

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
        "3", "2.00 ± 0.00", "CEVAE", "3.00 ± 0.50", "2.00 ± 0.00", "+1.00 ± 0.50", "2 of 2", "2 of 2", "0.50 ± 0.00"]


def test_the_best_baseline_is_found_on_the_replications_it_has_in_common_with_fedci():
    """CEVAE has the least mean, 1.5, on the two replications that were easy, where FedCI has 1; BART is nearer."""
    summaries = summarise(cells([0.5, 1.5, 4.0, 6.0]) + cells([1.0, 2.0], "CEVAE", "com")
                          + cells([1.0, 1.5, 4.5, 6.2], "BART", "com"))
    assert rows(tables.headline(summaries))["DATA-1"] == [
        "3", "3.00 ± 1.24", "BART", "3.30 ± 1.24", "3.00 ± 1.24", "+0.30 ± 0.12", "3 of 4", "4 of 4", "–"]
    # squared deviations 18.5 and 18.38, of the differences 0.5, 0, 0.5, 0.2: 0.18; each over 3 · 4
    fewer = summarise(cells([0.5, 1.5, 4.0, 6.0]) + cells([1.0, 2.0], "CEVAE", "com"))
    assert rows(tables.headline(fewer))["DATA-1"] == [
        "3", "3.00 ± 1.24", "CEVAE", "1.50 ± 0.50", "1.00 ± 0.50", "+0.50 ± 0.00", "2 of 2", "2 of 4", "–"]


def test_a_baseline_without_a_common_replication_is_not_compared():
    other = [Cell(dataset="data-1", method="BART", mode="com", sources=3, replication=9, protocol="P2", pehe=0.1)]
    assert rows(tables.headline(summarise(cells([2.0]) + other)))["DATA-1"] == ["3", "2.00", *["–"] * 7]


# --- intervals, cost, false alarms, failures

def test_intervals_are_listed_by_number_of_sources():
    figures = {"coverage": 0.9, "width": 2.5, "ate_covered": 1.0, "ate_width": 0.25}
    summaries = summarise(cells([1.0, 1.0], sources=1, **figures) + cells([1.0], **figures)
                          + cells([1.0], "X-Learner", "com") + cells([1.0], protocol="P1", coverage=0.8, width=4.0))
    found = rows(intervals.interval_table(summaries, "data-1"))
    assert found["FedCI, fed"] == ["0.90 / 0.90", "2.50 / 2.50", "1.00 / 1.00", "0.25 / 0.25", "2 / 1"]
    assert "X-Learner, com" not in found
    assert rows(intervals.realised_interval_table(summaries, "data-1"))["FedCI, fed"] == ["0.80", "4.00", "–", "–", "1"]


def test_cost_has_bytes_for_federated_fits_alone():
    figures = {"seconds": 1.5, "rounds": 100.0, "bytes": 300_000.0}
    found = rows(intervals.cost_table(summarise(cells([1.0], **figures) + cells([1.0], mode="com", **figures)
                                             + cells([1.0], "BART", "com", seconds=20.0)), "data-1"))
    assert found["FedCI, fed"] == ["1.50", "100", "300"]
    assert found["FedCI, com"] == ["1.50", "100", "–"]
    assert found["BART, com"] == ["20.0", "–", "–"]


def test_rejection_rates_beside_the_nominal_one():
    def alarms(method, count, of, mode="com"):
        return [Cell(dataset="null", method=method, mode=mode, sources=3, replication=k, protocol="P2", pehe=1.0,
                     coverage=0.75, ate_rejects=float(k < count))
                for k in range(of)]

    text = intervals.null_table(summarise(alarms("FedCI", 1, 25, "fed") + alarms("BART", 5, 25)
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
    sheet.write(tmp_path / "summary.csv", summaries)
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


# --- coverage over many replications

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


# --- what each ingredient brings

LINEAR, ONE, POINT = "FedCI, linear", "FedCI, one direction", "FedCI, point estimates"


def test_variants_follow_fedci_in_their_own_order_with_their_differences():
    text = ablation.ingredient_table(summarise(
        cells([1.0, 2.0, 3.0]) + cells([1.5, 2.0, 2.8], POINT) + cells([3.0, 5.0, 4.0], LINEAR)
        + cells([1.0, 1.0, 1.0], dataset="data-2", sources=1)
        + cells([2.0, 2.0, 5.0], LINEAR, dataset="data-2", sources=1) + cells([0.0], "BART", "com")))
    header = text.splitlines()[2]
    assert header == "|  | DATA-1, 3 sources | DATA-2, 1 source |"
    found = rows(text)
    assert [name for name in found if name.startswith("FedCI")] == ["FedCI", LINEAR, POINT]
    assert found["FedCI"] == ["2.00 ± 0.58", "1.00 ± 0.00"]
    assert found[LINEAR] == ["4.00 ± 0.58<br>*+2.00 ± 0.58*",  # 2, 3, 1
                             "3.00 ± 1.00<br>*+2.00 ± 1.00*"]  # 1, 1, 4
    assert found[POINT] == ["2.10 ± 0.38<br>*+0.10 ± 0.21*", "–"]  # 0.5, 0, −0.2: sd √0.13
    assert "over 3 replications" in text


def test_differences_of_variants_are_over_common_replications():
    found = rows(ablation.ingredient_table(summarise(
        cells([1.0, 2.0, 3.0]) + cells([1.5, 2.5, 3.5], ONE) + cells([2.0, 4.0], LINEAR))))
    assert found[LINEAR] == ["3.00 ± 1.00 [2]<br>*+1.50 ± 0.50 [2]*"]  # 1, 2


def test_ihdp_has_medians_too():
    found = rows(ablation.ingredient_table(summarise(
        cells([1.0, 2.0, 6.0], dataset="ihdp") + cells([1.5, 1.8, 9.0], ONE, dataset="ihdp"))))
    assert found["FedCI"] == ["3.00 ± 1.53 (2.00)"]
    assert found[ONE] == ["4.10 ± 2.45 (1.80)<br>*+1.10 ± 0.97 (+0.50)*"]  # 0.5, −0.2, 3


def test_a_variant_that_failed_says_so():
    text = ablation.ingredient_table(summarise(cells([1.0, 2.0]) + failed(2, LINEAR, "fed")))
    assert rows(text)[LINEAR] == ["failed¹"]
    assert "¹ FedCI, linear, fed, 3 sources: failed in all 2 replications: ValueError: a \\| b" in text


def test_coverage_of_variants():
    found = rows(ablation.ingredient_coverage_table(summarise(
        cells([1.0, 1.0], coverage=0.95) + cells([1.0], POINT, coverage=0.8) + cells([1.0], LINEAR)
        + cells([1.0], dataset="data-2", coverage=0.9))))
    assert (found["FedCI"], found[POINT]) == (["0.95", "0.90"], ["0.80", "–"])
    assert LINEAR not in found


def test_no_rows_of_variants_no_tables():
    assert ablation.ingredient_table({}) == ablation.ingredient_coverage_table({}) == ""


def test_every_variant_has_a_row():
    found = rows(ablation.ingredient_table(summarise([cell for name in ABLATIONS for cell in cells([1.0], name)])))
    assert list(found)[2:] == list(ABLATIONS)
