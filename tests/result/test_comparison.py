"""Two results beside each other."""

import json
from dataclasses import replace

import pytest

from fedci import Result
from fedci.result.comparison import Cohorts, compare
from support.commanded import told


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────────────
def without_b(result: Result) -> Result:
    """As if site b had taken no part: enough for a comparison, which looks at sums, people and settings."""
    outcome = result.outcome
    layout = replace(outcome.layout, sites=("a",), people={"a": outcome.layout.people["a"]})
    effects = replace(outcome.effects, sums={"a": outcome.effects.sums["a"]})
    return replace(result, outcome=replace(outcome, layout=layout, effects=effects), people={})


def test_a_site_that_joins_or_leaves_is_named_with_how_far_the_answer_moved(place):
    both = Result.load(place / "result")
    alone = without_b(both)
    joined, left = compare(alone, both).cohorts, compare(both, alone).cohorts
    assert (joined.joined, joined.left, left.joined, left.left) == (("b",), (), (), ("b",))
    assert joined.moved == -left.moved
    assert joined.expected_sd == left.expected_sd
    fewer, more = alone.ate().sd, both.ate().sd
    if fewer > more:
        assert joined.expected_sd == pytest.approx((fewer**2 - more**2) ** 0.5, rel=1e-9)
    assert "joined: b" in joined.in_words()
    assert compare(both, both).cohorts is None


@pytest.mark.parametrize("moved, said", [(0.1, "within what more people bring"), (0.9, "look at that site's own "
                                                                                       "effect")])
def test_a_move_is_held_against_what_more_people_bring(moved, said):
    found = Cohorts(joined=("oslo",), left=(), people=(100, 150), moved=moved, expected_sd=0.2)
    assert said in found.in_words()
    assert "(0.2)" in found.in_words()
    bare = Cohorts(joined=("oslo",), left=("rome",), people=(100, 150), moved=moved, expected_sd=None)
    assert bare.in_expected is None
    assert "to expect" not in bare.in_words()


def test_compare_puts_two_results_beside_each_other(place, capsys):
    both = Result.load(place / "result")
    found = compare(both, without_b(both)).plain()
    ate = found["effects"][0]
    assert ate["difference"] == pytest.approx(both.ate("a").mean - both.ate().mean, rel=1e-12)
    assert found["settings"]["sites"] == {"first": ["a", "b"], "second": ["a"]}
    assert found["same_question"]
    assert found["cohorts"]["left"] == ("b",)
    b = next(row for row in found["effects"] if row["site"] == "b")
    assert b["second"] is None
    assert b["difference"] is None
    code, out, _ = told(capsys, "compare", place / "result", place / "result")
    assert code == 0
    assert "Settings that differ" not in out
    code, out, _ = told(capsys, "compare", place / "result", place / "result", "--json")
    assert json.loads(out)["effects"][0]["difference"] == 0
