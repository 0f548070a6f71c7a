"""Many rows through a bound: where all rows induce, blocks compute what exact rows do; cuts change nothing."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from fedci.effect import person_weights
from fedci.model import covariance, predict
from fedci.model.families import model_of
from fedci.model.rows import Anchor, BetaLaw, Known, Rows, on_device
from fedci.model.shared import evidence, inducing
from fedci.model.shared.arranged import arranged
from fedci.model.shared.evidence import SharedDraws
from fedci.model.shared.latent_blocks import LatentBlocks
from fedci.model.shared.shared import own_root
from fedci.study.options import SharedOptions

D, N = 2, 14
KINDS = ("binary", "count")
NO_U = np.zeros(4 * (D + 3))
JITTER = 1e-10


def model(kind: str):
    return model_of(SharedOptions(family="shared", directions=1, knots=3, landmarks=4, inducing=64), D, D, 2, kind)


def people(kind: str):
    rng = np.random.default_rng((4, len(kind)))
    x, w = rng.normal(size=(N, D)), rng.integers(0, 2, N)
    if kind == "count":
        return x, w, rng.poisson(np.exp(0.5 * x[:, 0])).astype(float), np.log(rng.uniform(0.5, 2.0, N))
    return x, w, (rng.uniform(size=N) < expit(2.0 * x[:, 0])).astype(float), rng.uniform(0.3, 1.0, N)


def exactly(kind: str):
    x, w, y, more = people(kind)
    return arranged(model(kind), x, w, y, NO_U, 0, 0.02 if kind == "binary" else 0.0, more)


def in_blocks(kind: str, block: int = 5):
    x, w, y, more = people(kind)
    cut = inducing.cut(x, w, y, NO_U, 0, model(kind).kernel, N, block=block)
    return LatentBlocks(cut, on_device(np.append(more, 1.0)[np.asarray(cut.row)]),
                        on_device(0.02 if kind == "binary" else 0.0))


def thetas(kind: str):
    mean, sd = model(kind).prior
    return jnp.asarray(mean + 0.4 * sd * np.random.default_rng(3).standard_normal((2, mean.size)))


@lru_cache
def anchor(kind: str) -> Anchor:
    m = model(kind)
    rows = exactly(kind)
    total = evidence.statistics(m, thetas(kind), rows, JITTER, rows.local(m, None, 2, False))
    return Anchor(thetas(kind), total.gram, total.cross)


@lru_cache
def draws_of(kind: str, count: int = 8) -> SharedDraws:
    m = model(kind)
    rows = exactly(kind)
    law = evidence.collapse(evidence.statistics(m, thetas(kind), rows, JITTER, rows.local(m, anchor(kind), 2, True)))
    rng = np.random.default_rng(9)
    half = np.stack([np.linalg.solve(np.asarray(root).T, rng.standard_normal((m.columns, count // 2))).T
                     for root in law.root])
    return SharedDraws(thetas(kind), jnp.asarray(np.asarray(law.mean)[:, None] + np.concatenate([half, -half], 1)))


@pytest.mark.parametrize("matched", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_where_all_rows_induce_sums_and_gradients_are_the_exact_ones(kind, matched):
    """1e-6: the jitters 1e-10 of two factors stand in different places."""
    m, known = model(kind), anchor(kind)
    found = []
    for rows in (exactly(kind), in_blocks(kind)):
        local = rows.local(m, known, 2, matched)
        total = evidence.statistics(m, thetas(kind), rows, JITTER, local)
        gradient = evidence.pull_back(m, thetas(kind), rows, JITTER, jax.tree.map(jnp.ones_like, total), local)
        found.append((*total, gradient))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(one).max())


@pytest.mark.parametrize("kind", KINDS)
def test_the_sums_over_sites_give_what_one_place_computes_of_all_rows(kind):
    """N(η̃; 0, ZZᵀ + K + 1/ω), K within a site, and what makes the bound of it: of rows that count in part, as those of
    intervals do, and of counts, by the negative binomial's own logarithms at 64 nodes. Jitters differ: 1e-6."""
    m, moved = model(kind), 0.3
    x, w, y, more = people(kind)
    second = arranged(m, x + moved, w, y, NO_U, 1, 0.02 if kind == "binary" else 0.0, more)
    sites = [in_blocks(kind), second]
    local = [rows.local(m, anchor(kind), 2, False) for rows in sites]
    parts = [evidence.statistics(m, thetas(kind), rows, JITTER, own) for rows, own in zip(sites, local, strict=True)]
    values = evidence.log_evidence(jax.tree.map(jnp.add, *parts), 2.0 * N)[0]
    every, arms, owner = np.concatenate([x, x + moved]), np.tile(w, 2), np.repeat([0, 1], N)
    for one, vector in enumerate(thetas(kind)):
        theta = m.unravel(vector)
        z = np.asarray(m.layout.rows(theta, jnp.asarray(every), covariance.arms(jnp.asarray(arms))))
        root, k = np.asarray(own_root(theta)), np.asarray(m.k(theta, jnp.asarray(every)))
        weight, told, mean, var = (np.concatenate([_of(rows, getattr(own, name, own.y)[one])
                                                   for rows, own in zip(sites, local, strict=True)])
                                   for name in ("weight", "y", "mean", "var"))
        prior = z @ z.T + (root @ root.T)[arms][:, arms] * k * (owner[:, None] == owner)
        dense = stats.multivariate_normal.logpdf(told, np.zeros(2 * N), prior + np.diag(1.0 / weight))
        if kind == "binary":
            extra = -0.5 * sum(float(own.price[one]) for own in local)
        else:
            at, share = np.polynomial.hermite_e.hermegauss(64)
            eta, size = mean[:, None] + np.sqrt(var)[:, None] * at, np.exp(float(theta["dispersion"]))
            rate = np.exp(np.tile(more, 2)[:, None] + eta)
            likely = stats.nbinom.logpmf(np.tile(y, 2)[:, None], size, size / (size + rate)) @ share / share.sum()
            extra = np.sum(likely - stats.norm.logpdf(told, mean, 1.0 / np.sqrt(weight)) + 0.5 * weight * var)
        assert values[one] == pytest.approx(dense + extra, rel=1e-6)


def _of(rows, values) -> np.ndarray:
    """In the order of the people."""
    if not isinstance(rows, LatentBlocks):
        return np.asarray(values)[:N]
    found = np.zeros(N + 1)
    found[np.asarray(rows.rows.row).ravel()] = np.asarray(values).ravel()
    return found[:N]


@pytest.mark.parametrize("kind", KINDS)
def test_how_rows_are_cut_changes_nothing(kind):
    m, known = model(kind), anchor(kind)
    sums = [evidence.statistics(m, thetas(kind), rows, JITTER, rows.local(m, known, 2, False))
            for rows in (in_blocks(kind, 5), in_blocks(kind, 16))]
    for one, other in zip(*sums, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_where_all_rows_induce_new_people_and_those_left_out_have_the_exact_laws(kind):
    m, draws = model(kind), draws_of(kind)
    x = np.random.default_rng(5).normal(size=(6, D))
    law = BetaLaw(jnp.mean(draws.beta, 1), jnp.broadcast_to(3.0 * jnp.eye(m.columns), (2, m.columns, m.columns)))
    found = []
    for rows in (exactly(kind), in_blocks(kind)):
        out = rows.left_out(m, np.zeros(0), draws, law, JITTER)
        found.append((*predict.outcomes_at(m, np.zeros(0), rows.known(m, draws, JITTER), draws, x, JITTER),
                      *(np.asarray(part)[:, :N] for part in out)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(one).max())


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_risks_are_drawn_from_the_same_law(kind):
    """Of 400 antithetic draws of β̃ with each θ, which are the same in both: means within 6 standard errors, sds
    within a fifth (of 200 independent pairs an sd is known to 5%; rates are exponentials: theirs to a tenth)."""
    m, draws = model(kind), draws_of(kind, 400)
    one, other = (np.asarray(rows.effects(m, np.zeros(0), draws, np.zeros(0), JITTER).risks).reshape(2, 400, 2, 3)
                  for rows in (exactly(kind), in_blocks(kind)))
    error = one.std(1) / np.sqrt(400)
    assert (np.abs(one.mean(1) - other.mean(1)) < 6 * error + 1e-12).all()
    np.testing.assert_allclose(one.std(1), other.std(1), rtol=0.35 if kind == "count" else 0.2)


def test_weighed_sums_have_the_draws_of_the_sums_over_the_populations():
    kind = "binary"
    m, draws, site = model(kind), draws_of(kind, 4), in_blocks(kind)
    weights = person_weights(people(kind)[1], np.ones(len(people(kind)[1])))
    sums = np.asarray(site.effects(m, np.zeros(0), draws, np.zeros(0), JITTER).risks)
    np.testing.assert_allclose(site.weighed(m, np.zeros(0), draws, weights, JITTER).sums, sums, rtol=1e-12)


def test_the_bound_of_a_share_of_a_row_is_the_share_of_its_bound():
    """Two rows of one half, alike in everything, are one row."""
    m = model("binary")
    x, w, y, _ = people("binary")
    once = arranged(m, x, w, y, NO_U, 0, 0.0)
    twice = arranged(m, *(np.repeat(part, 2, 0) for part in (x, w, y)), NO_U, 0, 0.0, np.full(2 * N, 0.5))
    sums = []
    for rows, count in ((once, N), (twice, 2 * N)):
        found = evidence.statistics(m, thetas("binary"), rows, JITTER, rows.local(m, None, 2, False))
        sums.append(evidence.log_evidence(found, float(count))[0])
    np.testing.assert_allclose(*sums, rtol=1e-6)


def test_the_derivative_in_the_dispersion_is_that_of_the_objective():
    m, known, step = model("count"), anchor("count"), 1e-5
    place = m.names().index("dispersion")
    rows = exactly("count")
    local = rows.local(m, known, 2, False)

    def value(vectors):
        return evidence.log_evidence(evidence.statistics(m, vectors, rows, JITTER, local), float(N))

    total = value(thetas("count"))
    gradient = evidence.pull_back(m, thetas("count"), rows, JITTER, total[1], local)[:, place]
    away = np.zeros((2, m.size))
    away[:, place] = step
    slope = (value(thetas("count") + away)[0] - value(thetas("count") - away)[0]) / (2 * step)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5)


def test_they_are_rows_as_the_protocol_has_them():
    rows = in_blocks("binary")
    assert isinstance(rows, Rows)
    assert isinstance(rows.known(model("binary"), draws_of("binary"), JITTER), Known)
    assert rows.people() == N
