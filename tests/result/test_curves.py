"""Curves in numbers: risks at any time, and restricted means as integrals of the curve."""

import numpy as np
import pytest

from fedci.errors import UsageError
from fedci.result.curves import Survival

TIMES = np.array([1.0, 2.0, 5.0])
RATE = np.array([[0.3], [0.1]])


def curves() -> Survival:
    """Two draws of constant hazards, of which treatment spares half."""
    return Survival(TIMES, np.exp(-RATE * TIMES[None]), np.exp(-0.5 * RATE * TIMES[None]))


@pytest.mark.parametrize("time", [0.5, 1.0, 3.3, 5.0])
def test_constant_hazards_are_exact_at_every_time(time):
    """Within an interval the hazard is taken to be constant."""
    rate = RATE[:, 0]
    np.testing.assert_allclose(curves().risks(time).untreated, 1.0 - np.exp(-rate * time), rtol=1e-12)
    np.testing.assert_allclose(curves().rmst(time).untreated, (1.0 - np.exp(-rate * time)) / rate, rtol=1e-9)
    np.testing.assert_allclose(curves().difference(time).means, np.exp(-0.5 * rate * time) - np.exp(-rate * time))


def test_people_have_curves_of_their_own():
    one = curves()
    many = Survival(TIMES, np.repeat(one.untreated[:, None], 3, 1), np.repeat(one.treated[:, None], 3, 1))
    np.testing.assert_allclose(many.rmst().difference.mean, np.repeat(one.rmst().difference.mean, 3))


def test_where_nobody_has_an_event_the_mean_is_the_time():
    none = Survival(TIMES, np.ones((2, 3)), np.ones((2, 3)))
    np.testing.assert_allclose(none.rmst(3.0).untreated, 3.0)


def test_beyond_the_last_horizon_nothing_is_known():
    with pytest.raises(UsageError, match="from 0 to the last horizon, 5"):
        curves().risks(6.0)
