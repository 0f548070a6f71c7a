"""The time left, told during a fit: within a factor of two on a recorded run; exact where a fit runs all its rounds."""

from pathlib import Path

import pandas as pd
import pytest

from fedci.protocol.forecast import AFTER_SOME, USUAL, Clock, rounds_left
from fedci.study.options import OptimiserOptions

RECORDED = (
    -371.63, -438.58, -332.33, -313.59, -292.53, -277.13, -272.07, -267.16, -266.35, -264.2, -261.96,
    -257.58, -254.35, -252.04, -251.04, -249.71, -246.86, -241.81, -236.57, -232.37, -227.77, -219.49,
    -215.5, -212.89, -210.05, -206.29, -201.61, -199, -197.8, -197.4, -197.06, -196.93, -196.85, -196.81,
    -196.76, -196.73, -196.7, -196.71, -196.65, -196.63, -196.58, -196.52, -196.49, -196.46, -196.43,
    -196.42, -196.42, -196.42)
"""Objectives of a fit of the preset `default`: three sites of 140 people, five covariates; it converged."""
LONG = (
    -827.76, -794.75, -653.04, -604.22, -567.3, -552.05, -505.52, -523.64, -493.27, -479.73, -469.35,
    -464.39, -457.31, -451.34, -448.08, -445.05, -442.71, -440.2, -433.57, -427.51, -420.17, -415.61,
    -409.69, -409.77, -406.62, -398.4, -389.31, -383.49, -380.11, -377.3, -376.3, -375.33, -374.87, -374.61,
    -374.4, -374.21, -374.05, -374.06, -373.95, -373.83, -373.63, -373.52, -373.49, -373.39, -373.28,
    -373.2, -373.11, -373.05, -372.97, -372.9, -372.83, -372.72, -372.58, -372.44, -372.31, -372.19,
    -372.04, -372.01, -371.89, -371.85, -371.82, -371.78, -371.76, -371.75, -371.74)
"""Another, longer than is usual: four sites of 200 people, eight covariates."""
SCALE = Path(__file__).parents[2] / "benchmarks" / "results" / "scale" / "rounds.csv"
"""Every round of fits of 5 to 100 sites of 200 to 100,000 people (make bench-scale), with its seconds and objective."""
DEFAULT = OptimiserOptions(rounds=150, tolerance=3e-2)


def measured():
    """name → (sites, its rounds)"""
    found, count = {}, 0
    for row in pd.read_csv(SCALE).to_dict("records"):
        count += row["round"] == 1
        found.setdefault(f"{row['sites']} x {row['rows']}, number {count}", (row["sites"], []))[1].append(row)
    return found


def off(told, true):
    return max(told / true, true / told)


@pytest.mark.parametrize("recorded, sites, share", [(RECORDED, 3, 0.85), (LONG, 4, 0.85)])
def test_the_rounds_left_of_a_recorded_run_are_right_within_a_factor_of_two(recorded, sites, share):
    """After its first third, in most rounds: what the next ones gain is not known to anybody; the last three are over
    before it is read."""
    wrong = [off(rounds_left(DEFAULT, sites, number, recorded[:number]), len(recorded) - number)
             for number in range(len(recorded) // 3, len(recorded) - 3)]
    assert sum(factor <= 2.0 for factor in wrong) >= share * len(wrong)
    assert max(wrong) < 5.0


def test_the_time_left_of_fits_that_were_measured_is_right_within_a_factor_of_two():
    """As a person reads it, by the clock of the fit itself, a thousand times slower (it tells whole seconds): of 14
    fits of 39 to 111 rounds, after the first third of their rounds. In most; which fit gains for longer than others
    nobody knows."""
    shares, farthest = {}, {}
    for name, (sites, rounds) in measured().items():
        clock, wrong = Clock(DEFAULT, sites), []
        for row in rounds:
            told = clock.left(row["round"], 1000 * row["seconds"], row["objective"], bool(row["few"]))
            true = 1000 * (rounds[-1]["seconds"] - row["seconds"])
            if told and row["round"] > len(rounds) / 3 and row["round"] < len(rounds) - 3:
                wrong.append(off(float(told.split()[2]), true))
        shares[name], farthest[name] = sum(factor <= 2.0 for factor in wrong) / len(wrong), max(wrong)
    assert len(shares) == 14
    assert sum(shares.values()) / len(shares) >= 0.8
    assert max(farthest.values()) < 8.0


def test_nothing_is_told_while_rounds_look_at_some_of_the_people():
    """They take a second, those of everybody twenty, and the first of these compiles."""
    clock = Clock(OptimiserOptions(rounds=20, tolerance=0.0), 3)
    assert [clock.left(k, 30.0 + k, -5.0, few=True) for k in range(1, 8)] == [""] * 7
    assert clock.left(8, 120.0, -9.0) == ""
    assert clock.left(9, 140.0, -8.0) == ", about 220 s left"
    assert clock.left(10, 160.0, -7.0) == ", about 200 s left"


def test_without_objectives_it_goes_by_what_fits_usually_take():
    assert rounds_left(DEFAULT, 3, 5) == USUAL - 5
    assert rounds_left(DEFAULT, 3, 60) == 30.0  # beyond what is usual: half of what it has taken
    assert rounds_left(DEFAULT, 3, 149) == 1.0
    assert rounds_left(DEFAULT, 3, 45, some=40) == AFTER_SOME - 5


def test_a_fit_that_gains_nothing_and_goes_on_is_not_told_to_end():
    """A line search asks for places that are lower: only the fit knows when it is over."""
    flat = [-10.0] * 30
    assert rounds_left(DEFAULT, 3, 30, flat) == pytest.approx((25 * 5.0) ** 0.5)


@pytest.mark.parametrize("changes", [{"tolerance": 0.0}, {"name": "adam"}])
def test_a_fit_that_runs_all_its_rounds_has_as_many_left_as_it_has(changes):
    assert rounds_left(OptimiserOptions(rounds=30, **changes), 3, 12, [0.0] * 12) == 18.0


def test_the_clock_leaves_the_first_round_out_and_begins_anew_with_each_fit():
    clock = Clock(OptimiserOptions(rounds=20, tolerance=0.0), 3)
    assert clock.left(1, 30.0, -5.0) == ""
    assert clock.left(3, 32.0, -4.0) == ", about 17 s left"
    assert clock.left(1, 1.0, -5.0) == ""  # a refuter
    assert clock.left(2, 3.0, float("-inf")) == ", about 36 s left"
