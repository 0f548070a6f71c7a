"""Rows from Gram matrices (`assurance/gram.py`): the attack is right, it is strong, and its score is no accident."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3] / "assurance"))

import gram_attack  # noqa: E402
import gram_bound  # noqa: E402
import gram_record  # noqa: E402
import gram_told  # noqa: E402

PEOPLE = 12
PLAN = gram_attack.Plan(draws=12, starts=3)
slopes_of = jax.jit(gram_told.slopes, static_argnums=(0, 1))


@pytest.fixture(scope="module")
def clear():
    """One site of twelve in the clear."""
    return gram_record.recorded((PEOPLE,), covariates=3, secure=False, rounds=4, seed=1)


@pytest.fixture(scope="module")
def masked():
    """Totals of three masked sites."""
    return gram_record.recorded((8, 7, 9), covariates=3, secure=True, rounds=2, seed=2)


def some(recorded, count):
    """(θs, what was told of them) of the last draws."""
    told = gram_told.Told(*(jnp.asarray(part[-count:]) for part in recorded.told))
    return jnp.asarray(recorded.thetas[-count:]), told


@pytest.mark.parametrize("which", ["clear", "masked"])
def test_what_the_attack_reckons_is_what_the_package_tells(which, request):
    """At the true rows, to rounding: in the clear, and of totals under masks."""
    recorded = request.getfixturevalue(which)
    thetas, told = some(recorded, 5)
    mine = gram_told.told(recorded.model, recorded.sizes, thetas, jnp.asarray(recorded.truth))
    # masked statistics are rounded to 2⁻³¹ of n/σ², some 1e3 here
    np.testing.assert_allclose(mine.gram, told.gram, rtol=1e-9, atol=2e-6)
    np.testing.assert_allclose(mine.log_det, told.log_det, rtol=1e-7)


def test_slopes_are_finite_differences(masked):
    """a bᵀ + b aᵀ of every entry of three people, one at each site; arms and outcomes too."""
    theta, rows = some(masked, 1)[0], masked.truth
    found = slopes_of(masked.model, masked.sizes, theta[0], jnp.asarray(rows))
    for person in (0, 9, 20):
        for entry in range(rows.shape[1]):
            step = np.zeros_like(rows)
            step[person, entry] = 1e-5
            up, down = (gram_told.told(masked.model, masked.sizes, theta, jnp.asarray(rows + sign * step))
                        for sign in (1, -1))
            a, b = found.a[person * rows.shape[1] + entry], found.b[person]
            expected = np.asarray(up.gram - down.gram)[0] / 2e-5
            np.testing.assert_allclose(jnp.outer(a, b) + jnp.outer(b, a), expected, atol=1e-6 * np.abs(expected).max())
            assert float(found.log_det[person * rows.shape[1] + entry]) == pytest.approx(
                float((up.log_det - down.log_det)[0]) / 2e-5, rel=1e-4, abs=1e-6)


def test_the_normal_equations_are_those_of_the_residuals(clear):
    """Misfit, gradient and J'J against automatic differentiation of the residuals, one by one."""
    thetas, goal = some(clear, 3)
    roots = gram_told.whitening(goal.gram, 1e-3)
    rows = jnp.asarray(clear.truth + 0.1 * np.random.default_rng(0).standard_normal(clear.truth.shape))

    def residuals(vector):
        now = gram_told.told(clear.model, clear.sizes, thetas, vector.reshape(rows.shape))
        gaps = roots @ (now.gram - goal.gram) @ roots / np.sqrt(2.0)
        return jnp.append(gaps.ravel(), (now.log_det - goal.log_det) / PEOPLE)

    found = gram_told.normal(clear.model, clear.sizes, thetas, rows, goal, roots)
    value, slopes = residuals(rows.ravel()), jax.jacfwd(residuals)(rows.ravel())
    assert float(found.misfit) == pytest.approx(0.5 * float(value @ value), rel=1e-9)
    np.testing.assert_allclose(found.gradient, slopes.T @ value, atol=1e-7 * float(jnp.abs(slopes.T @ value).max()))
    np.testing.assert_allclose(found.matrix, slopes.T @ slopes, atol=1e-7 * float(jnp.abs(found.matrix).max()))


def test_one_site_in_the_clear_is_laid_open(clear):
    """Nothing known but units, sizes and the number of the treated: the attack is a strong one."""
    free = gram_attack.free_entries(clear, "nothing")
    found = gram_attack.score(gram_attack.attacked(clear, free, PLAN).rows, clear, free)
    assert found.near >= PEOPLE - 2
    assert found.chance_near < 3


def test_what_else_is_known_makes_it_easier(clear):
    free = gram_attack.free_entries(clear, "column")
    one_column = gram_attack.score(gram_attack.attacked(clear, free, PLAN).rows, clear, free)
    assert one_column.near >= PEOPLE - 2
    outcomes = gram_attack.score(gram_attack.outcomes(clear, PLAN), clear, gram_attack.free_entries(clear, "outcomes"))
    assert outcomes.exact == PEOPLE
    one = gram_attack.free_entries(clear, "person", 3)
    assert gram_attack.score(gram_attack.each_person(clear, [3], PLAN), clear, one).near == 1


def test_the_score_of_shuffled_columns_is_chance(clear):
    """And the truth, in any order, scores everybody."""
    free, rng = gram_attack.free_entries(clear, "nothing"), np.random.default_rng(5)
    whole = gram_attack.score(rng.permutation(clear.truth), clear, free)
    assert (whole.near, whole.exact) == (PEOPLE, PEOPLE)
    tries = [gram_attack.score(np.column_stack([rng.permutation(column) for column in clear.truth.T]), clear, free)
             for _ in range(40)]
    near = np.array([found.near for found in tries])
    assert near.mean() == pytest.approx(tries[0].chance_near, abs=4 * near.std() / np.sqrt(20) + 0.1)


def test_the_bound_falls_from_everybody_to_nobody_as_noise_grows(clear):
    lines = list(gram_bound.lines(clear.model, clear.thetas, 36, 3, [4, 16], [0.0, 1e-2, 1e3], "sampling"))
    at = {(line.draws, line.tau, line.known): line for line in lines}
    for known in ("nothing", "column", "person"):
        known_to_03 = [at[16, tau, known].to_03 for tau in (0.0, 1e-2, 1e3)]
        assert known_to_03 == sorted(known_to_03, reverse=True)
        assert known_to_03[-1] == 0
        assert at[16, 1e3, known].expected == pytest.approx(at[16, 1e3, known].chance, rel=0.05)
        assert at[4, 1e-2, known].least >= at[16, 1e-2, known].least
    assert at[16, 0.0, "nothing"].to_01 == 36
    assert at[16, 1e-2, "person"].least <= at[16, 1e-2, "nothing"].least


def test_a_persons_own_information_is_a_block_of_all_information(clear):
    (theta,), rows = some(clear, 1)[0], jnp.asarray(clear.truth)
    found = slopes_of(clear.model, clear.sizes, theta, rows)
    root = gram_told.by_sampling(some(clear, 1)[1].gram)[0]
    whole, own = (reckon(found, root, PEOPLE) for reckon in (gram_told.information, gram_told.own_information))
    entries = rows.shape[1]
    blocks = np.asarray(whole).reshape(PEOPLE, entries, PEOPLE, entries)[np.arange(PEOPLE), :, np.arange(PEOPLE)]
    np.testing.assert_allclose(own, blocks, rtol=1e-9, atol=1e-12 * float(jnp.abs(whole).max()))


def test_the_price_of_noise_goes_to_nothing_with_it(clear):
    prices = list(gram_bound.prices(clear.model, clear.thetas, 36, 3, [1e-9, 1e-3, 1e-1], "sampling"))
    costs = [price.coefficients for price in prices]
    assert costs == sorted(costs)
    assert costs[0] < 1e-6 < costs[-1]
