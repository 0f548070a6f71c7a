"""How probable treatment is: γ from the sums of a fit's start is γ from rows in one place."""

import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.shared import chances, evidence, exchanges
from fedci.study.options import preset
from tests_support import SMALL


def rows_of(n: int = 60, d: int = 4, tells: float = 1.0, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    w = (rng.random(n) < 1.0 / (1.0 + np.exp(-tells * x[:, 0]))).astype(float)
    return x - x.mean(0), w - w.mean()


def test_the_mean_over_shares_is_that_of_dense_regressions():
    """p(w | r) of N(0, σ²(I + XXᵀ/ridge)) with 1/σ² as the prior of σ², its n − 1 degrees of freedom about the mean."""
    x, w = rows_of()
    n, d = x.shape
    log_p, means = [], []
    for share in chances.SHARES:
        ridge = (1.0 - share) / share * d
        V = np.eye(n) + x @ x.T / ridge
        log_p.append(-0.5 * np.linalg.slogdet(V)[1] - 0.5 * (n - 1) * np.log(w @ np.linalg.solve(V, w)))
        means.append(np.linalg.solve(x.T @ x + ridge * np.eye(d), x.T @ w))
    weight = np.exp(np.array(log_p) - max(log_p))
    np.testing.assert_allclose(chances.shrunk(x.T @ x, x.T @ w, w @ w, n), weight @ np.array(means) / weight.sum(),
                               rtol=1e-9)


@pytest.mark.parametrize(("tells", "least", "most"), [(0.0, 0.0, 0.5), (3.0, 0.7, 1.0)])
def test_chance_is_shrunk_away_and_what_covariates_tell_is_kept(tells, least, most):
    """Sizes of xγ, as shares of the least squares estimate's: over 20 samples of 60 people and 10 covariates."""
    shares = []
    for seed in range(20):
        x, w = rows_of(d=10, tells=tells, seed=seed)
        found = x @ chances.shrunk(x.T @ x, x.T @ w, w @ w, len(w))
        shares.append(np.linalg.norm(found) / np.linalg.norm(x @ np.linalg.lstsq(x, w, rcond=None)[0]))
    assert least <= np.mean(shares) <= most


def test_nobody_tells_nothing():
    assert not chances.shrunk(np.zeros((3, 3)), np.zeros(3), 0.0, 0).any()
    model = model_of(preset("default", SMALL).model, 3, 3, 1)
    assert not chances.slopes(model, np.zeros(model.columns * (model.columns + 1) // 2), np.eye(2), 10).any()


@pytest.mark.parametrize("arms", [2, 3])
def test_from_the_sums_of_the_start_it_is_that_of_the_rows(arms):
    """Each arm's regression beside a level of each site, all rows in one place; x as large as it is within sites. 2%:
    sites' levels are at their prior, not free."""
    rng, sizes = np.random.default_rng(8), (70, 50)
    model = model_of(preset("default", SMALL).model, 3, 3, 2, arms=arms)
    x = [rng.standard_normal((n, 3)) + shift for n, shift in zip(sizes, (0.3, -0.4), strict=True)]
    w = [np.clip(np.round(part[:, 0] + rng.normal(size=len(part))), 0, arms - 1).astype(int) for part in x]
    sites = [model.rows(part, arm, rng.normal(size=len(arm)), np.zeros(2), s)
             for s, (part, arm) in enumerate(zip(x, w, strict=True))]
    start = jnp.asarray(model.ravel(model.ridge))[None]
    gram = sum(np.asarray(evidence.statistics(model, start, rows, 1e-12).gram)[0] for rows in sites)
    found = chances.slopes(model, gram, np.asarray(exchanges._root_of_lines(model, model.ridge)), sum(sizes))
    within = np.concatenate([part - part.mean(0) for part in x])
    size = np.sqrt(np.mean(within**2))
    within /= size
    for arm in range(1, arms):
        told = np.concatenate([(part == arm) - np.mean(part == arm) for part in w])
        expected = chances.shrunk(within.T @ within, within.T @ told, told @ told, sum(sizes)) / size
        np.testing.assert_allclose(found[:, arm - 1], expected, atol=0.02 * np.abs(expected).max())
