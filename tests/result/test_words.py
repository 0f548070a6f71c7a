"""What a result says, word by word."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from fedci.diagnostics.described import Crude, Described
from fedci.diagnostics.findings import Diagnostics
from fedci.result import words
from tests_support import frame, made_result, study


@pytest.fixture(scope="module")
def result():
    plan = study(name="ward", preset="default", sites=["a", "b", "c"])
    return made_result(plan, {"a": frame(40, 0), "b": frame(30, 1)})


@pytest.mark.parametrize(("excluded", "keep", "said"), [
    ({}, 1, []),
    ({"a": 0, "b": 0}, 2, ["Linkage found nobody at more than 2 sites."]),
    ({"a": 1200, "b": 0}, 1, ["Linkage keeps a person at 1 site; left out: 1,200 at a."])])
def test_whom_linkage_left_out(excluded, keep, said):
    assert words.linkage(excluded, keep) == said


def test_that_people_are_alike_within_clusters_is_said_at_once(result):
    assert "cluster" not in result.summary()
    by_ward = replace(result, study=result.study.changed(cluster="ward"))
    third = by_ward.summary().splitlines()[2]
    assert third.startswith("People of a site who share 'ward' count as a cluster")


def test_what_carries_the_outcome(result):
    parts = result.outcome.layout.model.driver_parts
    table = pd.DataFrame({"part": ["lines", "direction 1", "direction 2", "products and thresholds", "sites' own"],
                          "outcome": [0.5, 0.3, 0.01, 0.1, 0.09], "effect": [0.2, 0.6, 0.02, 0.1, 0.08],
                          "covariates": ["", "age +0.90", "bmi +1.00", "sex 0.80", ""]})
    assert [part.name for part in parts] == list(table.part)
    assert words.drivers(parts, table) == [
        "One direction carries the outcome: 30% of it and 60% of the effect along age +0.90. Lines carry 50% and 20%, "
        "products and thresholds 10% and 10% (of sex 0.80), the sites' own functions 9% and 8%.", ""]
    assert words.drivers([], None) == []


def test_a_direction_carries_from_a_twentieth_of_the_outcome_or_the_effect_on(result):
    parts = result.outcome.layout.model.driver_parts

    def said(*shares):
        table = pd.DataFrame(shares, columns=["outcome", "effect"]).assign(
            covariates=["", "age", "bmi", "sex", ""])
        return words.drivers(parts, table)[0]

    two = said((0.9, 0.9), (0.049, 0.05), (0.05, 0.0), (0.3, 0.3), (0.0, 0.05))
    assert two.startswith("Two directions carry the outcome: ")
    none = said((0.9, 0.9), (0.049, 0.04), (0.02, 0.0), (0.3, 0.3), (0.0, 0.05))
    assert none.startswith("No direction carries the outcome. ")


THRESHOLD = {"of": "effect", "covariate": "age", "place": 60.04, "place_low": 57.7, "place_high": 62.4, "change": 1.9,
             "change_low": 1.1, "change_high": 2.7, "probability": 0.934}


def test_where_thresholds_are():
    falls = THRESHOLD | {"of": "outcome", "covariate": "bmi", "place": -0.04, "place_low": -12.0, "place_high": 1.0,
                         "change": -1200.0, "change_low": -2000.0, "change_high": 50.0, "probability": 1.0}
    assert words.thresholds([THRESHOLD, falls], 0.05) == [
        "Abrupt changes along one covariate, averaged over the others (95% intervals):",
        "The effect rises by 1.9 [1.1, 2.7] where age passes 60.0 [57.7, 62.4] (probability 93%).",
        "The outcome without treatment falls by 1,200 [−50, 2,000] where bmi passes 0 [−12, 1] (probability above "
        "99%)."]
    assert words.thresholds([], 0.05) == [
        "Neither the outcome without treatment nor the effect is seen to change abruptly along one covariate."]


def test_thresholds_stand_in_the_summary(result, monkeypatch):
    monkeypatch.setattr(type(result), "thresholds", lambda self, alpha: pd.DataFrame([THRESHOLD]))
    assert "\nThe effect rises by 1.9 [1.1, 2.7] where age passes" in result.summary()
    monkeypatch.setattr(type(result), "thresholds", lambda self, alpha: None)
    assert "abrupt" not in result.summary()


def test_everything_to_be_warned_of_in_one_order(result):
    """The sites' own words first; then diagnostics, who is absent, the fit, linkage, jitter."""
    outcome = result.outcome
    changed = replace(outcome, warnings=("site 'a': a column is constant here",), excluded={"a": 41, "b": 3},
                      fit=replace(outcome.fit, verdict="stopped at the cap", jitters={"b": 1e-6, "": 1e-8}))
    assert words.warnings(result.study, changed, None)[:6] == (
        "site 'a': a column is constant here",
        "sites of the study that took no part: c.",
        "the fit was stopped at the cap after 20 rounds: effects may still move. Raise optimiser.rounds or lower the "
        "rate.",
        "site 'a': linkage left out 41 of 81 people, who stay at other sites: those left may not be typical of it.",
        "site 'b': needed jitter 1e-06 on its covariance; look for repeated rows.",
        "one site or more (their own screens say which) needed up to jitter 1e-08 on its covariance; look for repeated "
        "rows.")


@pytest.mark.parametrize(("kind", "events", "said"), [
    ("binary", (0, 30), ["0 events among the untreated and 30 among the treated"]),
    ("binary", (35, 38), ["5 people without the event among the untreated and 2 among the treated"]),
    ("binary", (20, 20), []), ("count", (9, 400), ["9 events among the untreated and 400 among"]),
    ("survival", (38, 39), []), ("numeric", None, [])])
def test_few_events_of_an_arm_are_said(kind, events, said):
    known = Described(people=(40, 40), columns=(), outcome=Crude(untreated=0.5, treated=0.5, sd=None, events=events))
    plan = SimpleNamespace(outcome_type=kind)
    found = list(words._of_events(plan, Diagnostics(described=known)))
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))
    assert not list(words._of_events(plan, None))


def test_a_sealed_summary_has_no_effect_in_it(result):
    text = words.sealed_summary(result)
    assert text.startswith("Study 'ward': 70 people at 2 sites.\nThe fit converged: 20 rounds. Its effects are sealed")
    assert "On average" in result.summary()
    assert "On average" not in text
