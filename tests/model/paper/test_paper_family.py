"""The paper's model as a study uses it, driven by hand: one exchange a round, and what a site answers."""

import numpy as np
import pytest

from fedci.model.family import Rules
from fedci.model.padding import pad_site
from fedci.model.paper import elbo, posterior
from fedci.model.paper.posterior import Roots
from fedci.study.options import preset
from support.asked import came_to

DRAWS = 4


@pytest.fixture(scope="module")
def model(make):
    return make.model(sites=2)


def evaluated(model, theta, failed=0.0, objective=-50.0):
    def answer(ask):
        assert ask.name == "Evaluate"
        roots = np.zeros(ask.arrays["phi_roots"].shape)
        return {"objective": np.array(objective), "gradient": np.ones(len(theta)), "phi_roots": roots,
                "sigma_roots": roots, "failed": np.array(failed)}

    u = np.zeros((2, model.u_dim))
    return came_to(model.evaluate(u, theta, posterior.common_uniforms(0, 0, DRAWS)), answer)


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
    objective, _ = came_to(model.evaluate(np.zeros((2, model.u_dim)), broken, posterior.common_uniforms(0, 0, DRAWS)),
                           lambda ask: pytest.fail("asked"))
    assert objective == -np.inf


def test_draws_of_g_are_one_pair_for_each_site_or_zero(make):
    options = preset("classic")
    options = options.model_copy(update={"prediction": options.prediction.model_copy(update={"draws": DRAWS})})
    for changes in ({}, {"inter_dependency": False}):
        model = make.model(sites=2, **changes)
        rules = Rules(model, options, 0, np.zeros((2, model.u_dim)), 80)
        asks = []
        drawn, law = came_to(model.effects(rules, np.asarray(make.theta(model)), np.zeros(1)), asks.append)
        assert drawn["g"].shape == (DRAWS, 2, 2)
        assert bool(drawn["g"].any()) == (not changes)
        assert law is None
        assert [ask.name for ask in asks] == ["AskEffects"]
        np.testing.assert_array_equal(model.draws_at(drawn, 1).g, drawn["g"][:, 1])


def test_a_site_answers_with_its_term_and_its_gradients(make, model):
    rng = np.random.default_rng(0)
    site = pad_site(*make.rows(6), np.zeros(model.u_dim), 0)
    roots = np.tril(rng.standard_normal((2, DRAWS, 2, 2))) + 2 * np.eye(2)
    arrays = {"theta": np.asarray(make.theta(model)), "phi_roots": roots[0], "sigma_roots": roots[1]}
    answer = model.answer("Evaluate", arrays, site, None)
    value, (gradient, by_roots) = elbo.evaluate_site(model, arrays["theta"], Roots(*roots), site, model.options.jitter)
    assert (answer.sums["objective"], answer.sums["failed"], answer.jitter) == (value, 0, model.options.jitter)
    np.testing.assert_array_equal(answer.sums["gradient"], gradient)
    np.testing.assert_array_equal(answer.sums["phi_roots"], by_roots.phi)
    np.testing.assert_array_equal(answer.sums["sigma_roots"], by_roots.sigma)
