"""Fit: residuals, places and calibration from sums are those of the rows."""

import numpy as np
import pytest
from scipy.stats import norm

from fedci.diagnostics import fit
from support.diagnosed import predictions, site_fit, summed_up


def test_sums_in_other_units_are_those_of_the_values_in_them():
    y, w, mean, sd = predictions(seed=4)
    _, here = site_fit(y, w, mean, sd)
    _, bins, line = fit.site_fit_sums(7 + 3 * y, w, 7 + 3 * mean, 3 * sd, 7 + 3 * fit.calibration_edges(0.0, 1.0))
    found = fit.in_units(here, 7.0, 3.0)
    np.testing.assert_allclose(found.line, line, rtol=1e-10)
    np.testing.assert_allclose(found.bins, bins, rtol=1e-10, atol=1e-9)


def test_residuals_places_and_calibration_are_those_of_the_rows():
    people = [predictions(seed=9), predictions(300, seed=10)]
    found = summed_up("converged", {f"s{k}": one for k, one in enumerate(people)})
    y, w, mean, _ = (np.concatenate(part) for part in zip(*people, strict=True))
    slope, intercept = np.polyfit(mean, y, 1)
    assert found.slope == pytest.approx(slope)
    assert found.intercept == pytest.approx(intercept)
    assert found.explained == pytest.approx(1 - np.mean((y - mean) ** 2) / y.var())
    z = (y - mean)[:500][w[:500] == 1]
    row = next(one for one in found.residuals if (one.site, one.arm) == ("s0", "treated"))
    assert (row.people, row.mean, row.sd) == (len(z), pytest.approx(z.mean()), pytest.approx(z.std()))
    inside = np.abs(norm.cdf(y - mean) - 0.5) < 0.4
    assert next(one.share for one in found.coverage if one.level == 0.8) == pytest.approx(inside.mean(), abs=2e-3)
    lowest = mean < fit.calibration_edges(0.0, 1.0)[0]
    assert found.calibration[0].people == lowest.sum()
    assert found.calibration[0].observed == pytest.approx(y[lowest].mean())
    assert {one.name: one.verdict for one in found.verdicts} == dict.fromkeys(
        ("convergence", "residuals", "posterior predictive", "calibration"), "fine")


def test_wrong_noise_slopes_and_endings_are_seen():
    wide = summed_up("stopped at the cap", {"a": predictions(noise=2.0)})
    words = {one.name: one for one in wide.verdicts}
    assert words["convergence"].verdict == "look"
    assert "too narrow" in words["posterior predictive"].words
    steep = summed_up("diverged", {"a": predictions(slope=0.4)})
    words = {one.name: one for one in steep.verdicts}
    assert words["convergence"].verdict == words["calibration"].verdict == "problem"
    assert "too extreme" in words["calibration"].words


# ── risks ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mean", [0.01, 0.5, 0.93])
def test_the_edges_of_risks_rise_about_the_share_of_events(mean):
    edges = fit.risk_edges(mean)
    assert (np.diff(edges) > 0).all()
    assert 0 < edges[0] < mean < edges[-1] < 1
    assert edges[4] == pytest.approx(mean)


def test_bins_with_few_events_or_few_without_are_found():
    bins = np.array([[30, 0, 0, 0], [30, 0, 3, 3], [30, 0, 15, 15], [30, 0, 28, 28], [30, 0, 30, 30]], float)
    assert fit.few_events(bins, 5).tolist() == [False, True, False, True, False]
    assert not fit.few_events(bins, 0).any()


def test_an_outcome_without_places_has_no_verdict_on_them():
    none = fit.Pooled(2.0, *(np.zeros(fit.PLACES) for _ in range(3)), np.zeros((10, 4)), np.zeros(6))
    assert fit._coverage_verdict((), none) == ()
    assert fit._coverage_verdict((), none._replace(places_hidden=np.ones(fit.PLACES)))[0].verdict == "unknown"
