"""The basis of the function that all sites share."""

import jax.numpy as jnp
import numpy as np

from fedci.model.families import model_of
from fedci.study.options import SharedOptions

D, SITES = 3, 2
MODEL = model_of(SharedOptions(family="shared", directions=2, knots=4), D, D, SITES)


def test_hinges_are_straight_beyond_the_knots():
    """Second differences vanish far out: the shared function never grows faster than a line."""
    theta = MODEL.unravel(jnp.asarray(MODEL.prior[0] + 0.3 * np.random.default_rng(1).standard_normal(MODEL.size)))
    along = jnp.linspace(400, 600, 5)[:, None] * jnp.ones((1, D))
    z = MODEL.layout.rows(theta, along, jnp.tile(jnp.array([0.0, 1.0]), (5, 1)))
    np.testing.assert_allclose(np.diff(z, 2, axis=0), 0.0, atol=1e-8 * np.abs(z).max())
