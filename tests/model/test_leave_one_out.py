"""Leaving one person out in closed form = deleting their row from the dense joint law and conditioning on the rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model import covariance, kernels, leave_one_out, padding
from fedci.model.families import model_of
from fedci.model.paper.paper_family import Draws
from fedci.model.paper.posterior import Roots
from fedci.model.rows import BetaLaw
from fedci.model.shared import evidence
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared import noise_sd, own_root
from fedci.study.options import SharedOptions

# Covariances of condition below 1e4, jitter 1e-10 of their diagonal on one side only.
CLOSE = {"rtol": 1e-6, "atol": 1e-7}
JITTER, D, SITES = 1e-10, 3, 2
MODEL = model_of(SharedOptions(family="shared", directions=2, knots=4), D, D, SITES)


def rows(site: int, n: int = 9):
    rng = np.random.default_rng((site, 17))
    return rng.normal(size=(n, D)), rng.integers(0, 2, n), rng.normal(size=n)


def arrays(site: int):
    return padding.pad_site(*rows(site), np.zeros(4 * (D + 3)), site)


def without(cov, y, i, targets):
    """(E, Var) of the Gaussian's coordinates `targets` given all of the first len(y) coordinates but i; mean 0."""
    rest = np.array([j for j in range(len(y)) if j != i])
    weights = np.linalg.solve(cov[np.ix_(rest, rest)], cov[np.ix_(rest, targets)])
    return weights.T @ y[rest], np.diag(cov[np.ix_(targets, targets)] - weights.T @ cov[np.ix_(rest, targets)])


@pytest.fixture(scope="module")
def shared():
    mean, sd = MODEL.prior
    thetas = jnp.asarray(mean + 0.6 * sd * np.random.default_rng(3).standard_normal((2, MODEL.size)))
    total = jax.tree.map(lambda *leaves: sum(leaves),
                         *(evidence.statistics(MODEL, thetas, arrays(s), JITTER) for s in range(SITES)))
    return thetas, BetaLaw(*evidence.collapse(total))


def test_the_shared_model_over_two_sites(shared):
    """All rows of both sites, y_0, y_1 of the chosen person's expectation and their own outcome in one covariance."""
    thetas, beta = shared
    site = 1
    draws = SharedDraws(thetas, jnp.zeros((2, 1, MODEL.columns)))
    found = leave_one_out.left_out(MODEL, np.zeros(0), arrays(site), draws, beta, JITTER)
    x, w, y = (np.concatenate(part) for part in zip(*map(rows, range(SITES)), strict=True))
    owner = np.repeat(range(SITES), 9)
    for l, vector in enumerate(thetas):
        theta = MODEL.unravel(vector)
        root = np.asarray(own_root(theta))
        noise = np.asarray(noise_sd(theta)) ** 2
        mine = np.flatnonzero(owner == site)
        everyone = np.concatenate([np.arange(len(y)), mine, mine])
        arm = np.concatenate([w, np.zeros(9, int), np.ones(9, int)])
        z = np.asarray(MODEL.layout.rows(theta, jnp.asarray(x[everyone]), covariance.arms(jnp.asarray(arm))))
        k = np.asarray(kernels.cross(MODEL.kernel, theta["kernel"], *2 * (jnp.asarray(x[everyone]),)))
        own = (root @ root.T)[arm][:, arm] * k * (owner[everyone][:, None] == owner[everyone])
        cov = z @ z.T + own + np.diag(np.append(noise[w], np.zeros(18)))
        for i in range(9):
            arms, _ = without(cov, y, 9 + i, [len(y) + i, len(y) + 9 + i])
            np.testing.assert_allclose(found.arms[l, i], arms, **CLOSE)
            mean, var = without(cov, y, 9 + i, [9 + i])
            np.testing.assert_allclose([found.mean[l, i], found.var[l, i]], [mean[0], var[0]], **CLOSE)


def test_the_paper_model(make):
    model = make.model()
    theta = make.theta(model)
    x, w, y = make.rows(8, seed=5)
    u = np.zeros(model.u_dim)
    rng = np.random.default_rng(1)
    roots = Roots(jnp.asarray(np.linalg.cholesky([make.spd(rng)])), jnp.asarray(np.linalg.cholesky([make.spd(rng)])))
    draws = Draws(roots, jnp.asarray(rng.standard_normal((1, 2))))
    found = leave_one_out.left_out(model, theta, padding.pad_site(x, w, y, u, 1), draws, leave_one_out.no_beta(1),
                                   JITTER)
    law = model.law(theta, jax.tree.map(lambda leaf: leaf[0], draws), jnp.asarray(1))
    m, phi = np.asarray(law.means(jnp.asarray(x))[0]), np.asarray(law.phi)
    arm, person = np.concatenate([w, np.zeros(8, int), np.ones(8, int)]), np.tile(np.arange(8), 3)
    k = np.asarray(law.k(jnp.asarray(x), jnp.asarray(x)))[person][:, person]
    cov = phi[arm][:, arm] * k + np.diag(np.append(np.diag(np.asarray(law.sigma))[w], np.zeros(16)))
    e = y - m[np.arange(8), w]
    for i in range(8):
        arms, _ = without(cov, e, i, [8 + i, 16 + i])
        np.testing.assert_allclose(found.arms[0, i], m[i] + arms, **CLOSE)
        mean, var = without(cov, e, i, [i])
        np.testing.assert_allclose([found.mean[0, i], found.var[0, i]], [m[i, w[i]] + mean[0], var[0]], **CLOSE)
    np.testing.assert_allclose(leave_one_out.noise_sd(model, theta, draws)[0], np.sqrt(np.diag(law.sigma)))


def test_draws_are_chosen_evenly():
    assert list(leave_one_out.chosen(64)) == list(range(0, 64, 8))
    assert list(leave_one_out.chosen(3)) == [0, 1, 2]
    assert len(leave_one_out.chosen(100)) == leave_one_out.DRAWS
