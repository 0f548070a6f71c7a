"""Missingness from sums = from the rows in one place; small counts hidden; verdicts that follow from the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fedci import FedCI, Source
from fedci.diagnostics import missingness
from tests_support import SMALL, frame, study

NAMES = {"a": 0, "b": 1}


def site(seed: int, n: int = 400, shares=((0.1, 0.1), (0.3, 0.1))):
    """(missing [n, 2], w [n]); shares[column][arm]."""
    rng = np.random.default_rng(seed)
    w = (rng.uniform(size=n) < 0.5).astype(float)
    return np.stack([rng.uniform(size=n) < np.where(w == 1, at[1], at[0]) for at in shares], axis=1), w


def told(parts, least=10, dropped=(0, 0, 0)):
    each = [missingness.site_sums(missing, w, dropped, least, np.zeros(2, bool)) for missing, w in parts]
    return {name: sum(part[name] for part in each) for name in each[0]}


def test_shares_are_those_of_all_rows_together():
    parts = [site(seed) for seed in range(3)]
    found = missingness.summary(told(parts), {}, NAMES, 3)
    missing, w = (np.concatenate(part) for part in zip(*parts, strict=True))
    for column, gaps in enumerate(found.columns):
        assert gaps.untreated == pytest.approx(missing[w == 0, column].mean())
        assert gaps.treated == pytest.approx(missing[w == 1, column].mean())


def test_verdicts():
    found = missingness.summary(told([site(seed) for seed in range(3)]), {}, NAMES, 3)
    verdicts = {verdict.name: verdict for verdict in found.verdicts}
    assert verdicts["missing covariates"].verdict == "look"
    assert verdicts["missing covariates, by arm"].verdict == "problem"
    assert "b (-" in verdicts["missing covariates, by arm"].words
    assert "rows left out" not in verdicts
    fine = missingness.summary(told([site(9, shares=((0.05, 0.05), (0.0, 0.0)))]), {}, NAMES, 1)
    assert [verdict.verdict for verdict in fine.verdicts] == ["fine", "fine"]


def test_few_are_not_told():
    missing, w = np.zeros((100, 2), bool), np.repeat([0.0, 1.0], 50)
    missing[:3, 0] = True
    sums = missingness.site_sums(missing, w, (0, 12, 4), 10, np.zeros(2, bool))
    assert list(sums["told"]) == [0.0, 1.0]
    assert not sums["gaps"].any()
    assert sums["dropped_told"] == 0
    assert not sums["dropped"].any()
    found = missingness.summary(sums, {}, NAMES, 1)
    assert found.columns[0].treated is None
    assert found.without_treatment is None


def test_rows_left_out_are_compared_between_arms():
    found = missingness.summary(told([site(1)], dropped=(20, 30, 120)), {}, NAMES, 1)
    verdicts = {verdict.name: verdict for verdict in found.verdicts}
    assert found.without_treatment == 20
    assert verdicts["rows left out"].verdict == "problem"
    assert verdicts["missing outcomes, by arm"].verdict == "problem"
    assert "more often among the treated" in verdicts["missing outcomes, by arm"].words


def test_a_study_that_may_lack_values_says_so_and_others_do_not_ask():
    tables = [frame(60, s) for s in (0, 1)]
    for table in tables:
        table.loc[:14, "bmi"] = np.nan
        table.loc[15:20, "y"] = np.nan
    plan = study(preset="default", options=SMALL | {"optimiser": {"rounds": 2, "draws": 4}}, missing="impute",
                 rows_without="drop", diagnostics={})
    result = FedCI(plan).fit([Source(f"s{s}", table) for s, table in enumerate(tables)])
    found = result.diagnostics.missingness
    bmi = next(gaps for gaps in found.columns if gaps.column == "bmi")
    kept = [table.dropna(subset=["y"]) for table in tables]
    for arm, share in ((0, bmi.untreated), (1, bmi.treated)):
        people = [table[table.w == arm] for table in kept]
        assert share == pytest.approx(sum(part.bmi.isna().sum() for part in people) / sum(map(len, people)))
    assert found.without_treatment == 0
    assert len(found.sites) == 2
    assert list(result.ite("s0").index) == list(kept[0].index)
    without = FedCI(study(preset="default", options=plan.options, diagnostics={})).fit(
        [Source(f"s{s}", frame(60, s)) for s in (0, 1)])
    assert without.diagnostics.missingness is None
