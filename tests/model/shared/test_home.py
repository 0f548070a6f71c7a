"""The fit at home: slopes of the own functions' scales are those of the evidence, and a step goes up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.rows import BetaLaw
from fedci.model.shared import dictionary, evidence, home
from fedci.model.shared.dictionary import Point, Stage
from fedci.study.options import SharedOptions

D, SITES, N = 2, 2, 30
MODEL = model_of(SharedOptions(family="shared", directions=1, knots=3, landmarks=4), D, D, SITES)
PEOPLE = float(SITES * N)
HERE = MODEL.prior[0] + 0.2 * MODEL.prior[1] * np.random.default_rng(3).standard_normal(MODEL.size)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    sites = []
    for k in range(SITES):
        x, w = rng.standard_normal((N, D)), (rng.random(N) < 0.5).astype(float)
        y = x[:, 0] + w * x[:, 1] + k * np.sin(2.0 * x[:, 0]) + 0.3 * rng.standard_normal(N)
        sites.append(MODEL.rows(x, w, y, np.zeros(4 * (D + 3)), k))
    return sites


def evidence_at(rows, vector):
    """log p(y | θ), of all sites."""
    parts = [evidence.of_draw(MODEL, vector, site, 0.0, site.sums_over_rows(MODEL, vector, 0.0)) for site in rows]
    total = jax.tree.map(lambda *each: sum(each), *parts)
    return evidence.log_evidence_of_draw(total, PEOPLE), total


@pytest.fixture(scope="module")
def series(rows):
    return jax.tree.map(np.asarray, series_at(rows, law_at(rows, HERE)))


@pytest.fixture(scope="module")
def derivatives(rows):
    """(slope, curvature) of the evidence in the scales of the own functions, from one program."""
    places = home.series_places(MODEL)

    def of(some):
        return evidence_at(rows, jnp.asarray(HERE).at[places].set(some))[0]

    return jax.jit(lambda some: (jax.grad(of)(some), jax.hessian(of)(some)))(jnp.asarray(HERE)[places])


def test_the_slope_is_that_of_the_evidence(derivatives, series):
    """Fisher's identity: with β̃ at its posterior the expected slope is the slope."""
    np.testing.assert_allclose(series.slope, derivatives[0], rtol=1e-8, atol=1e-8 * np.abs(series.slope).max())


def test_the_curvature_is_that_of_the_evidence_but_for_its_draws(derivatives, series):
    """Louis' identity: E ∂²ℓ + Cov ∂ℓ. A covariance of 128 draws is known to an eighth; 0.5 is four of these."""
    expected, found = derivatives[1], series.bend + np.cov(series.scores, rowvar=False)
    unit = np.sqrt(np.diag(np.cov(series.scores, rowvar=False)))
    np.testing.assert_allclose(found / np.outer(unit, unit), expected / np.outer(unit, unit), atol=0.5)


@jax.jit
def law_at(rows, vector):
    _, total = evidence_at(rows, jnp.asarray(vector))
    return BetaLaw(*evidence.posterior_of_draw(total.gram, total.cross))


@jax.jit
def series_at(rows, law):
    parts = [home.own_series(MODEL, jnp.asarray(HERE), law, site, 0.0) for site in rows]
    return jax.tree.map(lambda *each: sum(each), *parts)


def test_a_law_of_other_own_functions_is_made_good(rows, derivatives):
    """Told under the law of the message before, the slope is not that of the evidence; under the point's own law it
    is, but for what two functions of β̃ do not tell, and 128 draws."""
    own, exact = home.own_places(MODEL), derivatives[0]
    before, now = (law_at(rows, jnp.asarray(HERE).at[own].add(step * MODEL.prior[1][own])) for step in (-0.3, 0.0))
    told = jax.tree.map(np.asarray, series_at(rows, before))
    unit = MODEL.prior[1][home.series_places(MODEL)]
    plain, mended = ((np.asarray(found) - exact) * unit for found in (told.slope, home.under(told, before, now)))
    assert np.linalg.norm(mended) < 0.5 * np.linalg.norm(plain)


def test_the_same_law_says_the_same(rows, series):
    """To the rounding of the laws, over the number of draws."""
    law = law_at(rows, HERE)
    unit = np.asarray(series.scores).std(0)
    np.testing.assert_allclose(home.under(series, law, law) / unit, np.asarray(series.slope) / unit, atol=1e-6)


def test_slopes_that_the_two_functions_tell_are_exact():
    """Of ∂ℓ = c + f b the expectation under both laws is known: E f = (0, ½ tr B), and E′f, here by many draws of
    N(m′, P′⁻¹)."""
    rng, q = np.random.default_rng(2), 4
    roots = [np.tril(rng.standard_normal((q, q)), -1) * 0.3 + np.eye(q) * scale for scale in (1.0, 1.3)]
    laws = [BetaLaw(0.4 * rng.standard_normal(q), root) for root in roots]
    (m, root), (there, root_there) = laws
    turn = np.linalg.solve(root, root_there)
    away, shift = turn @ turn.T - np.eye(q), root.T @ (there - m)

    def f(draws):
        return np.column_stack([draws @ shift, 0.5 * np.sum((draws @ away) * draws, 1)])

    c, by = rng.standard_normal(3), rng.standard_normal((2, 3))
    told = home.OwnSeries(c + np.array([0.0, 0.5 * np.trace(away)]) @ by, np.zeros((3, 3)),
                          c + f(np.asarray(home._normals(q))) @ by)
    known = np.array([shift @ shift, 0.5 * (np.trace(away @ np.linalg.inv(away + np.eye(q))) + shift @ away @ shift)])
    seen = f(shift + rng.standard_normal((200_000, q)) @ np.linalg.inv(turn))
    np.testing.assert_allclose(seen.mean(0), known, atol=5.0 * (seen.std(0) / np.sqrt(len(seen))).max())
    np.testing.assert_allclose(home.under(told, *laws), c + known @ by, rtol=1e-9)


def test_the_bound_of_the_own_functions_has_the_slope_that_its_ascent_takes(series):
    top = home.OwnBound.about(MODEL, HERE, np.asarray(series.slope), series, 1.5)
    where = top.first + 0.1 * np.random.default_rng(1).standard_normal(len(top.first))
    steps = 1e-5 * np.eye(len(where))
    expected = [(top.less(where + step)[0] - top.less(where - step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(top.less(where)[1], expected, rtol=1e-5, atol=1e-6)


def test_a_step_gains_what_it_says_and_leaves_all_else(rows, series):
    """On the evidence itself, averaged over draws of o, less the divergence."""
    q, own = np.concatenate([HERE, np.full(MODEL.size, np.log(0.1))]), home.own_places(MODEL)
    q[own + MODEL.size] = np.log(0.5 * MODEL.prior[1][own])
    after = home.with_own_step(MODEL, q, HERE, np.asarray(series.slope), series, 0.75)
    others = np.setdiff1d(np.arange(2 * MODEL.size), [*own, *(own + MODEL.size)])
    np.testing.assert_array_equal(after[others], q[others])
    assert np.all(np.abs(after[own] - HERE[own]) <= 0.75 * MODEL.prior[1][own] + 1e-12)
    normals = evidence.common_normals(3, 0, 16, len(own))

    @jax.jit
    def averaged(mean, sd):
        return jnp.mean(jax.vmap(lambda some: evidence_at(rows, jnp.asarray(HERE).at[own].set(some))[0])(
            mean[None] + sd[None] * normals))

    def bound(packed):
        (mean, sd), (at, wide) = (packed[own], np.exp(packed[own + MODEL.size])), (part[own] for part in MODEL.prior)
        return averaged(mean, sd) - np.sum(((mean - at) / wide) ** 2 + (sd / wide) ** 2 - 2.0 * np.log(sd)) / 2.0

    assert bound(after) > bound(q)


def test_log_scales_have_an_end_below():
    """A function that is all but gone can lose no more; near the point a step is a step."""
    u, slope = home.levelling(np.array([[-50.0, -50.0], [1e-4, 1e-4]]), np.array([True, False]))
    np.testing.assert_allclose(u[0], [-np.log(2.0), -50.0])
    np.testing.assert_allclose(u[1], 1e-4, rtol=1e-3)
    np.testing.assert_allclose(slope[1], 1.0, rtol=1e-3)


def test_the_ascent_raises_the_bound_and_holds_the_own_functions(rows):
    point = Point(HERE, dictionary.coefficients(MODEL, MODEL.unravel(jnp.asarray(HERE)), jnp.ones(MODEL.columns)),
                  Stage.SHAPED)
    by = dictionary.at(MODEL, point)
    parts = [evidence.statistics(by, jnp.asarray(point.packed)[None], site, 0.0) for site in rows]
    total = dictionary.products(evidence.Statistics(*(sum(part) for part in zip(*parts, strict=True))))
    span, normals = dictionary.span(MODEL, point), evidence.common_normals(0, 0, 4, MODEL.size)
    q = np.concatenate([HERE, np.full(MODEL.size, np.log(0.1))])
    values, slopes = home.bound(MODEL, jnp.asarray(evidence.draw(q, normals)), total, span, point, PEOPLE)
    before, _ = evidence.objective(MODEL, q, normals, np.asarray(values), np.asarray(slopes))
    found, value, after = home.ascend(MODEL, q, total, span, point, PEOPLE, normals, 40)
    assert found == pytest.approx(before, rel=1e-12)
    assert value > before + 1.0
    held = np.tile(np.isin(np.arange(MODEL.size), home.own_places(MODEL)), 2)
    np.testing.assert_array_equal(after[held], q[held])
    assert not np.allclose(after[~held], q[~held])
