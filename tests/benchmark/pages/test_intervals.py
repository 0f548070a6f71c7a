"""Tables of intervals, costs and false alarms."""

from fedci.benchmark.pages import intervals
from fedci.benchmark.pages.summary import summarise
from fedci.benchmark.run.cells import Cell
from support.figures import cells, rows


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
