"""What a fit asks for, exchange by exchange, driven by hand: nothing here knows who answers."""

import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.paper import elbo, posterior
from fedci.protocol import rounds
from fedci.protocol.messages import Evaluate
from fedci.protocol.rounds import MANY_PEOPLE, PLAIN, Rules
from fedci.study.options import preset

DRAWS = 4


@pytest.fixture(scope="module")
def model(make):
    return make.model(sites=2)


def came_to(steps, answer):
    """What the generator returns when each of its asks is answered by `answer(ask)`."""
    try:
        ask = next(steps)
        while True:
            ask = steps.send(answer(ask))
    except StopIteration as done:
        return done.value


def evaluated(model, theta, failed=0.0, objective=-50.0):
    def answer(ask):
        assert ask.kind is Evaluate
        roots = np.zeros(ask.arrays["phi_roots"].shape)
        return {"objective": np.array(objective), "gradient": np.ones(len(theta)), "phi_roots": roots,
                "sigma_roots": roots, "failed": np.array(failed)}

    u = np.zeros((2, model.u_dim))
    return came_to(rounds.evaluate(model, u, theta, posterior.common_uniforms(0, 0, DRAWS)), answer)


def test_a_round_adds_the_data_free_terms_to_the_sums(make, model):
    theta = np.asarray(make.theta(model))
    objective, gradient = evaluated(model, theta)
    value, own = elbo.evaluate_global(model, theta, np.zeros((2, model.u_dim)))
    assert objective == -50.0 + float(value)
    np.testing.assert_array_equal(gradient, 1.0 + np.asarray(own))


@pytest.mark.parametrize("answers", [{"failed": 1.0}, {"objective": np.nan}, {"objective": np.inf}])
def test_a_site_that_failed_or_a_sum_that_is_not_finite_is_a_failed_round(make, model, answers):
    objective, gradient = evaluated(model, np.asarray(make.theta(model)), **answers)
    assert objective == -np.inf
    assert not gradient.any()


def test_theta_that_cannot_be_drawn_from_is_not_asked_about(make, model):
    broken = np.full(model.size, np.nan)
    objective, _ = came_to(rounds.evaluate(model, np.zeros((2, model.u_dim)), broken,
                                           posterior.common_uniforms(0, 0, DRAWS)), lambda ask: pytest.fail("asked"))
    assert objective == -np.inf


@pytest.mark.parametrize("name, people, first", [
    ("default", MANY_PEOPLE, 0), ("default", MANY_PEOPLE - 1, PLAIN), ("classic", 10 * MANY_PEOPLE, np.inf)])
def test_natural_steps_begin_at_once_with_many_people_later_with_few_and_never_without_q(name, people, first):
    options = preset(name)
    model = model_of(options.model, 3, 3, 2)
    assert rounds.natural(Rules(model, options, 0, np.zeros((2, 1)), people)) == first


def test_draws_of_g_are_one_pair_for_each_site_or_zero(make):
    options = preset("classic")
    options = options.model_copy(update={"prediction": options.prediction.model_copy(update={"draws": DRAWS})})
    for changes in ({}, {"inter_dependency": False}):
        model = make.model(sites=2, **changes)
        rules = Rules(model, options, 0, np.zeros((2, model.u_dim)), 80)
        drawn = rounds.draw_source_level(rules, np.asarray(make.theta(model)))
        assert drawn.shape == (DRAWS, 2, 2)
        assert bool(drawn.any()) == (not changes)
