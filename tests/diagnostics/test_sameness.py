"""How probable the same effect for everybody is: sums = people, false alarms are few, differences are found."""

import numpy as np
import pytest

from fedci.diagnostics import sameness
from fedci.diagnostics.verdict import FINE, LOOK


def people(n: int, truth: float, rng: np.random.Generator, spread: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """ψ with noise of sd 2 about an effect that differs as expected (truth 1), or is the same (truth 0)."""
    expected = spread * rng.standard_normal(n)
    return 1.0 + truth * expected + 2.0 * rng.standard_normal(n), expected


def test_the_sums_give_the_regression_over_all_people():
    """Of two sites' sums = of their people together, by least squares and its robust error."""
    rng = np.random.default_rng(0)
    psi, d = people(200, 1.0, rng)
    total = sameness.person_sums(psi[:70], d[:70]) + sameness.person_sums(psi[70:], d[70:])
    found = sameness.summary(total)
    away, off = d - d.mean(), psi - psi.mean()
    assert found.slope == pytest.approx(np.polyfit(d, psi, 1)[0], rel=1e-9)
    assert found.se == pytest.approx(np.sqrt(np.sum(off**2 * away**2)) / np.sum(away**2), rel=1e-9)
    odds = np.exp((2 * found.slope - 1) / (2 * found.se**2))
    assert found.probability == pytest.approx(1 / (1 + odds), rel=1e-9)


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3, 1.0, 3.0])
def test_false_alarms_are_fewer_than_one_in_twenty(spread):
    """The rate is below 0.01 whatever the spread of what is expected; of 2000 studies more than 40 alarms would have a
    probability below 1e-5."""
    rng = np.random.default_rng(1)
    found = [sameness.summary(sameness.person_sums(*people(300, 0.0, rng, spread))).probability for _ in range(2000)]
    assert np.sum(np.array(found) < sameness.ALARM) <= 40


def test_differences_as_the_model_says_are_found():
    rng = np.random.default_rng(2)
    found = sameness.summary(sameness.person_sums(*people(400, 1.0, rng, 1.0)))
    assert found.probability < 0.001
    assert found.verdicts[0].verdict == LOOK
    assert "below 1%" in found.verdicts[0].words


def test_where_the_model_expects_differences_that_are_not_there_sameness_is_probable():
    rng = np.random.default_rng(3)
    found = sameness.summary(sameness.person_sums(*people(4000, 0.0, rng, 1.0)))
    assert found.probability > 0.99
    assert found.verdicts[0].verdict == FINE


def test_nothing_is_said_of_nobody_nor_of_people_who_are_all_expected_alike():
    assert sameness.summary(np.zeros((3, 3))) is None
    assert sameness.summary(sameness.person_sums(np.arange(5.0), np.full(5, 0.7))) is None


def test_the_average_elsewhere_is_that_of_the_people_with_weights():
    """The line at d* = Σ w_i ψ_i, with weights that sum to 1 and give Σ w_i d_i = d*; its error is theirs; it rests on
    1/Σw² people."""
    rng, unit = np.random.default_rng(4), 3.0
    psi, d = people(150, 1.0, rng)
    found = sameness.summary(sameness.person_sums(psi, d), unit)
    there = d.mean() + 0.2
    w = 1 / 150 + 0.2 * (d - d.mean()) / np.sum((d - d.mean()) ** 2)
    mean, se, worth = found.elsewhere(unit * there)
    assert (w.sum(), w @ d) == (pytest.approx(1.0, rel=1e-12), pytest.approx(there, rel=1e-12))
    assert mean == pytest.approx(unit * (w @ psi), rel=1e-9)
    assert se == pytest.approx(unit * np.sqrt(np.sum(w**2 * (psi - psi.mean()) ** 2)), rel=1e-9)
    assert worth == pytest.approx(1 / np.sum(w**2), rel=1e-9)


def test_a_result_of_before_tells_nothing_of_other_people():
    found = sameness.summary(sameness.person_sums(*people(50, 1.0, np.random.default_rng(5))))
    assert sameness.Sameness.model_validate_json(found.model_dump_json()).line == found.line
    assert found.model_copy(update={"line": None}).elsewhere(1.0) is None
