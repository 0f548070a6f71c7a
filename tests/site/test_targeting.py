"""A site's sums for decisions: of those who are treated first all shares or none, and nothing where ψ is not known."""

import numpy as np

from fedci.site import targeting


def test_a_curve_has_all_its_points_or_none():
    told = targeting._all_or_none(np.array([True, True, False, True, True]))
    assert told.tolist() == [True, False, False, False, False]
    assert targeting._all_or_none(np.array([False, True, True, True, True])).tolist() == [False, True, True, True, True]


def test_sums_are_over_those_who_are_in_a_group():
    rng = np.random.default_rng(0)
    psi, untreated, d = rng.normal(size=(3, 50))
    leaves, above = rng.integers(0, 2, (4, 50)), rng.integers(0, 2, (5, 50))
    found = targeting._valued({"psi": psi, "untreated": untreated, "d": d}, leaves, above)
    inside = leaves[2] == 1
    np.testing.assert_allclose(found["leaf_scores"][2], [psi[inside].sum(), (psi[inside] ** 2).sum(),
                                                         (psi * untreated)[inside].sum(), d[inside].sum()])
    np.testing.assert_allclose(found["above_scores"][:, 0], above @ psi)
    np.testing.assert_allclose(found["scores"], [50, psi.sum(), psi @ psi, untreated.sum(), untreated @ untreated,
                                                 psi @ untreated])


def test_without_doubly_robust_effects_nothing_is_told_of_them():
    found = targeting._valued(None, np.ones((4, 3)), np.ones((5, 3)))
    assert not any(part.any() for part in found.values())
