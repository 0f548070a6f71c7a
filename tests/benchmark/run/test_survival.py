"""The measurement of times to an event: its data are what its page says, and its truth is an integral of hazards."""

import numpy as np
import pytest

from fedci.benchmark.run import survival


@pytest.mark.parametrize("name", list(survival.SETS))
def test_data_are_as_described(name):
    drawn, new = survival.people(name, 0, 100)
    assert len(drawn.w) == 500
    assert len(new.w) == 250
    assert (np.abs(drawn.effect) < 1e-9).all() == (name == "null")
    if name == "proportional":
        assert (drawn.effect > 0).all()
    if name == "censored":
        assert drawn.event.mean() < 0.45


def test_times_are_where_the_cumulative_hazard_is_reached():
    unit, hazard = np.array([0.1, 0.6, 2.0]), np.array([0.1, 0.1, 0.1])
    found = survival.times(unit, hazard, 1.8, 0.4)
    cumulative = 1.8 * hazard * np.minimum(found, 3.0) + 0.4 * hazard * np.maximum(found - 3.0, 0.0)
    np.testing.assert_allclose(cumulative, unit)


def test_the_table_has_a_line_for_each_set(monkeypatch, capsys):
    row = survival.Row(0.5, 0.01, 1.0, 0.4, 0.02, 0.3, 0.95, 9.0)
    monkeypatch.setattr(survival, "measured", lambda name, replication, each: (row, 1.0))
    survival.main(["--sets", "null", "crossing", "--replications", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| null | 1.000 | 0.500 |")
