"""The methods in their modes: each fit made once, what fails is a row."""

import math

import numpy as np
import pytest

from fedci.benchmark.run import methods, protocols, suites
from fedci.benchmark.run.baselines import Estimate
from fedci.benchmark.run.cells import Cell
from fedci.study.options import preset
from fedci.synthetic.datasets import Records, Split, combined, synthetic
from support.benchmarked import LINEAR, rows
from tests_support import COVARIATES, frame


def one(found, **wanted):
    (row,) = [r for r in found if all(getattr(r, name) == value for name, value in wanted.items())]
    return row


# --- protocols, by hand


def test_a_baseline_imputes_with_its_outcome_models():
    people = synthetic("DATA-1", 0)[0].test
    zeros = np.zeros(len(people))
    found = protocols.of_estimate(Estimate(cate=zeros, mu0=zeros + 1, mu1=zeros + 5), people)
    np.testing.assert_array_equal(found.imputed, np.where(people.w == 1, people.y - 1, 5 - people.y))
    assert protocols.of_estimate(Estimate(cate=zeros), people).imputed is None


# --- modes


def test_modes_of_a_baseline(learners):
    found = rows("constant")
    splits = suites.suite(LINEAR).load(0)[:3]
    people = combined([split.test for split in splits])
    effects = [s.train.y[s.train.w == 1].mean() - s.train.y[s.train.w == 0].mean() for s in splits]
    pooled = combined([split.train for split in splits])
    together = pooled.y[pooled.w == 1].mean() - pooled.y[pooled.w == 0].mean()
    expected = {"com": np.full(len(people), together), "agg": np.full(len(people), np.mean(effects)),
                "loc": np.repeat(effects, [len(split.test) for split in splits])}
    for mode, cate in expected.items():
        row = one(found, mode=mode, sources=3, protocol="P2")
        assert row.pehe == pytest.approx(np.sqrt(np.mean((cate - people.cate) ** 2)))
    assert math.isnan(one(found, mode="agg", sources=3, protocol="P2").coverage)
    assert one(found, mode="com", sources=3, protocol="P2").ate_width == pytest.approx(2.0)
    with_one = [one(found, mode=mode, sources=1, protocol="P2").pehe for mode in expected]
    assert len(set(with_one)) == 1


def small_suite() -> suites.Suite:
    """Two sources of the shape other tests fit, so that its compilation is shared."""
    def hospital(seed: int, rows: int) -> Records:
        x = frame(rows, seed)
        effect = 1 + np.sin(x["age"] / 15)
        mu0 = 0.05 * x["bmi"]
        columns = {"w": x["w"], "y": mu0 + x["w"] * effect, "y0": mu0, "y1": mu0 + effect, "mu0": mu0,
                   "mu1": mu0 + effect}
        return Records(x=x[list(COVARIATES)].to_numpy(float), **{name: np.asarray(c) for name, c in columns.items()})

    splits = [Split(hospital(s, 40), hospital(s + 5, 40), hospital(s, 40)) for s in range(2)]
    return suites.Suite(label="small", load=lambda replication: splits, counts=(1, 2), most=2)


def test_fedci_in_its_modes_and_each_fit_is_made_once(monkeypatch):
    made = []
    fit = methods.fedci_fit
    monkeypatch.setattr(methods, "fedci_fit", lambda variant, splits, *a, **k: made.append(len(splits)) or fit(
        variant, splits, *a, **k))
    quick = methods.Variant("classic", {"optimiser": {"rounds": 5}, "prediction": {"draws": 16}})
    monkeypatch.setitem(methods.OURS, "FedCI", quick)
    found = [row for row in methods.cells("FedCI", small_suite(), 0, (1, 2), methods.FEDCI_MODES, 0)
             if isinstance(row, Cell)]
    assert sorted(made) == [1, 1, 2, 2]  # two sources alone, both federated, both combined
    assert len({one(found, mode=mode, sources=1, protocol="P1").pehe for mode in ("fed", "com", "loc")}) == 1
    assert len({one(found, mode=mode, sources=2, protocol="P2").pehe for mode in ("fed", "com", "loc")}) == 3
    row = one(found, mode="fed", sources=2, protocol="P3")
    assert row.rounds == 5
    assert row.bytes > 1000
    assert 0 < row.coverage <= 1


def scored_everywhere(missing=False) -> suites.Suite:
    """`small_suite` with a third source, which is fitted by nobody, and its people scored."""
    two = small_suite().load(0)
    third = Split(two[0].train, two[1].validation, two[0].validation)
    splits = [*two, third]
    if missing:
        for split in splits:
            split.train.x[::7, 1] = np.nan
            split.test.x[::5, 1] = np.nan
    return suites.Suite(label="small", load=lambda replication: splits, counts=(2,), most=3, everywhere=True)


def test_a_baseline_is_asked_about_people_of_sources_it_has_not_seen(learners):
    suite = scored_everywhere()
    found = list(methods.cells("constant", suite, 0, (1, 2), suite.modes, 0))
    splits = suite.load(0)
    people = combined([split.test for split in splits])
    effects = [s.train.y[s.train.w == 1].mean() - s.train.y[s.train.w == 0].mean() for s in splits[:2]]
    for count in (1, 2):
        row = one(found, mode="agg", sources=count, protocol="P2")
        assert row.pehe == pytest.approx(np.sqrt(np.mean((np.mean(effects[:count]) - people.cate) ** 2)))
    assert one(found, mode="com", sources=1, protocol="P2").pehe == one(found, mode="agg", sources=1,
                                                                        protocol="P2").pehe


@pytest.mark.parametrize("mode", ["fed", "com"])
def test_fedci_is_asked_about_people_elsewhere_and_with_missing_values(mode, monkeypatch):
    """In a fit of two sources the third's people are of no site; on combined rows all are of the one site. Realised
    effects are imputed at sites of the study alone."""
    quick = methods.Variant("classic", {"optimiser": {"rounds": 2}, "prediction": {"draws": 16}})
    monkeypatch.setitem(methods.OURS, "FedCI", quick)
    suite = scored_everywhere(missing=True)
    found = [row for row in methods.cells("FedCI", suite, 0, (2,), (mode,), 0) if isinstance(row, Cell)]
    assert [row.failed for row in found if row.failed] == []
    assert {row.protocol for row in found} == ({"P2", "P3"} if mode == "fed" else {"P1", "P2", "P3"})
    assert 0 < one(found, protocol="P2").coverage <= 1


def test_the_limit_is_better_than_the_difference_of_means(learners):
    best, plain = rows("oracle", (5,)), rows("constant", (5,))
    assert one(best, protocol="P2").pehe < 0.7 * one(plain, protocol="P2", mode="com").pehe


# --- what each ingredient brings


@pytest.mark.parametrize("name", list(methods.ABLATIONS))
def test_an_ablation_changes_one_ingredient_of_the_default(name):
    """All but one of the options are the default's; only the linear function lacks two ways to bend."""
    variant = methods.ABLATIONS[name]
    usual, changed = (preset("default", changes).model_dump() for changes in ({}, dict(variant.options)))
    differing = {(part, key) for part in usual for key in usual[part] if usual[part][key] != changed[part][key]}
    assert len(differing) == (2 if name == "FedCI, linear" else 1)
    assert methods.modes_of(name) == ("fed",)


# --- failures


def test_what_fails_is_a_row_that_says_why(learners):
    found = rows("broken")
    assert {row.failed for row in found} == {"ArithmeticError: no fit with 50 rows", "ArithmeticError: no fit with "
                                             "150 rows"}
    assert len(found) == 6
    assert {row.failed for row in rows("absent")} == {"absent needs no_such_package, not installed here: "
                                                      "pip install it"}
