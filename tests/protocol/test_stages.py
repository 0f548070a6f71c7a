"""A study with a site above model.exact_rows: the exact one when all its rows induce; saved; refused by memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers

from fedci import Result
from fedci.errors import SizeError
from fedci.model.family import FirstStage, Rules
from fedci.model.padding import LIMIT
from fedci.model.shared.shared_family import MANY_PEOPLE, PLAIN
from fedci.model.shared.sparse import Blocks
from fedci.protocol import course, rounds, stages
from fedci.protocol.stages import some_of
from fedci.study.options import FitOptions
from support.answered import over
from support.asked import came_to
from tests_support import SMALL, fit, fit_sites, frame, hospitals, small

SIZES = (40, 37)


def fitted(**model):
    return fit(hospitals(*SIZES), preset="default", options=small(4) | {"model": SMALL["model"] | model},
               diagnostics={"enabled": True})


@pytest.fixture(scope="module")
def large():
    """The first site is large, the second is not; all of the first one's rows induce."""
    return fitted(exact_rows=38, inducing=40)


def test_the_fit_its_effects_and_its_diagnostics_are_the_exact_ones(large):
    """After four rounds of a search that doubles small differences, rounding through jitter leaves 1e-5."""
    exact = fitted()
    assert isinstance(large.people["site-0"].ready.rows, Blocks)
    assert not isinstance(large.people["site-1"].ready.rows, Blocks)
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
    with pytest.raises(SizeError, match="site 'site-0': 40 rows need about .* Lower model.inducing"):
        fitted(exact_rows=38)


def test_steps_are_natural_from_the_first_round_on_with_many_people(large):
    outcome = large.outcome
    few, many = (rounds.begin(Rules(outcome.layout.model, outcome.options, 0, outcome.layout.u, people),
                              outcome.fit.theta).natural for people in (MANY_PEOPLE - 1, MANY_PEOPLE))
    assert (few, many) == (PLAIN, 0)


# --- stages: few people first, then all

STAGED = {"optimiser": {"rounds": 12, "draws": 4, "first_rows": 20}, "prediction": {"draws": 16}}


@pytest.fixture(scope="module")
def staged_sites():
    """(result, sites) of three sites under masks, each of which follows the fit: every stage is asked for and expected
    alike."""
    policy = {"name": "simulation", "secure_sum": True}
    return fit_sites(hospitals(90, 80, 30), preset="default", policy=policy,
                     options=STAGED | {"model": {"knots": 3, "exact_rows": 15, "inducing": 12}})


@pytest.fixture(scope="module")
def staged(staged_sites):
    return staged_sites[0]


@pytest.fixture(scope="module")
def sites(staged_sites):
    return staged_sites[1]


def test_the_first_rounds_look_at_few_people_and_the_last_at_all(staged):
    few = [one.few for one in staged.outcome.fit.rounds]
    assert few == sorted(few, reverse=True)
    assert 0 < sum(few) <= STAGED["optimiser"]["rounds"] // 2
    arms = [n for site in staged.outcome.layout.people.values() for n in (site.treated, site.rows - site.treated)]
    prepared = [people.ready for people in staged.people.values()]
    assert sum(int(one.first.mask.sum()) for one in prepared) == sum(some_of(n, 20) for n in arms)
    assert sum(int(one.rows.mask.sum()) for one in prepared) == 200


def test_the_objective_that_is_reported_is_that_of_all_people(staged, sites):
    outcome = staged.outcome
    run = next(iter(sites.values())).run
    rules = course.rules_of(run.contract, run.course.place(max(run.course.places)).known)
    assert rules.first == (20, sum(int(people.ready.first.mask.sum()) for people in staged.people.values()))
    ready = [sites[name].run.prepared for name in sorted(sites)]
    answer = over(outcome.layout.model, [one.rows for one in ready], [one.first for one in ready])
    last = rounds.begin(rules, outcome.fit.theta)._replace(ahead=0)
    objective = came_to(rounds.evaluation(rules, last), answer)[0]
    assert objective == pytest.approx(outcome.fit.objective, rel=1e-6)  # masks carry fixed-point numbers
    fewer = came_to(rounds.evaluation(rules, last._replace(ahead=1)), answer)[0]
    assert fewer > objective  # a density of fewer people


@given(people=integers(0, 10**6), rows=integers(2, 10**4))
def test_neither_those_of_a_stage_nor_those_left_out_are_few(people, rows):
    some = some_of(people, rows)
    assert some == people or min(some, people - some) >= rows // 2


def test_what_a_stage_would_look_at_is_a_sum_over_sites_and_the_rows_chosen_are_so_many():
    w = np.repeat([0, 1], (90, 35))
    looked_at = stages.people_of((90, 35), 20)
    assert list(looked_at) == [len(stages.chosen(w, rows)) for rows in stages.choices(20)]
    assert list(looked_at[:3]) == [20, 125, 125]
    assert not stages.people_of((90, 35), 0).any()


def test_the_first_stage_is_the_largest_that_spares_half_the_work(staged):
    """With 100,000 people at each of two sites: 10,000 of each, then all."""
    outcome, looked_at = staged.outcome, 2 * stages.people_of((60_000, 40_000), 1000)
    options = FitOptions.model_validate(outcome.options.model_dump() | {"optimiser": {"first_rows": 1000}})
    assert stages.first(outcome.layout.model, options, 200_000, looked_at) == (10_000, 20_000)
    assert stages.first(outcome.layout.model, options, 1900, stages.people_of((950, 950), 1000)) == FirstStage()
