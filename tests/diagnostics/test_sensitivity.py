"""Sensitivity: closed forms against their definitions, the tilt against a linear programme."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from fedci.diagnostics import sensitivity
from fedci.effect import Risks


def test_e_values():
    """The published example of the method: a risk ratio of 3.9 has E-value 7.26; its limit 1.8 has 3.0."""
    assert sensitivity.e_value(3.9) == pytest.approx(7.26, abs=0.005)
    assert sensitivity.e_value(1.8) == pytest.approx(3.0, abs=0.005)
    assert sensitivity.e_value(1 / 3.9) == pytest.approx(sensitivity.e_value(3.9))
    assert sensitivity.e_values(0.0, 0.1, 1.0) == (1.0, 1.0)
    assert sensitivity.e_values(0.1, 0.2, 1.0)[1] == 1.0
    up, down = sensitivity.e_values(0.5, 0.1, 2.0), sensitivity.e_values(-0.5, 0.1, 2.0)
    assert up == pytest.approx(down)
    assert up[0] > up[1] > 1.0


def test_robustness_values():
    """The published example of the method: t = 4.184 with 783 degrees of freedom has 13.9%, and 7.6% at α = 5%."""
    assert sensitivity.robustness_value(4.184, 783) == pytest.approx(0.139, abs=5e-4)
    assert sensitivity.robustness_value(4.184, 783, 0.05) == pytest.approx(0.076, abs=5e-4)
    assert sensitivity.robustness_value(0.0, 50) == 0.0
    assert sensitivity.robustness_value(1.0, 50, 0.05) == 0.0
    at = sensitivity.robustness_value(7.0, 40)
    bias = at / np.sqrt(1 - at)  # |bias|/se = √(dof · R²_y R²_w/(1 − R²_w)), both shares equal
    assert bias * np.sqrt(40) == pytest.approx(7.0)


@pytest.mark.parametrize("strength", [1.0, 1.5, 4.0])
def test_the_tilt_is_the_worst_density_a_linear_programme_finds(strength):
    """Maximise E[r Z], E[r] = 1, 1/Λ ≤ r ≤ Λ over a grid of a standard normal."""
    z = np.linspace(-6, 6, 2001)
    p = norm.pdf(z)
    p /= p.sum()
    found = linprog(-p * z, A_eq=[p], b_eq=[1.0], bounds=(1 / strength, strength))
    assert sensitivity.tilt(strength) == pytest.approx(-found.fun, abs=2e-3)  # the grid's step, at the quantile


def test_bounds_grow_with_the_strength_and_meet_zero_where_they_say():
    found = sensitivity.summary(1.0, 0.2, 0.6, 1.4, 2.0, 100, 0.3, (1.0, 0.5), ())
    widths = [one.high - one.low for one in found.bounds]
    assert widths[0] == 0.0
    assert widths == sorted(widths)
    assert sensitivity.half_width(0.3, (1.0, 0.5), found.explained_away) == pytest.approx(0.6)
    e = np.array([0.1, 0.7])
    each = sensitivity.half_width(e, (1.0, 0.5), 2.0)
    assert each.mean() == pytest.approx(sensitivity.half_width(e.mean(), (1.0, 0.5), 2.0))  # ATE: the mean of CATE's
    nothing = sensitivity.summary(0.1, 0.2, -0.3, 0.5, 2.0, 100, 0.5, (1.0, 0.5), ())
    assert nothing.explained_away == 1.0
    assert nothing.e_value_interval == 1.0
    assert {one.verdict for one in nothing.verdicts} == {"look"}


def test_the_bounds_hold_a_truth_that_confounding_of_that_strength_made():
    """x absent; y(1) of the untreated drawn from the worst tilt of Λ = 2: the naive mean is off by (1 − e) k σ."""
    rng = np.random.default_rng(8)
    seen = rng.normal(size=400_000)
    cut = norm.ppf(2 / 3)
    accept = rng.uniform(size=len(seen)) < np.where(seen > cut, 1.0, 0.25)  # densities Λ and 1/Λ, up to a constant
    shift = seen[accept].mean() - seen.mean()
    assert shift == pytest.approx(sensitivity.tilt(2.0), abs=5 / np.sqrt(accept.sum()))


# ── risks ───────────────────────────────────────────────────────────────────────────────────────────────────


def risks(untreated: float, treated: float, sd: float = 0.01) -> Risks:
    normals = np.random.default_rng(0).standard_normal((2, 4000))
    return Risks(untreated + sd * normals[0], treated + sd * normals[1])


@pytest.mark.parametrize("strength", [1.0, 1.5, 4.0])
@pytest.mark.parametrize("p", [0.02, 0.4, 0.97])
def test_a_risk_that_nobody_saw_has_a_density_within_the_bounds(p, strength):
    """By trying all p′: densities p′/p and (1 − p′)/(1 − p) within 1/Λ … Λ."""
    grid = np.linspace(0.0, 1.0, 200_001)
    allowed = grid[(grid / p <= strength + 1e-12) & (grid / p >= 1 / strength - 1e-12)
                   & ((1 - grid) / (1 - p) <= strength + 1e-12) & ((1 - grid) / (1 - p) >= 1 / strength - 1e-12)]
    lower, higher = sensitivity.risk_shifts(0.5, p, 0.0, strength)
    assert higher == pytest.approx(allowed.max() - p, abs=1e-5)
    assert lower == pytest.approx(p - allowed.min(), abs=1e-5)
    assert sensitivity.risk_shifts(p, 0.5, 1.0, strength) == pytest.approx((higher, lower), abs=1e-5)


def test_the_e_value_of_risks_is_that_of_their_ratio():
    found = sensitivity.of_risks(risks(0.2, 0.4), 0.45, 0.5)
    assert found.e_value == pytest.approx(sensitivity.e_value(2.0), rel=0.01)
    assert 1.0 < found.e_value_interval < found.e_value
    assert sensitivity.of_risks(risks(0.4, 0.2), 0.45, 0.5).e_value == pytest.approx(found.e_value, rel=0.01)
    assert sensitivity.of_risks(risks(0.3, 0.3), 0.45, 0.5).e_value_interval == 1.0


def test_the_strength_that_explains_risks_away_brings_the_interval_to_no_difference():
    for one in (risks(0.2, 0.4), risks(0.4, 0.2)):
        found = sensitivity.of_risks(one, 0.45, 0.4)
        lower, higher = sensitivity.risk_shifts(one.untreated.mean(), one.treated.mean(), 0.4, found.explained_away)
        assert min(abs(found.low - lower), abs(found.high + higher)) < 1e-8
        assert all(-1 <= row.interval_low <= row.interval_high <= 1 for row in found.bounds)
    assert sensitivity.of_risks(risks(0.3, 0.3), 0.45, 0.5).explained_away == 1.0
    assert [row.name for row in found.verdicts] == ["E-value", "marginal sensitivity"]
