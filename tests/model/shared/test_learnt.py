"""A large site's functions at any x, from their coefficients: the effect is the difference of the arms."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.shared import learnt
from support.large import D, make

M, HIDDEN, BETAS = 4, 6, 2


@pytest.fixture(scope="module")
def known():
    """Coefficients drawn at random: no row was seen."""
    model, rng = make(), np.random.default_rng(0)
    inducing = jnp.asarray(rng.standard_normal((M, D)))
    vector = jnp.asarray(model.prior[0])
    root = learnt.inducing_root(model, model.unravel(vector), inducing, 1e-10)
    width = model.layout.width + M
    return model, learnt.Learnt(vector, jnp.asarray(rng.standard_normal((BETAS, 2, width))),
                                jnp.asarray(rng.standard_normal((2, HIDDEN, width))), root, inducing)


def test_an_effect_is_the_difference_of_the_arms(known):
    x = jnp.asarray(np.random.default_rng(1).standard_normal((5, D)))
    means, cov = learnt.arms_at(*known, x)
    mean, var = learnt.effect_at(*known, x)
    np.testing.assert_allclose(mean, means[..., 1] - means[..., 0], rtol=1e-12)
    np.testing.assert_allclose(var, cov[:, 1, 1] + cov[:, 0, 0] - 2.0 * cov[:, 0, 1], rtol=1e-10)


def test_inducing_inputs_leave_nothing_open_where_they_stand(known):
    """But for the jitter, 1e-10 of the kernel's size, which a condition number of 1e3 takes to 1e-7."""
    model, law = known
    theta = model.unravel(law.theta)
    at = learnt.features(model, theta, law.inducing, law.root, law.inducing)
    away = learnt.features(model, theta, law.inducing + 3.0, law.root, law.inducing)
    np.testing.assert_allclose(learnt.left(model, theta, law.inducing, at), 0.0, atol=1e-7)
    assert (np.asarray(learnt.left(model, theta, law.inducing + 3.0, away)) > 1e-3).all()
