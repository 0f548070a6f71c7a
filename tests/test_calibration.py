"""Simulation-based calibration: on data drawn from the model itself, the truth is anywhere in the posterior alike.

Θ's point estimates are held at the values that made the data (hyper_sd tiny, zero mean), so that q(Φ), q(Σ), q(g) and
the predictive law are what is judged. The posterior's distribution function at the truth must be uniform.
"""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import ndtr

from fedci import FedCI, Source, Study
from fedci.model.kernels import build, cross
from fedci.moments import describe

D, SITES, ROWS, RUNS = 2, 3, 40, 200
PHI, SIGMA, DOF = np.array([[0.1, 0.05], [0.05, 0.1]]), 0.05 * np.eye(2), 10.0
MODEL = {"kernel": "matern52", "source_kernel": "matern52", "mean": {"kind": "zero"}, "standardise": False,
         "phi": {"scale": PHI.tolist(), "dof": DOF, "start_dof": 20.0},
         "sigma": {"scale": SIGMA.tolist(), "dof": DOF, "start_dof": 20.0, "learn_correlation": False},
         "weight_sd": "none", "hyper_sd": 1e-3}
ALPHA = 1e-3
"""Error rate of each uniformity test; three per case."""


def covariance(kernel: str, x: np.ndarray) -> np.ndarray:
    """The kernel at its starting length-scale √dim."""
    k, x = build(kernel), jnp.asarray(x)
    return np.asarray(cross(k, k.init(x.shape[1]), x, x)) + 1e-9 * np.eye(len(x))


def simulate(rng: np.random.Generator, inter_dependency: bool):
    """Frames of the sites, and the true expected effects of their people and of one new person each."""
    root_phi = np.linalg.cholesky(stats.wishart.rvs(DOF, PHI, random_state=rng))
    root_sigma = np.linalg.cholesky(stats.wishart.rvs(DOF, SIGMA, random_state=rng))
    xs = [rng.normal(size=(ROWS + 1, D)) + 0.5 * rng.normal(size=D) for _ in range(SITES)]
    moments = np.stack([describe(x[:ROWS]).values.T.ravel() for x in xs])
    g = np.linalg.cholesky(covariance("matern52", moments)) @ rng.normal(size=(SITES, 2)) * inter_dependency
    frames, effects = [], []
    for x, level in zip(xs, g, strict=True):
        f = np.linalg.cholesky(covariance("matern52", x)) @ rng.normal(size=(ROWS + 1, 2))
        expected = (f + level) @ root_phi.T
        both = expected + rng.normal(size=expected.shape) @ root_sigma.T
        w = rng.integers(0, 2, ROWS)
        frames.append(pd.DataFrame(x, columns=["a", "b"]).iloc[:ROWS].assign(w=w, y=both[np.arange(ROWS), w]))
        effects.append((expected[:, 1] - expected[:, 0], x[ROWS:]))
    return frames, effects


def level_of(effect, truth) -> float:
    """The posterior's distribution function at the truth."""
    return float(np.mean(ndtr((truth - np.squeeze(effect.means)) / np.sqrt(np.squeeze(effect.variances)))))


@pytest.mark.slow
@pytest.mark.parametrize("inter_dependency", [False, True])
def test_posteriors_are_calibrated(inter_dependency):
    study = Study(treatment="w", outcome="y", covariates=["a", "b"], policy="simulation",
                  options={"model": MODEL | {"inter_dependency": inter_dependency}, "optimiser": {"draws": 16}})
    levels = []
    for run in range(RUNS):
        frames, effects = simulate(np.random.default_rng((run, 77)), inter_dependency)
        result = FedCI(study, seed=run).fit([Source(f"s{i}", frame) for i, frame in enumerate(frames)])
        own = [truth[:ROWS] for truth, _ in effects]
        truth, new = effects[0]
        levels.append([level_of(result.ate(), np.mean(own)), level_of(result.ate("s0"), np.mean(own[0])),
                       level_of(result.effect_posterior(new, "s0"), truth[ROWS])])
    for name, seen in zip(("ATE", "a site's ATE", "a new person's effect"), np.transpose(levels), strict=True):
        assert stats.kstest(seen, "uniform").pvalue > ALPHA, (name, np.histogram(seen, 8, (0, 1))[0])
        covered = np.mean((seen > 0.025) & (seen < 0.975))
        assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / RUNS), (name, covered)
