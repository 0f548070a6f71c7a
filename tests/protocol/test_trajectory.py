"""Where a fit stands: told on by sums alone, kept on disk bit for bit, and every other request is seen."""

import numpy as np
import pytest

from fedci.model.family import Rules
from fedci.protocol import trajectory
from fedci.protocol.ask import request_of
from fedci.study.options import preset

ROUNDS = 3


@pytest.fixture(scope="module")
def rules(make):
    options = preset("classic")
    options = options.model_copy(update={
        "optimiser": options.optimiser.model_copy(update={"rounds": ROUNDS, "draws": 4}),
        "prediction": options.prediction.model_copy(update={"draws": 4})})
    model = make.model(sites=2)
    return Rules(model, options, 0, np.zeros((2, model.u_dim)), 80)


def answered(ask, number: int) -> dict:
    """Sums that some sites might give."""
    rng = np.random.default_rng(number)
    roots = rng.normal(size=ask.arrays["phi_roots"].shape)
    return {"objective": np.array(-100.0 + number), "gradient": rng.normal(size=ask.arrays["theta"].shape),
            "phi_roots": roots, "sigma_roots": roots, "failed": np.array(0.0)}


def walked(rules, count: int):
    """(place, what is asked there) after so many sums."""
    place, ask = trajectory.now(rules, trajectory.begin())
    for number in range(count):
        place, ask = trajectory.after(rules, place, answered(ask, number))
    return place, ask


def test_rounds_follow_from_the_sums_and_the_last_asks_for_effects(rules):
    legs = [walked(rules, count)[0].leg for count in range(ROUNDS + 1)]
    assert legs == [trajectory.ROUND] * ROUNDS + [trajectory.EFFECTS]
    assert [walked(rules, count)[1].name for count in (0, ROUNDS)] == ["Evaluate", "AskEffects"]


def test_two_who_are_told_the_same_expect_the_same_bits(rules):
    (_, one), (_, two) = walked(rules, 2), walked(rules, 2)
    assert all(one.arrays[name].tobytes() == two.arrays[name].tobytes() for name in one.arrays)


@pytest.mark.parametrize("count", range(ROUNDS + 1))
def test_a_place_on_disk_is_the_place(rules, count):
    place, ask = walked(rules, count)
    back, again = trajectory.now(rules, trajectory.unpack(rules, trajectory.pack(place)))
    assert back.leg == place.leg
    assert all(ask.arrays[name].tobytes() == again.arrays[name].tobytes() for name in ask.arrays)


def sent(ask, **crafted):
    """The request to the first site, with other arrays in place of the ask's."""
    return request_of(ask._replace(arrays=ask.arrays | crafted), ("run", 5, "a"), 0, {})


def test_a_request_off_the_course_is_named_and_the_last_bits_are_not(rules):
    _, ask = walked(rules, 1)
    request = sent(ask)
    assert trajectory.differs(ask, request, 0) is None
    theta = np.asarray(request.theta)
    assert trajectory.differs(ask, sent(ask, theta=theta * (1 + 1e-12)), 0) is None
    moved = theta + 1e-3 * np.abs(theta).max()
    for wrong in (moved, theta[:-1], np.full_like(theta, np.nan)):
        assert trajectory.differs(ask, sent(ask, theta=wrong), 0) == "theta"
    _, effects = walked(rules, ROUNDS)
    assert trajectory.differs(ask, sent(effects), 0) == "a AskEffects instead of a Evaluate"
