"""Effects at a hospital outside the study: draws as everywhere, with what such a hospital has of its own."""

import numpy as np
import pytest

from fedci.result import elsewhere
from tests_support import frame, made_result, study


@pytest.fixture(scope="module")
def result():
    return made_result(study(preset="default"), {"a": frame(40, 0), "b": frame(30, 1)})


def test_noise_of_the_outcome_widens_and_moves_nothing(result):
    x = np.random.default_rng(0).standard_normal((4, 3))
    expected, realised = (elsewhere.effects(result.study, result.outcome, x, (0, 1), noise) for noise in (False, True))
    np.testing.assert_array_equal(expected.mean, realised.mean)
    assert (np.asarray(realised.sd) > np.asarray(expected.sd)).all()


def test_a_person_is_told_the_same_alone_and_among_others(result):
    """But for the order of sums in a product of matrices."""
    x = np.random.default_rng(1).standard_normal((5, 3))
    together = elsewhere.effects(result.study, result.outcome, x, (0, 1), False)
    alone = elsewhere.effects(result.study, result.outcome, x[2:3], (0, 1), False)
    np.testing.assert_allclose(alone.mean, np.asarray(together.mean)[2:3], rtol=1e-9)
