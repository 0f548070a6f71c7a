"""What a study under noise protects, and what is left to see."""

import pytest

from fedci import FedCI
from fedci.errors import UsageError
from fedci.result.account import accounts
from support.masked import SECURE, SIZES, plan
from tests_support import hospitals


def test_a_study_under_noise_says_what_it_protects_and_what_is_left_to_see():
    noisy = SECURE | {"epsilon": 4.0, "delta": 1e-5, "outcome_range": [-2.0, 12.0], "effect_bound": 5.0}
    bounded = {"age": {"range": [20, 100]}, "bmi": {"range": [5, 60]}, "sex": {"type": "binary"}}
    found = FedCI(plan(policy=noisy, covariates=bounded)).fit(hospitals(*SIZES))
    words = found.summary()
    assert "ε = 4 at δ = 1e-05 for moments, effects together" in words
    assert "moments: protects one record of a site" in words
    assert "effects: protects all that one site answers" in words
    ratio = {one.what: one.signal_to_noise for one in accounts(found.study, found.outcome)}["effects"]
    assert (ratio < 1) == ("the noise is larger than the signal" in words)
    assert "Not covered by it: the sums of the fit." in words
    assert found.outcome.effects.total["cate_mean"].shape == (1, 3)
    with pytest.raises(UsageError, match="realised effects are not told"):
        found.ate(of="ite")
    again = FedCI(plan(policy=noisy, covariates=bounded)).fit(hospitals(*SIZES))
    assert again.ate().mean == found.ate().mean  # the same people, the same noise: asking twice tells no more
    assert found.ate().sd > 5.0  # the noise is in the interval
