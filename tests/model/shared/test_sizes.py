"""Sizes drawn at home: the sums are those at the new θ, and the law is the exact one."""

import math

import numpy as np
import pytest

from fedci.model import padding
from fedci.model.families import model_of
from fedci.model.shared import evidence, sizes
from fedci.study.options import preset

D = 3


def model(arms: int = 2, **options):
    return model_of(preset("default", {"model": {"landmarks": 8, "knots": 3, **options}}).model, D, D, 1, arms=arms)


def site(arms: int, n: int = 40):
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(n, D)), rng.integers(0, arms, n)
    return padding.pad_site(x, w, x[:, 0] + 0.5 * w * x[:, 1] + 0.3 * rng.normal(size=n), np.zeros(2), 0)


def thetas_of(one, count: int = 4) -> np.ndarray:
    mean, sd = one.prior
    return mean + 0.3 * sd * np.random.default_rng(5).standard_normal((count, mean.size))


def sums(one, thetas, rows):
    return [np.asarray(part) for part in evidence.statistics(one, thetas, rows, 1e-10)]


@pytest.mark.parametrize(("arms", "options"), [(2, {}), (3, {}), (2, {"landmarks": 0}), (2, {"common": False})])
def test_the_sums_are_those_that_the_site_would_give_at_the_new_theta(arms, options):
    """But for K_UU's jitter and rounding, which the smallest sizes enlarge."""
    one, rows = model(arms, **options), site(arms)
    thetas = thetas_of(one)
    gram, cross, *_ = sums(one, thetas, rows)
    new, new_gram, new_cross = sizes.drawn(one, thetas, gram, cross, seed=1)
    there_gram, there_cross, *_ = sums(one, new, rows)
    moved = {one.names()[i].partition("[")[0] for i in np.flatnonzero(np.ptp(new - thetas, 0))}
    assert moved >= {"effect", "linear", "hinges"}
    assert moved <= {"effect", "linear", "hinges", "common", "pooled", "pooled_effect", "confounding"}
    np.testing.assert_allclose(new_gram, there_gram, rtol=1e-9, atol=1e-9 * np.abs(there_gram).max())
    np.testing.assert_allclose(new_cross, there_cross, rtol=1e-9, atol=1e-9 * np.abs(there_cross).max())


def test_without_people_sizes_follow_the_prior(monkeypatch):
    """300 draws, each from the prior and again: means within 4.5 standard errors, sds within 18% (4.5 of theirs)."""
    monkeypatch.setattr(sizes, "SWEEPS", 1)
    one, count = model(), 300
    mean, sd = one.prior
    thetas = mean + sd * np.random.default_rng(6).standard_normal((count, mean.size))
    q = one.columns
    new, *_ = sizes.drawn(one, thetas, np.zeros((count, q * (q + 1) // 2)), np.zeros((count, q)), seed=2)
    for i in np.flatnonzero(np.ptp(new - thetas, 0)):
        assert abs(new[:, i].mean() - mean[i]) < 4.5 * sd[i] / math.sqrt(count), one.names()[i]
        assert abs(new[:, i].std() / sd[i] - 1.0) < 0.18, one.names()[i]


def test_a_size_has_the_law_that_its_evidence_gives(monkeypatch):
    """One draw of θ, its last size η drawn 1000 times from the same place: mean and sd are those of the density that
    the evidence at 400 values of η makes."""
    one, rows, count = model(landmarks=0), site(2), 1000
    theta = thetas_of(one, 1)
    gram, cross, *_ = sums(one, theta, rows)
    monkeypatch.setattr(sizes, "groups_of", lambda one: [list(groups(one))[-1]])
    monkeypatch.setattr(sizes, "SWEEPS", 1)
    new, *_ = sizes.drawn(one, *(np.repeat(part, count, 0) for part in (theta, gram, cross)), seed=3)
    at = one.names().index("effect")
    grid = np.linspace(-5.0, 3.0, 400)
    there = np.repeat(theta, len(grid), 0)
    there[:, at] = grid
    mean, sd = one.prior
    logs = np.asarray(evidence.log_evidence(evidence.statistics(one, there, rows, 1e-10), 40.0)[0])
    density = np.exp(logs - logs.max() - 0.5 * ((grid - mean[at]) / sd[at]) ** 2)
    density /= density.sum()
    true = density @ grid
    spread = math.sqrt(density @ (grid - true) ** 2)
    assert abs(new[:, at].mean() - true) < 4.5 * spread / math.sqrt(count) + 0.02 * spread
    assert abs(new[:, at].std() / spread - 1.0) < 0.11


groups = sizes.groups_of


def test_sums_that_differ_in_their_last_digits_give_draws_that_do():
    """Masked sums are rounded: no step from one branch to another."""
    one, rows = model(), site(2)
    thetas = thetas_of(one, 16)
    gram, cross, *_ = sums(one, thetas, rows)
    near = 1.0 + 1e-9 * np.random.default_rng(7).standard_normal(gram.shape)
    first, second = (sizes.drawn(one, thetas, part, cross, seed=4)[0] for part in (gram, gram * near))
    np.testing.assert_allclose(first, second, atol=1e-5)
