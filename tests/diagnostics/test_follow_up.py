"""How many are still followed at each horizon, from the counts that sites tell."""

import numpy as np
import pytest

from fedci.diagnostics.follow_up import summary
from fedci.protocol import timing
from fedci.study.study import Study

ARMS = ("untreated", "treated")


def plan(horizons):
    return Study(treatment="w", covariates=["x"], policy="simulation",
                 outcome={"time": "t", "event": "y", "type": "survival", "horizons": horizons})


def followed(horizons, time, event, w):
    study = plan(horizons)
    within = event * (time <= horizons[-1])
    told = timing.counted(study, w, within, np.minimum(time, horizons[-1]), 0)
    people = np.bincount(w, minlength=2).astype(float)
    return summary(study.horizons, timing.grid(study), told["events"], told["censored"], people, ARMS)


def test_those_at_risk_are_those_of_the_table():
    rng = np.random.default_rng(0)
    time, event, w = rng.uniform(0, 10, 400), rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    found = followed([2.0, 8.0], time, event, w)
    for row, horizon in zip(found.horizons, (2.0, 8.0), strict=True):
        # who is followed for longer, and at the last horizon who is followed to it
        assert row.people == tuple(int(((time > horizon) & (w == arm)).sum()) for arm in (0, 1))
        assert row.time == horizon
    free = [(w == arm) & ~((event == 1) & (time <= 8.0)) for arm in (0, 1)]
    shares = [(free[arm] & (time > 8.0)).sum() / free[arm].sum() for arm in (0, 1)]
    (verdict,) = found.verdicts
    assert verdict.value == pytest.approx(min(shares))
    assert verdict.verdict == "fine"


@pytest.mark.parametrize(("until", "word"), [(4.0, "problem"), (8.02, "look"), (16.0, "fine")])
def test_a_horizon_that_nobody_was_followed_to_is_a_problem(until, word):
    """Even times from 0 to `until` without an event, a horizon of 8: nobody, a few of 2,000, half of them."""
    time = np.linspace(0.0, until, 2000)
    verdict = followed([8.0], time, np.zeros(2000, int), np.arange(2000) % 2).verdicts[0]
    assert verdict.verdict == word
    if word == "problem":
        assert "choose a horizon before that" in verdict.words
        assert "beyond 3.75" in verdict.words  # the grid's parts are a quarter wide, and of the last nobody is left


def test_where_all_had_the_event_nobody_need_be_followed():
    time = np.linspace(0.1, 4.0, 100)
    assert followed([8.0], time, np.ones(100, int), np.arange(100) % 2).verdicts[0].verdict == "fine"
