"""A coordinator that lies: weights made to single people out, another Θ for one site, a sum that is none.

Each attack is run twice: against the defence, which refuses it, and with the defence switched off, where it succeeds.

The weights (an "imprint" of a ReLU layer): every unit looks along the same line v and opens at another place c_k, so
two neighbours differ by the people between c_k and c_{k+1}; where that is one person,

    (∂L/∂W_k − ∂L/∂W_{k+1}) / (∂L/∂b_k − ∂L/∂b_{k+1}) = x        the person's covariates, to rounding
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fedci.coordinator import coordinator, masked_sums
from fedci.coordinator.talk import PlainSums, Talk
from fedci.errors import DisclosureError, SiteError
from fedci.protocol import rounds
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Evaluate
from fedci.site.site import Site
from tests_support import hospitals, study

UNITS, TARGET = 64, "site-1"
OPTIONS = {"model": {"mean": {"kind": "network", "trunk": [UNITS]}}, "optimiser": {"rounds": 4},
           "prediction": {"draws": 8}}
OFF = {"name": "simulation", "secure_sum": False, "check_trajectory": False}


class Liar(InProcessEngine):
    """Passes on what `lie(name, request)` makes of each request, and keeps the answers to Evaluate."""

    lie = staticmethod(lambda name, request: request)

    def exchange(self, requests):
        self.replies = getattr(self, "replies", [])
        found = super().exchange({name: self.lie(name, request) for name, request in requests.items()})
        self.replies += [found] if any(isinstance(request, Evaluate) for request in requests.values()) else []
        return found


def ready(**policy):
    """(talk, rules) of a study of three sites whose fit is about to begin."""
    agreed = study(options=OPTIONS, policy=OFF | policy)
    talk = Talk(Liar({source.name: Site(agreed, source.read(agreed)) for source in hospitals(40, 37, 39)}), "run")
    options = agreed.fit_options()
    coordinator.handshake(talk, agreed, options)
    sums = masked_sums.agree(talk) if agreed.policy.secures(3) else PlainSums()
    layout = coordinator.agree_units(talk, agreed, options)
    return talk.on(coordinator.terms_of(layout, agreed, sums)), coordinator.rules_of(layout, options, 0)


def crafted(model) -> np.ndarray:
    """Θ whose units open one after another along a line."""
    theta = model.unravel(jnp.asarray(model.first_vector(0)))
    line = np.array([1.0, 0.31, 0.11])
    layer = {"weight": np.tile(line[:, None], (1, UNITS)), "bias": -np.linspace(-2.5, 2.5, UNITS)}
    head = {"layer0": {"weight": np.ones((UNITS, 1)), "bias": np.zeros(1)}}
    made = theta | {"mean": {"trunk": {"layer0": layer}, "head0": head, "head1": head}}
    return np.asarray(ravel_pytree(made)[0])


def recovered(model, gradient, site: Site) -> int:
    """People of the site whose covariates, in model units, the gradient gives away to 1e-6."""
    layer = model.unravel(jnp.asarray(gradient))["mean"]["trunk"]["layer0"]
    weight, bias = (np.diff(np.asarray(layer[name]), axis=-1) for name in ("weight", "bias"))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (weight / bias).T
    people = site.run.prepared.units.covariates(site.run.table.x)
    return sum(bool((np.abs(found - person).max(1) < 1e-6).any()) for person in people)


def crafting(model, only=None):
    theta = crafted(model)
    return lambda name, request: replace(request, theta=theta) if isinstance(request, Evaluate) and only in (
        None, name) else request


def first_round(talk, rules):
    return talk.follow(rounds.evaluation(rules, rounds.begin(rules, rules.model.first_vector(0))))


def test_crafted_weights_give_people_away_where_nobody_checks():
    talk, rules = ready()
    talk.engine.lie = crafting(rules.model)
    first_round(talk, rules)
    gradient = talk.engine.replies[-1][TARGET].sums["gradient"]
    assert recovered(rules.model, gradient, talk.engine.local[TARGET]) >= 10


def test_an_honest_gradient_gives_nobody_away():
    talk, rules = ready()
    first_round(talk, rules)
    assert recovered(rules.model, talk.engine.replies[-1][TARGET].sums["gradient"], talk.engine.local[TARGET]) == 0


def test_crafted_weights_are_off_the_course_and_refused():
    talk, rules = ready(check_trajectory=True)
    talk.engine.lie = crafting(rules.model)
    with pytest.raises(SiteError, match=r"left the agreed course of the fit in round \d+ \(theta\)"):
        first_round(talk, rules)


def test_crafted_weights_in_a_later_round_are_refused_too():
    talk, rules = ready(check_trajectory=True)
    first_round(talk, rules)
    talk.engine.lie = crafting(rules.model)
    with pytest.raises(SiteError, match="left the agreed course"):
        first_round(talk, rules)


def test_another_theta_for_one_site_shows_where_sums_are_plain():
    talk, rules = ready()
    talk.engine.lie = crafting(rules.model, only=TARGET)
    first_round(talk, rules)
    assert recovered(rules.model, talk.engine.replies[-1][TARGET].sums["gradient"], talk.engine.local[TARGET]) >= 10


def test_another_theta_for_one_site_is_found_by_the_others_before_the_sum_opens():
    talk, rules = ready(secure_sum="auto")
    talk.engine.lie = crafting(rules.model, only=TARGET)
    with pytest.raises(DisclosureError, match=f"{TARGET} was not asked the same"):
        first_round(talk, rules)


def test_the_masked_sum_of_crafted_weights_is_of_all_people_together():
    """Masks alone, without the course: the answers are of all sites' people, and whose they are is not told."""
    talk, rules = ready(secure_sum="auto")
    talk.engine.lie = crafting(rules.model)
    talk.total(next(rounds.evaluation(rules, rounds.begin(rules, rules.model.first_vector(0)))))
    assert all(reply.sums.keys() == {"masked"} for reply in talk.engine.replies[-1].values())


def lying_about_the_sum(request):
    """A sum told as another one: whoever believes it goes wherever the coordinator wants."""
    if not isinstance(request, Evaluate) or not request.previous:
        return request
    told = {name: part + (1 if part.dtype.kind == "i" else 1e-3) for name, part in request.previous.items()}
    return replace(request, previous=told)


@pytest.mark.parametrize("policy, error", [({"secure_sum": "auto"}, DisclosureError), ({}, SiteError)])
def test_a_sum_that_is_none_is_refused(policy, error):
    """Under masks by the sites' own checks; in the clear only because the next Θ does not follow from it."""
    talk, rules = ready(check_trajectory=True, **policy)
    honest = talk.follow(rounds.evaluation(rules, rounds.begin(rules, rules.model.first_vector(0))))
    talk.engine.lie = lambda name, request: lying_about_the_sum(request)
    following = rounds.after(rules, rounds.begin(rules, rules.model.first_vector(0)), *honest[0])
    with pytest.raises(error, match="is not what the sites sent|left the agreed course"):
        talk.follow(rounds.evaluation(rules, following))
