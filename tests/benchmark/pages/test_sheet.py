"""All figures in one CSV file."""

import csv

from fedci.benchmark.pages import sheet
from fedci.benchmark.pages.summary import summarise
from support.figures import cells, failed


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
