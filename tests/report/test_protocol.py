"""The analysis plan says all that the study file holds, and nothing of any data."""

import pytest

from fedci.report.protocol import FOR_AUTHORS, attributes, elements, plan
from fedci.study.estimand import ATTRIBUTES, ELEMENTS, Estimand
from fedci.study.strictness import RULES
from support.reported import plan as asked
from tests_support import study

WORDS = {"population": "Adults", "treatment": "drug against none", "variable": "change", "summary": "difference",
         "intercurrent": [{"event": "stops", "strategy": "treatment-policy"}],
         "trial": {name: f"the trial's {name}" for name in ELEMENTS}}


def text(document):
    """All words, cells too."""
    said = [document.kicker, document.title, document.facts]
    for section in document.sections:
        said.append(section.title)
        for part in section.parts:
            said += [part] if isinstance(part, str) else [part.caption, *part.heads, *sum(map(list, part.rows), [])]
    return "\n".join(said)


def test_the_plan_holds_the_hash_every_column_policy_value_setting_and_the_file():
    one = asked(estimand=WORDS)
    said = text(plan(one))
    assert one.hash() in said
    assert one.to_toml() in said
    for name in (*one.columns, *RULES, "optimiser.rounds", "prediction.draws"):
        assert name in said


def test_words_of_the_study_stand_in_the_plan_and_what_is_missing_is_marked():
    full, bare = asked(estimand=WORDS), asked()
    assert [row[1] for row in attributes(full, full.estimand)][:3] == ["Adults", "drug against none", "change"]
    assert [row[1] for row in elements(full, full.estimand)] == [f"the trial's {name}" for name in ELEMENTS]
    assert all(row[1] == FOR_AUTHORS for row in elements(bare, Estimand()))
    assert len(attributes(bare, Estimand())) == len(ATTRIBUTES) == 5
    assert all(cell for row in (*attributes(bare, Estimand()), *elements(bare, Estimand())) for cell in row)


@pytest.mark.parametrize("changes, said", [
    ({"outcome": {"time": "days", "event": "died", "type": "survival", "horizons": [30, 180]}}, "looked at by 30, 180"),
    ({"outcome": {"name": "falls", "type": "count", "exposure": "years"}}, "over years"),
    ({"ids": ["birth"]}, "keyed tokens"), ({"missing": "impute"}, "imputed"), ({"quorum": 3}, "from 3 sites on"),
    ({"diagnostics": {"blinded": True, "refute": True}}, "refuter placebo"),
    ({"treatment": {"name": "rx", "arms": ["none", "low", "high"]}}, "none, low, high; every two are compared"),
    ({"sites": ["lyon", "oslo"]}, "lyon, oslo")])
def test_the_plan_of_every_kind_of_study(changes, said):
    assert said in text(plan(study(preset="default", **changes)))


def test_the_same_study_gives_the_same_words():
    assert plan(asked()) == plan(asked())
