"""The pooled covariance: a covariance, which landmarks approach and relevances switch; nothing of it is from data."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.rows import on_device
from fedci.model.shared import pooled
from fedci.model.shared.pooled import Pooled

D = 4


def points(n: int, seed: int = 0) -> jnp.ndarray:
    return on_device(np.random.default_rng(seed).standard_normal((n, D)))


def of(scales=(0.0, 0.0, 0.0), relevance=(0.0,) * D) -> Pooled:
    return Pooled(on_device(scales), on_device(relevance), on_device(0.0))


@jax.jit
def covariance(of: Pooled, x: jnp.ndarray, z: jnp.ndarray) -> jnp.ndarray:
    return pooled.covariance(of, pooled.placed(x), pooled.placed(z))


@partial(jax.jit, static_argnums=2)
def features(of: Pooled, x: jnp.ndarray, count: int) -> jnp.ndarray:
    return pooled.features(of, pooled.placed(x), pooled.placed(jnp.asarray(pooled.landmarks(count, D))))


@pytest.mark.parametrize("which", range(3))
def test_each_part_is_a_covariance(which):
    """Symmetric, without a negative eigenvalue beyond rounding."""
    scales = np.full(3, -40.0)
    scales[which] = 0.3
    x = points(30)
    k = np.asarray(covariance(of(scales), x, x))
    np.testing.assert_allclose(k, k.T, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(k).min() > -1e-10 * np.trace(k)


def test_the_formula():
    """By plain sums over covariates, person by person."""
    from scipy.stats import norm

    rng = np.random.default_rng(1)
    scales, relevance = rng.normal(size=3), rng.normal(size=D)
    x, z = points(5, 2), points(6, 3)
    k = np.asarray(covariance(of(scales, relevance)._replace(log_steepness=on_device(0.4)), x, z))
    share = np.exp(2 * relevance) / np.exp(2 * relevance).sum()
    for i, a in enumerate(np.asarray(x)):
        for j, b in enumerate(np.asarray(z)):
            apart = np.abs(norm.cdf(a) - norm.cdf(b))
            parts = [np.sum(share * a * b) ** 2, np.sum(share * (1 - apart)),
                     np.exp(-np.sum(np.exp(relevance + 0.4) * apart))]
            assert k[i, j] == pytest.approx(np.exp(2 * scales) @ parts, rel=1e-12)


def test_averages_along_a_covariate_are_those_over_the_people():
    """The shorter way is the same sum in another order."""
    rng = np.random.default_rng(5)
    law = Pooled(jnp.array(rng.normal(size=3)), jnp.array(rng.normal(size=D)), jnp.array(0.4))
    people, grid, at = points(7), jnp.linspace(-1.0, 1.0, 3), pooled.landmarks(6, D)
    mean = pooled.covariance_along(law, people, grid, jnp.asarray(at))
    psi = pooled.features_along(law, people, grid, at)
    for c in range(D):
        for g, value in enumerate(grid):
            moved, marks = pooled.placed(people.at[:, c].set(value)), pooled.placed(jnp.asarray(at))
            np.testing.assert_allclose(mean[c, g], pooled.covariance(law, moved, marks).mean(0), rtol=1e-12)
            np.testing.assert_allclose(psi[c, g], pooled.features(law, moved, marks).mean(0), rtol=1e-8, atol=1e-10)


def test_landmarks_carry_the_covariance_where_they_stand():
    """ψ(u)ᵀψ(u') = k(u, u') at the landmarks themselves, but for the jitter."""
    at = pooled.landmarks(12, D)
    psi, k = np.asarray(features(of(), at, 12)), np.asarray(covariance(of(), at, at))
    np.testing.assert_allclose(psi @ psi.T, k, atol=10 * pooled.JITTER * np.trace(k) / 12)


def test_more_landmarks_miss_less():
    """Σ_i k(x_i, x_i) − ‖ψ(x_i)‖² is never negative, and falls."""
    x = points(60)
    whole = np.trace(np.asarray(covariance(of(), x, x)))
    missed = [whole - float(np.sum(np.asarray(features(of(), x, m)) ** 2)) for m in (4, 16, 64)]
    assert missed[0] > missed[1] > missed[2] > 0


def test_a_covariate_without_relevance_drops_out():
    """With e⁻³⁰ of the others' relevance it changes nothing."""
    x = points(8)
    other = np.array(x)
    other[:, 1] = points(8, 9)[:, 1]
    silent = of(relevance=(0.0, -30.0, 0.0, 0.0))
    np.testing.assert_allclose(covariance(silent, x, x), covariance(silent, other, other), atol=1e-12)


def test_every_covariate_has_evenly_spaced_landmarks_and_they_are_the_same_for_ever():
    at = pooled.landmarks(8, D)
    assert pooled.landmarks(8, D) is at
    assert not at.flags.writeable
    from scipy.stats import norm
    np.testing.assert_allclose(np.sort(norm.cdf(at), axis=0), np.tile((np.arange(8)[:, None] + 0.5) / 8, (1, D)))
    assert len(np.unique(at.argsort(0).T, axis=0)) == D  # each in an order of its own
