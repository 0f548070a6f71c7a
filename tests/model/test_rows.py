"""One protocol for rows: both forms have all of it, and what comes of them has one shape."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model.exact import ExactRows
from fedci.model.families import model_of
from fedci.model.rows import Known, Rows, merged, same_shape
from fedci.model.shared.evidence import SharedDraws
from fedci.study.options import SharedOptions


@pytest.fixture(scope="module", params=["exact", "blocks"])
def prepared(request):
    """(model, a site's rows) in each of the two forms."""
    options = SharedOptions(family="shared", knots=3, directions=1, exact_rows=40, inducing=8)
    model, rng, n = model_of(options, 2, 2, 1), np.random.default_rng(0), 40 if request.param == "exact" else 50
    rows = model.rows(rng.normal(size=(n, 2)), np.arange(n) % 2, rng.normal(size=n), np.zeros(4), 0)
    assert isinstance(rows, ExactRows) == (request.param == "exact")
    return model, rows, n


@pytest.fixture(scope="module")
def draws(prepared):
    model, rng = prepared[0], np.random.default_rng(1)
    return SharedDraws(jnp.asarray(model.prior[0] + 0.1 * rng.standard_normal((3, model.size))),
                       jnp.asarray(rng.standard_normal((3, 2, model.columns))))


def methods(protocol):
    return {name: inspect.signature(part) for name, part in vars(protocol).items()
            if inspect.isfunction(part) and not name.startswith("_")}


def test_rows_have_every_method_of_the_protocol_with_its_arguments(prepared, draws):
    model, rows, _ = prepared
    known = rows.known(model, draws, 1e-8)
    assert isinstance(rows, Rows)
    assert isinstance(known, Known)
    for protocol, one in ((Rows, rows), (Known, known)):
        for name, expected in methods(protocol).items():
            own = inspect.signature(getattr(type(one), name))
            assert list(own.parameters) == list(expected.parameters), name


def test_every_person_is_there_once(prepared, draws):
    """Realised effects come in parts whose places are all people; their sum is the sum that leaves."""
    model, rows, n = prepared
    assert rows.people() == n
    parts = list(rows.realised(model, np.zeros(0), draws, np.array([0.0]), 1e-8))
    assert sorted(np.concatenate([places for places, _ in parts])) == list(range(n))
    total = sum(np.asarray(effects.mean).sum(-1) for _, effects in parts)
    sums = rows.effects(model, np.zeros(0), draws, np.array([0.0]), 1e-8)
    assert sums.ite.mean.shape == (6, 1, 3)
    np.testing.assert_allclose(sums.ite.mean[..., 0], total, rtol=1e-8)  # large sites: through the rows of G


def test_a_variance_is_repeated_for_each_beta_and_each_beta_is_a_draw():
    moments = same_shape(jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0))
    np.testing.assert_array_equal(moments.var, [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(merged(jnp.arange(24).reshape(2, 3, 4)), np.arange(24).reshape(6, 4))
