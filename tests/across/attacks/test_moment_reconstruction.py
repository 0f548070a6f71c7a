"""What four moments give away: the outcomes of an arm of four, exactly; of an arm that the policy lets out, nobody's.

    power sums p₁ … p₄ ─► elementary symmetric e₁ … e₄ (Newton) ─► the four values, as the roots of v⁴ − e₁v³ + e₂v² − …
"""

import numpy as np
import pandas as pd
import pytest

from fedci import Source
from fedci.errors import SizeError
from fedci.site import describing
from fedci.site.site import Site
from fedci.table.moments import Moments
from support.asked import greeting
from tests_support import frame, study


def power_sums(told: Moments) -> np.ndarray:
    """Σ v^k, k = 1 … 4, from mean, variance, skewness and kurtosis of one column."""
    (mean, m2, skewness, kurtosis), n = told.values[:, 0], int(told.count[0])
    m3, m4 = skewness * m2**1.5, (kurtosis + 3.0) * m2**2
    raw = [mean, m2 + mean**2, m3 + 3 * mean * m2 + mean**3, m4 + 4 * mean * m3 + 6 * mean**2 * m2 + mean**4]
    return n * np.array(raw)


def four_values(told: Moments) -> np.ndarray:
    p = power_sums(told)
    e1 = p[0]
    e2 = (e1 * p[0] - p[1]) / 2
    e3 = (e2 * p[0] - e1 * p[1] + p[2]) / 3
    e4 = (e3 * p[0] - e2 * p[1] + e1 * p[2] - p[3]) / 4
    return np.sort(np.roots([1.0, -e1, e2, -e3, e4]).real)


def released(y, rules):
    """The moments of the treated's outcomes, as they leave a site where the model compares sites by them."""
    n = 30 + len(y)
    rows = pd.DataFrame({"age": np.linspace(20, 80, n), "w": (np.arange(n) >= 30).astype(int),
                         "y": np.concatenate([np.linspace(0, 1, 30), y])})
    agreed = study(policy=rules, covariates={"age": {}})
    site = Site(agreed, Source("a", rows).read(agreed))
    site.answer(greeting(agreed))
    units = {"columns": 1, "slots": 1, "x_mean": np.zeros(1), "x_sd": np.ones(1), "y_mean": 0.0, "y_sd": 1.0}
    told = describing.description(site.party, site.run, units).sums
    return Moments(told["moments"][0][:, [1]], told["counts"][0][[1]])


def test_an_arm_of_four_is_laid_open_where_nobody_asks_for_a_minimum():
    y = np.array([3.25, 4.75, 8.5, 11.0])
    np.testing.assert_allclose(four_values(released(y, "simulation")), y, atol=1e-6)


def test_rounding_alone_is_no_defence():
    """Four digits: still each value to a few hundredths of the spread."""
    y = np.array([3.25, 4.75, 8.5, 11.0])
    found = four_values(released(y, {"name": "simulation", "moment_digits": 4}))
    assert np.abs(found - y).max() < 0.1 * y.std()


def test_such_an_arm_does_not_leave_under_the_standard_policy():
    rows = frame(80, 0)
    few = rows.assign(w=[1] * 4 + [0] * 76)
    plan = study(policy="standard")
    with pytest.raises(SizeError, match="4 treated rows"):
        Source("a", few).read(plan)


def test_of_an_arm_that_may_leave_everyone_could_be_someone_else():
    """Twenty people, the policy's minimum: for each of them there is a cohort with the same released moments to the
    last digit in which that person's outcome is another, by a tenth of the spread. So nobody's can be told."""
    y = np.random.default_rng(0).normal(10, 2, 20)
    rules = {"name": "custom", "outcome_noise": 0.0}  # without the noise, which hides more
    target = released(y, rules)
    for person in range(20):
        other = moved(y, person, 0.11 * y.std())
        assert abs(other[person] - y[person]) >= 0.1 * y.std()
        assert released(other, rules).values.tolist() == target.values.tolist(), person


def moved(y: np.ndarray, person: int, by: float) -> np.ndarray:
    """y with one person moved, and the others moved as little as keeps Σ v … Σ v⁴ (Newton on the four sums)."""
    others = np.arange(len(y)) != person
    found, goal = y.copy(), np.array([(y**k).sum() for k in range(1, 5)])
    found[person] += by
    for _ in range(50):
        away = goal - np.array([(found**k).sum() for k in range(1, 5)])
        slopes = np.stack([k * found[others] ** (k - 1) for k in range(1, 5)])
        found[others] += np.linalg.lstsq(slopes, away, rcond=None)[0]
    return found
