"""A large site through inducing inputs: equal to the exact form when they are all its rows, a bound from below else.

Tolerances: both forms lift the diagonal by a jitter of 1e-12, one of C and one of K_UU; through a condition number of
about 1e5 here that leaves 1e-7 of a number's size.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model import leave_one_out, padding, parallel, predict
from fedci.model.rows import BetaLaw, Moments
from fedci.model.shared import evidence
from fedci.model.shared.evidence import SharedDraws
from support.large import ROWS, D, blocks, make, some_rows

DRAWS, BETAS = 3, 2
JITTER, TOLERANCE = 1e-12, 1e-7
CORRELATIONS = jnp.array([np.nan, 0.0, 0.5, 0.9])
NOTHING = np.zeros(0)


@pytest.fixture(scope="module")
def model():
    return make()


@pytest.fixture(scope="module")
def rows():
    return some_rows()


@pytest.fixture(scope="module")
def thetas(model):
    return model.prior[0] + 0.3 * np.random.default_rng(1).standard_normal((DRAWS, model.size))


@pytest.fixture(scope="module")
def draws(model, thetas):
    betas = np.random.default_rng(2).standard_normal((DRAWS, BETAS, model.columns))
    return SharedDraws(jnp.asarray(thetas), jnp.asarray(betas))


@pytest.fixture(scope="module")
def exact(rows):
    return padding.pad_site(*rows, np.zeros(4), 0)


def in_order(parts):
    """Realised effects of all people, in the order of the rows."""
    parts = list(parts)
    order = np.argsort(np.concatenate([places for places, _ in parts]))
    return Moments(*(np.concatenate([getattr(moments, name) for _, moments in parts], -1)[..., order]
                     for name in ("mean", "var")))


def near(a, b):
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=TOLERANCE, atol=TOLERANCE), a, b)


@pytest.mark.parametrize("kernel", ["matern52 + linear(scale) + constant(scale)",
                                    pytest.param("rbf(ard, scale)", marks=pytest.mark.slow)])
def test_statistics_and_their_gradient_are_the_exact_ones_when_all_rows_induce(kernel, rows, exact):
    model = make(kernel=kernel)
    thetas = model.prior[0] + 0.3 * np.random.default_rng(1).standard_normal((DRAWS, model.size))
    large = blocks(model, rows)
    found = [evidence.statistics(model, thetas, site, JITTER) for site in (exact, large)]
    near(*found)
    _, cotangents = evidence.log_evidence(found[0], float(ROWS))
    near(*(evidence.pull_back(model, thetas, site, JITTER, cotangents) for site in (exact, large)))


def test_the_bound_is_below_the_evidence_and_rises_with_the_inducing_inputs(model, rows, thetas, exact):
    def value(site):
        return np.asarray(evidence.log_evidence(evidence.statistics(model, thetas, site, JITTER), float(ROWS))[0])

    rising = [value(blocks(model, rows, count)) for count in (2, 10, 44)] + [value(exact) + TOLERANCE]
    assert np.all(np.diff(rising, axis=0) > 0)


def test_the_cut_into_blocks_changes_nothing(model, rows, thetas):
    few, many = (evidence.statistics(model, thetas, blocks(model, rows, 10, block), JITTER) for block in (8, 16))
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-9, atol=1e-9), few, many)  # order of sums


def test_sums_of_effects_are_the_exact_ones_when_all_rows_induce(model, rows, draws, exact):
    near(*(site.effects(model, NOTHING, draws, CORRELATIONS, JITTER) for site in (exact, blocks(model, rows))))


def test_predictions_are_the_exact_ones_when_all_rows_induce(model, rows, draws, exact):
    new = np.random.default_rng(3).standard_normal((5, D))
    known = blocks(model, rows).known(model, draws, JITTER)
    for at in (predict.cate_at, predict.outcomes_at):
        near(at(model, NOTHING, exact, draws, new, JITTER), at(model, NOTHING, known, draws, new, JITTER))


def test_realised_effects_are_the_exact_ones_when_all_rows_induce(model, rows, draws, exact):
    near(*(in_order(site.realised(model, NOTHING, draws, CORRELATIONS, JITTER))
           for site in (exact, blocks(model, rows))))


def test_sums_of_effects_are_the_sums_over_people_whatever_the_inducing_inputs(model, rows, draws):
    """Means exactly; Σ_i E τ(x_i) and Σ_i E τ_i from the rows of G are those of the people one by one."""
    large = blocks(model, rows, 10)
    known = large.known(model, draws, JITTER)
    found = large.effects(model, NOTHING, draws, CORRELATIONS, JITTER)
    x, w, _ = rows
    each = predict.cate_at(model, NOTHING, known, draws, x, JITTER).mean
    np.testing.assert_allclose(found.cate.mean, np.stack([each @ t for t in (w >= 0, w, 1 - w)], 1), rtol=1e-8)
    realised = in_order(large.realised(model, NOTHING, draws, CORRELATIONS, JITTER)).mean.sum(-1)
    np.testing.assert_allclose(found.ite.mean[..., 0], realised, rtol=1e-8, atol=1e-8)


def test_leaving_a_person_out_is_the_exact_form_when_all_rows_induce(model, rows, draws, exact):
    """With the law of β̃ of this site and others, as a study has it."""
    total = evidence.statistics(model, draws.theta, exact, JITTER)
    law = BetaLaw(*evidence.collapse(total))
    found = [leave_one_out.left_out(model, NOTHING, site, draws, law, JITTER) for site in (exact, blocks(model, rows))]
    near(*(jax.tree.map(lambda leaf: leaf[:, :ROWS], one) for one in found))


def test_draws_shared_out_among_cores_give_the_same_bits(model, rows, draws, monkeypatch):
    """No draw knows in whose company it was computed; four cores have no equal parts of six draws, and take three."""
    large, thetas = blocks(model, rows, 10), np.concatenate([draws.theta, -draws.theta])
    found = []
    for cores in (1, 4):
        monkeypatch.setattr(parallel, "cores", lambda cores=cores: cores)
        found.append(evidence.statistics(model, thetas, large, JITTER))
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_weighed_sums_are_the_exact_ones_when_all_rows_induce(model, rows, draws, exact):
    weights = np.random.default_rng(4).standard_normal((2, ROWS))
    large = blocks(model, rows)
    near(*(site.weighed(model, NOTHING, draws, weights, JITTER) for site in (exact, large)))
