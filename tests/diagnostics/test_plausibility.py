"""Plausibility: what the outcome leaves no room for is seen, and what it does is not."""

import numpy as np
import pytest

from fedci.diagnostics import plausibility
from fedci.diagnostics.plausibility import Average
from fedci.effect import Effect
from fedci.model.shared.shared import NOISE_FLOOR

LIKELY = (Average(over="all people", mean=0.2, low=0.0, high=0.4), Average(over="a", mean=0.3, low=-0.1, high=0.7))


def found(noise=(0.5, 0.6), averages=LIKELY, explained=0.4, sd=1.0, treated=0.5):
    return plausibility.summary(sd, treated, noise, averages, explained)


def words(seen):
    return {row.name: row.verdict for row in seen.verdicts}


def test_a_likely_fit_is_fine():
    seen = found()
    assert words(seen) == dict.fromkeys(("noise", "size of effects", "width of intervals"), "fine")
    assert seen.degenerate is None
    assert [row.value for row in seen.verdicts] == pytest.approx([0.5, 0.15, 0.2])


@pytest.mark.parametrize(("noise", "explained", "verdict"), [
    ((0.05, 1.0), 0.1, "fine"), ((0.049, 1.0), 0.1, "look"), ((1.0, 0.02), 0.1, "look"), ((1.0, 0.019), 0.1, "problem"),
    ((0.0, 0.0), None, "problem"), ((0.01, 0.01), 0.9, "look"), ((0.01, 0.01), 0.89, "problem"),
    ((0.01, 0.01), -3.0, "problem")])
def test_noise_that_vanished_is_seen_unless_people_left_out_are_predicted(noise, explained, verdict):
    for sd in (1.0, 0.19, 40.0):
        seen = found(noise=(sd * noise[0], sd * noise[1]), explained=explained, sd=sd, averages=())
        assert words(seen) == {"noise": verdict}
        assert (seen.degenerate is not None) == (verdict == "problem")


def test_noise_at_the_models_floor_is_a_problem():
    assert plausibility.NOISE_PROBLEM >= 1.5 * NOISE_FLOOR
    assert words(found(noise=(NOISE_FLOOR, 0.5)))["noise"] == "problem"


@pytest.mark.parametrize(("mean", "half", "size", "width"), [
    (1.99, 0.99, "fine", "fine"), (-2.01, 1.01, "look", "look"), (-3.99, 1.99, "look", "look"),
    (4.01, 0.1, "problem", "fine"), (0.0, 2.01, "fine", "problem")])
def test_effects_and_intervals_beyond_the_outcomes_spread_are_seen(mean, half, size, width):
    """π = ½: arms 2 sd apart are all of the outcome's spread."""
    for sd in (1.0, 0.19):
        site = Average(over="b", mean=sd * mean, low=sd * (mean - half), high=sd * (mean + half))
        seen = found(noise=(0.5 * sd, 0.5 * sd), averages=(
            Average(over="all people", mean=0.1 * sd, low=0.0, high=0.2 * sd), site), sd=sd)
        assert words(seen) == {"noise": "fine", "size of effects": size, "width of intervals": width}
        if "problem" in (size, width):
            assert "degenerate" in seen.degenerate
            assert "site 'b'" in seen.degenerate
        else:
            assert seen.degenerate is None


def test_an_outcome_that_is_the_treatment_alone_has_room_for_its_effect():
    for share in (0.5, 0.1, 0.02):
        w = np.arange(1000) < 1000 * share
        y = 3.0 * w
        assert found(sd=float(y.std()), treated=share).room == pytest.approx(3.0)


def test_the_sentence_that_was_once_printed_as_fine_is_degenerate():
    seen = found(noise=(3.5e-5, 0.19), sd=0.19, explained=0.1, averages=(
        Average(over="all people", mean=15.7, low=-722.0, high=717.0),))
    assert set(words(seen).values()) == {"problem"}
    assert len(seen.seen) == 3
    assert all(part in seen.degenerate for part in ("3.5e-05", "15.7", "-722 to 717", "few events", "fewer covariates"))


def test_averages_are_those_of_the_posterior():
    draws = Effect(np.array([1.0, 3.0]), np.array([0.25, 0.25]))
    row, = plausibility.averages_of({"all people": draws})
    assert (row.over, row.mean, (row.low, row.high)) == ("all people", 2.0, draws.interval())


def test_sealed_it_says_that_a_fit_is_degenerate_and_no_effect():
    seen = found(noise=(1e-4, 0.5), averages=(Average(over="all people", mean=15.75, low=-721.5, high=717.25),))
    sealed = seen.sealed()
    assert words(sealed) == words(seen)
    assert sealed.averages == ()
    assert sealed.verdicts[0] == seen.verdicts[0]
    assert "0.0001" in sealed.degenerate
    text = sealed.model_dump_json()
    assert not [number for number in ("15.7", "721", "722", "717") if number in text]
    assert found().sealed().degenerate is None
