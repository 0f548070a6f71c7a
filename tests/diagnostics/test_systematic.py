"""Systematic error from negative controls: known cases, what it does to intervals, and coverage under bias."""

import numpy as np
import pytest
from scipy.stats import norm

from fedci.diagnostics.heterogeneity import Interval
from fedci.diagnostics.systematic import FEWEST, Control, Law, summary


def controls(estimates, sds, ended="converged", sites=None):
    return [Control(name=f"control-{k}", column=f"c{k}", mean=b, sd=s, ended=ended, sites=sites or {})
            for k, (b, s) in enumerate(zip(estimates, sds, strict=True), 1)]


def plain(mean, sd):
    return mean, sd, Interval(mean=mean, low=mean - 1.96 * sd, high=mean + 1.96 * sd)


def test_many_exact_controls_give_their_own_mean_and_spread():
    rng = np.random.default_rng(0)
    b = rng.normal(0.3, 0.2, 2000)
    law = Law(b, np.full(2000, 1e-6))
    assert law.mle == pytest.approx((b.mean(), b.std()), rel=0.02)  # σ on a grid
    assert law.sigma_quantile(0.5) == pytest.approx(b.std(), rel=0.02)
    found = law.calibrated(1.0, 0.1)
    half = norm.ppf(0.975) * np.hypot(0.1, b.std())
    assert found.mean == pytest.approx(1.0 - b.mean(), abs=1e-3)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.02)


def test_controls_without_error_leave_the_interval_all_but_as_it_was():
    rng = np.random.default_rng(1)
    law = Law(rng.normal(0.0, 0.1, 200), np.full(200, 0.1))
    found = law.calibrated(1.0, 0.1)
    assert law.mle[1] < 0.05
    assert found.high - found.low == pytest.approx(2 * norm.ppf(0.975) * 0.1, rel=0.15)


def test_units_change_nothing():
    rng = np.random.default_rng(2)
    b, s = rng.normal(0.2, 0.3, 12), rng.uniform(0.05, 0.2, 12)
    one, scaled = Law(b, s).calibrated(1.0, 0.1), Law(1000 * b, 1000 * s).calibrated(1000.0, 100.0)
    told, asked = (np.array([found.mean, found.low, found.high]) for found in (scaled, one))
    assert np.allclose(told, 1000 * asked, rtol=1e-9)


def test_fewer_controls_mean_wider_intervals_and_too_few_are_an_error():
    b = np.resize([-0.2, 0.0, 0.2, 0.1, -0.1], 40)
    widths = [Law(b[:n], np.full(n, 0.05)).calibrated(1.0, 0.1) for n in (5, 10, 40)]
    assert np.all(np.diff([one.high - one.low for one in widths]) < 0)
    with pytest.raises(ValueError, match="too few"):
        Law([0.0] * (FEWEST - 1), [0.1] * (FEWEST - 1))


def test_the_summary_has_everybody_and_each_site_that_tells():
    rng = np.random.default_rng(3)
    b, sites = rng.normal(0.4, 0.3, 8), {"lyon": (0.5, 0.2)}
    rows = [*controls(b, np.full(8, 0.05), sites=sites), *controls([99.0], [0.1], ended="diverged", sites=sites)]
    found = summary(rows, {"all": plain(0.5, 0.1), "lyon": plain(0.6, 0.2), "oslo": plain(0.4, 0.2)})
    assert [row.over for row in found.systematic] == ["all", "lyon"]
    assert found.systematic[0].controls == 8  # a fit that diverged tells nothing
    assert found.verdicts[0].verdict == "problem"
    assert "not settled any more" in found.verdicts[0].words
    assert found.systematic[0].mean_low < found.systematic[0].mean < found.systematic[0].mean_high
    assert summary(rows[:3], {"all": plain(0.5, 0.1)}).systematic == ()


@pytest.mark.slow
def test_calibrated_intervals_cover_under_bias_where_plain_ones_do_not():
    """30 controls, biases N(0.2, 0.2²), sds of 0.05 to 0.15; 2000 studies: an error of the coverage of 0.5%."""
    rng, hits, naive = np.random.default_rng(4), 0, 0
    for _ in range(2000):
        s = rng.uniform(0.05, 0.15, 31)
        b = rng.normal(0.2, 0.2, 31) + s * rng.standard_normal(31)
        one = Law(b[:30], s[:30]).calibrated(b[30], s[30])
        hits += one.low <= 0.0 <= one.high
        naive += abs(b[30]) <= 1.96 * s[30]
    assert 0.935 < hits / 2000 < 0.965
    assert naive / 2000 < 0.6
