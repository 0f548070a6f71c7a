"""Two results beside each other."""

import json
from dataclasses import replace

import pytest

from fedci import Result
from fedci.result.comparison import compare
from support.commanded import told


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────────────
def without_b(result: Result) -> Result:
    """As if site b had taken no part: enough for a comparison, which looks at sums, people and settings."""
    outcome = result.outcome
    layout = replace(outcome.layout, sites=("a",), people={"a": outcome.layout.people["a"]})
    effects = replace(outcome.effects, sums={"a": outcome.effects.sums["a"]})
    return replace(result, outcome=replace(outcome, layout=layout, effects=effects), people={})


def test_compare_puts_two_results_beside_each_other(place, capsys):
    both = Result.load(place / "result")
    found = compare(both, without_b(both)).plain()
    ate = found["effects"][0]
    assert ate["difference"] == pytest.approx(both.ate("a").mean - both.ate().mean, rel=1e-12)
    assert found["settings"]["sites"] == {"first": ["a", "b"], "second": ["a"]}
    assert found["same_question"]
    b = next(row for row in found["effects"] if row["site"] == "b")
    assert b["second"] is None
    assert b["difference"] is None
    code, out, _ = told(capsys, "compare", place / "result", place / "result")
    assert code == 0
    assert "Settings that differ" not in out
    code, out, _ = told(capsys, "compare", place / "result", place / "result", "--json")
    assert json.loads(out)["effects"][0]["difference"] == 0
