"""Balance: pooled differences are those of all rows; what a site withholds is left out."""

import numpy as np

from fedci.diagnostics import balance
from support.diagnosed import arm_sums, rows


def test_pooled_differences_are_those_of_all_rows_together():
    x, w, e = rows(300)
    omega = balance.weights(w, e, w.mean())
    parts = [arm_sums(x[s], w[s], omega[:, s]) for s in (slice(0, 50), slice(50, 180), slice(180, 300))]
    found = balance.differences(balance.arm_moments({name: sum(part[name] for part in parts) for name in parts[0]}))
    for c in range(3):
        known = ~np.isnan(x[:, c])
        v, arm = x[known, c], w[known]
        spread = np.sqrt((v[arm == 1].var() + v[arm == 0].var()) / 2)
        for s, weight in enumerate(omega[:, known]):
            means = [np.average(v[arm == a], weights=weight[arm == a]) for a in (0, 1)]
            np.testing.assert_allclose(found[s, c], (means[1] - means[0]) / spread, rtol=1e-10)


def test_what_a_site_withholds_is_left_out_and_an_arm_without_people_is_unknown():
    x, w, e = rows(80)
    omega = balance.weights(w, e, 0.5)
    one = arm_sums(x, w, omega)
    silent = balance.arm_moments({name: np.zeros_like(part) for name, part in one.items()})
    assert np.isnan(balance.differences(silent)).all()
    one["told"][1, 2] = 0.0
    np.testing.assert_array_equal(np.isnan(balance.differences(balance.arm_moments(one))),
                                  [[False] * 3, [False, False, True], [False] * 3])
    alone = balance.arm_moments(arm_sums(x, np.ones(80), omega))
    assert np.isnan(balance.differences(alone)).all()
    text = balance.summary(alone, {}, ("x", "y", "z")).verdicts[1]
    assert text.verdict == "unknown"


def test_the_balance_verdict_names_the_covariates_that_differ():
    x, w, e = rows(4000)
    everyone = balance.arm_moments(arm_sums(x, w, balance.weights(w, e, w.mean())))
    found = balance.summary(everyone, {}, ("age", "bmi", "sex"))
    before, after = found.verdicts[:2]
    assert before.verdict == "look"
    assert "age (+0." in before.words
    assert "bmi" not in before.words
    assert after.verdict == "fine"
