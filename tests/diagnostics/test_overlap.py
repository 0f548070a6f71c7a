"""Overlap: preference scores, bins, and how far a site is from the others."""

import numpy as np

from fedci.diagnostics import overlap


def test_preference_is_the_propensity_where_half_are_treated_and_half_at_the_prevalence():
    e = np.array([0.01, 0.2, 0.5, 0.97])
    np.testing.assert_allclose(overlap.preference(e, 0.5), e, rtol=1e-12)
    odds = e / (1 - e) / (0.2 / 0.8)
    np.testing.assert_allclose(overlap.preference(e, 0.2), odds / (1 + odds), rtol=1e-12)


def test_every_score_has_one_bin_and_limits_are_edges():
    f = np.array([0.0, 0.05, 0.0999, 0.1, 0.3, 0.69, 0.7, 0.9, 1.0])
    assert list(overlap.GROUP[overlap.bin_of(f)]) == [0, 0, 0, 1, 2, 2, 3, 4, 4]


def test_a_sites_shift_is_against_all_the_others():
    rng = np.random.default_rng(5)
    parts = [rng.normal([0, 0], 1, (50, 2)), rng.normal([0, 3], 2, (70, 2)), rng.normal([1, 0], 1, (40, 2))]
    told = [np.array([part.mean(0) for part in parts]), np.array([part.var(0) for part in parts]),
            np.array([[len(part)] * 2 for part in parts])]
    found = {one.site: one for one in overlap.shift_of_sites(*told, ("age", "bmi"), "abc")}
    rest = np.vstack([parts[0], parts[2]])
    assert found["b"].column == "bmi"
    np.testing.assert_allclose(found["b"].value, (parts[1][:, 1].mean() - rest[:, 1].mean()) / rest[:, 1].std())
