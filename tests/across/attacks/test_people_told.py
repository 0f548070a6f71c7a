"""All that was told, as `assurance/people_told.py` differentiates it: the same numbers that a coordinator has, their
true slopes; and a study of few people, all of whom the bound gives away."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3] / "assurance"))

import people_attack as attack  # noqa: E402
import people_told as told_of  # noqa: E402
from people_sites import FEW, NO_LIMIT, followed, met, planned, tables  # noqa: E402

LOW = {"min_rows": 10, "min_arm_rows": 3, "override_reason": "a test", "statistics_per_row": 9.0,
       "max_parameters_per_row": 9.0, "min_cell": 0}


PRODUCTS = {"preset": "few", "policy": NO_LIMIT | LOW | {"sum_noise": 0.0},
            "options": FEW | {"optimiser": {"rounds": 2}}}
"""The preset `few` without noise: products of a dictionary, and series of own functions."""


@pytest.fixture(scope="module", params=["default", pytest.param("few", marks=pytest.mark.slow)])
def listener(request):
    rows = tables((14, 12, 13))
    how = PRODUCTS if request.param == "few" else {"policy": NO_LIMIT | LOW, "options": FEW}
    with met(planned(rows, covariates={"age": {}}, **how), rows) as parties:
        return followed(parties)[1]


@pytest.fixture(scope="module")
def parts(listener):
    return listener.parts(listener.truth)


def test_what_is_reckoned_is_what_was_told(listener, parts):
    """Statistics, gradients, effects and each site's own averages, to rounding; nothing that leaves is left out. Masked
    statistics are rounded to 2⁻³¹ of s_i s_j n/σ², of levels some 1e4 here."""
    rounds = ("statistics", "gradients"), ("products",)
    others = rounds["products" in {part.kind for part in parts}]
    assert {part.kind for part in parts} == {*others, "effects", "own", "moments"}
    np.testing.assert_allclose(np.concatenate([part.values for part in parts]), listener.told(), rtol=1e-9, atol=1e-5)
    np.testing.assert_array_equal(listener.values(listener.truth), np.concatenate([part.values for part in parts]))


def test_slopes_are_finite_differences(listener, parts):
    rng = np.random.default_rng(0)
    along, slopes = rng.standard_normal(len(listener.truth)), np.vstack([part.slopes for part in parts])
    up, down = (listener.values(listener.truth + sign * 1e-5 * along) for sign in (1, -1))
    np.testing.assert_allclose((up - down) / 2e-5, slopes @ along, rtol=1e-4, atol=1e-5)
    weights = rng.standard_normal(len(slopes))
    np.testing.assert_allclose(listener.pulled(listener.truth, weights), slopes.T @ weights, rtol=1e-9, atol=1e-9)


def test_more_kinds_of_numbers_leave_less_open(parts):
    """And no more is known than numbers were told: Σ (1 − sd²) ≤ K."""
    kinds = ("moments",), ("moments", "statistics", "products"), told_of.KINDS[:3] + ("moments",), told_of.KINDS
    left = [told_of.left(parts, some) for some in kinds]
    for some, less, more in zip(kinds, left[1:], left, strict=False):
        assert (less <= more + 1e-6).all()
        assert np.sum(1.0 - more**2) <= sum(len(part.values) for part in parts if part.kind in some) + 1e-6
    assert (left[-1] < 0.1).all()  # 39 people, six times as many numbers
    assert told_of.left(parts, tau=1e3).min() > 0.9


def test_least_squares_come_nearer(listener):
    """From ages known to 0.3 sd."""
    start = listener.truth + 0.3 * np.random.default_rng(1).standard_normal(len(listener.truth))
    found = attack.by_least_squares(listener, start, 6)
    assert attack.near(found.values, listener.truth)[0] > attack.near(start, listener.truth)[0] + 5
