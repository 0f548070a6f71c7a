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
    ({"ids": ["birth"]}, "keyed tokens"), ({"missing": "impute"}, "set to the mean"),
    ({"quorum": 3}, "from 3 sites on"),
    ({"diagnostics": {"blinded": True, "refute": True}}, "refuter placebo"),
    ({"treatment": {"name": "rx", "arms": ["none", "low", "high"]}}, "none, low, high; every two are compared"),
    ({"sites": ["lyon", "oslo"]}, "lyon, oslo")])
def test_the_plan_of_every_kind_of_study(changes, said):
    assert said in text(plan(study(preset="default", **changes)))


def test_the_same_study_gives_the_same_words():
    assert plan(asked()) == plan(asked())


GROUPS = {"diagnostics": {}, "subgroups": {"age": {"by": "age", "cuts": [60]}},
          "decisions": {"along": ["age"], "better": "lower", "cost": 2}}


def test_what_is_asked_of_groups_and_decisions_stands_in_the_plan_before_it_is_seen():
    said = text(plan(study(preset="default", policy="simulation", **GROUPS)))
    assert "age below 60; age 60 and above" in said
    assert "A lower outcome is better; who is treated must be expected to benefit by more than 2." in said
    assert "Subgroups" not in text(plan(study(preset="default")))


def test_a_randomised_study_is_called_one_and_its_confounding_is_not_asked_for():
    lot, chosen = (text(plan(study(preset="default", design=design, diagnostics={}))) for design in (
        {"kind": "randomised", "treated": 0.25}, "observational"))
    assert "randomised at the sites, 25% to the treatment" in lot
    assert "Treatment was drawn by lot" in lot
    assert "not randomised" in chosen
    for words in ("preference scores", "confounder that nobody measured"):
        assert words in chosen
        assert words not in lot


@pytest.mark.parametrize("missing, said", [("refuse", "No covariate may be missing"), ("model", "drawn given all"),
                                           ("impute", "set to the mean over all sites")])
def test_what_is_done_about_missing_values_is_what_is_done(missing, said):
    words = text(plan(study(preset="default", missing=missing)))
    assert said in words
    assert ("missing at random" in words) == (missing == "model")


def test_negative_controls_and_columns_of_times_have_their_own_roles():
    names = [f"c{k}" for k in range(5)]
    [table] = next(section.parts for section in plan(study(
        preset="default", diagnostics={"negative_controls": names})).sections if section.id == "columns")
    assert [row[0] for row in table.rows if row[1] == "negative control"] == names
    [times] = next(section.parts for section in plan(study(preset="default", outcome={
        "time": "days", "event": "died", "type": "survival", "horizons": [30]})).sections if section.id == "columns")
    assert ["days", "outcome", "how long a person was followed"] in [row[:3] for row in times.rows]


def test_a_label_is_no_recoding():
    one = study(preset="default", covariates={"age": {"unit": "years"}, "bmi": {"factor": 0.5}})
    [table] = next(section.parts for section in plan(one).sections if section.id == "columns")
    cells = {row[0]: row[3] for row in table.rows}
    assert cells["age (years)"] == "as they stand"
    assert "× 0.5" in cells["bmi"]
