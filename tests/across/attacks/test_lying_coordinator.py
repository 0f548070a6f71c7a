"""A coordinator that lies: weights made to single people out, sums that are none, other cohorts, other steps.

A step has no place for a question: sites work it out from the study and the sums so far. What a liar may still choose
is the name of the step, and the sum that it tells; both are refused unless they are the true ones. The control shows
what the weights would do (an "imprint" of a ReLU layer): every unit looks along the same line v and opens at another
place c_k, so two neighbours differ by the people between c_k and c_{k+1}; where that is one person,

    (∂L/∂W_k − ∂L/∂W_{k+1}) / (∂L/∂b_k − ∂L/∂b_{k+1}) = x        the person's covariates, to rounding
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError, HandshakeError, SiteError
from fedci.protocol import course, rounds
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Hello, Step
from fedci.site.site import Site
from support.masked import one_round
from support.trials import begun, trial
from tests_support import hospitals, study

UNITS, TARGET = 64, "site-1"
OPTIONS = {"model": {"mean": {"kind": "network", "trunk": [UNITS]}}, "optimiser": {"rounds": 4},
           "prediction": {"draws": 8}}
CLEAR, MASKED = {"name": "simulation"}, {"name": "simulation", "secure_sum": "auto"}


class Liar(InProcessEngine):
    """Passes on what `lie(name, request)` makes of each request, and keeps what was said."""

    lie = staticmethod(lambda name, request: request)

    def exchange(self, requests):
        self.said = getattr(self, "said", [])
        requests = {name: self.lie(name, request) for name, request in requests.items()}
        found = super().exchange(requests)
        self.said += [(requests[name], found[name]) for name in sorted(found)]
        return found


def ready(policy=CLEAR, lie=Liar.lie, **changes):
    """(talk, contract, what all know) of a study of three sites whose fit is about to begin."""
    agreed = study(options=OPTIONS, policy=policy, **changes)
    engine = Liar({source.name: Site(agreed, source.read(agreed)) for source in hospitals(40, 37, 39)})
    engine.lie = lie
    talk, contract = Talk(engine, "run"), Contract(agreed, engine.sites)
    coordinator.handshake(talk, contract)
    talk, opened = coordinator.open_course(talk, contract)
    return talk, contract, opened


def answers(talk, step: str, site=TARGET):
    return [reply for request, reply in talk.engine.said
            if isinstance(request, Step) and request.name == step and request.site == site]


# --- crafted weights


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


def test_crafted_weights_would_give_people_away():
    """The control: the same sums of the same site, at weights of a liar's choice."""
    talk, contract, opened = ready()
    site = talk.engine.local[TARGET]
    rules = course.rules_of(contract, opened)
    honest = next(rounds.evaluation(rules, rounds.begin(rules, rules.model.first_vector(0))))
    arrays = dict(honest.arrays) | {"theta": crafted(opened.model)}
    told = opened.model.answer("Evaluate", arrays, site.run.prepared.rows, None)
    assert recovered(opened.model, told.sums["gradient"], site) >= 10


def test_an_honest_gradient_gives_nobody_away():
    talk, contract, opened = ready()
    one_round(talk, contract, opened)
    gradient = answers(talk, "Evaluate")[-1].sums["gradient"]
    assert recovered(opened.model, gradient, talk.engine.local[TARGET]) == 0


def test_weights_that_ride_along_with_a_step_change_no_bit_of_the_answer():
    """There is no field for a question; what is put beside the sum is not read."""
    talk, contract, opened = ready()
    one_round(talk, contract, opened)
    lying, contract, opened = ready()
    more = {"theta": crafted(opened.model), "few": np.array(1.0), "y_sd": np.array(1e-9)}
    lying.engine.lie = lambda name, request: replace(request, previous=more | dict(request.previous))
    one_round(lying, contract, opened)
    honest, told = (answers(one, "Evaluate")[-1].sums for one in (talk, lying))
    assert all(honest[name].tobytes() == told[name].tobytes() for name in honest)


# --- crafted diagnostics


def test_a_moving_window_of_propensities_cannot_be_asked_for():
    """Centre, spread and slopes of a liar's choice placed everybody by their covariates; now nothing of a question is
    the coordinator's, and a second one at other slopes is not the next step."""
    frames, told = {f"site-{s}": trial(80, s) for s in range(3)}, {}
    for kind in ("honest", "lying"):
        talk, sites, opened, contract = begun(frames, policy=CLEAR)
        first = next(course.design(contract, opened))
        window = {"centre": np.zeros(3), "slopes": np.full(3, 1e4), "intercepts": np.array([-1e4, 0.0, -1e4])}
        previous = window if kind == "lying" else {}
        request = Step("run", talk.round + 1, TARGET, first.name, previous)
        told[kind] = sites[TARGET].answer(request).sums
    assert all(told["honest"][name].tobytes() == told["lying"][name].tobytes() for name in told["honest"])
    again = sites[TARGET].answer(replace(request, round=request.round + 1, previous={}))
    assert (again.code, "left the agreed course" in again.reason) == (SiteError.code, True)


# --- sums that are none


def false_sum(request: Step) -> Step:
    told = {name: part + (1 if part.dtype.kind == "i" else 1e-3) for name, part in request.previous.items()}
    return replace(request, previous=told)


def lying_at(step: str, only=None):
    """A lie about the sum that is told with this step."""
    return lambda name, request: false_sum(request) if (
        isinstance(request, Step) and request.name == step and only in (None, name)) else request


@pytest.mark.parametrize("step", ["AskMeans", "AskSpreads", "AskDescription", "Prepare"])
def test_a_sum_that_is_none_is_refused_from_the_first_one_on(step):
    """Else units, and with them whose part stands out, would be the coordinator's word."""
    for only in (None, TARGET):
        with pytest.raises(SiteError, match="the sum that the coordinator tells is not what the sites sent"):
            ready(MASKED, lying_at(step, only))


def test_a_sum_that_is_none_is_refused():
    talk, contract, opened = ready(MASKED)
    rules = course.rules_of(contract, opened)
    state = rounds.begin(rules, talk.follow(course.start(contract, opened)))
    state = rounds.after(rules, state, *talk.follow(rounds.evaluation(rules, state)))
    talk.engine.lie = lying_at("Evaluate")
    with pytest.raises(SiteError, match="is not what the sites sent"):
        talk.follow(rounds.evaluation(rules, state))


def test_in_the_clear_a_false_sum_is_believed():
    """What masks are for: without them nobody but the coordinator knows the sum, and a false one leads elsewhere."""
    asked = []
    for lie in (Liar.lie, lying_at("AskSpreads")):
        talk, _, _ = ready(CLEAR, lie)
        asked.append(talk.engine.local[TARGET].run.prepared.units.x_mean)
    assert not np.array_equal(*asked)


def test_a_site_that_was_asked_otherwise_keeps_the_sum_closed():
    talk, contract, opened = ready(MASKED)
    talk.engine.lie = lambda name, request: replace(request, previous=dict(request.previous) | {"x": np.zeros(1)}) if (
        isinstance(request, Step) and request.name == "Evaluate" and name == TARGET) else request
    with pytest.raises(DisclosureError, match=f"{TARGET} was not asked the same"):
        one_round(talk, contract, opened)


def test_a_masked_sum_is_of_all_people_together():
    talk, contract, opened = ready(MASKED)
    one_round(talk, contract, opened)
    for step in ("AskColumns", "AskSpreads", "AskDescription", "Evaluate"):
        assert [reply.sums.keys() for reply in answers(talk, step)] == [{"masked"}], step
    assert answers(talk, "AskMeans")[0].sums.keys() == {"masked", "own/people"}


# --- another cohort (and steps out of turn: test_foreseen.py)


def test_another_cohort_at_the_handshake_than_at_the_keys_is_refused():
    """Four are greeted, and keys of three are handed on."""
    agreed = study(options=OPTIONS, policy=MASKED)
    engine = Liar({source.name: Site(agreed, source.read(agreed)) for source in hospitals(40, 37, 39)})
    four = dict.fromkeys((*engine.sites, "site-3"), True)
    engine.lie = lambda name, request: replace(request, sites=four) if isinstance(request, Hello) else request
    with pytest.raises(HandshakeError, match="a sum over others would tell their difference"):
        coordinator.run_study(engine, agreed)
