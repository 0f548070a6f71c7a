"""The measurement of outcomes: each cell is measured once, by one part of the processes."""

import numpy as np
import pytest

from fedci.benchmark.run import outcome_grid
from fedci.benchmark.run.drawn import Found
from fedci.benchmark.run.outcome_grid import Place


def test_parts_share_the_cells_out_and_replications_come_first():
    every = list(outcome_grid.places(["binary", "count"], [100], [], ["FedCI"], range(3)))
    assert len(every) == 3 * (len(outcome_grid.KINDS["binary"].sets) + len(outcome_grid.KINDS["count"].sets))
    assert [place.replication for place in every] == sorted(place.replication for place in every)
    assert len(set(every)) == len(every)


def test_a_cell_says_how_far_off_a_method_is(monkeypatch):
    def knows(study, new, seed):
        return Found(new.effect + 0.1, new.effect - 0.2, new.effect + 0.3, (study.effect.mean() + 0.05, -1.0, 1.0))

    monkeypatch.setitem(outcome_grid.KINDS["binary"].methods, "knows", knows)
    cell = outcome_grid.measured(Place("binary", "index", 100, 0, "knows"))
    assert (cell.pehe, cell.covered, cell.width) == pytest.approx((0.1, 1.0, 0.5))
    assert (cell.error, cell.average_covered, cell.average_width) == pytest.approx((0.05, 1.0, 2.0))
    assert cell.place == Place("binary", "index", 100, 0, "knows")


def test_what_is_there_is_not_measured_again(monkeypatch, tmp_path):
    asked = []

    def gone(study, new, seed):
        asked.append(seed)
        none = np.full(len(new.y), np.nan)
        return Found(new.effect, none, none, (0.0, np.nan, np.nan))

    monkeypatch.setitem(outcome_grid.KINDS["binary"].methods, "gone", gone)
    command = ["--kinds", "binary", "--sets", "null", "--people", "100", "--methods", "gone", "--out", str(tmp_path)]
    for part in ("0/2", "1/2", "0/1"):
        outcome_grid.main([*command, "--replications", "4", "--part", part])
    assert sorted(asked) == [0, 1, 2, 3]
    cells = outcome_grid.read(tmp_path)
    assert len(cells) == 4
    assert all(np.isnan(cell.covered) and np.isnan(cell.average_covered) for cell in cells)
