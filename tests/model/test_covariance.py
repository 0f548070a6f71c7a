"""Lemmas 1-3 against dense covariances made from y = Φ^{1/2}(f + g) + Σ^{1/2}ε."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model import covariance

# Sums of at most a few dozen products of numbers near 1: rounding only.
EXACT = {"rtol": 1e-13, "atol": 1e-13}
N = 6
TREATMENTS = {"mixed": [0, 1, 1, 0, 1, 0], "nobody treated": [0] * N, "all treated": [1] * N}


def linear_map_covariance(root_phi, root_sigma, k, gamma):
    """Cov of all potential outcomes of two sites, from y = B z with every independent part of z written out.

    z = [f_0^1, f_1^1, f_0^2, f_1^2, g_0, g_1, ε^1, ε^2]; rows of y: site 1 [y(0); y(1)], then site 2.
    """
    n = len(k)
    to_f = np.kron(np.eye(2), np.kron(root_phi, np.eye(n)))
    to_g = np.vstack([np.kron(root_phi, np.kron(np.eye(2)[s], np.ones((n, 1)))) for s in (0, 1)])
    to_noise = np.kron(np.eye(2), np.kron(root_sigma, np.eye(n)))
    return (to_f @ np.kron(np.eye(4), k) @ to_f.T + to_g @ np.kron(np.eye(2), gamma) @ to_g.T
            + to_noise @ to_noise.T)


@pytest.mark.parametrize("seed", range(4))
def test_lemma_1_is_the_dense_covariance_between_two_sources(make, seed):
    rng = np.random.default_rng(seed)
    root_phi, root_sigma = (np.linalg.cholesky(make.spd(rng)) for _ in range(2))
    k, gamma = make.spd(rng, N), make.spd(rng)
    dense = linear_map_covariance(root_phi, root_sigma, k, gamma)
    block = np.asarray(covariance.between_sources(jnp.asarray(root_phi), jnp.asarray(gamma[0, 1])))
    # every pair of persons, every pair of arms: kron repeats the 2 × 2 block for all (i, j)
    np.testing.assert_allclose(dense[:2 * N, 2 * N:], np.kron(block, np.ones((N, N))), **EXACT)


@pytest.mark.parametrize("seed", range(4))
def test_lemma_2_within_a_source_given_g(make, seed):
    """Φ ⊗ K + Σ ⊗ I, the matrix the picked blocks below come from, is what the linear map gives when γ = 0."""
    rng = np.random.default_rng(seed)
    phi, sigma, k = make.spd(rng), make.spd(rng), make.spd(rng, N)
    dense = linear_map_covariance(np.linalg.cholesky(phi), np.linalg.cholesky(sigma), k, np.zeros((2, 2)))
    np.testing.assert_allclose(dense[:2 * N, :2 * N], np.kron(phi, k) + np.kron(sigma, np.eye(N)), **EXACT)


@pytest.mark.parametrize("w", TREATMENTS.values(), ids=TREATMENTS)
@pytest.mark.parametrize("seed", range(3))
def test_lemma_3_picks_blocks_of_the_kronecker_matrix(make, dense, seed, w):
    rng, w = np.random.default_rng(seed), np.array(w)
    phi, sigma, k = make.spd(rng), make.spd(rng), make.spd(rng, N)
    obs, mis = dense.observed_and_missing(w)
    for weight in (np.ones(N), rng.uniform(0.5, 2.0, N)):
        whole = np.kron(phi, k) + np.kron(sigma, np.diag(1.0 / weight))
        for formula, rows, columns in ((covariance.observed, obs, obs), (covariance.missing, mis, mis),
                                       (covariance.observed_missing, obs, mis)):
            block = formula(*map(jnp.asarray, (phi, sigma, k, w, weight)))
            np.testing.assert_allclose(block, whole[np.ix_(rows, columns)], **EXACT)


def printed_k_om(phi, sigma, k, w):
    """K_om as the paper prints it in Lemma 3, letter by letter (1-based φ_ab)."""
    i, j = w[:, None], w[None, :]
    factor = (1 - i) * (1 - j) * phi[1, 0] + i * j * phi[0, 1] + (1 - i) * j * phi[1, 1] + i * (1 - j) * phi[0, 0]
    return factor * k + np.diag((1 - w) * sigma[1, 0] + w * sigma[0, 1])


def test_the_printed_k_om_disagrees_with_lemma_2(make, dense):
    """The paper prints K_om with φ11 and φ22 exchanged: for w_i = 0, w_j = 1 both y_i,obs and y_j,mis are y(0), so
    their covariance is φ11 k, not φ22 k. With φ11 = φ22 the printed form agrees, so the exchange is all."""
    rng, w = np.random.default_rng(0), np.array(TREATMENTS["mixed"])
    phi, sigma, k = np.array([[1.0, 0.3], [0.3, 2.0]]), make.spd(rng), make.spd(rng, N)
    obs, mis = dense.observed_and_missing(w)
    block = (np.kron(phi, k) + np.kron(sigma, np.eye(N)))[np.ix_(obs, mis)]
    wrong = ~np.isclose(printed_k_om(phi, sigma, k, w), block)
    np.testing.assert_array_equal(wrong, w[:, None] != w[None, :])
    exchanged = np.diag(np.diag(phi)[::-1]) + np.diag([phi[0, 1]], 1) + np.diag([phi[0, 1]], -1)
    np.testing.assert_allclose(printed_k_om(exchanged, sigma, k, w), block, **EXACT)

