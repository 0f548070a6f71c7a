"""Where intervals of a time to an event end: from thresholded counts, with an end at every horizon."""

import numpy as np
import pytest

from fedci.protocol import timing
from fedci.study.study import Study


def plan(**changes) -> Study:
    outcome = {"time": "t", "event": "e", "type": "survival", "horizons": [2.0, 8.0]} | changes
    return Study(treatment="w", outcome=outcome, covariates=["x"], policy="simulation")


def counted(least: int, study: Study):
    rng = np.random.default_rng(2)
    time, w = np.minimum(rng.exponential(5.0, 400), 8.0), rng.integers(0, 2, 400)
    y = ((time < 8.0) & (rng.random(400) < 0.7)).astype(float)
    return timing.counted(study, w, y, time, least), np.array([np.sum(w == 0), np.sum(w == 1)], float), y


def test_the_grid_has_every_horizon_and_is_the_studys():
    grid = timing.grid(plan())
    assert len(grid) == timing.PARTS
    assert {2.0, 8.0} <= set(grid)
    np.testing.assert_array_equal(timing.grid(plan(cuts=[1.0, 2.0, 8.0])), [1.0, 2.0, 8.0])


def test_intervals_have_about_equally_many_events_and_end_at_horizons():
    found, people, y = counted(0, plan())
    cuts = timing.cuts(plan(), found["events"], found["censored"], people, 0)
    assert {2.0, 8.0} <= set(cuts)
    assert 4 <= len(cuts) <= 8
    assert found["events"].sum() == y.sum()


def test_small_counts_are_not_told_and_sparse_intervals_merge():
    found, people, _ = counted(10, plan())
    assert not any(((part > 0) & (part < 10)).any() for part in found.values())
    cuts = timing.cuts(plan(cuts=[0.01, 2.0, 8.0]), *(counted(10, plan(cuts=[0.01, 2.0, 8.0]))[0][name]
                                                     for name in ("events", "censored")), people, 10)
    np.testing.assert_array_equal(cuts, [2.0, 8.0])


def told(parts: dict[int, float]) -> np.ndarray:
    """[2, PARTS] of so many events in an arm in these parts; the first horizon is the end of the eighth."""
    events = np.zeros((2, timing.PARTS))
    for k, n in parts.items():
        events[:, k] = n
    return events


def test_a_horizon_stays_an_end_where_nobody_has_the_event_after_it():
    """All die by the first horizon, or at it: with exact counts the curve is level after it, not a line through it."""
    none, people = told({}), np.array([50.0, 50.0])
    for parts in ({7: 20.0}, {2: 10.0, 7: 10.0}):
        assert timing.cuts(plan(), told(parts), none, people, 0).tolist()[-2:] == [2.0, 8.0]
    assert timing.cuts(plan(), told({7: 20.0}), none, people, 10).tolist() == [8.0], "0 may hide some"


def test_the_poorest_interval_goes_where_no_horizon_is_between():
    """Few events just after a horizon: they are counted with what comes later, and the horizon stays."""
    cuts = timing.cuts(plan(cuts=[1.0, 2.0, 4.0, 8.0]), told({0: 20.0, 1: 20.0, 2: 2.0, 3: 20.0}), told({}),
                       np.array([90.0, 90.0]), 10)
    assert cuts.tolist() == [1.0, 2.0, 8.0]
    assert timing.lost(plan(), cuts) == []
    assert timing.lost(plan(), np.array([1.0, 8.0])) == [(2.0, 1.0, 8.0)]


@pytest.mark.parametrize("events", [0.0, 3.0])
def test_where_next_to_nothing_is_told_one_interval_is_left(events):
    none = np.zeros((2, timing.PARTS))
    some = none.copy()
    some[:, 3] = events
    assert timing.cuts(plan(), some, none, np.array([50.0, 50.0]), 10).tolist() == [8.0]


def test_followed_time_is_counted_in_intervals():
    np.testing.assert_allclose(timing.in_intervals(np.array([0.5, 1.0, 2.5, 8.0]), np.array([1.0, 2.0, 8.0])),
                               [0.5, 1.0, 2.0 + 0.5 / 6.0, 3.0])
