"""Noise at a site: gradients are clipped before it."""

from fedci import FedCI
from support.masked import SECURE, SIZES
from tests_support import hospitals, study


def test_noised_gradients_reach_the_coordinator_clipped():
    blind = {"optimiser": {"name": "adam", "rounds": 3, "tolerance": 0.0}, "prediction": {"draws": 16}}
    noisy = SECURE | {"epsilon": 8.0, "delta": 1e-5, "noised": ["gradients"], "gradient_clip": 1.0}
    agreed = study(policy=noisy, options=blind)
    found = FedCI(agreed).fit(hospitals(*SIZES))
    bare = FedCI(study(policy=SECURE, options=blind)).fit(hospitals(*SIZES))
    assert [r.objective for r in found.outcome.fit.rounds] != [r.objective for r in bare.outcome.fit.rounds]
    assert "gradients: protects all that one site answers; noise" in found.summary()
    assert ", 3 times; signal to noise" in found.summary()
