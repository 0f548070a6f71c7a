"""Kernels against their textbook formulas, and what every covariance function must be."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from fedci.model import kernels
from fedci.study.options import KERNEL_FLAGS, STATIONARY

D = 3


# A handful of roundings of numbers near 1.
EXACT = {"rtol": 1e-14, "atol": 1e-15}

TEXTBOOK = {
    "rbf": lambda r: np.exp(-r**2 / 2),
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
}


def points(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, D))


def random_params(kernel, seed: int = 0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + 0.4 * rng.standard_normal(leaf.shape), kernel.init(D))


def matrix(kernel, params, x, z) -> np.ndarray:
    return np.asarray(kernels.cross(kernel, params, jnp.asarray(x), jnp.asarray(z)))


@pytest.mark.parametrize("name", STATIONARY)
@pytest.mark.parametrize("flags", ["", "(ard)", "(scale)", "(ard, scale)"])
def test_a_kernel_is_its_textbook_formula(name, flags):
    kernel = kernels.build(name + flags)
    params = random_params(kernel)
    assert set(params) == {"log_length"} | ({"log_scale"} if "scale" in flags else set())
    assert params["log_length"].shape == ((D,) if "ard" in flags else ())
    length = np.exp(np.asarray(params["log_length"]))
    variance = np.exp(2 * np.asarray(params.get("log_scale", 0.0)))
    x, z = points(5, 1), points(4, 2)
    expected = variance * TEXTBOOK[name](cdist(x / length, z / length))
    np.testing.assert_allclose(matrix(kernel, params, x, z), expected, **EXACT)
    np.testing.assert_allclose(kernels.diagonal(kernel, params, jnp.asarray(x)), variance, **EXACT)


def test_sums_and_products():
    a, b, c = (matrix(kernels.build(name), {"log_length": jnp.log(length)}, points(5), points(5))
               for name, length in (("rbf", 1.0), ("matern12", 2.0), ("matern32", 3.0)))
    params = {"part0": {"part0": {"log_length": jnp.log(1.0)}, "part1": {"log_length": jnp.log(2.0)}},
              "part1": {"log_length": jnp.log(3.0)}}
    for text, expected in (("rbf * matern12 + matern32", a * b + c), ("(rbf + matern12) * matern32", (a + b) * c)):
        np.testing.assert_allclose(matrix(kernels.build(text), params, points(5), points(5)), expected, **EXACT)


@pytest.mark.parametrize("name", STATIONARY)
def test_ard_with_equal_length_scales_is_isotropic(name):
    ard, isotropic = kernels.build(f"{name}(ard)"), kernels.build(name)
    one = matrix(isotropic, {"log_length": jnp.asarray(0.3)}, points(6), points(6))
    # rtol: with one length-scale the sum is scaled, with several each term
    np.testing.assert_allclose(matrix(ard, {"log_length": jnp.full(D, 0.3)}, points(6), points(6)), one, rtol=1e-14)


expressions = st.recursive(
    st.builds(lambda name, flags: name + (f"({', '.join(sorted(flags))})" if flags else ""),
              st.sampled_from(STATIONARY), st.sets(st.sampled_from(KERNEL_FLAGS))),
    lambda part: st.tuples(part, st.sampled_from(["+", "*"]), part).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})"),
    max_leaves=4)


@settings(max_examples=25)
@given(text=expressions, seed=st.integers(0, 10**6))
def test_every_expression_is_positive_semi_definite(text, seed):
    kernel, x = kernels.build(text), points(8, seed)
    k = matrix(kernel, random_params(kernel, seed), x, x)
    np.testing.assert_array_equal(k, k.T)
    assert np.linalg.eigvalsh(k).min() > -1e-13 * np.trace(k)  # rounding of eight eigenvalues


@pytest.mark.parametrize("text", [*STATIONARY, "rbf(ard) * matern12(scale) + matern32"])
def test_gradients_are_finite_where_points_coincide(text):
    """In the parameters and in x: √r² has no derivative at 0, the kernel's is taken to be 0."""
    kernel = kernels.build(text)
    by_params, by_x = jax.grad(kernel.evaluate, argnums=(0, 1))(random_params(kernel), jnp.ones(D), jnp.ones(D))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(by_params))
    np.testing.assert_array_equal(by_x, 0.0)


@pytest.mark.parametrize("name", STATIONARY)
def test_no_digits_are_lost_far_from_the_origin(name):
    """‖x‖² − 2xz + ‖z‖² would lose everything here: at 2^30 the squares leave no digit for distances near 1."""
    rng = np.random.default_rng(0)
    near = np.round(2.0**8 * rng.standard_normal((6, D))) / 2.0**8  # multiples of 2^-8: adding 2^30 is exact
    kernel = kernels.build(name)
    params = random_params(kernel)
    np.testing.assert_array_equal(matrix(kernel, params, near + 2.0**30, near + 2.0**30),
                                  matrix(kernel, params, near, near))


def test_length_scales_start_at_the_typical_distance():
    kernel = kernels.build("rbf(ard) + rbf(scale)")
    params = kernel.init(16)
    np.testing.assert_allclose(np.exp(params["part0"]["log_length"]), np.full(16, 4.0), rtol=1e-15)
    np.testing.assert_allclose(np.exp(params["part1"]["log_length"]), 4.0, rtol=1e-15)
    assert params["part1"]["log_scale"] == 0.0


ROWS, D, DRAWS, BETAS = 45, 3, 3, 2


def test_splitting_a_kernel_loses_nothing():
    kernel = kernels.build("matern52(scale) + linear(scale) + constant + rbf*linear")
    params = jax.tree.map(lambda leaf: leaf + 0.3, kernel.init(D))
    x, z = jnp.asarray(np.random.default_rng(4).standard_normal((2, 6, D)))
    parts = kernels.split(kernel, params)
    whole = parts.constant**2 + parts.linear**2 * x @ z.T / D + parts.rest(x, z)
    np.testing.assert_allclose(whole, kernels.cross(kernel, params, x, z), rtol=1e-12)
    np.testing.assert_allclose(parts.constant**2 + parts.linear**2 * np.sum(x * x, 1) / D + parts.own(x),
                               kernels.diagonal(kernel, params, x), rtol=1e-12)
