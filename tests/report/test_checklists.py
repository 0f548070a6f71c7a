"""Each item of a checklist is filled from the result, or marked."""

import re
from dataclasses import replace

from fedci.report.checklists import LISTS, STROBE, TARGET, facts_of, filled, sections
from fedci.report.protocol import FOR_AUTHORS
from tests_support import study

WORDS = {"trial": {"eligibility": "adults", "follow_up": "90 days", "analysis": "as planned"}}


def test_the_lists_have_all_their_numbers():
    assert [int(n) for n in dict.fromkeys(re.match(r"\d+", item.number)[0] for item in TARGET)] == list(range(1, 22))
    assert [item.number for item in STROBE] == [str(n) for n in range(1, 23)]
    assert [item.number for item in TARGET if item.number[0] in "67"] == [f"{n}{a}" for n in "67" for a in "abcdefgh"]


def test_every_item_is_filled_or_marked(refuted):
    facts = facts_of(refuted, 0.05)
    for section, (name, items) in zip(sections(refuted, 0.05), LISTS.items(), strict=True):
        assert name in section.title
        rows = section.parts[0].rows
        assert [row[0] for row in rows] == [item.number for item in items]
        assert all(row[3] for row in rows)
        marked = {row[0] for row in rows if row[3] == FOR_AUTHORS}
        assert {item.number for item in items if not item.fact} <= marked
    assert refuted.study.hash() in facts["hash"]
    assert "interval" in facts["answer"]
    assert {item.fact for items in LISTS.values() for item in items} - {""} - set(facts) <= {
        "follow-up", "coding"}  # of times, and of studies that recode


def test_the_target_trial_stands_where_the_study_says_it(refuted):
    asked = replace(refuted, study=refuted.study.model_copy(update={"estimand": study(estimand=WORDS).estimand}))
    facts = facts_of(asked, 0.05)
    of = {item.number: filled(item, facts) for item in TARGET}
    assert of["6a"] == "adults"
    assert "90 days" in of["6d"]
    assert of["6b"] == FOR_AUTHORS


def test_a_label_is_no_recoding_and_a_lot_has_no_unmeasured_confounder(refuted):
    columns = {"age": {"unit": "years"}, "sex": {"type": "binary"}}
    plain, lot = (facts_of(replace(refuted, study=study(covariates=columns, diagnostics={}, design=design)), 0.05)
                  for design in ("observational", "randomised"))
    assert "coding" not in plain
    assert "unmeasured confounding" in plain["limits"]
    assert "unmeasured confounding" not in lot["limits"]
    assert lot["emulation"].startswith("randomised")


def test_other_analyses_are_named_where_the_study_asks_for_them(refuted):
    asked = study(subgroups={"sex": "sex"}, decisions={"along": ["age"]}, policy="simulation", preset="default",
                  diagnostics={"negative_controls": [f"c{k}" for k in range(5)]})
    facts = facts_of(replace(refuted, study=asked), 0.05)
    for title in ("In whom", "Whom to treat", "What do negative controls say?"):
        assert title in facts["checks"]
    assert "Subgroups named beforehand: sex" in facts["analysis"]


def test_a_blinded_result_fills_no_effect(blinded):
    facts = facts_of(blinded(), 0.05)
    assert not {"answer", "crude", "both"} & set(facts)
