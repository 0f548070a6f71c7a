"""Effects of a site's own people: in chunks as at once, summed as one by one, whatever the order."""

import numpy as np
import pytest

from fedci.effect import Effect
from fedci.site import people as module
from fedci.site.people import summed_sd

RATIO = 1e-10
"""Factorisations of other shapes round differently; a wrong row or chunk is wrong in the first digit."""


@pytest.fixture(scope="module")
def people(classic):
    """Those of the larger site: 40, in a size class of 40."""
    return classic.people["site-0"]


def same(found: Effect, expected: Effect) -> None:
    np.testing.assert_allclose(found.means, expected.means, rtol=RATIO, atol=RATIO)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=RATIO, atol=RATIO)


def test_without_covariates_they_are_the_sites_own(people):
    found = people.cate()
    same(found, people.cate(people.table.x))
    assert found.means.shape[1] == len(people.rows)


def test_chunks_do_not_change_an_effect(people, monkeypatch):
    """Chunks of 16: 40 people are two whole ones and a padded one."""
    whole = people.cate()
    monkeypatch.setattr(module, "SIZES", (16,))
    same(people.cate(), whole)


def test_outcome_noise_widens_each_draw_alike_and_moves_nothing(people):
    expected, realised = people.cate(), people.cate(outcome_noise=True)
    np.testing.assert_array_equal(realised.means, expected.means)
    added = realised.variances - expected.variances
    assert (added > 0).all()
    np.testing.assert_allclose(added, np.broadcast_to(added[:, :1], added.shape), rtol=1e-9)  # of a difference


@pytest.mark.parametrize("correlation", [None, 0.5])
def test_the_summed_sd_is_the_sum_of_each_persons(people, correlation):
    ready = people.ready
    given = np.array([np.nan if correlation is None else correlation])
    found = summed_sd(ready.model, people.q, ready.rows, given, ready.units.y_sd)
    np.testing.assert_allclose(found, [people.ite(correlation).sd.sum()], rtol=RATIO)


def test_imputed_people_come_back_in_the_order_they_were_given(people):
    """They stand behind the site's own among the rows; no effect of theirs depends on who else's comes first."""
    x, w, y = people.table.x[:3] + 0.1, np.array([0, 1, 1]), people.table.y[:3]
    back = people.impute(x[::-1], w[::-1], y[::-1])
    same(people.impute(x, w, y), Effect(back.means[:, ::-1], back.variances[:, ::-1]))


def test_the_first_draws_of_all(people):
    x, w, y = people.table.x[:3] + 0.1, np.array([0, 1, 1]), people.table.y[:3]
    every, some = people.impute(x, w, y), people.impute(x, w, y, draws=5)
    same(some, Effect(every.means[:5], every.variances[:5]))
