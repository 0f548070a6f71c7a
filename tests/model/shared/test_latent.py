"""Outcomes of 0 and 1: the bound is one, ξ raises it, and sums over sites are what one place computes on all rows."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit

from fedci.effect import person_weights
from fedci.model import covariance, exact, kernels, predict
from fedci.model.families import model_of
from fedci.model.likelihood import BINARY
from fedci.model.rows import Anchor, BetaLaw, Known, Rows
from fedci.model.shared import evidence, latent
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.shared import own_root
from fedci.study.options import SharedOptions

D, SITES, ROWS = 2, 2, 9
MODEL = model_of(SharedOptions(family="shared", directions=1, knots=3, landmarks=4), D, D, SITES, "binary")
JITTER = 1e-10
NOTHING = np.zeros(0)


def people(site: int, n: int = ROWS):
    rng = np.random.default_rng((site, 11))
    x = rng.normal(size=(n, D))
    return x, rng.integers(0, 2, n), (rng.uniform(size=n) < expit(2.0 * x[:, 0])).astype(float)


def rows(site: int, flips: float = 0.0):
    return MODEL.rows(*people(site), np.zeros(4 * (D + 3)), site, flips)


def thetas(count: int = 2):
    mean, sd = MODEL.prior
    return jnp.asarray(mean + 0.5 * sd * np.random.default_rng(3).standard_normal((count, MODEL.size)))


def summed(local):
    parts = [evidence.statistics(MODEL, thetas(), rows(s), JITTER, local[s]) for s in range(SITES)]
    return jax.tree.map(lambda *leaves: sum(leaves), *parts)


def anchor_of(total) -> Anchor:
    return Anchor(thetas(), total.gram, total.cross)


@pytest.fixture(scope="module")
def first():
    """(what each site's bound has of its rows, the sums) where nothing is known yet."""
    local = [rows(s).local(MODEL, None, 2, False) for s in range(SITES)]
    return local, summed(local)


@pytest.fixture(scope="module")
def settled(first):
    """The same after the anchor was moved thirty times."""
    total = first[1]
    for _ in range(30):
        local = [rows(s).local(MODEL, anchor_of(total), 2, False) for s in range(SITES)]
        total = summed(local)
    return local, total


def prior_covariance(vector):
    """Of the log odds of all rows of all sites."""
    theta = MODEL.unravel(vector)
    x, w, _ = (np.concatenate(part) for part in zip(*map(people, range(SITES)), strict=True))
    owner = np.repeat(range(SITES), ROWS)
    z = np.asarray(MODEL.layout.rows(theta, jnp.asarray(x), covariance.arms(jnp.asarray(w))))
    root = np.asarray(own_root(theta))
    k = np.asarray(kernels.cross(MODEL.kernel, theta["kernel"], jnp.asarray(x), jnp.asarray(x)))
    return z @ z.T + (root @ root.T)[w][:, w] * k * (owner[:, None] == owner)


def dense_bound(vector, weight, xi, y):
    """log ∫ Π exp(κη − ½ωη² + log σ(ξ) − ½ξ + ½ωξ²) N(η; 0, K) dη = constants + ½κᵀ(K⁻¹ + Ω)⁻¹κ − ½ log|I + ΩK|."""
    k, kappa = prior_covariance(vector), y - 0.5
    inner = np.eye(len(y)) + weight[:, None] * k
    return (np.sum(log_expit(xi) - 0.5 * xi + 0.5 * weight * xi**2) + 0.5 * kappa @ k @ np.linalg.solve(inner, kappa)
            - 0.5 * np.linalg.slogdet(inner)[1])


def test_the_sums_over_sites_give_the_bound_that_one_place_computes(first):
    """Relative 1e-7: jitter 1e-10 on covariances whose condition is below 1e3."""
    local, total = first
    values, _ = evidence.log_evidence(total, float(SITES * ROWS))
    y = np.concatenate([people(s)[2] for s in range(SITES)])
    for one, vector in enumerate(thetas()):
        weight = np.concatenate([np.asarray(part.weight[one, :ROWS]) for part in local])
        xi = np.concatenate([xi_at(rows_touch(s))[0, :ROWS] for s in range(SITES)])
        assert values[one] == pytest.approx(dense_bound(vector, weight, xi, y), rel=1e-7)


def xi_at(found):
    return np.sqrt(np.asarray(found.mean) ** 2 + np.asarray(found.var))


def rows_touch(site: int):
    return latent._anchored(MODEL, rows(site), latent.nowhere(MODEL), False)


@pytest.mark.parametrize("flips", [0.0, 0.05])
def test_the_bound_of_a_row_is_below_its_likelihood_and_touches_it(flips):
    """κη − ½ωη² + constant against log((1 − 2p)σ(±η) + p), for any ξ and r; at η = ±ξ, without flips, they meet."""
    eta = np.linspace(-8.0, 8.0, 401)
    for y in (0.0, 1.0):
        truth = np.log(flips + (1.0 - 2.0 * flips) * expit((2.0 * y - 1.0) * eta))
        for xi in (1e-6, 0.3, 2.0, 6.0):
            at = BINARY.touching(*map(jnp.asarray, ([y], flips, [xi * (2.0 * y - 1.0)], [xi**2])))
            own = BINARY.bounded(jnp.array([y]), flips, jnp.ones(1), at)
            w, pseudo = float(own.weight[0]), float(own.y[0])
            bound = (-0.5 * float(own.price) - 0.5 * w * (pseudo - eta) ** 2
                     + 0.5 * np.log(w) - 0.5 * np.log(2.0 * np.pi))
            assert (bound <= truth + 1e-12).all()
            if not flips:
                near = np.interp([-xi, xi], eta, truth - bound)
                np.testing.assert_allclose(near, 0.0, atol=1e-3)  # between two points of the grid


def test_the_sums_are_below_the_evidence(settled):
    """log p(y | θ) by a million draws of η: its standard error, by the delta method, is below 0.05."""
    values, _ = evidence.log_evidence(settled[1], float(SITES * ROWS))
    y = np.concatenate([people(s)[2] for s in range(SITES)])
    rng = np.random.default_rng(0)
    for value, vector in zip(values, thetas(), strict=True):
        root = np.linalg.cholesky(prior_covariance(vector) + 1e-10 * np.eye(len(y)))
        logs = np.concatenate([np.sum(log_expit((2.0 * y - 1.0) * (rng.standard_normal((100_000, len(y))) @ root.T)), 1)
                               for _ in range(10)])
        weights = np.exp(logs - logs.max())
        evidence_by_draws = logs.max() + np.log(weights.mean())
        assert weights.std() / weights.mean() / 1e3 < 0.05
        assert evidence_by_draws - 3.0 < value < evidence_by_draws + 0.15


def test_moving_the_anchor_raises_the_bound_until_it_settles(first, settled):
    before, after = (np.asarray(evidence.log_evidence(part[1], float(SITES * ROWS))[0]) for part in (first, settled))
    again = summed([rows(s).local(MODEL, anchor_of(settled[1]), 2, False) for s in range(SITES)])
    assert (after > before + 0.01).all()
    np.testing.assert_allclose(evidence.log_evidence(again, float(SITES * ROWS))[0], after, atol=1e-4)


def test_where_it_settles_xi_is_the_root_mean_square_of_the_log_odds(settled):
    """E η² under the Gaussian that ω and η̃ make of all rows, by plain linear algebra. 1e-3: what thirty moves leave."""
    local, _ = settled
    for one, vector in enumerate(thetas()):
        weight, pseudo = (np.concatenate([np.asarray(getattr(part, name)[one, :ROWS]) for part in local])
                          for name in ("weight", "y"))
        k = prior_covariance(vector)
        gain = k @ np.linalg.inv(k + np.diag(1.0 / weight))
        mean, cov = gain @ pseudo, k - gain @ k
        np.testing.assert_allclose(np.sqrt(mean**2 + np.diag(cov)),
                                   xi_of(weight), rtol=1e-3)


def xi_of(weight):
    """ω⁻¹, by bisection: ω falls."""
    low, high = np.zeros_like(weight), np.full_like(weight, 50.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = np.tanh(0.5 * np.maximum(middle, 1e-12)) / (2.0 * np.maximum(middle, 1e-12)) > weight
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


def test_the_pulled_back_gradient_is_the_derivative_with_the_anchor_held(settled):
    local, total = settled
    cotangents = evidence.log_evidence(total, float(SITES * ROWS))[1]
    pulled = sum(evidence.pull_back(MODEL, thetas(), rows(s), JITTER, cotangents, local[s]) for s in range(SITES))
    line = np.random.default_rng(5).standard_normal((2, MODEL.size)) * ~MODEL.held  # these have no gradient

    def at(step):
        parts = [evidence.statistics(MODEL, thetas() + step * line, rows(s), JITTER, local[s]) for s in range(SITES)]
        both = jax.tree.map(lambda *leaves: sum(leaves), *parts)
        return np.asarray(evidence.log_evidence(both, float(SITES * ROWS))[0])

    slope = (at(1e-5) - at(-1e-5)) / 2e-5
    np.testing.assert_allclose(np.sum(pulled * line, 1), slope, rtol=1e-5)


def test_one_anchor_for_other_draws_is_the_average(settled):
    """ξ² of each of the anchor's draws, averaged; the same for all."""
    anchor = anchor_of(settled[1])
    own = latent._anchored(MODEL, rows(0), anchor, False)
    many = rows(0).local(MODEL, anchor, 5, False)
    expected = np.sqrt(np.mean(xi_at(own) ** 2, 0))
    assert many.weight.shape[0] == 5
    np.testing.assert_allclose(xi_of(np.asarray(many.weight))[:, :ROWS], np.repeat(expected[None, :ROWS], 5, 0),
                               rtol=1e-6)


@pytest.fixture(scope="module")
def draws(settled):
    law = evidence.collapse(settled[1])
    rng = np.random.default_rng(7)
    away = np.linalg.solve(np.swapaxes(np.asarray(law.root), 1, 2), rng.standard_normal((2, MODEL.columns, 2)))
    away = np.swapaxes(away, 1, 2)
    return SharedDraws(thetas(), jnp.asarray(np.asarray(law.mean)[:, None] + np.concatenate([away, -away], 1)))


def test_risks_of_the_sites_people_are_drawn_from_their_law(draws):
    """Many draws of f^s for one (θ, β̃): mean and covariance of η are those of `exact.arms_at` at the people's own x.
    4 standard errors of 20 000 draws."""
    site, one = rows(0), jax.tree.map(lambda leaf: leaf[:1], draws)
    local = site.given(MODEL, one)
    seen, count = site.seen(jax.tree.map(lambda leaf: leaf[0], local)), 20_000
    draw = SharedDraws(one.theta[0], jnp.repeat(one.beta[0, :1], count, 0))
    normals = jnp.asarray(np.random.default_rng(0).standard_normal((count, 3, seen.y.shape[0])))
    eta = np.asarray(latent.drawn(MODEL, seen, draw, normals, JITTER))[:, :ROWS]
    law = MODEL.law(NOTHING, draw._replace(beta=one.beta[0, :1]), seen.index)
    mean, cov = exact.arms_at(law, seen, exact.condition(law, seen, JITTER), seen.x[:ROWS])
    sd = np.sqrt(np.diagonal(np.asarray(cov), axis1=1, axis2=2))
    assert (np.abs(eta.mean(0) - np.asarray(mean)[0]) < 4.0 * sd / np.sqrt(count) + 1e-6).all()
    for i in range(ROWS):
        np.testing.assert_allclose(np.cov(eta[:, i].T), cov[i], atol=4.0 * 1.5 * sd[i].max() ** 2 / np.sqrt(count))


def test_sums_of_risks_are_sums_over_the_people_and_within_their_number(draws):
    site = rows(0)
    sums = np.asarray(site.effects(MODEL, NOTHING, draws, np.zeros(1), JITTER).risks)
    weights = person_weights(people(0)[1], np.ones(ROWS))
    assert sums.shape == (8, 2, 3)
    assert (sums > 0).all()
    assert (sums < weights.sum(1)).all()
    np.testing.assert_allclose(sums[..., 0], sums[..., 1] + sums[..., 2])


def test_weighed_sums_have_the_draws_of_the_sums_over_the_populations(draws):
    site, weights = rows(0), person_weights(people(0)[1], np.ones(ROWS))
    sums = np.asarray(site.effects(MODEL, NOTHING, draws, np.zeros(1), JITTER).risks)
    found = site.weighed(MODEL, NOTHING, draws, weights, JITTER)
    np.testing.assert_allclose(found.sums, sums, rtol=1e-12)
    assert not np.asarray(found.cov).any()


def test_padding_changes_no_risk(draws):
    few = rows(0)
    twice = {name: jnp.concatenate([part, jnp.zeros_like(part)]) for name in ("x", "w", "y", "mask")
             for part in [getattr(few.rows, name)]}
    ones = jnp.ones(twice["y"].shape)
    many = few._replace(rows=few.rows._replace(**twice, weight=ones), more=ones)
    for one, other in zip(few.given(MODEL, draws)[:2], many.given(MODEL, draws)[:2], strict=True):
        np.testing.assert_allclose(one[:, :ROWS], other[:, :ROWS], rtol=1e-8)
    new = np.random.default_rng(1).standard_normal((3, D))
    for one, other in zip(*(predict.outcomes_at(MODEL, NOTHING, form.known(MODEL, draws, JITTER), draws, new, JITTER)
                            for form in (few, many)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_a_person_left_out_is_one_whose_row_is_not_there(draws, settled):
    """The law of η_i without i's pseudo-outcome, with ω and η̃ of the others held, by deleting the row from the joint
    Gaussian of both sites' log odds; P must be that of the same ω, so it is computed here."""
    parts = [rows(s).given(MODEL, draws) for s in range(SITES)]
    total = summed(parts)
    law = evidence.collapse(total)
    out = rows(0).left_out(MODEL, NOTHING, draws, BetaLaw(law.mean, law.root), JITTER)
    weight, pseudo = (np.concatenate([np.asarray(getattr(part, name)[0, :ROWS]) for part in parts])
                      for name in ("weight", "y"))
    k = prior_covariance(draws.theta[0])
    for i in range(0, ROWS, 4):
        rest = np.delete(np.arange(len(weight)), i)
        gain = np.linalg.solve(k[np.ix_(rest, rest)] + np.diag(1.0 / weight[rest]), k[rest, i])
        np.testing.assert_allclose(out.mean[0, i], gain @ pseudo[rest], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(out.var[0, i], k[i, i] - gain @ k[rest, i], rtol=1e-4)


@pytest.mark.parametrize("flips", [0.0, 0.03])
def test_the_nearest_gaussian_is_stationary(flips):
    """One person, η ~ N(0, 2²) beforehand: no Gaussian near the one that the steps end at has a higher E log p(ỹ | η) −
    KL. Its mean is the posterior's to 5 % of an sd, and its sd to 5 %, where the bound's is 6 % too small."""
    y, prior, eta = jnp.ones(1), 4.0, np.linspace(-25.0, 25.0, 20001)
    told = np.log(flips + (1.0 - 2.0 * flips) * expit(eta))

    def value(mean, var):
        law = np.exp(-0.5 * (eta - mean) ** 2 / var) / np.sqrt(2.0 * np.pi * var)
        return np.trapezoid(law * told, eta) - 0.5 * ((mean**2 + var) / prior - np.log(var / prior))

    mean, var = 0.0, prior
    for _ in range(40):
        own = BINARY.matched(y, flips, jnp.ones(1), jnp.array([mean]), jnp.array([var]))
        var = 1.0 / (1.0 / prior + float(own.weight[0]))
        mean = var * float(own.weight[0] * own.y[0])
    top = value(mean, var)
    assert all(value(mean + a, var * b) < top for a, b in ((0.02, 1.0), (-0.02, 1.0), (0.0, 1.02), (0.0, 1 / 1.02)))
    law = np.exp(told - 0.5 * eta**2 / prior)
    law /= np.trapezoid(law, eta)
    true_mean = np.trapezoid(law * eta, eta)
    true_sd = np.sqrt(np.trapezoid(law * (eta - true_mean) ** 2, eta))
    assert abs(mean - true_mean) < 0.05 * true_sd
    assert abs(np.sqrt(var) / true_sd - 1.0) < 0.05
    weight = 0.25
    for _ in range(100):
        bound = 1.0 / (1.0 / prior + weight)
        at = BINARY.touching(y, 0.0, jnp.array([0.5 * bound]), jnp.array([(0.5 * bound) ** 2 + bound]))
        weight = float(BINARY.bounded(y, 0.0, jnp.ones(1), at).weight[0])
    assert flips or np.sqrt(bound) / true_sd < 0.95


def test_flips_pull_the_log_odds_towards_what_is_not_surprising():
    """With p = 0 r is y; with flips an outcome that is all but impossible is taken for a flip."""
    y, mean = jnp.array([1.0, 0.0, 1.0]), jnp.array([-9.0, 0.0, 9.0])
    np.testing.assert_allclose(BINARY.touching(y, 0.0, mean, mean**2).chance, y, atol=1e-299)
    chance = np.asarray(BINARY.touching(y, 0.02, mean, mean**2).chance)
    assert chance[0] < 0.01
    assert chance[1] == pytest.approx(0.02)
    assert chance[2] > 0.99


def test_they_are_rows_as_the_protocol_has_them(draws):
    for protocol, one in ((Rows, rows(0)), (Known, rows(0).known(MODEL, draws, JITTER))):
        assert isinstance(one, protocol)
        for name, method in vars(protocol).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                own = inspect.signature(getattr(type(one), name))
                assert list(own.parameters) == list(inspect.signature(method).parameters), name
    assert rows(0, 0.1).added == 0.1
