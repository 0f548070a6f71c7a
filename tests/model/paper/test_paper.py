"""Θ as a nested dict and as one vector; models that are equal share a compilation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from fedci.model.paper.paper_family import PaperFamily
from fedci.study.options import ModelOptions


def test_vector_and_dict_are_the_same_numbers(make):
    model = make.model(mean={"kind": "network", "trunk": [4], "head": [2]})
    vector = make.theta(model)
    theta = model.unravel(vector)
    assert len(vector) == model.size == len(model.names())
    np.testing.assert_array_equal(jax.flatten_util.ravel_pytree(theta)[0], vector)
    np.testing.assert_array_equal(model.first_vector(3), jax.flatten_util.ravel_pytree(model.initial(3))[0])


def test_names_say_which_entry_is_which(make):
    model = make.model()
    for i, name in enumerate(model.names()):
        theta = model.unravel(jnp.arange(model.size, dtype=float))
        path, _, index = name.partition("[")
        for key in path.split("."):
            theta = theta[key]
        assert theta[tuple(map(int, index.rstrip("]").split(",")))] == i if index else theta == i


def test_theta_has_no_source_level_without_inter_dependency(make):
    assert set(make.model(inter_dependency=False).initial(0)) == {"kernel", "mean", "phi", "sigma"}
    assert set(make.model().initial(0)) == {"kernel", "mean", "phi", "sigma", "source_kernel", "source_mean",
                                         "posterior_kernel", "posterior_mean"}


def test_only_networks_draw_on_the_seed(make):
    plain, network = make.model(), make.model(mean={"kind": "network", "trunk": [4]})
    np.testing.assert_array_equal(plain.first_vector(0), plain.first_vector(1))
    assert not np.array_equal(network.first_vector(0), network.first_vector(1))
    np.testing.assert_array_equal(network.first_vector(5), network.first_vector(5))


def test_equal_models_are_one(make):
    model = make.model()
    options = ModelOptions.model_validate(model.options.model_dump())
    copy = PaperFamily(options=options, covariates=3, described=3, sites=3)
    assert copy == model
    assert hash(copy) == hash(model)
    assert make.model() is model
    assert make.model(sites=4) != model
    assert make.model(jitter=1e-9) != model


def test_x_moments_stand_between_the_outcomes_and_the_treatments(make):
    """u = [ỹ(0), ỹ(1), x̃, w̃], four moments each."""
    model = make.model()
    labels = [f"{column}{k}" for column in ("y0", "y1", "a", "b", "c", "w") for k in range(4)]
    assert len(labels) == model.u_dim
    assert labels[model.x_moments] == [f"{column}{k}" for column in "abc" for k in range(4)]


def test_everything_is_float64(make):
    model = make.model(mean={"kind": "network", "trunk": [4]})
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(model.initial(0)))
