"""The model `shared` as a study uses it: rows exactly or in blocks, when steps are natural, what a site answers."""

import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.family import Ask
from fedci.model.shared import evidence
from fedci.model.shared.shared import noise_sd
from fedci.model.shared.shared_family import MANY_PEOPLE, PLAIN
from fedci.model.shared.sparse import Blocks
from fedci.protocol.stages import chosen
from fedci.study.options import SharedOptions, preset


@pytest.fixture(scope="module")
def model():
    return model_of(SharedOptions(family="shared", knots=3, directions=1, exact_rows=40, inducing=8), 2, 2, 1)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)), np.arange(60) % 2, rng.normal(size=60)


def test_a_site_above_exact_rows_is_cut_into_blocks_and_a_small_one_is_not(model, rows):
    assert isinstance(model.rows(*rows, np.zeros(4), 0), Blocks)
    assert not isinstance(model.rows(*(part[:40] for part in rows), np.zeros(4), 0), Blocks)


def test_the_first_stage_looks_at_some_of_a_large_site_and_at_all_of_a_small_one(model, rows):
    large = model.rows(*rows, np.zeros(4), 0)
    some = model.rows_of_stage(large, chosen(rows[1], 20), *rows)
    assert int(np.asarray(some.mask).sum()) == 20
    few = [part[:40] for part in rows]
    small = model.rows(*few, np.zeros(4), 0)
    assert model.rows_of_stage(small, chosen(few[1], 20), *few) is small


def test_a_stage_above_exact_rows_has_the_inducing_inputs_of_all(model, rows):
    large = model.rows(*rows, np.zeros(4), 0)
    some = model.rows_of_stage(large, np.arange(50), *rows)
    assert (some.people(), isinstance(some, Blocks)) == (50, True)
    np.testing.assert_array_equal(some.inducing, large.inducing)


@pytest.mark.parametrize("name, people, first", [
    ("default", MANY_PEOPLE, 0), ("default", MANY_PEOPLE - 1, PLAIN), ("classic", 10 * MANY_PEOPLE, np.inf)])
def test_natural_steps_begin_at_once_with_many_people_later_with_few_and_never_without_q(name, people, first):
    assert model_of(preset(name).model, 3, 3, 2).natural_from(people) == first


def test_a_site_that_started_again_pulls_back_the_same(model, rows):
    """With what it kept of the statistics, without, and with what it kept of others: the same bits."""
    site = model.rows(*rows, np.zeros(4), 0)
    thetas = model.prior[0] + 0.1 * np.random.default_rng(1).standard_normal((3, model.size))
    arrays = {"thetas": thetas, "few": np.array(0.0)}
    statistics = model.answer("AskStatistics", arrays, site, None)
    sums = evidence.Statistics(*(statistics.sums[name] for name in evidence.Statistics._fields))
    back = arrays | evidence.log_evidence(sums, 60.0)[1]._asdict()
    other = statistics.memory._replace(thetas=thetas + 1.0)
    gradients = [model.answer("PullBack", back, site, memory).sums["gradient"]
                 for memory in (statistics.memory, None, other)]
    np.testing.assert_array_equal(gradients[1], gradients[0])
    np.testing.assert_array_equal(gradients[2], gradients[0])
    assert [part.shape for part in sums] == [*evidence.shapes(model, 3).values()]


def test_more_people_narrow_q_where_it_has_learnt_and_nowhere_else(model):
    """1/sd² = 1/s_p² + n·(what a person tells): by hand for a q as wide as its prior and one half as wide."""
    prior_sd = model.prior[1]
    def at(sd):
        return np.concatenate([model.prior[0], np.log(sd)])

    np.testing.assert_allclose(model.narrower(at(prior_sd), 10.0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.narrower(at(prior_sd / 2), 10.0), np.sqrt(4 / (1 + 10 * 3)), rtol=1e-12)


def test_in_the_units_of_a_masked_sum_no_statistic_is_far_beyond_1(model, rows):
    """T, v, c and l of n people are at most a few n/σ², however small the noise is; and however large the sizes are,
    of which few people's q is not sure: beyond its range a site could not tell its sums."""
    theta, site = model.prior[0].copy(), model.rows(*rows, np.zeros(4), 0)
    for noise, size in ((-4.0, 0.0), (0.0, 0.0), (-1.0, 4.0)):
        theta[[name.startswith("noise") for name in model.names()]] = noise, 0.2
        theta[[name.startswith(("linear[0", "hinges[0,0", "pooled[")) for name in model.names()]] = size
        ask = Ask("AskStatistics", {"thetas": theta[None], "few": np.array(0.0)})
        answer, units = model.answer("AskStatistics", ask.arrays, site, None), model.units(ask, 60)
        assert units.keys() == answer.sums.keys() - {"failed"}
        assert all(np.abs(answer.sums[name] / unit).max() < 50.0 for name, unit in units.items())
    assert model.units(Ask("AskSharedEffects", {}), 60) == {}


@pytest.mark.parametrize("outcome", ["numeric", "binary", "count"])
def test_units_are_those_of_the_noise_in_each_draw(outcome):
    """n/σ² of the arm whose noise is least; n where an outcome has no noise of its own; n r of a count, for ω < r."""
    model = model_of(SharedOptions(family="shared", knots=3, directions=1), 2, 2, 1, outcome=outcome)
    thetas = model.prior[0] + 0.3 * np.random.default_rng(2).standard_normal((3, model.size))
    least = [np.min(np.asarray(noise_sd(model.unravel(theta), 2))) for theta in thetas]
    found = model.units(Ask("AskStatistics", {"thetas": thetas}), 60)["log_det"]
    each = np.array(least) ** -2 if outcome == "numeric" else np.ones(3)
    if outcome == "count":
        each = np.maximum(np.exp([model.unravel(theta)["dispersion"] for theta in thetas]), 1.0)
    np.testing.assert_allclose(found, 60 * each, rtol=1e-7)
