"""The blocks of the basis by name; and a block that nobody knew of goes through the whole model."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model import covariance, padding
from fedci.model.families import model_of
from fedci.model.shared import basis, drivers, evidence, exchanges, inducing, priors
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared_family import SharedFamily
from fedci.study.options import SharedOptions

D = 3
MODEL = model_of(SharedOptions(family="shared", directions=2, knots=4, landmarks=5), D, D, 2)


def random_theta(model: SharedFamily) -> dict:
    mean, sd = model.prior
    return model.unravel(jnp.asarray(mean + 0.5 * sd * np.random.default_rng(2).standard_normal(model.size)))


def random_people(n: int = 5):
    rng = np.random.default_rng(1)
    return jnp.asarray(rng.normal(size=(n, D))), jnp.asarray(rng.normal(size=(n, 2)))


def test_blocks_stand_one_after_the_other():
    layout = MODEL.layout
    assert [block.name for block in layout.blocks] == [
        "levels", "lines", "common", "between arms", "direction 1", "direction 2", "pooled outcome", "pooled effect"]
    for places, size in ((layout.columns, layout.width), (layout.coefficients, layout.size)):
        assert [place.start for place in places.values()] == [0, *(place.stop for place in places.values())][:-1]
        assert list(places.values())[-1].stop == size
    assert layout.size == MODEL.columns == 2 * (layout.width - 5) - 1  # for both arms: γ; one of them: landmarks


def test_a_blocks_entries_of_z_are_its_columns_by_the_arms_share():
    """z_{b,i} = (arms · R_b[:, i]) ω_b(x)."""
    theta, (x, arms) = random_theta(MODEL), random_people()
    z, omega = MODEL.layout.rows(theta, x, arms), jnp.concatenate(MODEL.layout.omega(theta, x), 1)
    for block in MODEL.layout.blocks:
        own = omega[:, MODEL.layout.columns[block.name]]
        assert own.shape == (len(x), block.width)
        expected = jnp.concatenate([(arms @ block.root(theta)[:, i])[:, None] * own for i in range(block.copies)], 1)
        np.testing.assert_array_equal(z[:, MODEL.layout.coefficients[block.name]], expected)


def test_each_block_is_what_its_name_says():
    theta, (x, _) = random_theta(MODEL), random_people()
    omega = dict(zip(MODEL.layout.columns, MODEL.layout.omega(theta, x), strict=True))
    np.testing.assert_array_equal(omega["levels"], np.ones((5, 1)))
    np.testing.assert_array_equal(omega["lines"], x / np.sqrt(D))
    np.testing.assert_array_equal(omega["common"], jnp.sum(x, 1, keepdims=True) / np.sqrt(D))
    t = x @ basis.directions(theta)
    np.testing.assert_array_equal(omega["direction 2"], basis.hinge(t[:, 1:] - basis.knots(4)[None]) / 2.0)


def test_hinges_are_straight_beyond_the_knots():
    """Second differences vanish far out: but for products, the shared function never grows faster than a line."""
    theta = MODEL.unravel(jnp.asarray(MODEL.prior[0] + 0.3 * np.random.default_rng(1).standard_normal(MODEL.size)))
    along = jnp.linspace(400, 600, 5)[:, None] * jnp.ones((1, D))
    theta |= {"pooled": jnp.array([-40.0, -1.0, -1.0])}
    z = MODEL.layout.rows(theta, along, jnp.tile(jnp.array([0.0, 1.0]), (5, 1)))
    np.testing.assert_allclose(np.diff(z, 2, axis=0), 0.0, atol=1e-8 * np.abs(z).max())


def test_rows_along_a_covariate_are_averages_of_the_peoples_rows():
    theta, (x, _) = random_theta(MODEL), random_people()
    grid = jnp.array([-1.0, 0.2, 0.9])
    found = MODEL.layout.along(theta, basis.Paths(x, grid))
    assert found.shape == (2, D, 3, MODEL.columns)
    for h, arms in enumerate(((1.0, 0.0), (-1.0, 1.0))):
        for c, g in np.ndindex(D, 3):
            rows = MODEL.layout.rows(theta, x.at[:, c].set(grid[g]), jnp.tile(jnp.array(arms), (len(x), 1)))
            np.testing.assert_allclose(found[h, c, g], rows.mean(0), rtol=1e-8, atol=1e-10)


def squares(options, d, arms):
    """A block that the model does not have."""
    yield basis.Block(name="squares", width=d, part=basis.Part("squares", "squares"),
                      columns=lambda theta, points: points.x**2 / np.sqrt(d),
                      root=lambda theta: basis.root(theta, theta["squares"]))


@pytest.fixture
def larger(monkeypatch):
    """The model with that block: one entry among the blocks and one row among the priors is all it takes. Its jitter is
    its own, so that no other test meets what is remembered of it."""
    monkeypatch.setattr(basis, "BLOCKS", (*basis.BLOCKS, squares))
    monkeypatch.setattr(priors, "TABLE", priors.TABLE | {"squares": priors.Prior(
        letter="root of the squares", shape=(3,), mean=(-1.0, -1.0, 0.0), sd=(1.0, 1.0, 0.7), reason="a test")})
    return model_of(SharedOptions(family="shared", directions=1, knots=3, landmarks=0, jitter=1.5e-10), D, D, 1)


def test_a_new_block_widens_the_basis_and_theta(larger):
    assert larger.columns == 2 * (2 + D + 3 + D) + 1
    assert larger.size == (D + 5) + 16 + 3 + D + 1 == len(larger.names())
    assert [name for name in larger.names() if "squares" in name] == ["squares[0]", "squares[1]", "squares[2]"]


def site_of(model: SharedFamily, large: bool, n: int = 40):
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(n, D)), rng.integers(0, 2, n)
    y = x[:, 0] ** 2 + 0.1 * rng.normal(size=n)
    u = np.zeros(4 * (D + 3))
    return inducing.cut(x, w, y, u, 0, model.kernel, n, block=8) if large else padding.pad_site(x, w, y, u, 0)


def test_a_new_block_is_in_the_statistics_of_small_and_large_sites(larger):
    """With all rows inducing the two are the same numbers; the tolerance is that of test_sparse, for its reason."""
    vectors = jnp.asarray(larger.prior[0][None])
    small, large = (evidence.statistics(larger, vectors, site_of(larger, large), 1e-12) for large in (False, True))
    assert small.cross.shape == (1, larger.columns)
    for name, exact, sparse in zip(small._fields, small, large, strict=True):
        np.testing.assert_allclose(sparse, exact, rtol=1e-7, atol=1e-7, err_msg=name)


def test_a_new_block_has_its_share_among_the_drivers(larger):
    """β̃ of the squares alone: they carry what the shared function does."""
    beta = np.zeros((1, 2, larger.columns))
    beta[..., larger.layout.coefficients["squares"]] = np.random.default_rng(0).normal(size=(1, 2, 2 * D))
    found = drivers.drivers(larger, SharedDraws(jnp.asarray(larger.prior[0][None]), jnp.asarray(beta)))
    shares = dict(zip([part.name for part in drivers.parts_of(larger)], found.shares.T, strict=True))
    assert list(shares) == ["lines", "direction 1", "squares", "sites' own"]
    np.testing.assert_array_equal([shares["lines"], shares["direction 1"]], np.zeros((2, 2)))
    assert (shares["squares"] > 0).all()
    np.testing.assert_allclose(found.shares.sum(1), 1.0)


def test_a_new_block_does_not_move_where_the_start_looks_for_the_lines(larger):
    """The ridge regression's directions are those of the slopes, wherever the other blocks stand."""
    slopes = np.random.default_rng(3).normal(size=(2, D))
    beta = np.zeros(larger.columns)
    beta[larger.layout.coefficients["lines"]] = slopes.ravel()
    expected = (np.asarray(basis.root(larger.ridge, jnp.asarray(larger.ridge["linear"]))) @ slopes).T
    np.testing.assert_array_equal(exchanges._slopes(larger, larger.ridge, beta), expected)


def test_the_observed_arm_is_picked_by_its_indicator():
    """arms = [1 − w, w]: the effect's row is the difference of the two arms' rows."""
    theta, (x, _) = random_theta(MODEL), random_people()
    of = [MODEL.layout.rows(theta, x, covariance.arms(jnp.full(5, w))) for w in (0, 1)]
    effect = MODEL.layout.rows(theta, x, jnp.tile(jnp.array([-1.0, 1.0]), (5, 1)))
    np.testing.assert_allclose(effect, of[1] - of[0], rtol=1e-12, atol=1e-14)  # two products instead of one
