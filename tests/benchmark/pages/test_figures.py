"""Figures: no date in them, none without rows, labels apart."""

import pytest

from fedci.benchmark.pages import figures
from fedci.benchmark.pages.summary import summarise
from fedci.benchmark.run.cells import Cell
from support.pages import effects


def test_figures_carry_no_date(results, written):
    for path in (results / "figures").glob("*.svg"):
        assert "<dc:date>" not in path.read_text()


def test_a_figure_without_rows_is_not_drawn(tmp_path):
    one = [Cell(dataset="data-1", method="FedCI", mode="fed", sources=3, replication=0, protocol="P2", pehe=1.0)]
    assert figures.draw(tmp_path / "figures", summarise(one), effects()[:3]) == ["ate-data-2"]


def test_labels_are_moved_apart_only_where_they_overlap():
    assert figures.spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert figures.spread([0.5, 0.5, 0.9], 0.1) == pytest.approx([0.45, 0.55, 0.9])
    assert figures.spread([0.5, 0.52, 0.58], 0.1) == pytest.approx([0.5333 - 0.1, 0.5333, 0.5333 + 0.1], abs=1e-3)
    assert figures.spread([], 0.1) == []
