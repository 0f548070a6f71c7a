"""Thresholds are found where they were planted; lines and bends are none."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.shared import pooled, thresholds
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.thresholds import GRID, Known
from fedci.study.options import SharedOptions

D = 3
MODEL = model_of(SharedOptions(family="shared", directions=1, knots=3, landmarks=32), D, D, 1)


def draws(functions, count: int = 5) -> SharedDraws:
    """So many draws alike of a model whose (μ₀, effect) are these functions of x, as nearly as its basis can."""
    theta = MODEL.unravel(jnp.asarray(MODEL.prior[0]))
    x = np.random.default_rng(0).standard_normal((4000, D))
    arms = [np.tile(arm, (len(x), 1)) for arm in ((1.0, 0.0), (-1.0, 1.0))]
    z = np.concatenate([MODEL.layout.rows(theta, jnp.asarray(x), jnp.asarray(arm)) for arm in arms])
    beta = np.linalg.lstsq(z, np.concatenate([h(x) for h in functions]), rcond=None)[0]
    return SharedDraws(jnp.asarray(np.tile(MODEL.prior[0], (count, 1))), jnp.asarray(np.tile(beta, (count, 2, 1))))


def one_curve(curve, count: int = 100) -> np.ndarray:
    """Draws of one covariate's curve, all alike."""
    return np.tile(curve(GRID), (count, 1, 1))


def ramp(centre: float, size: float = 1.0):
    """A step over one step of the grid either side of its centre."""
    return lambda t: size * np.clip(0.5 + 4.0 * (t - centre), 0.0, 1.0)


def test_curves_are_averages_over_people_of_nobody_draw_by_draw():
    rng = np.random.default_rng(1)
    mean, sd = MODEL.prior
    thetas = mean + 0.3 * sd * rng.standard_normal((2, MODEL.size))
    betas = rng.standard_normal((2, 3, MODEL.columns))
    found = thresholds.curves(MODEL, SharedDraws(jnp.asarray(thetas), jnp.asarray(betas)))
    assert found.shape == (6, 2, D, len(GRID))
    x = pooled.landmarks(thresholds.PEOPLE, D).copy()
    x[:, 1] = GRID[7]
    for h, arms in enumerate(((1.0, 0.0), (-1.0, 1.0))):
        theta, both = MODEL.unravel(jnp.asarray(thetas[1])), jnp.tile(jnp.array(arms), (len(x), 1))
        z = MODEL.layout.rows(theta, jnp.asarray(x), both)
        np.testing.assert_allclose(found[3:, h, 1, 7], (z @ betas[1].T).mean(0), rtol=1e-9, atol=1e-9)


def test_planted_steps_are_found_and_nothing_else():
    """Landmarks stand 1/32 apart in u, 0.1 sd or less at these places: a place is known to that, and what the basis
    rounds off a step of 2 is a tenth of it."""
    planted = draws([lambda x: 2.0 * (x[:, 2] > 0.4) + 0.5 * x[:, 0], lambda x: 1.0 - 2.0 * (x[:, 0] > -0.3)])
    outcome, effect = thresholds.thresholds(MODEL, planted, range(D), 0.05)
    assert (outcome.of, outcome.column, outcome.probability) == ("outcome", 2, 1.0)
    assert (effect.of, effect.column, effect.probability) == ("effect", 0, 1.0)
    np.testing.assert_allclose([outcome.place.mean, effect.place.mean], [0.4, -0.3], atol=0.1)
    np.testing.assert_allclose([outcome.change.mean, effect.change.mean], [2.0, -2.0], rtol=0.1)
    assert thresholds.thresholds(MODEL, planted, [1], 0.05) == []


def test_a_linear_model_has_none():
    straight = draws([lambda x: 3.0 * x[:, 0] - x[:, 1], lambda x: 1.0 + 2.0 * x[:, 2]])
    assert thresholds.thresholds(MODEL, straight, range(D), 0.05) == []


@pytest.mark.parametrize("curve", [
    lambda t: 5.0 * t, lambda t: 5.0 * np.maximum(t, 0.0), lambda t: 5.0 * np.abs(t), lambda t: t**2, np.exp,
    lambda t: 0.0 * t, lambda t: 3.0 * np.sin(2.0 * t), lambda t: t**3, ramp(0.0, 0.14)])
def test_lines_bends_and_small_steps_are_none(curve):
    assert thresholds._told("effect", one_curve(curve), [0], 0.05) == []


@pytest.mark.parametrize("centre", [-1.0, -0.25, 0.0, 0.5, 1.0])
def test_a_steps_place_and_size_are_exact(centre):
    """The curve is straight between the points of the grid, so its area is: but for rounding."""
    found, = thresholds._told("outcome", one_curve(ramp(centre, -1.7)), [0], 0.05)
    np.testing.assert_allclose(found.place, [centre] * 3, atol=1e-12)
    np.testing.assert_allclose(found.change, [-1.7] * 3, rtol=1e-12)
    assert found.probability == 1.0


def test_a_step_on_a_slope_is_one_where_it_is_steep_enough():
    """(1 + 0.75 a)/0.75 is above 1.75 a up to a = 16/9."""
    def told(slope):
        return thresholds._told("effect", one_curve(lambda t: ramp(0.0)(t) + slope * t), [0], 0.05)
    assert len(told(1.77)) == 1
    assert told(1.78) == []


def test_the_probability_is_the_share_of_draws():
    drawn = one_curve(ramp(0.5))
    drawn[:7] = GRID
    assert thresholds.probability(drawn[:, 0], 20) == 0.93
    found, = thresholds._told("effect", drawn, [0], 0.05)
    assert found.probability == 0.93
    drawn[:11] = GRID
    assert thresholds._told("effect", drawn, [0], 0.05) == []
    drawn[:11] = -ramp(0.5)(GRID)  # as steep, the other way
    assert thresholds._told("effect", drawn, [0], 0.05) == []


def test_two_along_one_covariate_and_at_most_three_in_all():
    two = one_curve(lambda t: ramp(-0.75)(t) - ramp(0.75)(t))
    assert sorted(one.place.mean for one in thresholds._told("effect", two, [0], 0.05)) == pytest.approx([-0.75, 0.75])
    many = np.concatenate([one_curve(ramp(0.1 * c)) for c in range(5)], 1)
    many[:5, 1] = many[:3, 4:5] = 0.0
    told = thresholds._told("effect", many, range(5), 0.05)
    assert [one.column for one in told] == [0, 2, 3]


def test_intervals_are_quantiles_of_the_draws_in_any_units():
    drawn = np.concatenate([one_curve(ramp(0.0, size), 1) for size in np.linspace(1.0, 2.0, 101)])
    found, = thresholds._told("effect", drawn, [0], 0.2)
    np.testing.assert_allclose(found.change, (1.5, 1.1, 1.9))
    assert Known(1.0, 0.5, 2.0).scaled(10.0, 3.0) == (13.0, 8.0, 23.0)
