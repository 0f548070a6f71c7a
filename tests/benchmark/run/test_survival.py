"""Times to an event, drawn and fitted: data are what their page says, and their truth is an integral of hazards."""

import numpy as np
import pytest

from fedci.benchmark.run import survival


@pytest.mark.parametrize(("name", "events"), [("proportional", 0.58), ("crossing", 0.63), ("null", 0.58),
                                              ("censored", 0.32), ("informative", 0.43)])
def test_data_are_as_described(name, events):
    """Over five replications of 500 people; directions are drawn anew, so to 0.08."""
    drawn = [survival.people(name, replication, 100)[0] for replication in range(5)]
    assert np.mean([one.y.mean() for one in drawn]) == pytest.approx(events, abs=0.08)
    assert (np.abs(drawn[0].effect) < 1e-9).all() == (name == "null")
    if name == "proportional":
        assert (drawn[0].effect > 0).all()
    assert len(survival.people(name, 0, 100)[1].w) == 250


def test_times_are_where_the_cumulative_hazard_is_reached():
    unit, hazard = np.array([0.1, 0.6, 2.0]), np.array([0.1, 0.1, 0.1])
    found = survival.times(unit, hazard, 1.8, 0.4)
    cumulative = 1.8 * hazard * np.minimum(found, 3.0) + 0.4 * hazard * np.maximum(found - 3.0, 0.0)
    np.testing.assert_allclose(cumulative, unit)


def test_a_restricted_mean_is_the_area_under_the_steps():
    curves = np.array([[0.5, 0.2], [1.0, 0.0]])
    np.testing.assert_allclose(survival._restricted(curves, np.array([2.0, 12.0])), [2.0 + 8 * 0.5, 10.0])
