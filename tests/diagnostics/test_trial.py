"""A randomised study: plain differences from sums are those of the rows; what is said of confounding is left out."""

import numpy as np
import pytest

from fedci.diagnostics import trial
from fedci.diagnostics.findings import Diagnostics
from fedci.study.assignment import Design
from support.diagnosed import record

MODEL = (1.0, 0.5, 1.5)


def people(n=400, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    w = (rng.uniform(size=n) < share).astype(float)
    return w, rng.normal(size=n) + 1.5 * w, rng.uniform(0.5, 2.0, n)


def test_the_plain_difference_is_that_of_the_rows_and_its_error_welchs():
    w, y, _ = people()
    site = np.arange(len(w)) % 3
    parts = [trial.arm_moments(w[site == s], y[site == s], np.ones((site == s).sum())) for s in range(3)]
    strata = sum(trial.stratum(part) for part in parts)
    found = trial.summary(sum(parts), strata, 2.0, 10.0, MODEL, 0.2, Design(kind="randomised"))
    one, zero = y[w == 1], y[w == 0]
    assert found.plain.mean == pytest.approx(2.0 * (one.mean() - zero.mean()), rel=1e-10)
    assert found.plain.se == pytest.approx(2.0 * np.sqrt(one.var(ddof=1) / len(one) + zero.var(ddof=1) / len(zero)),
                                           rel=1e-10)
    assert found.means == pytest.approx((10 + 2 * zero.mean(), 10 + 2 * one.mean()), rel=1e-10)
    weights = [1 / (1 / n[0] + 1 / n[1]) for s in range(3) for n in [[np.sum((site == s) & (w == a)) for a in (0, 1)]]]
    each = [y[(site == s) & (w == 1)].mean() - y[(site == s) & (w == 0)].mean() for s in range(3)]
    assert found.within_sites.mean == pytest.approx(2.0 * np.average(each, weights=weights), rel=1e-10)


def test_within_sites_is_not_confounded_by_sites_that_draw_at_other_ratios():
    """Sites of other levels and ratios: overall off by about 1.8, within sites within 4 of its standard errors."""
    parts, strata = [], []
    for seed, share in ((1, 0.2), (2, 0.8)):
        w, y, _ = people(3000, seed, share)
        parts.append(trial.arm_moments(w, y + 3.0 * (seed == 2), np.ones(len(w))))
        strata.append(trial.stratum(parts[-1]))
    found = trial.summary(sum(parts), sum(strata), 1.0, 0.0, MODEL, 0.2, Design(kind="randomised"))
    assert abs(found.within_sites.mean - 1.5) < 4 * found.within_sites.se
    assert found.plain.mean > 2.5


def test_rates_are_events_over_exposure_and_their_error_that_of_a_ratio():
    """Against the spread of the rate over 400 samples of one law (known to 3.5 %)."""
    rates, errors = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        e = rng.uniform(0.5, 2.0, 200)
        w, y = np.arange(200) % 2 * 1.0, rng.poisson(1.3 * e) * 1.0
        found = trial.summary(trial.arm_moments(w, y, e), np.zeros(3), 1.0, 0.0, MODEL, 0.2, Design(kind="randomised"))
        rates.append(found.plain.mean)
        errors.append(found.plain.se)
    assert np.mean(errors) == pytest.approx(np.std(rates), rel=0.12)


def test_risks_of_times_are_those_of_the_life_table():
    """Without censoring the risk is the share with an event, and Greenwood's variance the binomial one."""
    events = np.array([[3.0, 5.0, 2.0], [1.0, 4.0, 0.0]])
    found = trial.of_times(events, np.zeros((2, 3)), np.array([50.0, 40.0]), MODEL, 0.1, Design(kind="randomised"))
    assert found.means == pytest.approx((0.2, 0.125), rel=1e-12)
    assert found.plain.se == pytest.approx(np.sqrt(0.2 * 0.8 / 50 + 0.125 * 0.875 / 40), rel=1e-10)
    gone = trial.of_times(events, np.full((2, 3), 2.0), np.array([50.0, 40.0]), MODEL, 0.1, Design(kind="randomised"))
    assert gone.means[0] > 0.2, "who leaves is not free of events"


@pytest.mark.parametrize(("share", "word"), [(None, "fine"), (0.7, "look")])
def test_the_ratio_is_held_against_the_stated_one(share, word):
    w, y, _ = people()
    found = trial.summary(trial.arm_moments(w, y, np.ones(len(w))), np.zeros(3), 1.0, 0.0, MODEL, 0.2,
                          Design(kind="randomised", treated=share))
    assert [verdict.verdict for verdict in found.verdicts] == [word]
    assert found.within_sites is None


def test_verdicts_about_confounding_are_left_out_of_a_randomised_study_alone():
    found, people_of = record(), {"a": np.array([100, 100])}
    assert trial.of_lot(found, Design(), people_of) is found
    lot = trial.of_lot(found, Design(kind="randomised"), people_of)
    names = {verdict.name for verdict in lot.verdicts}
    assert isinstance(lot, Diagnostics)
    assert not names & {*trial.CONFOUNDING, "equipoise", "common support", "balance after adjustment"}
    assert "arms alike" in names
    assert lot.sensitivity.e_value == found.sensitivity.e_value, "the numbers stay"
