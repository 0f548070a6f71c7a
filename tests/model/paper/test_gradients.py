"""The gradient a federation adds up, against finite differences in every parameter.

The models together use every option but linear r and tabled h: test_federated has those, against a dense gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model import padding
from fedci.model.paper import elbo, posterior
from fedci.model.paper.paper_family import PaperFamily
from fedci.model.paper.posterior import Roots
from fedci.table.moments import describe

SIZES, DRAWS, JITTER = (5, 8), 3, 1e-10
MODELS = {
    "linear μ, r a table, h linear, kernels added and multiplied, all of q learnt, moments with sd": {
        "kernel": "rbf(ard) * matern12(scale) + matern12(scale)", "source_kernel": "matern52(ard)",
        "posterior_kernel": "rbf(ard) + matern32(scale)", "source_mean": {"kind": "table"},
        "posterior_mean": {"kind": "linear"}, "moments_spread": "sd", "weight_sd": None, "hyper_sd": None},
    "μ, r and h networks, fixed dof, correlations in [0, 1], penalties": {
        "kernel": "matern52(ard, scale)", "mean": {"kind": "network", "trunk": [4], "head": [3]},
        "source_mean": {"kind": "network", "trunk": [2]},
        "posterior_mean": {"kind": "network", "trunk": [2], "head": [2]},
        "phi": {"scale": ((0.5, 0.2), (0.2, 0.4)), "dof": 6.0, "learn_dof": False, "correlation": "positive"},
        "sigma": {"scale": ((0.2, 0.1), (0.1, 0.3)), "dof": 8.0, "learn_dof": False, "correlation": "positive"},
        "weight_sd": 0.6},
    "no inter-dependency, Σ's correlation fixed, no μ": {
        "inter_dependency": False, "kernel": "matern32", "mean": {"kind": "zero"},
        "sigma": {"scale": ((0.2, 0.05), (0.05, 0.3)), "dof": 5.0, "learn_correlation": False}},
}


class Federation(NamedTuple):
    model: PaperFamily
    u: jnp.ndarray
    sites: list
    uniforms: np.ndarray

    def objective(self, vector):
        """Σ_s site term + data-free term, with the draws that belong to Θ."""
        roots = elbo.draw(self.model, vector, self.uniforms).roots
        terms = [elbo.evaluate_site(self.model, vector, roots, site, JITTER)[0] for site in self.sites]
        return float(sum(terms) + elbo.evaluate_global(self.model, vector, self.u)[0])

    def gradient(self, vector):
        """As the coordinator adds it up."""
        roots = elbo.draw(self.model, vector, self.uniforms).roots
        replies = [elbo.evaluate_site(self.model, vector, roots, site, JITTER)[1] for site in self.sites]
        by_theta, by_roots = jax.tree.map(lambda *leaves: sum(leaves), *replies)
        data_free = elbo.evaluate_global(self.model, vector, self.u)[1]
        jacobian = elbo.draw(self.model, vector, self.uniforms).jacobian
        return np.asarray(by_theta + data_free + elbo.pull_back(self.model, jacobian, by_roots))


def moments(x, w, y, spread):
    """u of a site: mean, spread, skewness and kurtosis of y(0), y(1), the covariates and the treatment."""
    columns = y[w == 0][:, None], y[w == 1][:, None], x, w[:, None].astype(float)
    mean, variance, *shape = np.hstack([describe(part).values for part in columns])
    return np.stack([mean, variance if spread == "variance" else np.sqrt(variance), *shape]).T.ravel()


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def federation(make, request):
    """Two sites, whose u are their own moments."""
    model = make.model(sites=len(SIZES), **request.param)
    rows = [make.rows(n, seed) for seed, n in enumerate(SIZES)]
    u = np.stack([moments(*part, model.options.moments_spread) for part in rows])
    sites = [padding.pad_site(*part, u[s], s) for s, part in enumerate(rows)]
    return Federation(model, jnp.asarray(u), sites, posterior.common_uniforms(0, 0, DRAWS))


@pytest.fixture(scope="module")
def vector(make, federation):
    return make.theta(federation.model, seed=1)


@pytest.fixture(scope="module")
def named_gradient(federation, vector):
    return dict(zip(federation.model.names(), federation.gradient(vector), strict=True))


def difference(function, at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Central differences of fourth order in every entry: the error is step⁴/30 · f⁗′ and rounding/step."""
    def along(direction):
        f = [function(at + k * step * direction) for k in (-2, -1, 1, 2)]
        return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step)

    return np.array([along(unit) for unit in np.eye(at.size)])


# 1e-12 of truncation times fifth derivatives (up to 1e3: Bartlett draws in d, length-scales), 1e-12 of rounding.
FINITE = {"rtol": 1e-7, "atol": 1e-8}


def test_the_federated_gradient_is_right_in_every_parameter(federation, vector, named_gradient):
    expected = difference(federation.objective, np.asarray(vector))
    wrong = {name: (ours, theirs)
             for (name, ours), theirs in zip(named_gradient.items(), expected, strict=True)
             if not np.isclose(ours, theirs, **FINITE)}
    assert not wrong


def test_every_parameter_matters(named_gradient):
    """A parameter whose gradient is exactly zero would make the test above empty; only a dead ReLU may have one."""
    idle = {name for name, slope in named_gradient.items() if slope == 0}
    assert all("_mean." in name or name.startswith("mean.") for name in idle)
    assert len(idle) <= len(named_gradient) / 3


def test_the_gradient_in_the_draws(federation, vector):
    """Of all four entries of each root: a site does not assume that they are triangular."""
    model, site = federation.model, federation.sites[0]
    roots = elbo.draw(model, vector, federation.uniforms).roots
    _, (_, by_roots) = elbo.evaluate_site(model, vector, roots, site, JITTER)

    def value(entries):
        return float(elbo.evaluate_site(model, vector, Roots(*entries.reshape(2, DRAWS, 2, 2)), site, JITTER)[0])

    expected = difference(value, np.ravel(roots)).reshape(2, DRAWS, 2, 2)
    for ours, theirs in zip(by_roots, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, **FINITE)
