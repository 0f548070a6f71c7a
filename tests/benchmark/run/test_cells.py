"""Rows of figures survive their file."""

import pytest

from fedci.benchmark.run import cells
from fedci.benchmark.run.cells import Cell
from fedci.errors import SourceError
from support.benchmarked import rows


def test_a_line_cut_short_is_dropped_and_written_over(tmp_path, learners):
    path, found = tmp_path / "cells.csv", rows("constant", (1,))
    cells.append(path, found)
    path.write_bytes(path.read_bytes()[:-9])
    assert len(cells.read(path)) == len(found) - 1
    cells.append(path, found[-1:])
    assert [row.protocol for row in cells.read(path)] == [row.protocol for row in found]


def test_rows_survive_the_file(tmp_path):
    row = Cell(dataset="data-1", method="GP T-learner (ARD)", mode="com", sources=3, replication=7, protocol="P2",
               pehe=1.25, ate_error=0.5, failed='said "no", twice')
    cells.append(tmp_path / "cells.csv", [row])
    (back,) = cells.read(tmp_path / "cells.csv")
    assert repr(back) == repr(row)


def test_a_file_that_holds_something_else_is_named(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match="no file of benchmark results"):
        cells.read(path)


def test_the_last_row_of_a_key_counts():
    key = {"dataset": "data-1", "method": "BART", "mode": "com", "sources": 1, "replication": 0}
    failed = Cell(**key, protocol="P2", failed="no")
    first = [Cell(**key, protocol="P2", pehe=1.0), Cell(**key, protocol="P1", pehe=2.0)]
    again = [Cell(**key, protocol="P2", pehe=3.0), Cell(**key, protocol="P1", pehe=4.0)]
    assert [row.pehe for row in cells.latest([*first, *again])] == [3.0, 4.0]
    assert [row.pehe for row in cells.latest([failed, *again])] == [3.0, 4.0]
    assert [row.failed for row in cells.latest([*first, failed])] == ["no"]
