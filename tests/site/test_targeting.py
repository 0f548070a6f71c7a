"""A site's sums for decisions: of those who are treated first all shares or none, and nothing where ψ is not known."""

from types import SimpleNamespace

import numpy as np

from fedci.model.rows import Weighed
from fedci.site import grouping, targeting


def test_a_curve_has_all_its_points_or_none():
    told = targeting._all_or_none(np.array([True, True, False, True, True]))
    assert told.tolist() == [True, False, False, False, False]
    assert targeting._all_or_none(np.array([False, True, True, True, True])).tolist() == [False, True, True, True, True]


def test_of_a_curve_with_a_point_that_tells_of_few_nothing_is_told(monkeypatch):
    """Four leaves and five thresholds, of which one may not be told: of what leaves."""
    people, rng = 20, np.random.default_rng(0)
    monkeypatch.setattr(targeting, "_scores", lambda *_: dict(zip(
        ("psi", "untreated", "d"), rng.normal(size=(3, people)), strict=True)))
    monkeypatch.setattr(targeting, "_along", lambda *_: np.zeros((1, people)))
    monkeypatch.setattr(targeting.rules, "holds", lambda *_: np.zeros((4, people), bool))
    monkeypatch.setattr(grouping, "members", lambda *_: np.zeros((0, people), bool))
    monkeypatch.setattr(grouping, "counted", lambda *_: [])
    monkeypatch.setattr(grouping, "weighed", lambda *_: Weighed(np.zeros((2, 3, 6)), np.zeros((2, 6, 6))))
    monkeypatch.setattr(grouping, "tells_of", lambda party, run, groups, cells: np.arange(len(groups)) != 6)
    party = SimpleNamespace(name="a", whole=SimpleNamespace(x=np.zeros((people, 1))))
    run = SimpleNamespace(rows=np.arange(people), study=SimpleNamespace(groups=()))
    arrays = {"rule": np.zeros(0), "cutoffs": np.full(5, -9.0), "sign": 1.0}
    told = targeting.answer(party, run, None, None, arrays).sums
    assert told["above_told"].tolist() == [1, 0, 0, 0, 0]
    assert told["above_people"].tolist() == [people, 0, 0, 0, 0]
    assert not told["above_scores"][1:].any()


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
