"""What noise on sums costs: what its table says, and that it goes on where it stood."""

import json

import numpy as np
import pytest

from fedci.benchmark.cost import noise_cost
from fedci.benchmark.cost.noise_cost import NONE, Cell
from fedci.errors import DisclosureError
from fedci.estimator import FedCI
from fedci.table.source import Source


def cells():
    return [Cell("straight", 300, r, s, pehe, 0.9, 0.01, 0.02) for r in (0, 1) for s, pehe in ((NONE, 0.1), (0.5, 0.2))]


def test_the_table_has_ratios_to_the_same_people_without_noise():
    head, _, line = noise_cost.table(cells()).splitlines()
    assert "√PEHE at s = 0, 0.5 |" in head
    assert line == ("| straight | 3 × 300 | 2 | 0.100, 0.200 | 1.00, 2.00 | 0.90, 0.90 | 0.010, 0.010 | "
                    "0.020, 0.020 |")


def test_a_fit_that_sites_refuse_is_in_no_mean():
    refused, without = Cell("straight", 300, 2, 0.5, *[np.nan] * 4), cells()[0]._replace(replication=2, pehe=0.1)
    line = noise_cost.table([*cells(), refused, without]).splitlines()[-1]
    assert line == noise_cost.table(cells()).splitlines()[-1].replace("| 2 |", "| 3, 2 |")


def test_of_noisier_outcomes_covariates_and_arm_explain_three_quarters():
    for data, share in (("straight", 0.82), ("noisier", 0.75)):
        rows, _ = noise_cost.people(data, 40_000, np.random.default_rng(0))
        assert 1.0 - noise_cost.KINDS[data] ** 2 / rows.y.var() == pytest.approx(share, abs=0.01)  # chance: 0.002


def test_what_was_fitted_is_not_fitted_again(tmp_path, monkeypatch, capsys):
    made = []

    def fitted(data, count, replication, noise):
        made.append(noise)
        return Cell(data, count, replication, noise, 0.1, 1.0, 0.0, 0.1)

    monkeypatch.setattr(noise_cost, "fitted", fitted)
    out = tmp_path / "cells.jsonl"
    out.write_text(json.dumps(Cell("bent", 300, 0, NONE, 0.1, 1.0, 0.0, 0.1)._asdict()) + "\n")
    noise_cost.main(["--replications", "1", "--people", "300", "--data", "bent", "--out", str(out)])
    assert made == [0.25, 0.5, 1.0, 2.0]
    assert len(out.read_text().splitlines()) == 5
    assert "| bent | 3 × 300 | 1 | 0.100, 0.100, 0.100, 0.100, 0.100 |" in capsys.readouterr().out


def test_a_size_that_sites_refuse_is_fitted_only_here():
    found = noise_cost.fitted("straight", 150, 0, 0.25)
    assert np.isfinite(found.pehe)
    rows, _ = noise_cost.people("straight", 150, np.random.default_rng(0))
    with pytest.raises(DisclosureError, match="people in each arm"):
        FedCI(noise_cost.plan(0.25)).fit([Source(f"s{k}", rows.sample(frac=1.0, random_state=k)) for k in range(3)])
