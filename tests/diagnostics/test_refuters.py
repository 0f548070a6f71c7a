"""Refuters are judged by what should happen."""

import pytest

from fedci.diagnostics import refuters


def test_refuters_are_judged_by_what_should_happen():
    def judged(name, mean):
        return refuters.refuter(name, mean, 0.1, mean - 0.2, mean + 0.2, "converged", 1.0, 0.1, "'falls'")

    assert judged("placebo", 0.15).verdict.verdict == "fine"
    assert judged("placebo", 0.9).verdict.verdict == "problem"
    assert judged("random-cause", 1.03).z == pytest.approx(0.3)
    assert judged("random-cause", 1.3).verdict.verdict == "problem"
    assert judged("subset", 1.08).z == pytest.approx(0.8 / 0.5)  # sd of the difference: 0.1 √(1/0.8 − 1) = 0.05
    control = judged("negative-control", 0.4)
    assert control.verdict.verdict == "problem"
    assert "'falls'" in control.verdict.words
