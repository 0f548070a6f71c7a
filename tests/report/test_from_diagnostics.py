"""A study's own record of diagnostics fills the report's slots."""

import pytest

from fedci.report import plots, slots


def test_a_studys_own_record_of_diagnostics_fills_the_slots():
    """In the record's words; what a site withheld is null there."""
    verdict = {"name": "balance", "value": 0.1, "threshold": 0.1, "verdict": "look", "words": "Look at age."}
    ends = {"mean": 1.0, "low": 0.5, "high": 1.5}
    record = {
        "format": 1, "notes": ["the refuter subset could not be fitted"], "blinded": False,
        "balance": {"columns": [{"column": "age", "before": 0.3, "after": 0.05, "after_overlap": 0.0},
                                {"column": "sex", "before": None, "after": None, "after_overlap": None}],
                    "sites": [], "verdicts": [verdict]},
        "overlap": {"edges": [0.0, 0.5, 1.0], "histogram": {"treated": [None, 30], "untreated": [25, 12]},
                    "verdicts": []},
        "fit": {"calibration": [{"people": 20, "predicted": 1.0, "observed": 1.1, "low": 0.9, "high": 1.3}],
                "verdicts": [verdict]},
        "heterogeneity": {"sites": [{"site": "lyon", "people": 60, "own": ends, "se": 0.2, "model": ends, "weight": 1}],
                          "random": ends, "prediction": [0.1, 1.9], "q": 2.0, "p": 0.3, "i2": 0.1, "tau2": 0.0,
                          "tau2_reml": 0.04, "left_out": [{"site": "lyon", "estimate": ends}], "verdicts": []},
        "sensitivity": {"effect": 1.0, "low": 0.5, "high": 1.5, "bounds": [
            {"strength": 2.0, "low": 0.4, "high": 1.6, "interval_low": -0.1, "interval_high": 2.1,
             "cate_half": [0.2, 0.3]}],
            "verdicts": [verdict]},
        "refuters": [{"name": "placebo", "estimate": ends, "reference": 0.0, "z": 1.0, "ended": "converged",
                      "verdict": verdict},
                     {"name": "blinded", "estimate": None, "reference": None, "z": 0.0, "ended": "converged",
                      "verdict": verdict}],
    }
    found = slots.slots_from(record)
    assert found.problems == {}
    assert [(row.covariate, row.after) for row in found.balance] == [("age", 0.05)]
    assert found.overlap.treated == [None, 30.0]
    assert "hidden, treated people are few" in plots.overlap(found.overlap)
    assert [row.site for row in found.heterogeneity.sites] == ["lyon", "– by the model"]
    assert found.heterogeneity.figures["τ, sd between sites"] == pytest.approx(0.2)
    assert found.heterogeneity.leave_one_out[0].site == "without lyon"
    assert found.sensitivity[0].x == [1.0, 2.0]
    assert found.sensitivity[0].low == [0.5, -0.1]
    assert (found.sensitivity[1].low, found.sensitivity[1].high) == ([-0.3], [0.3])
    assert [(row.name, row.verdict) for row in found.refuters] == [("placebo", "look")]
    assert found.calibration[0].count == 20
    assert found.verdicts["balance"][0].words == "Look at age."
    assert found.notes == ["the refuter subset could not be fitted"]
    endless = record["balance"] | {"verdicts": [verdict | {"words": "site, " * 999}]}
    long = slots.slots_from(record | {"balance": endless})
    assert long.problems == {}  # a long verdict is cut, and costs no other
    damaged = slots.slots_from(record | {"overlap": {"edges": [0.0]}})
    assert set(damaged.problems) == {"overlap"}
