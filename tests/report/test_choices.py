"""What a reader decides by: one screen first, with words for people and none of Python's."""

from dataclasses import replace

import numpy as np
import pytest

from fedci.diagnostics.described import Crude, Described
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.sameness import Sameness
from fedci.diagnostics.verdict import Verdict
from fedci.report import choices, documents
from fedci.report.forest import Row
from fedci.report.svg import number
from tests_support import frame, made_result, study


@pytest.fixture(scope="module")
def result():
    plan = study(preset="default", diagnostics={"enabled": True}, subgroups={"sex": "sex"})
    made = made_result(plan, {"a": frame(40, 0), "b": frame(37, 1)})
    told = {"told": np.array([2.0, 1.0]), "people": np.array([40.0, 37.0]), "effects_cov": np.eye(2),
            "effects": np.broadcast_to(np.array([40.0, 74.0]), (32, 1, 2))}
    return replace(made, outcome=replace(made.outcome, effects=replace(made.outcome.effects, subgroups=told)))


def test_the_first_screen_answers_four_questions(result):
    table = choices.glance(result, 0.05)
    assert [row[0] for row in table.rows] == ["What is the effect?", "How sure is it?", "In whom?",
                                              "Can it be trusted?"]
    words = " ".join(cell for row in table.rows for cell in row)
    assert "clearly differs between subgroups: sex = 1 against sex = 0 (1, " in words
    assert "ran without diagnostics" in words
    assert not any(sign in words for sign in ("()", "result.", "print"))


def test_how_sure_it_is_tells_of_clusters(result):
    by_ward = choices.glance(replace(result, study=result.study.changed(cluster="ward")), 0.05)
    assert by_ward.rows[1][1].endswith("; people who share ward at a site count as alike, not as apart")


@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-9])
def test_the_first_screen_says_the_results_own_numbers_and_whether_zero_is_among_them(result, alpha):
    """The words agree with the interval at every level, and with the sentence below."""
    low, high = result.ate().interval(alpha)
    rows = dict(choices.glance(result, alpha).rows)
    assert rows["What is the effect?"].startswith(f"y: {number(abs(result.ate().mean))} ")
    assert (" higher " in rows["What is the effect?"]) is (result.ate().mean > 0)
    assert f"interval {number(low)} to {number(high)}" in rows["How sure is it?"]
    assert ("it holds 0" in rows["How sure is it?"]) is (low <= 0 <= high)
    assert ("that it has no effect is implausible" in rows["How sure is it?"]) is not (low <= 0 <= high)


def test_means_of_the_arms_differ_by_the_effect(result):
    """Those of numbers are made of the arms' own means and the effects over the treated and the untreated."""
    known = Described(people=(40, 37), columns=(), outcome=Crude(untreated=5.0, treated=7.0, sd=0.2))
    told = replace(result, outcome=replace(result.outcome, diagnostics=Diagnostics(described=known)))
    without, treated = choices._levels(told)
    assert treated - without == pytest.approx((40 * told.atc().mean + 37 * told.att().mean) / 77, rel=1e-9)
    assert choices.glance(told, 0.05).rows[1][0] == "If nobody, and if everybody were treated"


def test_what_speaks_against_it_is_a_link_to_its_section(result):
    def row(**found):
        told = replace(result, outcome=replace(result.outcome, diagnostics=Diagnostics(**found)))
        return choices.glance(told, 0.05).rows[-1][1]

    def same(word):
        return Sameness(probability=0.5, slope=0.5, se=1.0, verdicts=(
            Verdict(name="size <b>", value=1.0, threshold=1.0, verdict=word, words="…"),))

    assert str(row()) == 'No problem was found: <a href="#assumptions">what was checked</a>.'
    assert 'to look at: <a href="#people">size &lt;b&gt;</a>.' in str(row(sameness=same("look"))).lower()
    problem = row(sameness=same("problem"))
    assert problem.striptags() == "Not before this is explained: size <b>."
    assert documents._clean(problem) == "Not before this is explained: size <b>."


def test_subgroups_have_a_forest_plot_and_their_differences(result):
    (section,) = choices.subgroups(result, "effect on y", 0.05)
    said, figure, differences = section.parts
    assert said.startswith("Clear differences")
    assert [row[0] for row in figure.numbers.rows] == ["sex = 0", "sex = 1"]
    assert "everybody" in figure.svg
    assert differences.rows[0][:3] == ["sex = 1", "sex = 0", "1"]
    assert Row("x").people == 0


def test_a_study_that_asks_for_nothing_has_neither(result):
    none = replace(result, outcome=replace(result.outcome, effects=replace(result.outcome.effects, subgroups={})))
    assert choices.subgroups(none, "effect", 0.05) == choices.whom_to_treat(none, 0.05) == []
