"""The fit at home: slopes of the own functions' scales are those of the evidence, and a step goes up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.rows import BetaLaw
from fedci.model.shared import dictionary, evidence, home
from fedci.model.shared.dictionary import Point
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
    _, total = evidence_at(rows, jnp.asarray(HERE))
    law = BetaLaw(*evidence.posterior_of_draw(total.gram, total.cross))
    parts = [home.own_series(MODEL, jnp.asarray(HERE), law, site, 0.0) for site in rows]
    return jax.tree.map(lambda *each: np.asarray(sum(each)), *parts)


def of_own(rows):
    places = home.series_places(MODEL)
    return lambda some: evidence_at(rows, jnp.asarray(HERE).at[places].set(some))[0], jnp.asarray(HERE)[places]


def test_the_slope_is_that_of_the_evidence(rows, series):
    """Fisher's identity: with β̃ at its posterior the expected slope is the slope."""
    of, here = of_own(rows)
    np.testing.assert_allclose(series.slope, jax.grad(of)(here), rtol=1e-8, atol=1e-8 * np.abs(series.slope).max())


def test_the_curvature_is_that_of_the_evidence_but_for_its_draws(rows, series):
    """Louis' identity: E ∂²ℓ + Cov ∂ℓ. A covariance of 128 draws is known to an eighth; 0.5 is four of these."""
    of, here = of_own(rows)
    expected, found = jax.hessian(of)(here), series.bend + np.cov(series.scores, rowvar=False)
    unit = np.sqrt(np.diag(np.cov(series.scores, rowvar=False)))
    np.testing.assert_allclose(found / np.outer(unit, unit), expected / np.outer(unit, unit), atol=0.5)


def test_a_step_gains_and_one_that_turns_back_is_short(rows, series):
    """On a quadratic in place of the evidence."""
    q, own = np.concatenate([HERE, np.full(MODEL.size, np.log(0.1))]), home.own_places(MODEL)
    stepped = np.split(home.with_own_step(MODEL, q, HERE, HERE, series), 2)[0]
    move = stepped - HERE
    assert np.all(move[np.setdiff1d(np.arange(MODEL.size), own)] == 0.0)
    assert np.all(np.abs(move[own]) <= home.FAR * MODEL.prior[1][own] + 1e-12)
    prior_slope = -(HERE - MODEL.prior[0])[own] / MODEL.prior[1][own] ** 2
    assert move[own] @ (series.slope[:len(own)] + prior_slope) > 0.0
    on, back = (np.split(home.with_own_step(MODEL, q, HERE, HERE - way * np.sign(move), series), 2)[0] - HERE
                for way in (0.01, -0.01))
    np.testing.assert_array_equal(on, move)
    turned = move != 0.0
    np.testing.assert_allclose(back[turned], np.sign(move[turned]) * np.minimum(np.abs(move[turned]), home.BACK * 0.01))


def test_the_ascent_raises_the_bound_and_holds_the_own_functions(rows):
    point = Point(HERE, dictionary.coefficients(MODEL, MODEL.unravel(jnp.asarray(HERE)), jnp.ones(MODEL.columns)))
    by = dictionary.at(MODEL, point)
    parts = [evidence.statistics(by, jnp.asarray(point.packed)[None], site, 0.0) for site in rows]
    total = dictionary.products(evidence.Statistics(*(sum(part) for part in zip(*parts, strict=True))))
    span, normals = dictionary.span(MODEL, point), evidence.common_normals(0, 0, 4, MODEL.size)
    q = np.concatenate([HERE, np.full(MODEL.size, np.log(0.1))])
    values, slopes = home.bound(MODEL, jnp.asarray(evidence.draw(q, normals)), total, span, point, PEOPLE)
    before, _ = evidence.objective(MODEL, q, normals, np.asarray(values), np.asarray(slopes))
    value, after = home.ascend(MODEL, q, total, span, point, PEOPLE, normals, 40)
    assert value > before + 1.0
    held = np.tile(np.isin(np.arange(MODEL.size), home.own_places(MODEL)), 2)
    np.testing.assert_array_equal(after[held], q[held])
    assert not np.allclose(after[~held], q[~held])
