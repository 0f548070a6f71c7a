"""Every problem of a source at once."""

import numpy as np
import pytest

import tests_support
from fedci.table.problems import problems
from fedci.table.source import Source
from support.tables import study


def test_all_problems_are_told_and_each_once(frame):
    broken = frame.assign(sex=7, w=frame["w"].where(frame.index > 2, 5)).drop(columns="bmi")
    found = [str(problem) for problem in problems(study(), Source("lyon", broken))]
    assert len(found) == len(set(found)) == 3
    for name in ("'bmi'", "'sex'", "'w'"):
        assert sum(name in one for one in found) == 1
    assert all(one.startswith("site 'lyon'") for one in found)


def test_semicolons_are_told_and_not_a_lost_header(frame, tmp_path):
    path = tmp_path / "lyon.csv"
    frame.to_csv(path, index=False, sep=";", decimal=",")
    [found] = problems(study(), Source("lyon", path))
    assert "separated by semicolons" in str(found)


def test_where_no_row_is_left_the_columns_are_asked_after(frame):
    [found] = problems(study(rows_without="drop"), Source("lyon", frame.assign(y=None)))
    assert "no row has both its treatment and its outcome" in str(found)


@pytest.mark.parametrize("seed", range(4))
def test_no_problems_is_the_same_as_a_table_that_can_be_read(seed):
    """On tables damaged at random, `problems` is empty exactly where `Source.read` works."""
    rng = np.random.default_rng(seed)
    table = tests_support.frame(60, seed).astype(object)
    for _ in range(rng.integers(0, 3)):
        table.iloc[rng.integers(60), rng.integers(5)] = rng.choice(np.array([None, "x", 7], object))
    source = Source("a", table)
    try:
        source.read(tests_support.study())
        readable = True
    except Exception:
        readable = False
    assert (problems(tests_support.study(), source) == []) is readable
