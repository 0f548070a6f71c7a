"""Each baseline really is its package: it comes near a known effect, and fails when the package's class does."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedci.benchmark.run.baselines import LEARNERS, Estimate, check_installed, learner
from fedci.errors import UsageError

CALLS = {
    "BART": ("stochtree:BARTModel", "sample", "predict"),
    "BART-T": ("stochtree:BARTModel", "sample", "predict"),
    "ps-BART": ("stochtree:BARTModel", "sample", "predict"),
    "BCF": ("stochtree:BCFModel", "sample", "predict"),
    "X-Learner": ("causalml.inference.meta:BaseXRegressor", "fit", "predict"),
    "R-Learner": ("causalml.inference.meta:BaseRRegressor", "fit", "predict"),
    "OrthoRF": ("econml.orf:DMLOrthoForest", "fit", "effect_inference"),
    "OrthoRF (global residuals)": ("econml.orf:DMLOrthoForest", "fit", "effect_inference"),
    "CausalForestDML": ("econml.dml:CausalForestDML", "fit", "effect_inference"),
    "CEVAE": ("pyro.contrib.cevae:CEVAE", "fit", None),
    "GP T-learner": ("sklearn.gaussian_process:GaussianProcessRegressor", "fit", "predict"),
    "GP T-learner (ARD)": ("sklearn.gaussian_process:GaussianProcessRegressor", "fit", "predict"),
    "ridge T-learner": ("sklearn.linear_model:RidgeCV", "fit", "predict"),
}
"""The class of the package behind each baseline, what fits it and what predicts."""
HAS_INTERVALS = {"BART", "BART-T", "ps-BART", "BCF", "OrthoRF", "OrthoRF (global residuals)", "CausalForestDML",
                 "GP T-learner", "GP T-learner (ARD)"}
HAS_OUTCOMES = set(LEARNERS) - {"OrthoRF", "OrthoRF (global residuals)", "CausalForestDML"}


class Called(Exception):
    """Raised in place of a package's own method."""


def package_class(name: str) -> type:
    module, found = CALLS[name][0].split(":")
    return getattr(importlib.import_module(module), found)


def raising(*_, **__):
    raise Called


def parts(estimate: Estimate) -> list[np.ndarray]:
    return [np.asarray(part) for part in vars(estimate).values() if part is not None]


def global_state() -> list[str]:
    """What a method must leave as it found it."""
    import torch

    numbers = np.random.get_state()[1].tolist()  # noqa: NPY002
    kept = [numbers, torch.get_rng_state().tolist(), torch.get_num_threads(), logging.root.manager.disable]
    return [str(one) for one in [*kept, warnings.filters]]


def test_every_learner_is_tested():
    assert set(CALLS) == set(LEARNERS)
    assert all(name == one.name for name, one in LEARNERS.items())


# ── near a known effect ──────────────────────────────────────────────────────────────────────────────────────────────

def test_mean_effect_comes_near(method, fitted):
    """0.4: four standard errors of a difference of arm means (2·√(1 + 1 + ¼ + ¼)/√300 ≈ 0.18, half of it once
    covariates are used) leave room for shrinkage; an estimate that ignores the treatment would be off by 3."""
    assert abs(fitted["known"](method.name).cate.mean() - fitted["new"].effect.mean()) < 0.4


def test_effects_follow_the_people(method, fitted):
    """Effects have standard deviation 1, so a constant scores √PEHE 1 and no correlation; all methods can do better."""
    cate, truth = fitted["known"](method.name).cate, fitted["new"].effect
    assert np.corrcoef(cate, truth)[0, 1] > 0.8
    assert np.sqrt(np.mean((cate - truth) ** 2)) < 0.7


def test_outcomes_of_both_arms(method, fitted):
    """Where the method models outcomes, the untreated one is 1 + x₂ − x₃/2; 0.8 is half its standard deviation, 1.1."""
    found, x = fitted["known"](method.name), fitted["new"].x
    assert (found.mu0 is not None) == (found.mu1 is not None) == (method.name in HAS_OUTCOMES)
    if found.mu0 is not None:
        assert np.sqrt(np.mean((found.mu0 - (1.0 + x[:, 1] - 0.5 * x[:, 2])) ** 2)) < 0.8
        assert abs(np.mean(found.mu1 - found.mu0 - fitted["new"].effect)) < 0.4


def test_intervals(method, fitted):
    """Ordered; more than half the people covered (nominal 95%, forests and point hyper-parameters fall short); the
    interval of the ATE reaches the truth, give or take the 0.2 by which this one draw of 300 rows lies high."""
    found, truth = fitted["known"](method.name), fitted["new"].effect
    assert (found.low is not None) == (found.high is not None) == (found.ate is not None) == \
        (method.name in HAS_INTERVALS)
    if found.low is not None:
        assert np.all(found.low < found.cate)
        assert np.all(found.cate < found.high)
        assert np.mean((found.low <= truth) & (truth <= found.high)) > 0.5
        mean, low, high = found.ate
        assert low < mean < high
        assert mean == pytest.approx(found.cate.mean())
        assert low - 0.2 < truth.mean() < high + 0.2


# ── it works on what the experiments bring ───────────────────────────────────────────────────────────────────────────

def test_small_arms(method, fitted):
    """50 rows, 8 treated, 20 covariates of which one is constant and one nearly so."""
    _, found = fitted["hard"](method.name)
    assert found.cate.shape == (30,)
    assert all(np.all(np.isfinite(part)) for part in parts(found))


def test_missing_values_are_means_with_a_mark():
    """As FedCI has them in a study that imputes: the mean of the rows fitted on, and a column that says where."""
    from fedci.benchmark.learners.common import filler

    filled = filler(np.array([[1.0, np.nan, 2.0], [3.0, 4.0, 2.0], [np.nan, 8.0, 5.0]]))
    np.testing.assert_array_equal(filled(np.array([[np.nan, 1.0, np.nan], [0.0, np.nan, 1.0]])),
                                  [[2.0, 1.0, 3.0, 1.0, 0.0], [0.0, 6.0, 1.0, 0.0, 1.0]])
    whole = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(filler(whole)(whole), whole)
    np.testing.assert_array_equal(filler(np.full((2, 1), np.nan))(np.array([[np.nan]])), [[0.0, 1.0]])


@pytest.mark.parametrize("name", ["ridge T-learner", "BART", "X-Learner"])
def test_people_with_missing_values_are_fitted_and_asked_about(name, fitted):
    (x, w, y), new = fitted["rows"], fitted["new_hard"].x.copy()
    x = x.copy()
    x[::5, 1], new[::4, 2] = np.nan, np.nan
    found = LEARNERS[name].learn(x, w, y, fitted["seed"])(new)
    assert all(np.all(np.isfinite(part)) for part in parts(found))


def test_same_seed_same_numbers_and_no_trace(method, fitted, capfd):
    """Fitted again after other methods ran; nothing printed, no global state changed."""
    predict, first = fitted["hard"](method.name)
    np.random.seed(99)  # noqa: NPY002 — not a state that the first fit left behind
    before = global_state()
    again = method.learn(*fitted["rows"], fitted["seed"])(fitted["new_hard"].x)
    for one, two in zip(parts(first), parts(again), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(predict(fitted["new_hard"].x).cate, first.cate)
    assert global_state() == before
    assert "".join(capfd.readouterr()) == ""


# ── it is the package ────────────────────────────────────────────────────────────────────────────────────────────────

def test_fitting_is_the_packages(method, fitted, monkeypatch):
    monkeypatch.setattr(package_class(method.name), CALLS[method.name][1], raising)
    with pytest.raises(Called):
        method.learn(*fitted["rows"], 0)


def test_predicting_is_the_packages(method, fitted, monkeypatch):
    predict, _ = fitted["hard"](method.name)
    if method.name == "CEVAE":
        monkeypatch.setattr(importlib.import_module("pyro.contrib.cevae").Model, "y_mean", raising)
    else:
        monkeypatch.setattr(package_class(method.name), CALLS[method.name][2], raising)
    with pytest.raises(Called):
        predict(fitted["new_hard"].x)


@pytest.mark.parametrize("name", ["X-Learner", "R-Learner"])
def test_stages_are_xgboost_with_options_from_the_grid(name, fitted, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    from fedci.benchmark.learners.boosting import GRID, ROUNDS

    chosen, fit = [], xgboost.XGBRegressor.fit
    monkeypatch.setattr(xgboost.XGBRegressor, "fit",
                        lambda self, *rows, **more: (chosen.append(self.get_params()), fit(self, *rows, **more))[1])
    LEARNERS[name].learn(*fitted["rows"], 0)
    assert len(chosen) >= 4
    assert all({key: one[key] for key in GRID[0]} in GRID and 1 <= one["n_estimators"] <= ROUNDS for one in chosen)


# ── single methods ───────────────────────────────────────────────────────────────────────────────────────────────────

def test_cevae_trains_every_parameter_and_predicts_as_the_package(fitted, monkeypatch):
    """Model and guide of pyro 1.9.2 share parameter names; six tensors of the model would stay at their start."""
    torch, package = pytest.importorskip("torch"), pytest.importorskip("pyro.contrib.cevae")
    from fedci.benchmark.learners import cevae

    networks, fit = [], package.CEVAE.fit

    def recorded(self, *rows, **more):
        networks.append((self, {key: value.detach().clone() for key, value in self.named_parameters()}))
        return fit(self, *rows, **more)

    monkeypatch.setattr(package.CEVAE, "fit", recorded)
    monkeypatch.setattr(cevae, "EPOCHS", 3)
    (x, w, y), new = fitted["rows"], fitted["new_hard"].x
    predict = LEARNERS["CEVAE"].learn(x, w, y, 0)
    network, start = networks[0]
    assert not [key for key, value in network.named_parameters() if torch.equal(value, start[key])]
    with cevae._alone(0):
        effect = network.ite(torch.as_tensor(new, dtype=torch.float32)).double().numpy()
    np.testing.assert_allclose(predict(new).cate, y.std() * effect, atol=1e-5)


def test_ps_bart_sees_the_treatment_probability_as_its_last_covariate(fitted, monkeypatch):
    """Columns of what it is fitted on: x, the probability (of one logistic regression, here and there), w."""
    stochtree = pytest.importorskip("stochtree")
    from fedci.benchmark.learners.common import contained, propensity

    seen, sample = [], stochtree.BARTModel.sample
    monkeypatch.setattr(stochtree.BARTModel, "sample",
                        lambda self, **given: (seen.append(given["X_train"]), sample(self, **given))[1])
    x, w, y = fitted["rows"]
    found = LEARNERS["ps-BART"].learn(x, w, y, fitted["seed"])(fitted["new_hard"].x)
    with contained(fitted["seed"]):
        treated = propensity(x, w, fitted["seed"])(x)
    np.testing.assert_allclose(seen[0], np.column_stack([x, treated, w]))
    np.testing.assert_allclose(found.cate, found.mu1 - found.mu0)


def test_gp_intervals_are_of_the_expected_outcome(fitted, monkeypatch):
    """Against the textbook: k** − k*ᵀ (K + σ²I)⁻¹ k*, summed over arms, without the outcome noise."""
    gp = pytest.importorskip("sklearn.gaussian_process")
    arms, fit = [], gp.GaussianProcessRegressor.fit
    monkeypatch.setattr(gp.GaussianProcessRegressor, "fit",
                        lambda self, x, y: (arms.append((self, x)), fit(self, x, y))[1])
    (x, w, y), new = fitted["rows"], fitted["new_hard"].x
    found = LEARNERS["GP T-learner"].learn(x, w, y, 0)(new)
    scale = np.where(x.std(0) > 0, x.std(0), 1.0)
    z, cov = (new - x.mean(0)) / scale, 0.0
    for (model, rows), arm in zip(arms, (0, 1), strict=True):
        signal, noise = model.kernel_.k1, model.kernel_.k2.noise_level
        cross = signal(rows, z)
        kept = signal(z) - cross.T @ np.linalg.solve(signal(rows) + noise * np.eye(len(rows)), cross)
        cov = cov + y[w == arm].var() * kept
    np.testing.assert_allclose((found.high - found.low) / 2, 1.96 * np.sqrt(np.diag(cov)), rtol=1e-3)
    np.testing.assert_allclose((found.ate[2] - found.ate[1]) / 2, 1.96 * np.sqrt(cov.mean()), rtol=1e-3)


def test_forest_ate_is_the_packages(fitted, monkeypatch):
    dml = pytest.importorskip("econml.dml")
    forests, fit = [], dml.CausalForestDML.fit
    monkeypatch.setattr(dml.CausalForestDML, "fit",
                        lambda self, *rows, **more: (forests.append(self), fit(self, *rows, **more))[1])
    found = LEARNERS["CausalForestDML"].learn(*fitted["rows"], 0)(fitted["new_hard"].x)
    low, high = forests[0].ate_interval(fitted["new_hard"].x, alpha=0.05)
    np.testing.assert_allclose(found.ate, [forests[0].ate(fitted["new_hard"].x), low, high], rtol=1e-6)


# ── names, missing packages, files ───────────────────────────────────────────────────────────────────────────────────

def test_unknown_name_says_the_nearest():
    with pytest.raises(UsageError, match="'X-learner', did you mean 'X-Learner'"):
        learner("X-learner")
    assert learner("BART") is LEARNERS["BART"]


@pytest.mark.parametrize("name", list(LEARNERS))
def test_missing_package_says_what_to_install(name, monkeypatch):
    gone = LEARNERS[name].packages[-1]
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked == gone else find(asked))
    with pytest.raises(UsageError, match=f"{re.escape(name)} needs .*{gone}.*pip install .+") as told:
        check_installed(LEARNERS[name])
    assert LEARNERS[name].install in told.value.message


def test_no_package_is_loaded_before_use():
    heavy = sorted({package for one in LEARNERS.values() for package in one.packages} | {"jax"})
    code = f"import sys, fedci.benchmark.run.baselines; print(*set({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_constraints_are_names_and_versions():
    path = Path(__file__).parents[1] / "constraints-benchmark.txt"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []
