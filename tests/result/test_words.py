"""A result in words: what carries the effects, whom linkage left out, what to be warned of."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from fedci.protocol import optimise
from fedci.result import words
from tests_support import frame, made_result, study

BENT = SimpleNamespace(words="direction", along=lambda theta: None)
PARTS = [SimpleNamespace(words="lines", along=None), BENT, BENT, SimpleNamespace(words="sites' own", along=None)]


@pytest.fixture(scope="module")
def result():
    return made_result(study(preset="default"), {"lyon": frame(40, 0), "oslo": frame(37, 1)})


def drivers(*shares):
    """(outcome, effect) of lines, two directions and sites' own functions."""
    table = pd.DataFrame(shares, columns=["outcome", "effect"]).assign(covariates=["", "age, bmi", "sex", ""])
    return words.drivers(PARTS, table)[0]


def test_a_direction_is_said_to_carry_from_a_twentieth_of_the_outcome_or_the_effect_on():
    said = drivers((0.5, 0.3), (0.3, 0.2), (0.049, 0.05), (0.151, 0.45))
    assert said == ("Two directions carry the outcome: 30% of it and 20% of the effect along age, bmi; 5% of it and 5% "
                    "of the effect along sex. Lines carry 50% and 30%, sites' own 15% and 45%.")
    assert drivers((0.9, 0.9), (0.02, 0.03), (0.04, 0.04), (0.04, 0.03)).startswith(
        "No direction carries the outcome. Lines carry 90% and 90%,")


def test_a_model_without_directions_says_nothing_of_them():
    assert words.drivers([], None) == []


@pytest.mark.parametrize(("excluded", "keep", "said"), [
    ({}, 1, []), ({"a": 0, "b": 0}, 1, ["Linkage found nobody at more than 1 site."]),
    ({"a": 1200, "b": 0, "c": 3}, 2, ["Linkage keeps a person at 2 sites; left out: 1,200 at a, 3 at c."])])
def test_whom_linkage_left_out(excluded, keep, said):
    assert words.linkage(excluded, keep) == said


def warned(result, plan=None, **outcome):
    return words.warnings(plan or result.study, replace(result.outcome, **outcome), None)


def test_a_reader_is_warned_of_all_that_makes_effects_doubtful(result):
    fit = result.outcome.fit
    assert warned(result, fit=replace(fit, verdict=optimise.CONVERGED)) == ()
    assert "was stopped at the cap after 20 rounds" in warned(result, fit=replace(fit, verdict=optimise.STOPPED))[0]
    assert "has diverged after 20 rounds" in warned(result, fit=replace(fit, verdict=optimise.DIVERGED))[0]
    jitters = warned(result, fit=replace(fit, jitters={"lyon": 1e-6, "": 1e-5}))
    assert [text.partition(" on its")[0] for text in jitters] == [
        "site 'lyon': needed jitter 1e-06",
        "one site or more (their own screens say which) needed up to jitter 1e-05"]
    assert warned(result, excluded={"lyon": 41, "oslo": 37}) == (
        "site 'lyon': linkage left out 41 of 81 people, who stay at other sites: those left may not be typical of it.",)


def test_sites_of_the_study_that_took_no_part_are_named(result):
    plan = study(preset="default", sites=("lyon", "oslo", "turin"))
    assert warned(result, plan)[0] == "sites of the study that took no part: turin."


def test_a_summary_says_the_answer_and_a_sealed_one_does_not(result):
    said, sealed = words.summary(result, 0.05), words.sealed_summary(result)
    assert "77 people at 2 sites" in said
    assert "77 people at 2 sites" in sealed
    assert f"changes the outcome by {result.ate().mean:.4g}" in said
    assert f"{result.ate().mean:.4g}" not in sealed
    assert "result.unblind(by=…)" in sealed
