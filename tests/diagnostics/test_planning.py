"""The smallest effect that a study would find: by the textbook where arms are alike, and more where overlap is poor."""

import numpy as np
import pytest

from fedci.diagnostics.planning import People, of_pair, plans, plans_of_told
from fedci.errors import UsageError


def site(n, seed=0, slope=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return People(x, (rng.uniform(size=n) < 1 / (1 + np.exp(-slope * x[:, 0]))).astype(float))


def test_of_a_lot_it_is_the_textbooks():
    """n per arm 64 finds half a standard deviation with power 80 %."""
    people = People(np.zeros((128, 1)), np.arange(128) % 2 * 1.0)
    (found,) = plans({"a": people}, 1.0, randomised=True)
    assert found.mde_80 == pytest.approx(0.495, abs=0.001)
    assert (found.untreated, found.treated, found.effective_treated) == (64, 64, 64.0)
    assert plans({"a": people}, 2.0, explained=0.75, randomised=True)[0].se == pytest.approx(found.se)


def test_poor_overlap_is_worth_fewer_people():
    even, skewed = (plans({"a": site(800, 1, slope), "b": site(800, 2, slope)}, 1.0)[0] for slope in (0.0, 2.0))
    assert even.effective_treated > 0.98 * even.treated
    assert skewed.effective_treated < 0.7 * skewed.treated
    assert skewed.mde_90 > skewed.mde_80 > even.mde_80


def test_without_a_site_less_is_found():
    found = plans({"a": site(400, 1), "b": site(100, 2)}, 1.0)
    assert [one.sites for one in found] == ["all sites", "without a", "without b"]
    assert found[0].mde_80 < found[2].mde_80 < found[1].mde_80


@pytest.mark.parametrize(("changes", "words"), [({"sd": 0.0}, "above 0"), ({"explained": 1.0}, "below 1")])
def test_what_cannot_be_assumed_is_refused(changes, words):
    with pytest.raises(UsageError, match=words):
        plans({"a": site(50)}, **({"sd": 1.0} | changes))
    with pytest.raises(UsageError, match="nobody"):
        plans({"a": People(np.zeros((5, 1)), np.ones(5))}, 1.0)


def test_from_what_sites_told_together_it_is_that_of_their_tables():
    """Of a lot people count as themselves, and a site's absence takes its people away."""
    sites = {"a": site(400, 1), "b": site(100, 2)}
    people = {name: (int((one.w == 0).sum()), int((one.w == 1).sum())) for name, one in sites.items()}
    every = tuple(sum(arm) for arm in zip(*people.values(), strict=True))
    for told, own in zip(plans_of_told(people, every, 2.0, 0.3), plans(sites, 2.0, 0.3, randomised=True), strict=True):
        assert told[:3] == own[:3]
        np.testing.assert_allclose(told[3:], own[3:], rtol=1e-12)
    half = plans_of_told(people, (every[0] / 2, every[1] / 2), 2.0)[0]
    assert half.se == pytest.approx(np.sqrt(2) * plans_of_told(people, every, 2.0)[0].se)


def test_of_more_arms_each_is_held_against_the_reference():
    three = People(np.zeros((90, 1)), np.arange(90) % 3 * 1.0)
    pair = of_pair({"a": three}, 2)["a"]
    assert (len(pair.x), pair.w.sum()) == (60, 30)
