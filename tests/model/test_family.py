"""What a model is to the rest, of every family: names of Θ, the ladder of jitters, one compilation for equal ones."""

import numpy as np
import pytest

from fedci.model.families import model_of
from fedci.model.family import JITTERS, names_of
from fedci.protocol.requests import REQUESTS
from fedci.study.options import preset


@pytest.fixture(scope="module", params=["default", "classic", "paper", "few"])
def model(request):
    return model_of(preset(request.param).model, 3, 3, 2)


def test_names_are_in_the_order_of_the_vector():
    tree = {"b": np.zeros(()), "a": {"y": np.zeros((2, 1)), "x": np.zeros(2)}}
    assert names_of(tree) == ["a.x[0]", "a.x[1]", "a.y[0,0]", "a.y[1,0]", "b"]


def test_theta_has_a_name_for_each_number(model):
    assert len(set(model.names())) == len(model.names()) == model.size


def test_the_ladder_raises_the_jitter_tenfold(model):
    np.testing.assert_allclose(model.jitters, model.options.jitter * 10.0 ** np.arange(JITTERS), rtol=1e-15)


def test_equal_models_are_one_and_others_are_not(model):
    same = type(model)(options=model.options.model_copy(deep=True), covariates=3, described=3, sites=2)
    assert (same == model, hash(same) == hash(model)) == (True, True)
    assert model_of(model.options, 3, 3, 2) is model
    assert type(model)(options=model.options, covariates=3, described=3, sites=3) != model


def test_a_family_asks_nothing_of_another_ones(model):
    others = {name for kind in ("classic", "default") for outcome in ("numeric", "binary")
              for other in [model_of(preset(kind).model, 3, 3, 2, outcome)]
              if other.options.family != model.options.family for name in other.asks}
    assert not set(model.asks) & others
    assert {*model.asks, *others} <= REQUESTS.keys()


def test_a_fit_asks_so_often_as_its_rounds_take(model):
    """Besides the effects: the model `shared` has a start and draws of β, but not where it is fitted at home."""
    if model.fits_at_home:
        assert model.exchanges(7) == 8
        return
    extra = 3 if model.options.family == "shared" else 1
    assert model.exchanges(7) == 7 * model.options.exchanges_per_round + extra
