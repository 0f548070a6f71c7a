"""Table 1 and the unadjusted outcome: as one table of all people would have them."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from fedci.diagnostics.balance import WEIGHTINGS, arm_moments, arm_sums
from fedci.diagnostics.described import columns_of, crude, summary


def test_columns_are_those_of_one_table_of_all_people():
    rng = np.random.default_rng(0)
    x, w = rng.normal(50, 9, (40, 2)), rng.integers(0, 2, 40)
    centre, spread = x.mean(0), x.std(0)
    size, first, second = arm_sums((x - centre) / spread, w, np.ones((len(WEIGHTINGS), 40)))
    told = np.ones((len(WEIGHTINGS), 2))
    told[0, 1] = 0.0
    moments = arm_moments({"size": size, "first": first, "second": second, "told": told})
    known, withheld = columns_of(moments, ("age", "bmi"), centre, spread)
    for arm, column in ((0, known.untreated), (1, known.treated)):
        assert column.mean == pytest.approx(x[w == arm, 0].mean(), rel=1e-12)
        assert column.sd == pytest.approx(x[w == arm, 0].std(), rel=1e-9)
    assert withheld.treated.mean is withheld.untreated.sd is None


def test_numbers_are_compared_as_in_a_t_test_with_one_variance():
    rng = np.random.default_rng(1)
    w = np.repeat([0, 1], [30, 20])
    y = rng.normal(3 * w, 2)
    people, total = np.array([30, 20]), np.array([y[w == 0].sum(), y[w == 1].sum()])
    found = crude("numeric", people, total, float(((y - y.mean()) ** 2).sum()))
    test = ttest_ind(y[w == 1], y[w == 0])
    assert found.difference == pytest.approx(y[w == 1].mean() - y[w == 0].mean(), rel=1e-12)
    assert found.events is None
    assert found.difference / found.sd == pytest.approx(test.statistic, rel=1e-9)
    low, high = found.interval()
    assert (low + high) / 2 == pytest.approx(found.difference)


def test_risks_rates_and_times_have_what_their_sums_tell():
    people, total = np.array([40, 60]), np.array([10.0, 30.0])
    risks = crude("binary", people, total, 0.0)
    assert (risks.untreated, risks.treated, risks.events) == (0.25, 0.5, (10, 30))
    assert risks.sd == pytest.approx(np.sqrt(0.25 * 0.75 / 40 + 0.25 / 60))
    rates = crude("count", people, total, 0.0, exposure=np.array([20.0, 120.0]))
    assert (rates.untreated, rates.treated, rates.sd, rates.interval()) == (0.5, 0.25, None, None)
    assert rates.events == (10, 30)
    assert crude("survival", people, total, 0.0).sd is None
    assert crude("numeric", np.array([40, 0]), total, 0.0) is None


def test_flipped_outcomes_are_not_described_and_a_sealed_record_is_without_them():
    means = {"y_count": np.array([40.0, 60.0]), "y_total": np.array([10.0, 30.0])}
    assert summary("binary", means, 0.0, None, True, ()).outcome is None
    found = summary("binary", means, 0.0, None, False, ())
    assert found.people == (40, 60)
    assert found.outcome.treated == 0.5
    assert found.sealed().outcome is None
    assert summary("numeric", {"y_count": np.ones(3), "y_total": np.ones(3)}, 1.0, None, False, ()) is None
