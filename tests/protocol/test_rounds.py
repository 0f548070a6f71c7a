"""What a fit asks for, exchange by exchange, driven by hand: nothing here knows who answers, nor which model it is."""

import numpy as np
import pytest

from fedci.model.family import FirstStage, Rules
from fedci.protocol import rounds
from fedci.study.options import preset
from support.asked import came_to


def changed(name="classic", **optimiser):
    options = preset(name)
    return options.model_copy(update={"optimiser": options.optimiser.model_copy(update=optimiser)})


@pytest.fixture(scope="module")
def model(make):
    return make.model(sites=2)


def rules_of(model, options, **rest):
    return Rules(model, options, 0, np.zeros((2, model.u_dim)), 80, **rest)


def draws_of(rules, state):
    """What the round of this state asks with."""
    return next(rounds.evaluation(rules, state)).arrays["phi_roots"]


def test_a_fit_begins_at_the_models_first_vector(model):
    rules = rules_of(model, changed())
    begun = rounds.begin(rules, came_to(rounds.start(rules), lambda ask: pytest.fail("asked")))
    np.testing.assert_array_equal(begun.query, model.first_vector(0))
    assert (begun.round, begun.natural, begun.ahead) == (0, np.inf, 0)
    assert rounds.begin(rules_of(model, changed(), first=FirstStage(20, 40)), begun.query).ahead == 1


def test_all_rounds_have_the_same_draws_unless_fresh_ones_are_wanted(model):
    for fresh in (False, True):
        rules = rules_of(model, changed(fresh_draws=fresh, draws=4))
        state = rounds.begin(rules, model.first_vector(0))
        first, second = (draws_of(rules, state._replace(round=number)) for number in (0, 1))
        assert first.shape == (4, 2, 2)
        assert np.array_equal(first, second) == (not fresh)


def test_the_effects_are_asked_at_every_noise_correlation(model):
    asks = []
    drawn, _ = came_to(rounds.effects(rules_of(model, changed()), np.asarray(model.first_vector(0))), asks.append)
    (ask,) = asks
    np.testing.assert_array_equal(ask.arrays["correlations"], rounds.CORRELATIONS)
    assert all(ask.arrays[name] is part for name, part in drawn.items())
