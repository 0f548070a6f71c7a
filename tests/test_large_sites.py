"""A study with a site above model.exact_rows: the exact one when all its rows induce; saved; refused by memory."""

import numpy as np
import pytest

from fedci import Result
from fedci.errors import SizeError
from fedci.federation import rounds
from fedci.federation.rounds import Rules
from fedci.model.inducing import Blocks
from fedci.model.padding import LIMIT
from tests_support import fit, frame, hospitals

QUICK = {"optimiser": {"rounds": 4, "draws": 4}, "prediction": {"draws": 16}}
SIZES = (48, 24)


def fitted(**model):
    return fit(hospitals(*SIZES), preset="default", options=QUICK | {"model": {"knots": 3} | model},
               diagnostics={"enabled": True})


@pytest.fixture(scope="module")
def large():
    """The first site is large, the second is not; all of the first one's rows induce."""
    return fitted(exact_rows=30, inducing=48)


def test_the_fit_its_effects_and_its_diagnostics_are_the_exact_ones(large):
    """After four rounds of a search that doubles small differences, rounding through jitter leaves 1e-5."""
    exact = fitted()
    assert isinstance(large.local["site-0"].prepared.arrays, Blocks)
    assert not isinstance(large.local["site-1"].prepared.arrays, Blocks)
    np.testing.assert_allclose(large.outcome.fit.theta, exact.outcome.fit.theta, rtol=1e-5, atol=1e-5)
    assert large.ate().mean == pytest.approx(exact.ate().mean, rel=1e-5)
    assert large.ate(of="ite").sd == pytest.approx(exact.ate(of="ite").sd, rel=1e-4)
    np.testing.assert_allclose(large.ite("site-0"), exact.ite("site-0"), rtol=1e-3, atol=1e-4)
    own, other = (r.diagnostics.heterogeneity.pooled for r in (large, exact))
    assert own.mean == pytest.approx(other.mean, rel=1e-4)


def test_saved_and_loaded_it_says_the_same(large, tmp_path):
    large.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    new = frame(5, 9)
    np.testing.assert_array_equal(again.effect(new, site="site-0"), large.effect(new, site="site-0"))


def test_a_site_refuses_rows_beyond_the_memory_it_may_use(monkeypatch):
    monkeypatch.setenv(LIMIT, "0.0001")
    with pytest.raises(SizeError, match="site 'site-0': 48 rows need about .* Lower model.inducing"):
        fitted(exact_rows=30)


def test_steps_are_natural_with_many_people_only(large):
    outcome = large.outcome
    few, many = (Rules(outcome.layout.model, outcome.options, 0, outcome.layout.u, people)
                 for people in (rounds.MANY_PEOPLE - 1, rounds.MANY_PEOPLE))
    assert (rounds.natural(few), rounds.natural(many)) == (False, True)
