"""The stroke trial, where its file is there: a small part of it holds the trial's answer; its peers' formulas."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI
from fedci.benchmark.run import stroke

PLACES = [Path(place) for place in (os.environ.get("FEDCI_IST", ""), "../shared/data/ist/ist.csv") if place]
FILE = next((place for place in PLACES if place.is_file()), None)
FEW = {"model": {"directions": 1, "knots": 3, "landmarks": 8, "inducing": 16},
       "optimiser": {"rounds": 8, "draws": 4}, "prediction": {"draws": 64}}


def test_kaplan_and_meier_without_censoring_is_the_proportion():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"aspirin": np.arange(200) % 2, "days": rng.integers(1, 300, 200).astype(float), "died": 1})
    rows["dead14"] = (rows.days <= 100).astype(int)
    one, other = stroke.kaplan_meier(rows, 100.0), stroke.proportions(rows)
    assert one.difference == pytest.approx(other.difference)
    assert one.error == pytest.approx(other.error, rel=1e-9)


@pytest.mark.skipif(FILE is None, reason="the trial's file is not beside the project (set FEDCI_IST)")
class TestTrial:
    def test_its_own_figures(self):
        """Aspirin: 9.0 % against 9.4 % dead within 14 days, as published."""
        rows = stroke.read(FILE)
        assert len(rows) > 19_000
        risks = [rows.dead14[rows.aspirin == arm].mean() for arm in (1, 0)]
        assert np.round(risks, 3) == pytest.approx([0.090, 0.094], abs=0.0011)

    @pytest.mark.parametrize("kind", ["binary", pytest.param("survival", marks=pytest.mark.slow)])
    def test_a_small_part_holds_the_trials_difference(self, kind):
        """Four countries of 300 people, few rounds: an interval as wide as a part of a fifteenth has."""
        rows = stroke.read(FILE)
        some = rows[rows.country.isin(["ital", "swed", "norw", "uk"])]
        result = FedCI(stroke.study(kind, options=FEW)).fit(stroke.sources(some, 300))
        crude = stroke.proportions(rows) if kind == "binary" else stroke.kaplan_meier(rows, 180.0)
        low, high = result.ate().interval(0.01)
        assert low < crude.difference < high
        assert high - low < 0.25
