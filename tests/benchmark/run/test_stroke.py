"""The stroke trial, where its file is there: a small part of it holds the trial's answer; its peers' formulas."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

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


def test_weights_undo_a_choice_by_what_is_known():
    """Nobody has an effect, and the old are treated more often: crude is off, weights and g-computation are not (2,000
    people: within 4 standard errors of 0.02; crude it is 0.19)."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({name: rng.normal(size=2000) for name in stroke.COVARIATES})
    rows["aspirin"] = (rng.random(2000) < expit(rows.age)).astype(int)
    rows["dead14"] = (rng.random(2000) < expit(rows.age)).astype(int)
    assert stroke.crude(rows, "death14").difference > 0.1
    assert abs(stroke.g_computation(rows, "death14")) < 0.08
    assert abs(stroke.weighted(rows, "death14")) < 0.08


def test_cells_of_the_trial_are_kept(monkeypatch, tmp_path):
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({name: rng.normal(size=60) for name in stroke.COVARIATES}).assign(
        country=np.repeat(["a", "b"], 30), aspirin=np.arange(60) % 2, dead14=rng.integers(0, 2, 60), died=1, days=9.0,
        dependent=np.where(np.arange(60) < 6, np.nan, 1.0))
    monkeypatch.setattr(stroke, "read", lambda path: rows)
    for _ in range(2):
        stroke.main(["--ist", "x", "--kinds", "death14", "dependent", "--methods", "crude", "--out", str(tmp_path)])
    cells = stroke.cells(tmp_path)
    assert [(cell.kind, cell.people, cell.holds) for cell in cells] == [("death14", 60, True), ("dependent", 54, True)]


@pytest.mark.skipif(FILE is None, reason="the trial's file is not beside the project (set FEDCI_IST)")
class TestTrial:
    def test_its_own_figures(self):
        """Aspirin: 9.0 % against 9.4 % dead within 14 days, as published."""
        rows = stroke.read(FILE)
        assert len(rows) > 19_000
        risks = [rows.dead14[rows.aspirin == arm].mean() for arm in (1, 0)]
        assert np.round(risks, 3) == pytest.approx([0.090, 0.094], abs=0.0011)

    @pytest.mark.parametrize("kind", ["death14", pytest.param("survival", marks=pytest.mark.slow)])
    def test_a_small_part_holds_the_trials_difference(self, kind):
        """Four countries of 300 people, few rounds: an interval as wide as a part of a fifteenth has."""
        rows = stroke.read(FILE)
        some = rows[rows.country.isin(["ital", "swed", "norw", "uk"])]
        result = FedCI(stroke.study(kind, options=FEW)).fit(stroke.sources(some, 300))
        crude = stroke.crude(rows, kind)
        low, high = result.ate().interval(0.01)
        assert low < crude.difference < high
        assert high - low < 0.25
