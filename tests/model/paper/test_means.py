"""Mean functions against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.paper import means
from fedci.study.options import MeanOptions, ModelOptions

D, SITES = 3, 4
X = np.random.default_rng(0).standard_normal((6, D))
EXACT = {"rtol": 1e-14, "atol": 1e-15}
NETWORKS = {"trunk and heads": ((5, 4), (3,)), "no heads": ((5,), ()), "no trunk": ((), (3, 2)), "linear": ((), ())}


def build(kind: str, trunk=(), head=()):
    return means.build(MeanOptions(kind=kind, trunk=trunk, head=head))


def init(mean, seed: int = 0):
    return mean.init(np.random.default_rng(seed), D, SITES)


def at_rows(mean, params, site: int = 1) -> np.ndarray:
    return np.asarray(means.over_rows(mean, params, jnp.asarray(X), jnp.asarray(site)))


def test_zero():
    assert init(build("zero")) == {}
    np.testing.assert_array_equal(at_rows(build("zero"), {}), np.zeros((6, 2)))


def test_linear():
    rng = np.random.default_rng(1)
    weight, bias = rng.standard_normal((D, 2)), rng.standard_normal(2)
    params = {"weight": jnp.asarray(weight), "bias": jnp.asarray(bias)}
    np.testing.assert_allclose(at_rows(build("linear"), params), X @ weight + bias, **EXACT)


def test_a_table_gives_each_site_its_own_pair():
    value = np.random.default_rng(2).standard_normal((SITES, 2))
    for site in range(SITES):
        np.testing.assert_array_equal(at_rows(build("table"), {"value": jnp.asarray(value)}, site),
                                      np.tile(value[site], (6, 1)))


@pytest.mark.parametrize("kind", ["linear", "table"])
def test_linear_and_table_start_at_zero(kind):
    np.testing.assert_array_equal(at_rows(build(kind), init(build(kind))), 0.0)


def forward(params, x) -> np.ndarray:
    """ReLU after every layer of the trunk and every but the last of each head; outputs side by side."""
    def through(layers, x, last_is_linear):
        names = [f"layer{i}" for i in range(len(layers))]
        for name in names:
            x = x @ np.asarray(layers[name]["weight"]) + np.asarray(layers[name]["bias"])
            if not (last_is_linear and name == names[-1]):
                x = np.maximum(x, 0)
        return x

    top = through(params["trunk"], x, last_is_linear=False)
    return np.hstack([through(params[f"head{j}"], top, last_is_linear=True) for j in (0, 1)])


@pytest.mark.parametrize(("trunk", "head"), NETWORKS.values(), ids=NETWORKS)
def test_network_is_a_numpy_forward_pass(trunk, head):
    network = build("network", trunk, head)
    params = init(network)
    np.testing.assert_allclose(at_rows(network, params), forward(params, X), rtol=1e-13, atol=1e-15)


def test_network_has_the_layers_it_was_asked_for():
    shapes = jax.tree.map(np.shape, init(build("network", (5, 4), (3,))))
    layer = lambda fan_in, fan_out: {"weight": (fan_in, fan_out), "bias": (fan_out,)}  # noqa: E731
    head = {"layer0": layer(4, 3), "layer1": layer(3, 1)}
    assert shapes == {"trunk": {"layer0": layer(D, 5), "layer1": layer(5, 4)}, "head0": head, "head1": head}


def test_the_same_seed_gives_the_same_start():
    network = build("network", (5, 4), (3,))
    jax.tree.map(np.testing.assert_array_equal, init(network, 7), init(network, 7))
    differ = jax.tree.map(lambda a, b: (a != b).all(), init(network, 7), init(network, 8))
    assert all(jax.tree.leaves(differ))
    assert not np.array_equal(init(network)["head0"]["layer0"]["weight"], init(network)["head1"]["layer0"]["weight"])


def test_starting_weights_are_within_one_over_root_fan_in():
    params = build("network", (50,)).init(np.random.default_rng(0), 400, SITES)
    weight = np.asarray(params["trunk"]["layer0"]["weight"])
    assert abs(weight).max() <= 1 / 20
    # Uniform in ±b has sd b/√3; of 20 000 of them the sample sd is within 4 standard errors (kurtosis 9/5), 1.3 %.
    np.testing.assert_allclose(weight.std(), 1 / 20 / np.sqrt(3), rtol=4 * np.sqrt((9 / 5 - 1) / 4 / weight.size))


def test_mu_cannot_be_a_table(make):
    with pytest.raises(ValueError, match="table"):
        ModelOptions.model_validate(make.model().options.model_dump() | {"mean": {"kind": "table"}})
