"""Cells that were measured are read again as they were."""

from typing import NamedTuple

from fedci.benchmark.cost import kept


class Cell(NamedTuple):
    data: str
    error: float


def test_cells_come_back_in_their_order_and_none_are_there_at_first(tmp_path):
    path, cells = tmp_path / "cells.jsonl", [Cell("Größe", 0.1), Cell("Steps", 1e-300)]
    assert kept.read(path, Cell) == []
    for cell in cells:
        kept.add(path, cell)
    assert kept.read(path, Cell) == cells
